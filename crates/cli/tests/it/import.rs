//! `fsarena compare` of files, through the real binary, and what its own exports give back.

use crate::common::{Place, root};
use serde_json::Value;

fn write(place: &Place, name: &str, text: &str) {
    std::fs::write(place.dir.join(name), text).unwrap();
}

fn compare(place: &Place, a: &str, b: &str, more: &[&str]) -> Value {
    let args: Vec<&str> = ["compare", a, b, "--format", "json"].iter().chain(more).copied().collect();
    serde_json::from_str(&place.expect(0, &args).0).unwrap()
}

/// Ten rounds of a machine that drifts by a factor of ten.
fn csv(factor: f64) -> String {
    let line =
        |at: u32| format!("{at},cp,{}\n", factor * f64::from(at) * (1.0 + 0.001 * f64::from(at * 7 % 5)));
    "round,task,elapsed_s\n".to_string() + &(1..=10).map(line).collect::<String>()
}

#[test]
fn csv_is_paired_by_round() {
    let place = Place::new();
    write(&place, "a.csv", &csv(1.0));
    write(&place, "b.csv", &csv(1.05));
    let page = compare(&place, "a.csv", "b.csv", &[]);
    let row = &page["rows"][0];
    assert_eq!((&row["paired"], &row["verdict"]), (&true.into(), &"different".into()));
    assert!((row["ratio_b_to_a"]["value"].as_f64().unwrap() - 1.05).abs() < 1e-9);
    let wide = compare(&place, "a.csv", "b.csv", &["--margin", "6%"]);
    assert_eq!(wide["rows"][0]["verdict"], "negligible");
    let (text, _) = place.expect(0, &["compare", "a.csv", "b.csv"]);
    assert!(text.contains("10 pairs") && !text.contains("UNPAIRED"), "{text}");
}

#[test]
fn what_has_no_rounds_is_said_to_be_unpaired() {
    let place = Place::new();
    let bench = |ns: u32| (0..8).map(|i| format!("BenchmarkX-2\t1\t{} ns/op\n", ns + i)).collect::<String>();
    write(&place, "a.txt", &bench(1000));
    write(&place, "b.txt", &bench(2000));
    let (text, _) = place.expect(0, &["compare", "a.txt", "b.txt"]);
    assert!(text.contains("UNPAIRED") && text.contains("different: A better"), "{text}");
}

#[test]
fn faults_name_the_file_and_the_line() {
    let place = Place::new();
    write(&place, "a.csv", "x,y\n1,2\n3\n");
    write(&place, "b.csv", "x,y\n1,2\n");
    let (_, said) = place.expect(2, &["compare", "b.csv", "a.csv"]);
    assert!(said.contains("a.csv, line 3: 1 fields where the lines before have 2"), "{said}");
    let (_, said) = place.expect(2, &["compare", "b.csv", "b.csv", "--metric", "z"]);
    assert!(said.contains("no benchmark and metric in common"), "{said}");
    let (_, said) = place.expect(2, &["compare", "b.csv", "some-run"]);
    assert!(said.contains("fsarena report some-run --export csv=FILE"), "{said}");
}

#[test]
fn own_exports_come_back() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.expect(0, &["run", "plan.toml", "--rounds", "2", "--on", "ram", "-q"]);
    for (format, metric, paired) in
        [("csv", "elapsed", true), ("gobench", "ns/op", true), ("hyperfine", "time", false)]
    {
        let file = format!("out.{format}");
        place.expect(0, &["report", "--export", &format!("{format}={file}")]);
        let page = compare(&place, &file, &file, &["--metric", metric]);
        assert_eq!(page["a"]["format"], format);
        let rows = page["rows"].as_array().unwrap();
        // Three tasks, and mkfs, mount and unmount.
        assert_eq!(rows.len(), 6, "{page:#}");
        for row in rows {
            assert_eq!(row["paired"], paired, "{row}");
            assert_eq!(row["ratio_b_to_a"]["value"], 1.0, "{row}");
            assert_eq!(row["values_a"], 2, "{row}");
        }
    }
    place.assert_clean();
}
