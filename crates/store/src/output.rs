//! The output of the user's commands: a file for each cell, below the directory of the run.

use crate::{Error, Result, RunDir};
use fsarena_core::{cell::Cell, event::CommandRecord};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

impl RunDir {
    /// The directory of the output of commands; not there where none printed anything.
    pub fn outputs(&self) -> PathBuf {
        self.path().join("output")
    }

    /// The file with the output of a cell's commands: `output/001-ext4-0f3a6c21.txt`, the round counted from 1.
    pub fn output_of(&self, cell: &Cell) -> PathBuf {
        let (variant, id) = (crate::dir::slug(&cell.variant.name), cell.id());
        self.outputs().join(format!("{:03}-{variant}-{}.txt", cell.round + 1, &id.0[..8]))
    }
}

/// Removes the output of an earlier attempt of a cell.
pub(crate) fn begin(run: &RunDir, cell: &Cell) -> Result<()> {
    let path = run.output_of(cell);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("removing", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Adds the output of a command to the file of its cell, under the command.
pub(crate) fn append(run: &RunDir, cell: &Cell, command: &CommandRecord, output: &str) -> Result<()> {
    let (dir, path) = (run.outputs(), run.output_of(cell));
    fs::create_dir_all(&dir).map_err(Error::io("creating", &dir))?;
    let end = if output.ends_with('\n') { "" } else { "\n" };
    let text = format!("$ {}\n{output}{end}[{}, {} ms]\n", command.argv.join(" "), command.ended, command.ms);
    let mut file =
        File::options().append(true).create(true).open(&path).map_err(Error::io("opening", &path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("writing", &path))
}

/// Copies what another run has and this one lacks. The names differ as the cells do.
pub(crate) fn merge(from: &Path, to: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    fs::create_dir_all(to).map_err(Error::io("creating", to))?;
    for entry in entries {
        let entry = entry.map_err(Error::io("reading", from))?;
        let new = to.join(entry.file_name());
        // Shards may come from another machine: nothing but files.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) && !new.exists() {
            fs::copy(entry.path(), &new).map_err(Error::io("writing", &new))?;
        }
    }
    Ok(())
}
