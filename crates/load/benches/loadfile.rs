//! How fast a loadfile is read into the form in which it is played: `cargo bench -p fsarena-load --bench loadfile`.
//! The installed one of dbench (goal: under 0.5 s), and the making of dbench-like. CPU time is shown beside, because
//! on a busy machine it is the steadier figure.

use fsarena_load::dbench::{Program, loadfile, synthetic};
use fsarena_sys::cpu::Cpu;
use std::{error::Error, time::Instant};

/// The best of these counts: only disturbances make it slower.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    match loadfile::find("") {
        Err(error) => println!("{error}"),
        Ok(path) => {
            let bytes = std::fs::metadata(&path)?.len();
            let (times, program) = best(|| Ok(loadfile::load(&path)?))?;
            println!("{}: {:.1} MB in {times} (goal: 0.5 s)", path.display(), bytes as f64 / 1e6);
            println!("  {}", size(&program));
            let packed = program.pack();
            let (times, _) = best(|| Ok(Program::unpack(&packed)?))?;
            println!(
                "  {:.1} MB as it is kept for the cells of a run, read in {times}",
                packed.len() as f64 / 1e6
            );
        }
    }
    let (times, program) = best(|| Ok(synthetic::program(1)))?;
    println!("dbench-like made in {times}\n  {}", size(&program));
    Ok(())
}

/// The best elapsed and CPU times in words, and what was made.
fn best(make: impl Fn() -> Result<Program, Box<dyn Error>>) -> Result<(String, Program), Box<dyn Error>> {
    let (mut elapsed, mut cpu, mut last) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..ROUNDS {
        let (begun, before) = (Instant::now(), Cpu::of_this_thread());
        last = Some(make()?);
        let used = Cpu::of_this_thread().since(before);
        elapsed = begun.elapsed().as_secs_f64().min(elapsed);
        cpu = (used.total_ns() as f64 / 1e9).min(cpu);
    }
    Ok((format!("{elapsed:.3} s, {cpu:.3} s of CPU"), last.ok_or("no round")?))
}

fn size(program: &Program) -> String {
    format!("{} operations in {:.1} MB of memory", program.operations(), program.bytes() as f64 / 1e6)
}
