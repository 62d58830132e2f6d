//! Decodes the text of a file, UTF-8 or UTF-16. For compressed and binary files the error names the type of the file.

use super::importer::Fault;
use std::borrow::Cow;

/// The first bytes of other types of files, and the error for each.
const BINARY: [(&[u8], &str); 9] = [
    (b"\x1f\x8b", "this is a gzip file: unpack it first, for example with `gunzip`"),
    (b"\x28\xb5\x2f\xfd", "this is a zstd file: unpack it first, for example with `unzstd`"),
    (b"\xfd7zXZ\0", "this is an xz file: unpack it first, for example with `unxz`"),
    (b"BZh", "this is a bzip2 file: unpack it first, for example with `bunzip2`"),
    (b"PK\x03\x04", "this is a zip file or a spreadsheet: export it as CSV first"),
    (b"SQLite format 3\0", "this is an SQLite database: name the run's directory, or export it as CSV first"),
    (b"PAR1", "this is a Parquet file: export it as CSV first"),
    (b"%PDF", "this is a PDF file, and fsarena reads text"),
    (b"\x89PNG", "this is a PNG picture, and fsarena reads text"),
];

/// Decodes a file: UTF-8, or UTF-16 with a byte order mark.
///
/// # Errors
/// The type of a file that is not text, or the line of the first byte that is not UTF-8.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Fault> {
    if let Some((_, what)) = BINARY.iter().find(|(mark, _)| bytes.starts_with(mark)) {
        return Err(Fault::whole(*what));
    }
    match bytes {
        [0xff, 0xfe, rest @ ..] => return utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, rest @ ..] => return utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        _ => {}
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Fault::at(line, "this is not UTF-8 text")
    })?;
    if text.contains('\0') {
        return Err(Fault::whole("it has zero bytes, so it is binary, or UTF-16 without its mark"));
    }
    Ok(Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

/// Decodes UTF-16 without its byte order mark.
fn utf16(bytes: &[u8], order: fn([u8; 2]) -> u16) -> Result<String, Fault> {
    let pairs = bytes.chunks_exact(2);
    let whole = pairs.remainder().is_empty();
    let units: Vec<u16> = pairs.map(|pair| order([pair[0], pair[1]])).collect();
    match String::from_utf16(&units) {
        Ok(text) if whole => Ok(text),
        _ => Err(Fault::whole("it begins like UTF-16 text and is not: it may have been cut off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded() {
        let wide =
            |order: fn(u16) -> [u8; 2]| "\u{feff}x,ü\n".encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for bytes in [wide(u16::to_le_bytes), wide(u16::to_be_bytes), "\u{feff}x,ü\n".into(), "x,ü\n".into()]
        {
            assert_eq!(decode(&bytes).unwrap(), "x,ü\n");
        }
    }

    #[test]
    fn other_files_are_refused_by_what_they_are() {
        let fault = |bytes: &[u8]| decode(bytes).unwrap_err().message;
        assert!(fault(b"\x1f\x8b\x08\0").contains("gzip"));
        assert!(fault(b"PK\x03\x04").contains("zip"));
        assert!(fault(b"\xff\xfex").contains("UTF-16"));
        assert!(fault(b"x\0,\0").contains("UTF-16 without its mark"));
        assert_eq!(decode(b"x\n\xff").unwrap_err().line, Some(2));
    }
}
