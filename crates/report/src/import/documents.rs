//! Finds JSON documents in a text that has other lines before, between and after them.

use super::importer::Fault;
use serde_json::Value;
use std::borrow::Cow;

/// All JSON objects that begin at the start of a line, each with the number of that line.
///
/// Programs also print `nan` and `inf`, which JSON does not have: they are read as null.
///
/// # Errors
/// The message of the JSON parser, with the line.
pub fn documents(text: &str) -> Result<Vec<(usize, Value)>, Fault> {
    let text = without_non_numbers(text);
    let (mut found, mut rest, mut line) = (vec![], &*text, 1);
    while !rest.is_empty() {
        let mut length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        if rest[..length].trim_start().starts_with('{') {
            let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let document = documents.next().unwrap_or(Ok(Value::Null));
            let fault = |error: serde_json::Error| Fault::at(line + error.line() - 1, error.to_string());
            found.push((line, document.map_err(fault)?));
            length = documents.byte_offset();
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    Ok(found)
}

/// Replaces numbers that JSON does not have, as in `"lat" : -nan,`, with null.
fn without_non_numbers(text: &str) -> Cow<'_, str> {
    let non_number = |line: &str| {
        let value = line.rsplit_once(':')?.1.trim().trim_end_matches(',');
        matches!(value, "nan" | "-nan" | "inf" | "-inf").then(|| value.to_string())
    };
    if !text.lines().any(|line| non_number(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut replaced = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match non_number(line).zip(line.rsplit_once(':')) {
            Some((word, (name, value))) => {
                replaced.extend([name, ":", &value.replacen(&word, "null", 1)]);
            }
            None => replaced.push_str(line),
        }
    }
    Cow::Owned(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_between_other_lines() {
        let text = "note: {no}\n{\"a\" : -nan,\n\"b\": 1}\nRun status\n  {\"c\": 2}{\"d\": 3}\nend {\n";
        let found = documents(text).unwrap();
        let shown: Vec<String> = found.iter().map(|(line, value)| format!("{line} {value}")).collect();
        assert_eq!(shown, ["2 {\"a\":null,\"b\":1}", "5 {\"c\":2}", "5 {\"d\":3}"]);
    }

    #[test]
    fn faults_have_their_line() {
        assert_eq!(documents("x\n{\"a\":\n[}\n").unwrap_err().line, Some(3));
        assert_eq!(documents("x\n{\"a\": 1\n").unwrap_err().line, Some(3));
    }
}
