//! The output of other tools, captured from each version, and the figures that fsarena must read from it.
//!
//! `tests/foreign` contains the files, and its README how each was captured. `tests/foreign/figures.txt` contains the figures:
//! the name of a file, then each series with its metric, unit and values, and the parts left out; or why fsarena refuses the file.

use fsarena_report::import::{Samples, parse};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn captured_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign")
}

/// The names of the captured files, sorted.
fn captured_files() -> Vec<String> {
    let files = std::fs::read_dir(captured_folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| !["README.md", "figures.txt", ".gitattributes"].contains(&name.as_str())).collect();
    names.sort();
    names
}

fn import(name: &str) -> Result<Samples, String> {
    let bytes = std::fs::read(captured_folder().join(name)).unwrap();
    parse(name, &bytes, None).map_err(|error| error.to_string())
}

/// The figures of a file in the form of `figures.txt`.
fn describe_figures(name: &str) -> String {
    let mut out = format!("{name}\n");
    match import(name) {
        Err(error) => writeln!(out, "  refused: {error}").unwrap(),
        Ok(samples) => {
            for series in &samples.series {
                let values: Vec<String> = series.values.iter().map(f64::to_string).collect();
                let (name, metric, unit) = (&series.name, &series.metric, &series.unit);
                writeln!(out, "  {name} | {metric} | {unit} | {}", values.join(" ")).unwrap();
            }
            for left_out in &samples.left_out {
                writeln!(out, "  left out: {left_out}").unwrap();
            }
        }
    }
    out
}

#[test]
fn every_captured_file_gives_its_figures() {
    let expected = std::fs::read_to_string(captured_folder().join("figures.txt")).unwrap();
    let mut expected: Vec<&str> = expected.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty()).collect();
    let mut wrong = vec![];
    for name in captured_files() {
        let figures = describe_figures(&name);
        match expected.iter().position(|part| part.lines().next() == Some(name.as_str())) {
            None => wrong.push(format!("not in figures.txt:\n{figures}")),
            Some(position) => {
                let part = expected.remove(position);
                if part != figures.trim_end() {
                    wrong.push(format!("expected:\n{part}\nfound:\n{figures}"));
                }
            }
        }
    }
    assert!(wrong.is_empty() && expected.is_empty(), "{}\nno such file: {expected:?}", wrong.join("\n"));
}

#[test]
fn no_tool_prints_rounds() {
    for name in captured_files() {
        let series = import(&name).map_or(vec![], |samples| samples.series);
        assert!(series.iter().all(|series| series.rounds.is_none()), "{name}");
    }
}

#[test]
fn no_captured_value_is_0() {
    for name in captured_files() {
        // Only the counts of allocations in Go can be 0.
        let series = import(&name).map_or(vec![], |samples| samples.series);
        let measured = series.iter().filter(|series| !["B/op", "allocs/op"].contains(&series.unit.as_str()));
        assert!(measured.flat_map(|series| &series.values).all(|value| *value > 0.0), "{name}");
    }
}

/// Each version that the guide lists has a captured file.
#[test]
fn every_version_in_the_guide_is_tested() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/reports.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let table = guide.split_once("| tool | versions |").unwrap().1.split_once("\n\n").unwrap().0;
    let captured = captured_files();
    let mut version_count = 0;
    for row in table.lines().skip(2).filter(|row| !row.starts_with("| CSV ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let words = cells[2].split([' ', ',']);
        for version in words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            let prefix = format!("{}-{version}", cells[1].to_lowercase());
            assert!(captured.iter().any(|name| name.starts_with(&prefix)), "{prefix}");
            version_count += 1;
        }
    }
    assert!(version_count > 25, "{version_count}");
}
