//! Terminal, Markdown and HTML print the same numbers.

use crate::fixture;
use fsarena_report::report::Report;
use std::collections::BTreeSet;

/// The words of a report that contain a digit, without the markup of its format.
fn words_with_digits(report: &Report, format: &str) -> BTreeSet<String> {
    let text = fixture::export(report, format).replace('\u{a0}', " ").replace('\u{2060}', "");
    let text = match format {
        "html" => {
            let body = text.split_once("<body>").unwrap().1.split("<script").next().unwrap().to_string();
            let texts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
            texts.collect::<Vec<_>>().join(" ").replace("&#39;", "'").replace("&#34;", "\"")
        }
        "md" => text.replace('\\', "").replace("<br>", " ").replace(['|', '*', '`'], " "),
        _ => text,
    };
    let is_punctuation = |c: char| "[](),;:.?`'#".contains(c);
    let words = text.split_whitespace().map(|word| word.trim_matches(is_punctuation));
    words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).map(String::from).collect()
}

#[test]
fn a_number_is_printed_in_the_same_way_in_all_formats() {
    let mut record = fixture::run(&["ext2", "ext4", "xfs"], 10);
    record.plan.claims = ["untar.elapsed: ext2 < xfs by 5%", "rm-tree.elapsed: ext2 == ext4 within 2%"]
        .map(|text| text.parse().unwrap())
        .into();
    for record in [record, fixture::run(&["ext4", "xfs"], 9), fixture::run(&["ext4", "xfs"], 3)] {
        let mut report = fixture::report(record, &["elapsed", "synced"]).unwrap();
        report.screen.width = Some(400);
        report.is_full = true;
        let [term, md, html] = ["term", "md", "html"].map(|format| words_with_digits(&report, format));
        assert!(term.len() > 60, "{term:?}");
        assert_eq!(term.difference(&md).collect::<Vec<_>>(), [""; 0], "on the terminal, not in Markdown");
        assert_eq!(term.difference(&html).collect::<Vec<_>>(), [""; 0], "on the terminal, not in HTML");
    }
}
