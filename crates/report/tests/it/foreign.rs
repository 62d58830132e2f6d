//! What other tools print, captured by running each version, and the figures that fsarena must read in it.
//!
//! `tests/foreign` has the files, and its README how each was captured. `tests/foreign/figures.txt` has the figures: a file,
//! below it each series with its metric, unit and values, then what is left out; or why the file is refused.

use fsarena_report::import::{Samples, parse};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign")
}

/// The captured files, by name.
fn captured() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| !["README.md", "figures.txt", ".gitattributes"].contains(&name.as_str())).collect();
    names.sort();
    names
}

fn read(name: &str) -> Result<Samples, String> {
    let bytes = std::fs::read(folder().join(name)).unwrap();
    parse(name, &bytes, None).map_err(|error| error.to_string())
}

fn shown(name: &str) -> String {
    let mut out = format!("{name}\n");
    match read(name) {
        Err(error) => writeln!(out, "  refused: {error}").unwrap(),
        Ok(samples) => {
            for series in &samples.series {
                let values: Vec<String> = series.values.iter().map(f64::to_string).collect();
                let (name, metric, unit) = (&series.name, &series.metric, &series.unit);
                writeln!(out, "  {name} | {metric} | {unit} | {}", values.join(" ")).unwrap();
            }
            samples.left_out.iter().for_each(|one| writeln!(out, "  left out: {one}").unwrap());
        }
    }
    out
}

#[test]
fn every_captured_file_gives_its_figures() {
    let expected = std::fs::read_to_string(folder().join("figures.txt")).unwrap();
    let mut expected: Vec<&str> = expected.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty()).collect();
    let mut wrong = vec![];
    for name in captured() {
        let shown = shown(&name);
        match expected.iter().position(|part| part.lines().next() == Some(name.as_str())) {
            None => wrong.push(format!("not in figures.txt:\n{shown}")),
            Some(at) => {
                let part = expected.remove(at);
                if part != shown.trim_end() {
                    wrong.push(format!("expected:\n{part}\nfound:\n{shown}"));
                }
            }
        }
    }
    assert!(wrong.is_empty() && expected.is_empty(), "{}\nno such file: {expected:?}", wrong.join("\n"));
}

#[test]
fn no_tool_prints_rounds() {
    for name in captured() {
        let series = read(&name).map_or(vec![], |samples| samples.series);
        assert!(series.iter().all(|series| series.rounds.is_none()), "{name}");
    }
}

#[test]
fn no_captured_value_is_0() {
    for name in captured() {
        // Go does count 0 allocations.
        let series = read(&name).map_or(vec![], |samples| samples.series);
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
    let captured = captured();
    let mut versions = 0;
    for row in table.lines().skip(2).filter(|row| !row.starts_with("| CSV ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let of_row = cells[2].split([' ', ',']).filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        for version in of_row {
            let begin = format!("{}-{version}", cells[1].to_lowercase());
            assert!(captured.iter().any(|name| name.starts_with(&begin)), "{begin}");
            versions += 1;
        }
    }
    assert!(versions > 25, "{versions}");
}
