//! Prints the time that it takes to read the probes on this machine: `cargo run --release -p fsarena-probe --example
//! snapshot_cost`.

use fsarena_probe::{ProbeTarget, Session};
use fsarena_sys::kernel::SysRoot;
use std::time::{Duration, Instant};

const REPETITIONS: u32 = 1_000;

fn main() {
    // Uses any device, because it only reads the counters.
    let device = std::fs::read_dir("/sys/dev/block").ok().and_then(|mut entries| {
        let name = entries.next()?.ok()?.file_name();
        let (major, minor) = name.to_str()?.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let start = Instant::now();
    let (mut session, notes) = Session::open(&ProbeTarget { kernel: SysRoot::host(), device });
    println!("{:?} to open all probes", start.elapsed());
    for note in notes {
        println!("  {}", note.text);
    }
    let mut sums = [Duration::ZERO; 4];
    for _ in 0..REPETITIONS {
        let t0 = Instant::now();
        let before = session.read_before();
        let t1 = Instant::now();
        let at_return = session.read_at_return();
        let t2 = Instant::now();
        let at_synced = session.read_at_synced();
        let t3 = Instant::now();
        std::hint::black_box(session.compute_readings(&before, &at_return, &at_synced));
        for (sum, duration) in sums.iter_mut().zip([t1 - t0, t2 - t1, t3 - t2, t3.elapsed()]) {
            *sum += duration;
        }
    }
    for (name, sum) in ["read_before", "read_at_return", "read_at_synced", "compute_readings"].iter().zip(sums) {
        println!("{:?} a call of {name}", sum / REPETITIONS);
    }
}
