//! Output of programs, shown to people.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// The last bytes of a file, as text.
///
/// # Errors
/// Where it cannot be read.
pub fn tail(file: &mut File, most_bytes: u64) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most_bytes)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text to show for an output, also for an empty one.
pub fn shown(text: &str) -> &str {
    match text.trim() {
        "" => "it said nothing",
        said => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_end_is_read_and_nothing_is_named() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(tail(&mut file, 4).unwrap(), "two\n");
        assert_eq!(tail(&mut file, 100).unwrap(), "one\ntwo\n");
        assert_eq!((shown(" two\n"), shown(" \n")), ("two", "it said nothing"));
    }
}
