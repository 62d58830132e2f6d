//! Every figure of a page leads to the samples and commands that it is made of.

use crate::fixture;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::record::RunRecord;
use fsarena_report::exporters;

fn page(record: RunRecord) -> String {
    let mut out = Vec::new();
    let report = fixture::report(record, &["elapsed", "synced"]).unwrap();
    exporters::find("html").unwrap().export(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The attributes and the text of every cell of the tables of figures.
fn figures(page: &str) -> Vec<(String, String)> {
    let tables = page.split("<table class=\"figures\">").skip(1).map(|rest| rest.split_once("</table>").unwrap().0);
    let cells = tables.flat_map(|table| table.split("<td").skip(1));
    let cell = |cell: &str| {
        let (attributes, rest) = cell.split_once('>').unwrap();
        let inside = rest.split_once("</td>").unwrap().0;
        let text: String = inside.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
        (attributes.to_string(), text)
    };
    cells.map(cell).collect()
}

fn assert_all_lead_to_the_log(record: RunRecord) -> Vec<(String, String)> {
    let found = figures(&page(record));
    let numbers: Vec<_> = found.into_iter().filter(|(_, text)| text.contains(|c: char| c.is_ascii_digit())).collect();
    let without: Vec<_> = numbers.iter().filter(|(attributes, _)| !attributes.contains("data-variant=")).collect();
    assert!(without.is_empty(), "{without:?}");
    numbers
}

#[test]
fn every_figure_of_many_variants_leads_to_the_log() {
    let mut record = fixture::run(&["ext4", "xfs", "btrfs"], 9);
    // Beside each other under two schedulers, for the normalised tables.
    for (at, variant) in record.variants.iter_mut().enumerate() {
        let fs = if at == 2 { "xfs" } else { "ext4" };
        let scheduler = if at == 1 { "bfq" } else { "none" };
        variant.levels = [("fs", fs), ("scheduler", scheduler)].map(|(k, v)| (k.to_string(), v.to_string())).into();
        variant.name = format!("{fs}/{scheduler}");
    }
    let numbers = assert_all_lead_to_the_log(record);
    assert!(numbers.len() > 40, "{}", numbers.len());
    // A total is made of all tasks, a ratio of both variants.
    assert!(
        numbers
            .iter()
            .any(|(attributes, _)| attributes.contains(" data-variant=") && !attributes.contains("data-task="))
    );
    assert!(numbers.iter().any(|(attributes, _)| attributes.contains("data-variant=\"1 0\"")), "{numbers:?}");
}

#[test]
fn every_figure_of_two_variants_leads_to_the_log() {
    let numbers = assert_all_lead_to_the_log(fixture::run(&["ext4", "xfs"], 3));
    assert!(numbers.iter().any(|(attributes, _)| attributes.contains("data-variant=\"1 0\"")), "{numbers:?}");
}

#[test]
fn options_keep_their_lines() {
    let mut record = fixture::run(&["ext4", "xfs"], 3);
    let note = Note::new(NoteKind::Options, "Block size: 1024\nInode size: 256").variant("ext4").task("mkfs");
    record.notes.push((Some(0), note));
    let page = page(record);
    assert!(page.contains("<span>Block size: 1024</span><span class=\"sub\">Inode size: 256</span>"), "{page}");
}
