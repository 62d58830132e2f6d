//! The steady state of an SSD, by the Solid State Storage Performance Test Specification (SNIA, version 2.0.2).

use crate::executor::Result;
use bytesize::ByteSize;
use fsarena_core::event::{Note, NoteKind};
use fsarena_engine::{Bound, Files, LoadJob, LoadOutcome, Open, Pattern, Warmup, steady::pts_steady};
use fsarena_fs::safety::ScratchDevice;

/// Passes over the whole device, and their blocks in bytes: the workload-independent preconditioning.
const PASSES: u32 = 2;
const PASS_BLOCK: u32 = 128 << 10;
/// Blocks of the random writes that follow, in bytes: the workload-dependent preconditioning.
const BLOCK: u32 = 4 << 10;
/// Seconds of one round of them, and the most rounds. A device that a pass fills sooner gets rounds of that time.
const ROUND_S: f64 = 60.0;
const MOST_ROUNDS: usize = 25;
/// Rounds of the window that has to be steady.
const WINDOW: usize = 5;
/// Writers at a time.
const THREADS: u32 = 4;

/// Fills the device and writes to it at random until that is steady; says what became of it.
///
/// # Errors
/// Where the device cannot be written.
pub fn run(device: &ScratchDevice, purged: bool) -> Result<Note> {
    device.begin()?;
    let files = Files::device(device.path()).map_err(fsarena_load::task::TaskError::from)?;
    let size = files.bytes() / u64::from(PASS_BLOCK) * u64::from(PASS_BLOCK);
    let write = |block_bytes, pattern, bound| -> Result<LoadOutcome> {
        let job = LoadJob {
            open: Open { direct: true, ..Open::default() },
            block_bytes,
            threads: THREADS,
            pattern,
            read_share: 0.0,
            bound,
            warmup: Warmup::None,
            ..LoadJob::default()
        };
        Ok(fsarena_engine::run(&job, &files, &mut |_| {}).map_err(fsarena_load::task::TaskError::from)?)
    };
    let mut pass_s = 0.0;
    for _ in 0..PASSES {
        let sequential = Pattern::Sequential { shared_cursor: true };
        pass_s = seconds(&write(PASS_BLOCK, sequential, Bound::Bytes(size))?);
    }
    let round_s = f64::clamp(pass_s, 0.1, ROUND_S);
    let mut iops: Vec<f64> = vec![];
    while iops.len() < MOST_ROUNDS && !is_steady(&iops) {
        let outcome = write(BLOCK, Pattern::Uniform, Bound::Seconds(round_s))?;
        let count: u64 = outcome.kinds.iter().map(|kind| kind.count).sum();
        iops.push(count as f64 / seconds(&outcome));
    }
    Ok(told(&format!("{} ({})", device.path().display(), ByteSize(files.bytes())), purged, round_s, &iops))
}

fn seconds(outcome: &LoadOutcome) -> f64 {
    outcome.elapsed_ns as f64 / 1e9
}

fn is_steady(iops: &[f64]) -> bool {
    iops.last_chunk::<WINDOW>().is_some_and(pts_steady)
}

/// What a reader must know of it.
fn told(device: &str, purged: bool, round_s: f64, iops: &[f64]) -> Note {
    let purge = if purged { "purged by a discard" } else { "not purged, because it takes no discard" };
    let last = &iops[iops.len().saturating_sub(WINDOW)..];
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    let text = format!(
        "preconditioned: {device} was {purge}, written {PASSES} times in blocks of 128 KiB, then at random in blocks of 4 \
         KiB for {} rounds of {round_s:.1} s, in the last {} of them {mean:.0} writes/s; from then on nothing discards it",
        iops.len(),
        last.len()
    );
    match is_steady(iops) {
        true => Note::new(NoteKind::Remark, format!("{text}. By SNIA's rule that is steady")),
        false => Note::new(NoteKind::Fairness, format!("{text}. By SNIA's rule that is not steady"))
            .fix("find out why its speed varies: another user of the device, or heat"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_rounds_alike_are_steady() {
        let steady = told("/dev/x", true, 60.0, &[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        assert_eq!(steady.kind, NoteKind::Remark);
        assert!(
            steady.text.contains("for 6 rounds of 60.0 s, in the last 5 of them 100 writes/s"),
            "{}",
            steady.text
        );
        let falling: Vec<f64> = (0..25).map(|round| 1e4 / f64::from(round + 1)).collect();
        let never = told("/dev/x", false, 60.0, &falling);
        assert!(never.kind == NoteKind::Fairness && never.text.contains("not steady"), "{}", never.text);
        assert!(!is_steady(&[100.0; 4]));
    }
}
