//! Terminal, Markdown and HTML print the same numbers.

use crate::fixture;
use fsarena_report::{exporters, report::Report};
use std::collections::BTreeSet;

/// The words of a report that hold a digit, without the markup of its format.
fn numbers(report: &Report, format: &str) -> BTreeSet<String> {
    let mut out = Vec::new();
    exporters::find(format).unwrap().export(report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap().replace('\u{a0}', " ").replace('\u{2060}', "");
    let text = match format {
        "html" => {
            let body = text.split_once("<body>").unwrap().1.split("<script").next().unwrap().to_string();
            let texts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
            texts.collect::<Vec<_>>().join(" ").replace("&#39;", "'").replace("&#34;", "\"")
        }
        "md" => text.replace('\\', "").replace("<br>", " ").replace(['|', '*', '`'], " "),
        _ => text,
    };
    let mark = |c: char| "[](),;:.?`'#".contains(c);
    let words = text.split_whitespace().map(|word| word.trim_matches(mark));
    words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).map(String::from).collect()
}

#[test]
fn a_number_is_printed_alike_in_all_formats() {
    let mut record = fixture::run(&["ext2", "ext4", "xfs"], 10);
    record.plan.claims = ["untar.elapsed: ext2 < xfs by 5%", "rm-tree.elapsed: ext2 == ext4 within 2%"]
        .map(|text| text.parse().unwrap())
        .into();
    for record in [record, fixture::run(&["ext4", "xfs"], 9), fixture::run(&["ext4", "xfs"], 3)] {
        let mut report = fixture::report(record, &["elapsed", "synced"]).unwrap();
        report.screen.width = Some(400);
        report.full = true;
        let [term, md, html] = ["term", "md", "html"].map(|format| numbers(&report, format));
        assert!(term.len() > 60, "{term:?}");
        let only = |of: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
            of.difference(other).cloned().collect()
        };
        assert_eq!(only(&term, &md), [""; 0], "on the terminal, not in Markdown");
        assert_eq!(only(&term, &html), [""; 0], "on the terminal, not in HTML");
    }
}
