//! The figures of a page: each links to the samples and commands from which it was computed.

use crate::fixture;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::record::RunRecord;

fn html_report(record: RunRecord) -> String {
    fixture::export(&fixture::report(record, &["elapsed", "synced"]).unwrap(), "html")
}

/// The attributes and the text of every cell in the tables of figures.
fn figure_cells(page: &str) -> Vec<(String, String)> {
    let tables = page.split("<table class=\"figures\">").skip(1).map(|rest| rest.split_once("</table>").unwrap().0);
    let cells = tables.flat_map(|table| table.split("<td").skip(1));
    let parse_cell = |cell: &str| {
        let (attributes, rest) = cell.split_once('>').unwrap();
        let content = rest.split_once("</td>").unwrap().0;
        let text: String = content.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
        (attributes.to_string(), text)
    };
    cells.map(parse_cell).collect()
}

/// Asserts that every cell with a number names the variants whose samples it comes from, and returns these cells.
fn assert_all_figures_are_linked(record: RunRecord) -> Vec<(String, String)> {
    let mut figures = figure_cells(&html_report(record));
    figures.retain(|(_, text)| text.contains(|c: char| c.is_ascii_digit()));
    let unlinked: Vec<_> = figures.iter().filter(|(attributes, _)| !attributes.contains("data-variant=")).collect();
    assert!(unlinked.is_empty(), "{unlinked:?}");
    figures
}

#[test]
fn every_figure_of_many_variants_is_linked_to_its_samples() {
    let mut record = fixture::run(&["ext4", "xfs", "btrfs"], 9);
    // Two factors, so that the report also has normalised tables.
    for (variant, (fs, scheduler)) in
        record.variants.iter_mut().zip([("ext4", "none"), ("ext4", "bfq"), ("xfs", "none")])
    {
        variant.levels = [("fs", fs), ("scheduler", scheduler)].map(|(id, level)| (id.into(), level.into())).into();
        variant.name = format!("{fs}/{scheduler}");
    }
    let figures = assert_all_figures_are_linked(record);
    assert!(figures.len() > 40, "{}", figures.len());
    // A total comes from all tasks, a ratio from two variants.
    assert!(
        figures
            .iter()
            .any(|(attributes, _)| attributes.contains(" data-variant=") && !attributes.contains("data-task="))
    );
    assert!(figures.iter().any(|(attributes, _)| attributes.contains("data-variant=\"1 0\"")), "{figures:?}");
}

#[test]
fn every_figure_of_two_variants_is_linked_to_its_samples() {
    let figures = assert_all_figures_are_linked(fixture::run(&["ext4", "xfs"], 3));
    assert!(figures.iter().any(|(attributes, _)| attributes.contains("data-variant=\"1 0\"")), "{figures:?}");
}

#[test]
fn options_in_several_lines_keep_their_lines() {
    let mut record = fixture::run(&["ext4", "xfs"], 3);
    let note = Note::new(NoteKind::Options, "Block size: 1024\nInode size: 256").variant("ext4").task("mkfs");
    record.notes.push((Some(0), note));
    let page = html_report(record);
    assert!(page.contains("<span>Block size: 1024</span><span class=\"sub\">Inode size: 256</span>"), "{page}");
}
