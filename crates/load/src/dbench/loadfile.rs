//! Finds, decompresses and reads loadfiles line by line. Rejects other files by their first bytes, their size or
//! their first long line, so memory use stays bounded for any input.

use super::parse::{LONGEST_LINE, Parser, not_text};
use super::{Program, error::Error};
use flate2::bufread::MultiGzDecoder;
use fsarena_sys::input;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Where dbench's own loadfile is: Debian's package, then the places of 5.0 installed from its sources.
pub const INSTALLED: [&str; 4] = [
    "/usr/share/dbench/client.txt",
    "/usr/share/dbench/client.load",
    "/usr/local/share/doc/dbench/loadfiles/client.load",
    "/usr/share/doc/dbench/loadfiles/client.load",
];
/// The largest text that is read, in bytes: twenty times the standard one.
const MOST_BYTES: u64 = 512 << 20;
/// The most lines that do something: 320 MB in memory.
const MOST_LINES: usize = 10_000_000;
/// Bytes read at once.
const CHUNK: usize = 256 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The loadfile that is meant: the one named, else the installed one.
///
/// # Errors
/// Where none is named and none is installed.
pub fn find(named: &str) -> Result<PathBuf, Error> {
    if !named.is_empty() {
        return Ok(named.into());
    }
    let installed = INSTALLED.iter().map(PathBuf::from).find(|path| path.is_file());
    installed.ok_or_else(|| Error::NoLoadfile { looked_for: INSTALLED.join(", ") })
}

/// Reads a loadfile, which may be packed with gzip.
///
/// # Errors
/// If the file cannot be read or is not a loadfile; names the line.
pub fn load(path: &Path) -> Result<Program, Error> {
    let failed = |source| Error::Read { path: path.into(), source };
    let unfit = |why: String| Error::Unfit { path: path.into(), why };
    let file = input::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    if bytes > MOST_BYTES {
        return Err(unfit(too_large(bytes)));
    }
    let mut plain = BufReader::with_capacity(CHUNK, file);
    match plain.fill_buf().map_err(failed)?.starts_with(&GZIP) {
        false => read(path, plain),
        true => read(path, BufReader::with_capacity(CHUNK, MultiGzDecoder::new(plain))),
    }
}

/// Reads the text of a loadfile. `origin` names it in errors.
///
/// # Errors
/// If the text is not a loadfile; names the line.
pub fn parse(origin: &str, text: &[u8]) -> Result<Program, Error> {
    read(Path::new(origin), text)
}

fn too_large(bytes: u64) -> String {
    let [bytes, most] = [bytes, MOST_BYTES].map(bytesize::ByteSize);
    format!("{bytes} are too many to read (at most {most}): the standard loadfile has 26 MB")
}

fn read(path: &Path, mut text: impl BufRead) -> Result<Program, Error> {
    let at = |line: u32, why: String| Error::Line { path: path.into(), line, why };
    let mut parser = Parser::default();
    let (mut line, mut number, mut bytes) = (Vec::with_capacity(LONGEST_LINE + 2), 0, 0);
    loop {
        line.clear();
        let longest = LONGEST_LINE as u64 + 2;
        let read = text.by_ref().take(longest).read_until(b'\n', &mut line);
        number += 1;
        bytes += read.map_err(|source| broken(path, number, source))? as u64;
        let Some(content) = line.strip_suffix(b"\n") else {
            match line.len() {
                0 => break,
                length if length as u64 == longest => {
                    let what = "it is longer than 1,022 bytes, the limit of a loadfile";
                    return Err(at(number, not_text(&line).unwrap_or_else(|| what.into())));
                }
                _ => return Err(at(number, "the file ends within this line: is it cut short?".into())),
            }
        };
        if bytes > MOST_BYTES {
            return Err(at(number, too_large(bytes)));
        }
        parser.line(number, content).map_err(|why| at(number, why))?;
        if parser.builder.len() > MOST_LINES {
            return Err(at(number, format!("more than {MOST_LINES} lines are too many to play")));
        }
    }
    parser.finish().map_err(|(line, why)| at(line, why))
}

fn broken(path: &Path, line: u32, source: std::io::Error) -> Error {
    let why = match source.kind() {
        ErrorKind::UnexpectedEof => "the packed file ends here: it is cut short".into(),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => format!("the packed file is damaged: {source}"),
        _ => return Error::Read { path: path.into(), source },
    };
    Error::Line { path: path.into(), line, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs::File, io::Write};

    const GOOD: &str = "\
# a comment, and an empty line

Mkdir \"\\clients\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\\a b\" 0x40 0x2 7 NT_STATUS_OK\r
0.25 WriteX 7 0 4096 4096 NT_STATUS_OK
ReadX 7 *%4096 16 16 *
close 7 0x00000000
NTCreateX \"\\clients\\client1\\none\" 0x40 0x1 8 NT_STATUS_OBJECT_NAME_NOT_FOUND
Rename \"\\clients\\client1\\a b\" \"\\clients\\client1\\c\" SUCCESS
Unlink \"\\clients\\client1\\c\" 0x6 NT_STATUS_OK
";

    fn wrong(text: &str) -> String {
        parse("f", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn both_grammars_are_read() {
        let program = parse("f", GOOD.as_bytes()).unwrap();
        assert_eq!((program.operations(), program.instructions().len()), (8, 9));
        assert_eq!((program.names.len(), program.largest), (4, 4096));
    }

    #[test]
    fn packed_files_are_read_and_cut_ones_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.gz");
        let mut packer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packer.write_all(GOOD.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        std::fs::write(&path, &packed).unwrap();
        assert_eq!(load(&path).unwrap().operations(), 8);
        std::fs::write(&path, &packed[..packed.len() - 20]).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("cut short") && error.contains("line "), "{error}");
        std::fs::write(&path, [&packed[..60], b"garbage garbage"].concat()).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("line "));
    }

    #[test]
    fn each_fault_has_its_line() {
        for (text, expected) in [
            ("Flush 1 0x0\nFrobnicate 1 0x0\n", "line 2: unknown operation `Frobnicate`"),
            ("Flush 1\n", "line 1: unknown status `1`"),
            ("Flush\n", "line 1: `Flush` stands alone"),
            ("Flush x 0x0\n", "line 1: `x`: expected an integer"),
            ("Unlink \"\\a 0x6 NT_STATUS_OK\n", "line 1: a name without its closing quote"),
            ("Unlink \"\\..\\a\" 0x6 NT_STATUS_OK\n", "leads out of the directory"),
            ("Unlink a 0x6 NT_STATUS_OK\n", "does not begin with"),
            ("LOOP x\n", "`x`: expected an integer"),
            ("LOOP 2\nFlush 1 0x0\n", "line 1: LOOP without ENDLOOP"),
            ("REPEAT 2\nSLEEP 1\n", "line 2: no operation, and the REPEAT of line 1"),
            ("WAITSP 1\n", "WAITSP takes"),
            ("RANDOMSTRING 11 \"a\"\n", "a place, 0 to 9"),
            ("SMBwrite 1 0x0\n", "dbench 1"),
            ("1.5x Flush 1 0x0\n", "`1.5x`: expected seconds"),
            ("", "it has no operations"),
            ("Flush 1 0x0\nFlush 1 0", "line 2: the file ends within this line"),
            ("\u{7f}ELF\u{1}\n", "line 1: it has the byte 0x7f"),
            (
                "NTCreateX \"\\a\" 0x40 0x2 7 NT_STATUS_OK\nFlush 7 0x0\n",
                "line 1: handle 7 is opened here and never closed",
            ),
        ] {
            let said = wrong(text);
            assert!(said.contains(expected), "{text:?}: {said}");
        }
        assert!(wrong(&"x".repeat(5000)).contains("line 1: it is longer than 1,022 bytes"));
        assert!(wrong(&format!("\u{1}{}", "x".repeat(5000))).contains("0x01"));
    }

    #[test]
    fn what_is_no_file_or_too_large_is_refused_unread() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).unwrap_err().to_string().contains("this is a directory"));
        assert!(load(Path::new("/dev/zero")).unwrap_err().to_string().contains("this is a character device"));
        let path = dir.path().join("huge");
        File::create(&path).unwrap().set_len(10 << 30).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("10.0 GiB are too many"), "{error}");
        let path = dir.path().join("holes");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("line 1: it has the byte 0x00"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse("f", &bytes);
        }

        #[test]
        fn words_in_any_order_never_panic(
            words in proptest::collection::vec("LOOP|ENDLOOP|REPEAT|SLEEP|WAITSP|RANDOMSTRING|NTCreateX|ReadX|Close|\"\\\\a\\$1\"|\\*%4|\\+child|7|-1|0x2|NT_STATUS_OK|\n", 0..60)
        ) {
            if let Ok(program) = parse("f", words.join(" ").as_bytes()) {
                let mut cursor = super::super::cursor::Cursor::new(&program, 0, 1, 1);
                (0..1000).for_each(|_| { let _ = cursor.step(); });
            }
        }

        #[test]
        fn a_damaged_file_never_panics(at in 0usize..400, with in "[ -~\\n\"]{0,4}") {
            let mut text = GOOD.to_string();
            text.insert_str(at.min(text.len()), &with);
            if let Err(error) = parse("f", text.as_bytes()) {
                prop_assert!(error.to_string().contains("line "), "{}", error);
            }
        }
    }
}
