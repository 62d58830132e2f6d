//! How fast a loadfile is read into the form in which it is played: `cargo bench -p fsarena-load --bench loadfile`.
//! The installed one of dbench (goal: under 0.5 s), and the making of dbench-like.

use fsarena_load::dbench::{Program, like, loadfile};
use std::error::Error;
use std::time::Instant;

/// The best of these counts: only disturbances make it slower.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    match loadfile::find("") {
        Err(error) => println!("{error}"),
        Ok(path) => {
            let bytes = std::fs::metadata(&path)?.len();
            let (seconds, program) = best(|| Ok(loadfile::load(&path)?))?;
            println!("{}: {:.1} MB in {seconds:.3} s (goal: 0.5 s)", path.display(), bytes as f64 / 1e6);
            println!("  {}", size(&program));
        }
    }
    let (seconds, program) = best(|| Ok(like::program(1)))?;
    println!("dbench-like made in {seconds:.3} s\n  {}", size(&program));
    Ok(())
}

fn best(make: impl Fn() -> Result<Program, Box<dyn Error>>) -> Result<(f64, Program), Box<dyn Error>> {
    let mut best = None;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let program = make()?;
        let seconds = begun.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, program));
        }
    }
    best.ok_or_else(|| "no round".into())
}

fn size(program: &Program) -> String {
    format!("{} operations in {:.1} MB of memory", program.operations(), program.bytes() as f64 / 1e6)
}
