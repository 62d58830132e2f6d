//! Parsed programs as files, kept for the cells of a run. Reading one takes milliseconds; parsing a loadfile takes
//! tenths of a second. Guests get this file instead of the loadfile.

use super::{Error, Program};
use std::path::Path;

/// A program as bytes: fewer than it takes in memory.
pub fn pack(program: &Program) -> Vec<u8> {
    postcard::to_stdvec(program).expect("a program is plain data, and memory does not refuse it")
}

/// The program that [`pack`] has made these bytes of.
///
/// # Errors
/// Describes the error for the user.
pub fn unpack(bytes: &[u8]) -> Result<Program, String> {
    postcard::from_bytes(bytes).map_err(|error| format!("cannot decode this stored load: {error}"))
}

/// Writes a program into a file.
///
/// # Errors
/// Where it cannot be written.
pub fn write(program: &Program, path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Resource { what: format!("write the load to {}", path.display()), source };
    std::fs::write(path, pack(program)).map_err(failed)
}

/// Reads a program that [`write()`] has written.
///
/// # Errors
/// Where it is not there, or is damaged.
pub fn read(path: &Path) -> Result<Program, Error> {
    let failed = |source| Error::Read { path: path.into(), source };
    let bytes = std::fs::read(path).map_err(failed)?;
    unpack(&bytes).map_err(|why| Error::Unfit { path: path.into(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbench::{like, loadfile};

    #[test]
    fn what_is_read_is_what_was_written() {
        let text = "RANDOMSTRING 1 \"f[abc]\"\nWRITEPATTERN abc\nLOOP 2\n\
                    NTCreateX \"\\client1\\$1\" 0x40 0x2 -7 NT_STATUS_OK\n\
                    REPEAT 3\nWriteX -7 *%4096/512+1 +child 5000000000 *\n\
                    Close -7 NT_STATUS_OK\nENDLOOP\nWAITSP 3 1\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load");
        for program in [loadfile::parse("test", text.as_bytes()).unwrap(), like::program(1)] {
            write(&program, &path).unwrap();
            assert_eq!(format!("{:?}", read(&path).unwrap()), format!("{program:?}"));
            assert!(pack(&program).len() < program.bytes() + 200);
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load");
        let bytes = pack(&like::program(1));
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("cannot decode this stored load"));
        assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("No such file"));
    }
}
