//! Programs that fsarena itself needs in guests, for stacks, checks and pools. A guest has no program but fsarena, so these lie
//! on the source disk with their libraries. Tasks start programs of the host instead: `guest::host_programs`.

use crate::error::{Result, RunError};
use crate::executor::Log;
use fsarena_sys::argv::Argv;
use fsarena_sys::{Error, program};
use std::path::{Path, PathBuf};

/// Where the guest mounts the source disk.
pub const SOURCE_DIR: &str = "/run/fsarena/other";
/// The directory on the source disk with a directory for each program. Fetched programs may need newer libraries than those
/// of this machine, so each program has its own.
const PROGRAMS_DIR: &str = ".programs";
/// The name of the dynamic loader in the directory of a program.
const LOADER: &str = "loader";
/// The program that lists the libraries of an installed program.
pub const LDD: &str = "ldd";
/// The space on the source disk for a program with its libraries, in bytes.
pub const BYTES_PER_PROGRAM: u64 = 16 << 20;

/// Copies programs and their libraries to the directory `source_dir`, which becomes the source disk of guests.
///
/// # Errors
/// A file cannot be found or copied.
pub fn pack_programs<'a>(names: impl IntoIterator<Item = &'a str>, source_dir: &Path, log: Log) -> Result<()> {
    for name in names {
        let dir = source_dir.join(PROGRAMS_DIR).join(name);
        std::fs::create_dir_all(&dir).map_err(Error::io("making", &dir))?;
        let found = program::find(name).ok_or_else(|| RunError::Missing(format!("{name} is missing")))?;
        let output = ldd_command(name, &found).run_checked(log).map_err(Error::from)?.stdout;
        copy_file(&found, &dir.join(name))?;
        for library in parse_libraries(&output) {
            let name = Path::new(library).file_name().unwrap_or_default();
            let is_loader = name.to_string_lossy().starts_with("ld-");
            copy_file(Path::new(library), &dir.join(if is_loader { LOADER.as_ref() } else { name }))?;
        }
    }
    Ok(())
}

/// Copies a file beside the programs. Does nothing if the file does not exist, or if no programs were packed.
///
/// # Errors
/// The file cannot be copied.
pub fn pack_file(file: &Path, source_dir: &Path) -> Result<()> {
    let dir = source_dir.join(PROGRAMS_DIR);
    if file.exists() && dir.exists() {
        copy_file(file, &dir.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// The path of a packed file in a guest whose source disk is mounted at `source_dir`.
pub fn packed_file(source_dir: &Path, name: &str) -> PathBuf {
    source_dir.join(PROGRAMS_DIR).join(name)
}

/// The command that starts a packed program in a guest whose source disk is mounted at `source_dir`.
pub fn command(source_dir: &Path, name: &str) -> Argv {
    let dir = source_dir.join(PROGRAMS_DIR).join(name);
    Argv::new(dir.join(LOADER)).arg("--library-path").arg(&dir).arg(dir.join(name))
}

/// The command that lists the libraries of a program: ldd(1), or the loader of one that was fetched.
fn ldd_command(name: &str, found: &Path) -> Argv {
    let words = program::fetched_command(name.as_ref());
    match words.as_deref() {
        Some([loader, options @ .., file]) => Argv::new(loader).args(options).arg("--list").arg(file),
        _ => Argv::new(LDD).arg(found),
    }
}

/// The paths of files in the output of ldd(1).
fn parse_libraries(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.split_whitespace().rfind(|word| word.starts_with('/')))
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(Error::io("copying", from))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_and_the_loader_are_found_in_the_output_of_ldd() {
        let fetched = "\t/lib64/ld-linux-x86-64.so.2 => /tools/lib/ld-linux-x86-64.so.2 (0x7f)";
        assert_eq!(parse_libraries(fetched).collect::<Vec<_>>(), ["/tools/lib/ld-linux-x86-64.so.2"]);
        let output = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibext2fs.so.2 => /lib/x86_64-linux-gnu/libext2fs.so.2 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let found: Vec<&str> = parse_libraries(output).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libext2fs.so.2", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
