//! Programs that run in guests: the only program of a guest is fsarena, so further ones lie on the source disk with their
//! libraries.

use crate::error::{Result, RunError};
use crate::executor::Log;
use fsarena_sys::argv::Argv;
use fsarena_sys::{Error, program};
use std::path::Path;

/// Where a guest mounts the source disk.
pub const OTHER: &str = "/mnt/other";
/// The directory on the source disk with the programs and their libraries.
const PROGRAMS: &str = ".programs";
/// The name there of what loads a program with its libraries.
const LOADER: &str = "loader";
/// What finds the libraries of a program on the host.
pub const LISTER: &str = "ldd";
/// The room that a program takes on the source disk, in bytes.
pub const ROOM: u64 = 16 << 20;

/// Puts programs with their libraries below a directory that becomes the source disk of guests.
///
/// # Errors
/// Where one cannot be found or copied.
pub fn pack<'a>(names: impl IntoIterator<Item = &'a str>, other: &Path, log: Log) -> Result<()> {
    let dir = other.join(PROGRAMS);
    for name in names {
        std::fs::create_dir_all(&dir).map_err(Error::io("making", &dir))?;
        let found = program::find(name).ok_or_else(|| RunError::Missing(format!("{name} is missing")))?;
        let said = Argv::new(LISTER).arg(&found).expect(log).map_err(Error::from)?.stdout;
        copy_file(&found, &dir.join(name))?;
        for library in libraries(&said) {
            let name = Path::new(library).file_name().unwrap_or_default();
            let is_loader = name.to_string_lossy().starts_with("ld-");
            copy_file(Path::new(library), &dir.join(if is_loader { LOADER.as_ref() } else { name }))?;
        }
    }
    Ok(())
}

/// Puts a further file beside the programs, if it exists.
///
/// # Errors
/// Where it cannot be copied.
pub fn pack_file(file: &Path, other: &Path) -> Result<()> {
    let dir = other.join(PROGRAMS);
    if file.exists() && dir.exists() {
        copy_file(file, &dir.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// The path of a packed file in a guest whose source disk is mounted at `other`.
pub fn file(other: &Path, name: &str) -> std::path::PathBuf {
    other.join(PROGRAMS).join(name)
}

/// The command that starts a packed program in a guest whose source disk is mounted at `other`.
pub fn command(other: &Path, name: &str) -> Argv {
    let dir = other.join(PROGRAMS);
    Argv::new(dir.join(LOADER)).arg("--library-path").arg(&dir).arg(dir.join(name))
}

/// The files that ldd(1) names.
fn libraries(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(Error::io("copying", from))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_names_libraries_and_the_loader() {
        let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibext2fs.so.2 => /lib/x86_64-linux-gnu/libext2fs.so.2 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let found: Vec<&str> = libraries(said).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libext2fs.so.2", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
