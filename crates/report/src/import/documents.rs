//! JSON documents in a text, with other text before, between and behind them.

use super::importer::Fault;
use serde_json::Value;
use std::borrow::Cow;

/// Every JSON object of a text that begins a line or is in a list that does, with the number of its line.
///
/// Programs also print `nan` and `inf`, which JSON does not have: they are read as null.
///
/// # Errors
/// The line of the fault, and the words of the JSON parser.
pub fn documents(text: &str) -> Result<Vec<(usize, Value)>, Fault> {
    let text = without_infinities(text);
    let (mut found, mut rest, mut line) = (vec![], &*text, 1);
    while !rest.is_empty() {
        let mut length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let from = begin(&rest[..length]);
        if let Some(from) = from {
            rest = &rest[from..];
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

/// Where an object begins in a line that begins with it. `{1..4}` is none: a name or nothing follows the brace.
fn begin(line: &str) -> Option<usize> {
    let from = line.len() - line.trim_start_matches([' ', '\t', '[', ',']).len();
    let inside = line[from..].strip_prefix('{')?.trim();
    (inside.is_empty() || inside.starts_with(['"', '}'])).then_some(from)
}

/// The text with null for numbers that JSON does not have: `"lat" : -nan,`.
fn without_infinities(text: &str) -> Cow<'_, str> {
    let infinity = |line: &str| {
        let value = line.rsplit_once(':')?.1.trim().trim_end_matches(',');
        matches!(value, "nan" | "-nan" | "inf" | "-inf").then(|| value.to_string())
    };
    if !text.lines().any(|line| infinity(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let mended = text.split_inclusive('\n').map(|line| match infinity(line).zip(line.rsplit_once(':')) {
        Some((word, (name, value))) => Cow::Owned(format!("{name}:{}", value.replacen(&word, "null", 1))),
        None => Cow::Borrowed(line),
    });
    Cow::Owned(mended.collect())
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
    fn lists_are_read_and_other_braces_are_not() {
        let text = "{1..4} nodes\n[{\"a\": 1},\n{\"b\": 2}, {\"c\": 3}\n]\n";
        let shown: Vec<_> =
            documents(text).unwrap().into_iter().map(|(line, value)| (line, value.to_string())).collect();
        assert_eq!(shown, [(2, "{\"a\":1}".into()), (3, "{\"b\":2}".into()), (3, "{\"c\":3}".into())]);
    }

    #[test]
    fn faults_have_their_line() {
        assert_eq!(documents("x\n{\"a\":\n[}\n").unwrap_err().line, Some(3));
        assert_eq!(documents("x\n{\"a\": 1\n").unwrap_err().line, Some(3));
    }
}
