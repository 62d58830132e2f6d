//! Findings of a published matrix and of a small one with replicates, in each format.

use fsarena_report::{findings::page, page::Page};
use fsarena_stats::matrix::cells::{Matrix, MatrixRow};
use fsarena_stats::matrix::find_anomalies;

fn row(variant: &str, mode: &str, block_size: u64, threads: u32, iops: Vec<f64>) -> MatrixRow {
    let is_bare_device = variant == "device";
    let iops = iops.into_iter().map(Some).collect();
    MatrixRow {
        variant: variant.into(),
        is_bare_device,
        mode: mode.into(),
        block_size,
        threads,
        iops,
        client_bound: false,
    }
}

fn published() -> Matrix {
    let parsed = |line: &str| {
        let [variant, mode, size, threads, iops] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        row(variant, mode, size.parse().unwrap(), threads.parse().unwrap(), vec![iops.parse().unwrap()])
    };
    let csv = include_str!("../../../../studies/engel/published.csv");
    Matrix::new(&csv.lines().skip(1).map(parsed).collect::<Vec<_>>()).unwrap()
}

/// Two variants and the device, 8 rounds; one variant loses 40% from 8 threads on, and one reads from a cache.
fn replicated() -> Matrix {
    let mut rows = Vec::new();
    for variant in ["one", "two", "device"] {
        for mode in ["seqrd", "rndwr"] {
            for (size, rate) in [(512u32, 20e3), (1024, 16e3), (4096, 9e3)] {
                for threads in [1, 2, 4, 8] {
                    let share = match (variant, mode, size, threads) {
                        ("one", "rndwr", ..4096, 8) => 0.3,
                        ("two", "seqrd", 4096, _) => 1.5,
                        _ => 1.0,
                    };
                    let wobble =
                        |round: u32| 1.0 + f64::from((round * (variant.len() as u32 + size % 5) + threads) % 7) / 500.0;
                    let value = rate * share * f64::from(threads);
                    rows.push(row(
                        variant,
                        mode,
                        size.into(),
                        threads,
                        (0..8).map(|round| value * wobble(round)).collect(),
                    ));
                }
            }
        }
    }
    Matrix::new(&rows).unwrap()
}

fn shown(page: &Page, format: &str) -> String {
    let mut out = Vec::new();
    page.write(format, fsarena_report::document::terminal::Screen::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// All characters of these pages are one column wide.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn a_published_matrix() {
    let matrix = published();
    let analysis = find_anomalies(&matrix, Some(650e6));
    let brief = page("published:engel", &matrix, &analysis, false);
    let term = shown(&brief, "term");
    assert!(widest(&term) <= 100, "{}", widest(&term));
    insta::assert_snapshot!("published_findings_term", term);
    let full = page("published:engel", &matrix, &analysis, true);
    assert!(widest(&shown(&full, "term")) <= 100);
    insta::assert_snapshot!("published_findings_md", shown(&full, "md"));
}

#[test]
fn replicates_have_intervals_and_are_unconfirmed() {
    let matrix = replicated();
    let page = page("run 7", &matrix, &find_anomalies(&matrix, None), true);
    insta::assert_snapshot!("replicated_findings_term", shown(&page, "term"));
    let json: serde_json::Value = serde_json::from_str(&shown(&page, "json")).unwrap();
    let first = &json["findings"][0];
    assert_eq!((&first["variant"], &first["standing"]), (&"one".into(), &"unconfirmed".into()));
    let worst = &first["parts"][0]["worst"];
    assert_eq!(worst["cell"]["block_size_bytes"], 1024);
    assert_eq!(worst["rounds"], 8);
    let [low, high] = [0, 1].map(|end| worst["interval"][end].as_f64().unwrap());
    assert!(low < 0.54 && 0.53 < high && low < high, "{low} {high}");
    // Heat-map data: rows are block sizes, columns are thread counts, in bytes and megabytes.
    let heat = &json["matrices"][0];
    assert_eq!((&heat["variant"], &heat["mode"], &heat["raw_device"]), (&"one".into(), &"seqrd".into(), &false.into()));
    let (iops, moved) = (heat["iops"][2][3].as_f64().unwrap(), heat["mb_per_s"][2][3].as_f64().unwrap());
    assert!((moved - iops * 4096.0 / 1e6).abs() < 1e-9 && iops > 72e3);
    assert_eq!(heat["iops"].as_array().unwrap().len(), 3);
}

#[test]
fn what_the_generator_holds_up_is_no_finding_and_is_said() {
    let cell =
        |threads, iops, client_bound| MatrixRow { client_bound, ..row("one", "seqrd", 512, threads, vec![iops]) };
    let shown = |client_bound| {
        let matrix = Matrix::new(&[cell(1, 100.0, false), cell(2, 40.0, client_bound)]).unwrap();
        let page = page("run 9", &matrix, &find_anomalies(&matrix, None), true);
        let json: serde_json::Value = serde_json::from_str(&shown(&page, "json")).unwrap();
        (shown(&page, "term"), json)
    };
    let (term, json) = shown(false);
    assert!(term.contains("loses 60%") && !term.contains("Client-bound"), "{term}");
    assert_eq!(json["client_bound"], serde_json::json!([]));
    let (term, json) = shown(true);
    assert!(
        !term.contains("loses") && term.contains("Client-bound (! in tables): one seqrd at 512 B with 2 threads"),
        "{term}"
    );
    assert!(term.contains(" !"), "{term}");
    assert_eq!(json["client_bound"][0]["threads"], 2);
}

#[test]
fn nothing_found_is_said() {
    let matrix = Matrix::new(&[row("one", "seqrd", 512, 1, vec![10.0])]).unwrap();
    let term = shown(&page("run 8", &matrix, &find_anomalies(&matrix, None), false), "term");
    assert!(term.contains("No anomaly in 1 cell of one"), "{term}");
}
