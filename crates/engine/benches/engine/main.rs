//! The engine beside bare loops and other generators, in one run: `cargo bench -p fsarena-engine`.
//!
//! Each row compares contenders that do the same work. In each of five rounds, every contender runs once, and another one
//! begins. The table shows medians over rounds, also of the ratio of the engine's throughput to that of each other contender.
//! It also shows CPU time, which varies less on a busy machine. For a contender whose program is not installed, the table says
//! so.

mod contenders;
mod rows;
mod scratch;
mod table;

use scratch::Failure;

fn main() -> Result<(), Failure> {
    println!("{}", table::request_real_time_priority());
    // Cargo passes `--bench`; any other argument selects the rows whose title contains it.
    let parts: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_selected = |title: &str| parts.is_empty() || parts.iter().any(|part| title.contains(part.as_str()));
    for (title, make_row) in rows::ROWS {
        if is_selected(title) {
            table::run_and_print(&make_row(title)?)?;
        }
    }
    Ok(())
}
