//! What a job may not be, said before anything is done.

use super::error::{Error, Result};
use super::job::{Bound, Content, Engine, Job, Pattern, Warmup};
use super::verify;

/// Refuses a number of a job outside its range.
///
/// # Errors
/// [`Error::Job`] naming the range.
pub fn within(name: &str, value: u32, low: u32, high: u32) -> Result {
    ensure((low..=high).contains(&value), format!("{name} is {value}; it goes from {low} to {high}"))
}

fn ensure(fits: bool, fault: String) -> Result {
    if fits { Ok(()) } else { Err(Error::Job(fault)) }
}

impl Job {
    /// Whether it can be done.
    ///
    /// # Errors
    /// [`Error::Job`] with the first thing that does not fit.
    pub fn check(&self) -> Result {
        self.check_numbers()?;
        self.check_pattern()?;
        self.check_combinations()
    }

    fn check_numbers(&self) -> Result {
        within("threads", self.threads, 1, 1024)?;
        within("depth", self.depth, 1, 1024)?;
        within("batch", self.batch, 1, self.depth)?;
        within("block_bytes", self.block_bytes, 1, 1 << 30)?;
        within("interval_ms", self.interval_ms, 1, 60_000)?;
        let share = self.read_share;
        ensure((0.0..=1.0).contains(&share), format!("read_share is {share}; it goes from 0 to 1"))?;
        let (fits, says) = match self.bound {
            Bound::Seconds(s) | Bound::Steady { at_most_s: s } => (s > 0.0 && s <= 1e7, format!("{s} s")),
            Bound::Operations(n) => (n > 0, format!("{n} operations")),
            Bound::Bytes(n) => (n > 0, format!("{n} bytes")),
        };
        ensure(fits, format!("a bound of {says} measures nothing"))?;
        if let Warmup::Seconds(s) = self.warmup {
            let fits = s.is_finite() && s >= 0.0;
            ensure(fits, format!("a warm-up must be 0 s or longer, not {s} s"))?;
            if let Bound::Seconds(all) | Bound::Steady { at_most_s: all } = self.bound {
                ensure(s < all, format!("a warm-up of {s} s leaves nothing of {all} s"))?;
            }
        }
        if let Some(rate) = self.rate.map(|rate| rate.per_s) {
            let fits = rate.is_finite() && rate > 0.0;
            ensure(fits, format!("a rate must be above 0 operations a second, not {rate}"))?;
        }
        let syncs = self.sync_every.is_none_or(|every| every.requests > 0);
        ensure(syncs, "sync_every needs at least one request between syncs".into())
    }

    fn check_pattern(&self) -> Result {
        let (fits, fault) = match self.pattern {
            Pattern::Zipf { theta } => {
                (theta.is_finite() && theta > 0.0, format!("zipf needs a theta above 0, not {theta}"))
            }
            Pattern::Pareto { h } => {
                (h > 0.0 && h < 0.5, format!("pareto needs an h between 0 and 0.5, not {h}"))
            }
            Pattern::Normal { deviation_percent: d } => {
                let fault = format!("normal needs a deviation above 0 and up to 100 per cent, not {d}");
                (d > 0.0 && d <= 100.0, fault)
            }
            Pattern::Sequential { .. } | Pattern::Uniform => return Ok(()),
        };
        ensure(fits, fault)
    }

    fn check_combinations(&self) -> Result {
        let shared_cursor = matches!(self.pattern, Pattern::Sequential { shared_cursor: true });
        let all_threads = self.sync_every.is_some_and(|every| every.over_all_threads);
        let mmap = self.engine == Engine::Mmap;
        let fault = if self.engine != Engine::IoUring && self.depth > 1 {
            "a depth above 1 needs the io_uring engine: the others do one operation at a time"
        } else if mmap && self.open.direct {
            "mmap goes through the page cache: it cannot be direct"
        } else if mmap && self.open.recreate {
            "mmap cannot write files that are made anew: they are empty and a mapping does not grow them"
        } else if self.open.recreate && self.reads() {
            "files that are made anew are empty: recreate goes with writes only"
        } else if self.open.recreate && self.verify {
            "files that are made anew hold nothing to verify; verify prepared files"
        } else if self.sync_every.is_some() && !self.writes() {
            "sync_every without writes would sync nothing: ask for writes or leave it out"
        } else if self.verify && self.block_bytes < verify::HEADER as u32 * 2 {
            "verified blocks need at least 64 bytes"
        } else if self.verify && self.writes() && (shared_cursor || all_threads) {
            "verified writes need a cursor for each thread: two threads may not write the same block"
        } else if self.verify && self.content == Content::Zeros {
            "verified blocks are not zeros: take content random"
        } else {
            return Ok(());
        };
        Err(Error::Job(fault.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::{Open, Rate, SyncEvery};
    use super::*;

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Job), word: &str) {
        let mut job = Job::default();
        change(&mut job);
        let said = job.check().unwrap_err().to_string();
        assert!(said.contains(word), "{said}");
    }

    #[test]
    fn the_default_is_sound() {
        Job::default().check().unwrap();
    }

    #[test]
    fn each_fault_is_named() {
        refused(|job| job.threads = 0, "threads is 0");
        refused(|job| job.threads = 1025, "1024");
        refused(|job| job.depth = 2, "io_uring");
        refused(|job| job.batch = 2, "batch");
        refused(|job| job.read_share = 1.1, "read_share");
        refused(|job| job.read_share = f64::NAN, "read_share");
        refused(|job| job.bound = Bound::Operations(0), "measures nothing");
        refused(|job| job.warmup = Warmup::Seconds(10.0), "leaves nothing");
        refused(|job| job.pattern = Pattern::Zipf { theta: 0.0 }, "theta");
        refused(|job| job.pattern = Pattern::Pareto { h: 0.5 }, "h between");
        refused(|job| job.pattern = Pattern::Normal { deviation_percent: 0.0 }, "deviation");
        refused(|job| job.open = Open { recreate: true, ..Open::default() }, "made anew");
        refused(|job| job.rate = Some(Rate { per_s: 0.0, arrivals: Default::default() }), "rate");
        refused(
            |job| job.sync_every = Some(SyncEvery { requests: 100, over_all_threads: true }),
            "sync nothing",
        );
        refused(
            |job| {
                job.engine = Engine::Mmap;
                job.open.direct = true;
            },
            "mmap",
        );
    }
}
