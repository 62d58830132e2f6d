//! Programs that fsarena itself needs in guests, for stacks, checks and pools. A guest has no program but fsarena, so
//! these programs lie on the source disk with their libraries. The programs that tasks start are those of the host:
//! `guest::host_programs`.

use crate::error::{Result, RunError};
use crate::executor::CommandLog;
use crate::protocol::COPIES_DIR;
use fsarena_sys::argv::Argv;
use fsarena_sys::{Error, dirs, program};
use std::path::{Path, PathBuf};

/// Where the guest mounts the source disk.
pub const SOURCE_DIR: &str = "/run/fsarena/other";
/// The directory on the source disk with a directory for each program and its libraries. Each program has its own
/// libraries, because a fetched program may need newer ones than this machine has.
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
pub fn pack_programs<'a>(names: impl IntoIterator<Item = &'a str>, source_dir: &Path, log: CommandLog) -> Result<()> {
    for name in names {
        let dir = source_dir.join(PROGRAMS_DIR).join(name);
        std::fs::create_dir_all(&dir).map_err(Error::io("making", &dir))?;
        let program_file = program::find(name).ok_or_else(|| RunError::Missing(format!("{name} is missing")))?;
        let output = ldd_command(name, &program_file).run_checked(log).map_err(Error::from)?.stdout;
        copy_file(&program_file, &dir.join(name))?;
        for library in parse_libraries(&output) {
            let name = Path::new(library).file_name().unwrap_or_default();
            let is_loader = name.to_string_lossy().starts_with("ld-");
            copy_file(Path::new(library), &dir.join(if is_loader { LOADER.as_ref() } else { name }))?;
        }
    }
    Ok(())
}

/// Copies a file to the directory with the packed programs. Does nothing if the file does not exist, or if no programs
/// were packed.
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

/// Copies paths of this machine to the directory `source_dir`, which becomes the source disk of guests: each to its
/// path below [`COPIES_DIR`].
///
/// # Errors
/// A path cannot be copied.
pub fn copy_host_paths(paths: &[PathBuf], source_dir: &Path, log: CommandLog) -> Result<(), Error> {
    for path in paths {
        let copy = source_dir.join(COPIES_DIR).join(path.strip_prefix("/").unwrap_or(path));
        let parent = copy.parent().unwrap_or(source_dir);
        dirs::make_dirs(parent).map_err(Error::io("making", parent))?;
        Argv::new("cp").args(["-a", "--"]).arg(path).arg(&copy).run_checked(log)?;
    }
    Ok(())
}

/// The path of a packed file in a guest whose source disk is mounted at `source_dir`.
pub fn packed_file(source_dir: &Path, name: &str) -> PathBuf {
    source_dir.join(PROGRAMS_DIR).join(name)
}

/// The command that starts a packed program in a guest whose source disk is mounted at `source_dir`.
pub fn packed_command(source_dir: &Path, name: &str) -> Argv {
    let dir = source_dir.join(PROGRAMS_DIR).join(name);
    Argv::new(dir.join(LOADER)).arg("--library-path").arg(&dir).arg(dir.join(name))
}

/// The command that lists the libraries of a program: ldd(1), or the loader of one that was fetched.
fn ldd_command(name: &str, program_file: &Path) -> Argv {
    let words = program::fetched_command(name.as_ref());
    match words.as_deref() {
        Some([loader, options @ .., file]) => Argv::new(loader).args(options).arg("--list").arg(file),
        _ => Argv::new(LDD).arg(program_file),
    }
}

/// The paths of libraries in the output of ldd(1): of `name => path (address)` and of `path (address)`.
fn parse_libraries(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| {
        let (library, _) = line.trim().rsplit_once(" (")?;
        let path = library.split_once(" => ").map_or(library, |(_, path)| path);
        path.starts_with('/').then_some(path)
    })
}

fn copy_file(source: &Path, copy: &Path) -> Result<()> {
    std::fs::copy(source, copy).map_err(Error::io("copying", source))?;
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
        let libraries: Vec<&str> = parse_libraries(output).collect();
        assert_eq!(libraries, ["/lib/x86_64-linux-gnu/libext2fs.so.2", "/lib64/ld-linux-x86-64.so.2"]);
        let with_spaces = "\tlibz.so.1 => /my cache (1)/libz.so.1 (0x7f)\n\tlibm.so.6 => not found\n";
        assert_eq!(parse_libraries(with_spaces).collect::<Vec<_>>(), ["/my cache (1)/libz.so.1"]);
    }
}
