//! The page of the anomalies of a published matrix, and of a small matrix with replicates, in each format.

use crate::fixture::{max_line_width, render_page};
use fsarena_report::findings::findings_page;
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

fn published_matrix() -> Matrix {
    let parse_row = |line: &str| {
        let [variant, mode, size, threads, iops] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        row(variant, mode, size.parse().unwrap(), threads.parse().unwrap(), vec![iops.parse().unwrap()])
    };
    let csv = include_str!("../../../../studies/engel/published.csv");
    Matrix::new(&csv.lines().skip(1).map(parse_row).collect::<Vec<_>>()).unwrap()
}

/// A matrix of two variants and the bare device over 8 rounds. The variant `one` has 30% of its rate with 8 threads, and `two`
/// reads large blocks from a cache.
fn replicated_matrix() -> Matrix {
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
                    let noise =
                        |round: u32| 1.0 + f64::from((round * (variant.len() as u32 + size % 5) + threads) % 7) / 500.0;
                    let iops = rate * share * f64::from(threads);
                    let iops_of_rounds = (0..8).map(|round| iops * noise(round)).collect();
                    rows.push(row(variant, mode, size.into(), threads, iops_of_rounds));
                }
            }
        }
    }
    Matrix::new(&rows).unwrap()
}

#[test]
fn findings_of_a_published_matrix() {
    let matrix = published_matrix();
    let analysis = find_anomalies(&matrix, Some(650e6));
    let brief = findings_page("published:engel", &matrix, &analysis, false);
    let term = render_page(&brief, "term");
    assert!(max_line_width(&term) <= 100, "{}", max_line_width(&term));
    insta::assert_snapshot!("published_findings_term", term);
    let full = findings_page("published:engel", &matrix, &analysis, true);
    assert!(max_line_width(&render_page(&full, "term")) <= 100);
    insta::assert_snapshot!("published_findings_md", render_page(&full, "md"));
}

#[test]
fn replicates_have_intervals_and_are_unconfirmed() {
    let matrix = replicated_matrix();
    let page = findings_page("run 7", &matrix, &find_anomalies(&matrix, None), true);
    insta::assert_snapshot!("replicated_findings_term", render_page(&page, "term"));
    let json: serde_json::Value = serde_json::from_str(&render_page(&page, "json")).unwrap();
    let first = &json["findings"][0];
    assert_eq!((&first["variant"], &first["standing"]), (&"one".into(), &"unconfirmed".into()));
    let worst = &first["parts"][0]["worst"];
    assert_eq!(worst["cell"]["block_size_bytes"], 1024);
    assert_eq!(worst["rounds"], 8);
    let [low, high] = [0, 1].map(|end| worst["interval"][end].as_f64().unwrap());
    assert!(low < 0.54 && 0.53 < high && low < high, "{low} {high}");
    // Heat-map data: rows are block sizes, columns are thread counts, in bytes and megabytes.
    let heat_map = &json["matrices"][0];
    assert_eq!(
        (&heat_map["variant"], &heat_map["mode"], &heat_map["raw_device"]),
        (&"one".into(), &"seqrd".into(), &false.into())
    );
    let [iops, mb_per_s] = ["iops", "mb_per_s"].map(|key| heat_map[key][2][3].as_f64().unwrap());
    assert!((mb_per_s - iops * 4096.0 / 1e6).abs() < 1e-9 && iops > 72e3);
    assert_eq!(heat_map["iops"].as_array().unwrap().len(), 3);
}

#[test]
fn a_client_bound_cell_is_listed_and_is_not_an_anomaly() {
    let cell =
        |threads, iops, client_bound| MatrixRow { client_bound, ..row("one", "seqrd", 512, threads, vec![iops]) };
    let term_and_json = |client_bound| {
        let matrix = Matrix::new(&[cell(1, 100.0, false), cell(2, 40.0, client_bound)]).unwrap();
        let page = findings_page("run 9", &matrix, &find_anomalies(&matrix, None), true);
        let json: serde_json::Value = serde_json::from_str(&render_page(&page, "json")).unwrap();
        (render_page(&page, "term"), json)
    };
    let (term, json) = term_and_json(false);
    assert!(term.contains("loses 60%") && !term.contains("Client-bound"), "{term}");
    assert_eq!(json["client_bound"], serde_json::json!([]));
    let (term, json) = term_and_json(true);
    assert!(
        !term.contains("loses") && term.contains("Client-bound (! in tables): one seqrd at 512 B with 2 threads"),
        "{term}"
    );
    assert!(term.contains(" !"), "{term}");
    assert_eq!(json["client_bound"][0]["threads"], 2);
}

#[test]
fn the_page_states_that_a_matrix_has_no_anomaly() {
    let matrix = Matrix::new(&[row("one", "seqrd", 512, 1, vec![10.0])]).unwrap();
    let term = render_page(&findings_page("run 8", &matrix, &find_anomalies(&matrix, None), false), "term");
    assert!(term.contains("No anomaly in 1 cell of one"), "{term}");
}
