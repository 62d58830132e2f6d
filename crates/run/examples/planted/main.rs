//! Does counting resolve what is planted, and nothing else?
//!
//! By default more of the same work is planted: a tree is copied and removed in guests that count instructions, by variants
//! with 0.14%, 0.5% and 1% more files, and by pairs of identical variants. Printed are the verdicts after 8 rounds, and how
//! often identical variants were called different. With `--option` it is a mount option whose cost is known by count:
//! `strictatime` instead of `noatime`. docs/internals/guests.md has the results.
//!
//! ```text
//! cargo run --release -p fsarena-run --example planted -- [FILESYSTEM…] [--option] [--pairs N] [--files N]
//! ```

mod files;
mod guest;
mod option;

use fsarena_sys::undo::{Journal, state_dir};
use std::path::Path;

/// The fewest rounds that allow a verdict.
const ROUNDS: u32 = 8;

type Failed = Box<dyn std::error::Error>;

/// What the command line asks for.
struct Arguments {
    filesystems: Vec<String>,
    option: bool,
    pairs: u32,
    files: i64,
}

/// Where guests leave what they have to.
#[derive(Clone, Copy)]
struct Desk<'a> {
    journal: &'a Journal,
    dir: &'a Path,
}

fn main() -> Result<(), Failed> {
    // A guest boots into this very program.
    if fsarena_run::guest_init::is_guest_init() {
        fsarena_run::guest_init::run_guest();
    }
    let asked = asked()?;
    let dir = std::env::temp_dir().join(format!("fsarena-planted-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let journal = Journal::create(&state_dir(), "planted")?;
    let desk = Desk { journal: &journal, dir: &dir };
    let prove = if asked.option { option::prove } else { files::prove };
    let ended = prove(&asked, desk);
    std::fs::remove_dir_all(&dir)?;
    ended
}

fn asked() -> Result<Arguments, Failed> {
    let mut asked = Arguments { filesystems: vec![], option: false, pairs: 0, files: 715 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).ok_or("a number is missing");
        match word.as_str() {
            "--option" => asked.option = true,
            "--pairs" => asked.pairs = number()?,
            "--files" => asked.files = number()?.into(),
            fs => asked.filesystems.push(fs.into()),
        }
    }
    if asked.filesystems.is_empty() {
        asked.filesystems = vec!["ext4".into()];
    }
    Ok(asked)
}
