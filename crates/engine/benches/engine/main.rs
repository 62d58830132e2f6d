//! The engine beside bare loops and other generators, in one run: `cargo bench -p fsarena-engine`.
//!
//! Each row compares contenders that do the same work, in turns: five rounds, in each of which every
//! contender runs once and another one begins. The table shows medians, and the median over rounds of the
//! ratio to the first. CPU time is shown beside because on a busy machine it is the steadier figure. A
//! contender whose program is not installed is named as missing.

mod bare;
mod peer;
mod rows;
mod scratch;
mod table;

use scratch::Failure;

fn main() -> Result<(), Failure> {
    println!("{}", table::undisturbed());
    // Cargo passes `--bench`; anything else chooses rows by a part of their title.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let chosen = |title: &str| wanted.is_empty() || wanted.iter().any(|part| title.contains(part.as_str()));
    for (title, make) in rows::ROWS {
        if chosen(title) {
            table::print(&make(title)?)?;
        }
    }
    Ok(())
}
