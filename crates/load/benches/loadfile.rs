//! Times parsing the loadfile of the installed dbench (goal: under 0.5 s) and generating dbench-like:
//! `cargo bench -p fsarena-load --bench loadfile`. Also prints CPU time, which varies less on a busy machine.

use fsarena_load::dbench::{LoadProgram, loadfile, synthetic};
use fsarena_sys::cpu::CpuTime;
use std::{error::Error, time::Instant};

/// Number of repetitions. The fastest counts, because other processes can only slow a repetition down.
const REPETITIONS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    match loadfile::find("") {
        Err(error) => println!("{error}"),
        Ok(path) => {
            let bytes = std::fs::metadata(&path)?.len();
            let (times, program) = best_time(|| Ok(loadfile::load(&path)?))?;
            println!("{}: {:.1} MB in {times} (goal: 0.5 s)", path.display(), bytes as f64 / 1e6);
            println!("  {}", describe_size(&program));
            let encoded = program.encode();
            let (times, _) = best_time(|| Ok(LoadProgram::decode(&encoded)?))?;
            println!("  {:.1} MB in the form that cells read, decoded in {times}", encoded.len() as f64 / 1e6);
        }
    }
    let (times, program) = best_time(|| Ok(synthetic::generate_program(1)))?;
    println!("dbench-like generated in {times}\n  {}", describe_size(&program));
    Ok(())
}

/// Repeats `make` and returns its shortest elapsed and CPU times as text, and the program that it made.
fn best_time(make: impl Fn() -> Result<LoadProgram, Box<dyn Error>>) -> Result<(String, LoadProgram), Box<dyn Error>> {
    let (mut elapsed_s, mut cpu_s, mut program) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..REPETITIONS {
        let (start, cpu_before) = (Instant::now(), CpuTime::of_this_thread());
        program = Some(make()?);
        let cpu = CpuTime::of_this_thread().since(cpu_before);
        elapsed_s = start.elapsed().as_secs_f64().min(elapsed_s);
        cpu_s = (cpu.total_ns() as f64 / 1e9).min(cpu_s);
    }
    Ok((format!("{elapsed_s:.3} s, {cpu_s:.3} s of CPU"), program.ok_or("no repetition")?))
}

fn describe_size(program: &LoadProgram) -> String {
    format!("{} operations in {:.1} MB of memory", program.operation_count(), program.memory_bytes() as f64 / 1e6)
}
