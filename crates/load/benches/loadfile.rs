//! Times parsing the loadfile of the installed dbench (goal: under 0.5 s) and generating dbench-like:
//! `cargo bench -p fsarena-load --bench loadfile`. Also prints CPU time, which varies less on a busy machine.

use fsarena_load::dbench::{LoadProgram, loadfile, synthetic};
use fsarena_sys::cpu::CpuTime;
use std::{error::Error, time::Instant};

/// Number of repetitions. The fastest counts, because other processes can only slow a repetition down.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    match loadfile::find("") {
        Err(error) => println!("{error}"),
        Ok(path) => {
            let bytes = std::fs::metadata(&path)?.len();
            let (times, program) = best_time(|| Ok(loadfile::load(&path)?))?;
            println!("{}: {:.1} MB in {times} (goal: 0.5 s)", path.display(), bytes as f64 / 1e6);
            println!("  {}", describe_size(&program));
            let packed = program.encode();
            let (times, _) = best_time(|| Ok(LoadProgram::decode(&packed)?))?;
            println!("  {:.1} MB in the form that cells read, decoded in {times}", packed.len() as f64 / 1e6);
        }
    }
    let (times, program) = best_time(|| Ok(synthetic::generate_program(1)))?;
    println!("dbench-like generated in {times}\n  {}", describe_size(&program));
    Ok(())
}

/// Repeats `make` and returns its shortest elapsed and CPU times as text, and the program that it made.
fn best_time(make: impl Fn() -> Result<LoadProgram, Box<dyn Error>>) -> Result<(String, LoadProgram), Box<dyn Error>> {
    let (mut elapsed, mut cpu, mut last) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..ROUNDS {
        let (begun, before) = (Instant::now(), CpuTime::of_this_thread());
        last = Some(make()?);
        let used = CpuTime::of_this_thread().since(before);
        elapsed = begun.elapsed().as_secs_f64().min(elapsed);
        cpu = (used.total_ns() as f64 / 1e9).min(cpu);
    }
    Ok((format!("{elapsed:.3} s, {cpu:.3} s of CPU"), last.ok_or("no round")?))
}

fn describe_size(program: &LoadProgram) -> String {
    format!("{} operations in {:.1} MB of memory", program.operation_count(), program.memory_bytes() as f64 / 1e6)
}
