//! Measures whether instruction counts of guests detect a planted difference, and report none between identical
//! variants.
//!
//! By default the planted difference is more of the same work: guests that count instructions copy and remove a tree,
//! and variants have 0.14%, 0.5% and 1% more files. The program prints the verdicts after 8 rounds, and how often pairs
//! of identical variants were called different. With `--option` the planted difference is a mount option whose cost is
//! known by counting: `strictatime` instead of `noatime`. docs/internals/guests.md has the results.
//!
//! ```text
//! cargo run --release -p fsarena-run --example planted -- [FILESYSTEM…] [--option] [--pairs N] [--files N]
//! ```

mod files;
mod guest;
mod option;

use fsarena_sys::undo::{Journal, state_dir};
use std::path::Path;

/// The smallest number of rounds after which a comparison has a verdict.
const ROUNDS: u32 = 8;

type AnyError = Box<dyn std::error::Error>;

/// The arguments of the command line.
struct Arguments {
    filesystems: Vec<String>,
    /// Whether to plant a mount option instead of files.
    plants_option: bool,
    /// The number of pairs of identical variants.
    pairs: u32,
    /// The number of files of a tree.
    files: i64,
}

/// The directory of the guests' files, and the undo journal.
#[derive(Clone, Copy)]
struct Workspace<'a> {
    journal: &'a Journal,
    dir: &'a Path,
}

fn main() -> Result<(), AnyError> {
    // A guest boots this same program.
    if fsarena_run::guest_init::is_guest_init() {
        fsarena_run::guest_init::run_guest();
    }
    let arguments = parse_arguments()?;
    let dir = std::env::temp_dir().join(format!("fsarena-planted-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let journal = Journal::create(&state_dir(), "planted")?;
    let workspace = Workspace { journal: &journal, dir: &dir };
    let print_verdicts = if arguments.plants_option { option::print_verdicts } else { files::print_verdicts };
    let result = print_verdicts(&arguments, workspace);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn parse_arguments() -> Result<Arguments, AnyError> {
    let mut arguments = Arguments { filesystems: vec![], plants_option: false, pairs: 0, files: 715 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).ok_or("a number is missing");
        match word.as_str() {
            "--option" => arguments.plants_option = true,
            "--pairs" => arguments.pairs = number()?,
            "--files" => arguments.files = number()?.into(),
            fs => arguments.filesystems.push(fs.into()),
        }
    }
    if arguments.filesystems.is_empty() {
        arguments.filesystems = vec!["ext4".into()];
    }
    Ok(arguments)
}
