//! Decodes the text of a file, UTF-8 or UTF-16, and finds JSON documents, sizes and command lines in it. For compressed and
//! binary files the error names the type of the file.

use super::importer::FileFault;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// Whether a word is in a list of words, which are separated by blanks. Ignores upper and lower case.
pub fn is_one_of(word: &str, list: &str) -> bool {
    list.split(' ').any(|known| known.eq_ignore_ascii_case(word))
}

/// The first bytes of files that are not text, and the error for each type.
const BINARY_FORMATS: [(&[u8], &str); 9] = [
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
pub fn decode_text(bytes: &[u8]) -> Result<Cow<'_, str>, FileFault> {
    if let Some((_, message)) = BINARY_FORMATS.iter().find(|(first_bytes, _)| bytes.starts_with(first_bytes)) {
        return Err(FileFault::in_file(*message));
    }
    match bytes {
        [0xff, 0xfe, rest @ ..] => return decode_utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, rest @ ..] => return decode_utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        _ => {}
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        FileFault::in_line(line, "this is not UTF-8 text")
    })?;
    if text.contains('\0') {
        return Err(FileFault::in_file("it has zero bytes, so it is binary, or UTF-16 without its mark"));
    }
    Ok(Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

/// Decodes UTF-16; `bytes` are those after the byte order mark.
///
/// # Errors
/// The bytes are not valid UTF-16.
fn decode_utf16(bytes: &[u8], to_unit: fn([u8; 2]) -> u16) -> Result<String, FileFault> {
    let pairs = bytes.chunks_exact(2);
    let is_even = pairs.remainder().is_empty();
    let units: Vec<u16> = pairs.map(|pair| to_unit([pair[0], pair[1]])).collect();
    match String::from_utf16(&units) {
        Ok(text) if is_even => Ok(text),
        _ => Err(FileFault::in_file(
            "it begins with the mark of UTF-16, but the rest is not UTF-16: it may have been cut off",
        )),
    }
}

/// Finds the JSON objects in a text between other lines, and returns each with its line number, from 1. An object must begin at
/// the beginning of a line, or be in a list that does.
///
/// fsarena reads `nan` and `inf`, which programs print although JSON does not have them, as null.
///
/// # Errors
/// An object is not valid JSON: the line, and the message of the JSON parser.
pub fn find_json_documents(text: &str) -> Result<Vec<(usize, Value)>, FileFault> {
    let text = replace_nan_and_infinity(text);
    let (mut objects, mut rest, mut line) = (vec![], &*text, 1);
    while !rest.is_empty() {
        let mut length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        if let Some(start) = find_object_start(&rest[..length]) {
            rest = &rest[start..];
            let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let document = documents.next().unwrap_or(Ok(Value::Null));
            let fault = |error: serde_json::Error| FileFault::in_line(line + error.line() - 1, error.to_string());
            objects.push((line, document.map_err(fault)?));
            length = documents.byte_offset();
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    Ok(objects)
}

/// Parses the JSON documents in a text that have a field of this name, and ignores all others.
///
/// # Errors
/// An object is not valid JSON, or a document with the field lacks others or has values of other types: the line, and the
/// message of the JSON parser.
pub fn parse_documents_with<T: DeserializeOwned>(field: &str, text: &str) -> Result<Vec<T>, FileFault> {
    let mut documents = vec![];
    for (line, document) in find_json_documents(text)? {
        if document.get(field).is_some() {
            let parsed = serde_json::from_value(document);
            documents.push(parsed.map_err(|error| FileFault::in_line(line, format!("in this document: {error}")))?);
        }
    }
    Ok(documents)
}

/// A JSON value as text: a string without its quotes, any other value as JSON.
pub fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// The index of the brace of an object at the beginning of a line. After the brace there must be a name, `}` or the end of the
/// line: `{1..4}` is not an object.
fn find_object_start(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start_matches([' ', '\t', '[', ',']).len();
    let inside = line[start..].strip_prefix('{')?.trim();
    (inside.is_empty() || inside.starts_with(['"', '}'])).then_some(start)
}

/// The text with null instead of NaN and infinite numbers, which JSON does not have: `"lat" : -nan,`.
fn replace_nan_and_infinity(text: &str) -> Cow<'_, str> {
    let non_finite_value = |line: &str| {
        let value = line.rsplit_once(':')?.1.trim().trim_end_matches(',');
        matches!(value, "nan" | "-nan" | "inf" | "-inf").then(|| value.to_string())
    };
    if !text.lines().any(|line| non_finite_value(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let replaced = text.split_inclusive('\n').map(|line| match non_finite_value(line).zip(line.rsplit_once(':')) {
        Some((word, (name, value))) => Cow::Owned(format!("{name}:{}", value.replacen(&word, "null", 1))),
        None => Cow::Borrowed(line),
    });
    Cow::Owned(replaced.collect())
}

/// The options of a command line, without the name of the program, the options in `path_options` with their
/// values, and `-i` with the number of repetitions.
pub fn extract_options(command: &str, path_options: &[&str]) -> String {
    let mut words = command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).skip(1);
    let mut options = vec![];
    while let Some(word) = words.next() {
        if path_options.contains(&word) || word == "-i" {
            words.next();
        } else {
            options.push(word);
        }
    }
    options.join(" ")
}

/// Parses a word in this line as a number. NaN and infinity are numbers too; the collector leaves such values out.
///
/// # Errors
/// `word` is not a number. The message is the word and `complaint`, such as `is not a rate`.
pub fn parse_number(line: usize, word: &str, complaint: &str) -> Result<f64, FileFault> {
    word.parse().map_err(|_| FileFault::in_line(line, format!("`{word}` {complaint}")))
}

/// The number of bytes in `262144 bytes`, `256.00 KiB`, `1 MiB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let unit_bytes = match unit.trim() {
        "bytes" | "byte" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * unit_bytes;
    (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_8_and_utf_16_are_decoded() {
        let utf_16 =
            |to_bytes: fn(u16) -> [u8; 2]| "\u{feff}x,ü\n".encode_utf16().flat_map(to_bytes).collect::<Vec<u8>>();
        for bytes in [utf_16(u16::to_le_bytes), utf_16(u16::to_be_bytes), "\u{feff}x,ü\n".into(), "x,ü\n".into()] {
            assert_eq!(decode_text(&bytes).unwrap(), "x,ü\n");
        }
    }

    #[test]
    fn the_error_for_a_binary_file_names_its_type() {
        let fault = |bytes: &[u8]| decode_text(bytes).unwrap_err().message;
        assert!(fault(b"\x1f\x8b\x08\0").contains("gzip"));
        assert!(fault(b"PK\x03\x04").contains("zip"));
        assert!(fault(b"\xff\xfex").contains("UTF-16"));
        assert!(fault(b"x\0,\0").contains("UTF-16 without its mark"));
        assert_eq!(decode_text(b"x\n\xff").unwrap_err().line, Some(2));
    }

    #[test]
    fn documents_are_found_between_other_lines() {
        let text = "note: {no}\n{\"a\" : -nan,\n\"b\": 1}\nRun status\n  {\"c\": 2}{\"d\": 3}\nend {\n";
        let found = find_json_documents(text).unwrap();
        let shown: Vec<String> = found.iter().map(|(line, value)| format!("{line} {value}")).collect();
        assert_eq!(shown, ["2 {\"a\":null,\"b\":1}", "5 {\"c\":2}", "5 {\"d\":3}"]);
    }

    #[test]
    fn objects_in_lists_are_read_and_other_braces_are_not() {
        let text = "{1..4} nodes\n[{\"a\": 1},\n{\"b\": 2}, {\"c\": 3}\n]\n";
        let shown: Vec<_> =
            find_json_documents(text).unwrap().into_iter().map(|(line, value)| (line, value.to_string())).collect();
        assert_eq!(shown, [(2, "{\"a\":1}".into()), (3, "{\"b\":2}".into()), (3, "{\"c\":3}".into())]);
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(find_json_documents("x\n{\"a\":\n[}\n").unwrap_err().line, Some(3));
        assert_eq!(find_json_documents("x\n{\"a\": 1\n").unwrap_err().line, Some(3));
    }

    #[test]
    fn command_options_leave_out_paths_and_repetitions() {
        assert_eq!(extract_options("/usr/bin/ior -w -o /mnt/file -i 3 -t 4k", &["-o"]), "-w -t 4k");
        assert_eq!(extract_options(" mdtest \"-n\" \"10\" \"-d\" \"/mnt\"", &["-d"]), "-n 10");
    }

    #[test]
    fn sizes_with_a_unit_are_parsed() {
        let sizes = ["262144 bytes", "256.00 KiB", "1 MiB", "x KiB", "12"].map(parse_size);
        assert_eq!(sizes, [Some(262_144), Some(262_144), Some(1 << 20), None, None]);
    }
}
