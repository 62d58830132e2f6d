//! What a job may not be, said before anything is done.

use super::error::Error;
use super::job::{Bound, Engine, Job, Pattern, Warmup};

impl Job {
    /// Whether it can be done.
    ///
    /// # Errors
    /// [`Error::Job`] with the first thing that does not fit.
    pub fn check(&self) -> Result<(), Error> {
        self.faults().into_iter().next().map_or(Ok(()), |fault| Err(Error::Job(fault)))
    }

    /// Everything that does not fit.
    fn faults(&self) -> Vec<String> {
        let mut faults = self.number_faults();
        faults.extend(self.pattern_fault());
        faults.extend(self.combination_faults());
        faults
    }

    fn number_faults(&self) -> Vec<String> {
        let mut faults = vec![];
        let mut within = |name: &str, value: u32, low: u32, high: u32| {
            if !(low..=high).contains(&value) {
                faults.push(format!("{name} is {value}; it goes from {low} to {high}"));
            }
        };
        within("threads", self.threads, 1, 1024);
        within("depth", self.depth, 1, 1024);
        within("batch", self.batch, 1, self.depth.max(1));
        within("block_bytes", self.block_bytes, 1, 1 << 30);
        within("interval_ms", self.interval_ms, 1, 60_000);
        if !(0.0..=1.0).contains(&self.read_share) {
            faults.push(format!("read_share is {}; it goes from 0 to 1", self.read_share));
        }
        let seconds = |seconds: f64| seconds.is_finite() && seconds > 0.0 && seconds <= 1e7;
        let (fits, says) = match self.bound {
            Bound::Seconds(s) | Bound::Steady { at_most_s: s } => (seconds(s), format!("{s} s")),
            Bound::Operations(n) => (n > 0, format!("{n} operations")),
            Bound::Bytes(n) => (n > 0, format!("{n} bytes")),
        };
        if !fits {
            faults.push(format!("a bound of {says} measures nothing"));
        }
        if let Warmup::Seconds(s) = self.warmup
            && !(s.is_finite() && s >= 0.0)
        {
            faults.push(format!("a warm-up must be 0 s or longer, not {s} s"));
        }
        if let (Warmup::Seconds(warmup), Bound::Seconds(all) | Bound::Steady { at_most_s: all }) =
            (self.warmup, self.bound)
            && warmup >= all
        {
            faults.push(format!("a warm-up of {warmup} s leaves nothing of {all} s"));
        }
        if let Some(rate) = self.rate
            && !(rate.per_s.is_finite() && rate.per_s > 0.0)
        {
            faults.push(format!("a rate must be above 0 operations a second, not {}", rate.per_s));
        }
        if let Some(every) = self.sync_every
            && every.requests == 0
        {
            faults.push("sync_every needs at least one request between syncs".into());
        }
        faults
    }

    fn pattern_fault(&self) -> Option<String> {
        match self.pattern {
            Pattern::Zipf { theta } if !(theta.is_finite() && theta > 0.0) => {
                Some(format!("zipf needs a theta above 0, not {theta}"))
            }
            Pattern::Pareto { h } if !(h > 0.0 && h < 0.5) => {
                Some(format!("pareto needs an h between 0 and 0.5, not {h}"))
            }
            Pattern::Normal { deviation_percent: d } if !(d.is_finite() && d > 0.0 && d <= 100.0) => {
                Some(format!("normal needs a deviation above 0 and up to 100 per cent, not {d}"))
            }
            _ => None,
        }
    }

    fn combination_faults(&self) -> Vec<String> {
        let shared_cursor = matches!(self.pattern, Pattern::Sequential { shared_cursor: true });
        let all_threads = self.sync_every.is_some_and(|every| every.over_all_threads);
        let rules = [
            (
                self.engine != Engine::IoUring && self.depth > 1,
                "a depth above 1 needs the io_uring engine: the others do one operation at a time",
            ),
            (
                self.engine == Engine::Mmap && self.open.direct,
                "mmap goes through the page cache: it cannot be direct",
            ),
            (
                self.engine == Engine::Mmap && self.open.recreate,
                "mmap cannot write files that are made anew: they are empty and a mapping does not grow them",
            ),
            (
                self.open.recreate && self.reads(),
                "files that are made anew are empty: recreate goes with writes only",
            ),
            (
                self.open.recreate && self.verify,
                "files that are made anew hold nothing to verify; verify prepared files",
            ),
            (
                self.sync_every.is_some() && !self.writes(),
                "sync_every without writes would sync nothing: ask for writes or leave it out",
            ),
            (
                self.verify && self.block_bytes < super::verify::HEADER as u32 * 2,
                "verified blocks need at least 64 bytes",
            ),
            (
                self.verify && self.writes() && (shared_cursor || all_threads),
                "verified writes need a cursor for each thread: two threads may not write the same block",
            ),
            (
                self.verify && self.content == super::job::Content::Zeros,
                "verified blocks are not zeros: take content random",
            ),
        ];
        rules.into_iter().filter(|(broken, _)| *broken).map(|(_, says)| says.into()).collect()
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
