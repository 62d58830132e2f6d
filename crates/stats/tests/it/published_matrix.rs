//! Tests the findings of the rules in a published block-size × threads matrix.

use fsarena_stats::matrix::cells::{Matrix, MatrixRow};
use fsarena_stats::matrix::finding::{Finding, Reliability};
use fsarena_stats::{matrix::find_anomalies, matrix::finding::Rule};
use std::collections::BTreeSet;

/// The bandwidth of the device as the author states it, in bytes per second.
const DEVICE_BANDWIDTH: f64 = 650e6;

/// The matrix that Engel published.
fn engel_matrix() -> Matrix {
    let rows: Vec<MatrixRow> = include_str!("../../../../studies/engel/published.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let [variant, mode, size, threads, iops] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
            MatrixRow {
                variant: variant.to_string(),
                is_bare_device: false,
                mode: mode.to_string(),
                block_size: size.parse().unwrap(),
                threads: threads.parse().unwrap(),
                iops: vec![Some(iops.parse().unwrap())],
                client_bound: false,
            }
        })
        .collect();
    Matrix::new(&rows).unwrap()
}

/// A finding: variant, mode, rule of the first part, smallest and largest block size in bytes, and number of cells.
type Line<'a> = (&'a str, &'a str, Rule, u64, u64, usize);

fn lines<'a>(matrix: &'a Matrix, findings: &[Finding]) -> Vec<Line<'a>> {
    let line = |finding: &Finding| {
        let cells = finding.cells();
        let sizes: Vec<u64> = cells.iter().map(|at| matrix.sizes[at.size]).collect();
        (
            matrix.variants[finding.variant].name.as_str(),
            matrix.modes[finding.mode].name.as_str(),
            finding.main_part().rule,
            *sizes.iter().min().unwrap(),
            *sizes.iter().max().unwrap(),
            cells.len(),
        )
    };
    findings.iter().map(line).collect()
}

/// The expected findings, by size × extent. They were checked by hand against the tables; `docs/guide/analysis.md` explains
/// each, and which anomalies were examined and rejected.
#[test]
fn the_published_tables_have_exactly_the_expected_findings() {
    let matrix = engel_matrix();
    let analysis = find_anomalies(&matrix, Some(DEVICE_BANDWIDTH));
    let expected = [
        // Threads gain nothing, 12 to 1 from random reads.
        ("xfs", "seqrd", Rule::Serialised, 512, 16384, 42),
        // The collapse under 4 KiB.
        ("btrfs", "seqwr", Rule::IopsRise, 512, 2048, 24),
        ("btrfs", "rndwr", Rule::IopsRise, 512, 2048, 24),
        ("xfs", "seqwr", Rule::SequentialBelowRandom, 512, 8192, 40),
        ("btrfs", "rndrd", Rule::IopsRise, 512, 2048, 22),
        // Far behind from 4 KiB on, too.
        ("btrfs", "seqwr", Rule::FarBehind, 4096, 16384, 24),
        // Sequential writes well below random ones.
        ("ext4", "seqwr", Rule::SequentialBelowRandom, 512, 4096, 32),
        // One thread reads 512 B at 565 MB/s and 4 KiB at 26 MB/s: a cache.
        ("btrfs", "seqrd", Rule::BandwidthFalls, 512, 2048, 18),
        ("btrfs", "rndwr", Rule::FarBehind, 4096, 16384, 17),
        // 4 and 8 KiB fall to a sixth from 2 to 16 threads.
        ("xfs", "seqwr", Rule::ScalingCollapse, 512, 16384, 25),
        ("ext4", "seqrd", Rule::SequentialBelowRandom, 512, 4096, 18),
        ("btrfs", "seqrd", Rule::SequentialBelowRandom, 4096, 8192, 4),
    ];
    assert_eq!(lines(&matrix, &analysis.findings), expected);
    assert!(analysis.findings.iter().all(|finding| finding.reliability == Reliability::SingleValues));
    assert_eq!(analysis.rounds, 1);
}

#[test]
fn the_stated_bandwidth_removes_exactly_one_finding() {
    let matrix = engel_matrix();
    let names = |device| -> BTreeSet<_> {
        let analysis = find_anomalies(&matrix, device);
        lines(&matrix, &analysis.findings).into_iter().map(|(variant, mode, rule, ..)| (variant, mode, rule)).collect()
    };
    let (with, without) = (names(Some(DEVICE_BANDWIDTH)), names(None));
    assert!(with.is_subset(&without));
    // From 4 to 8 threads with 512 B, the bandwidth falls from 629 to 589 MB/s, which is near the stated one.
    let removed: Vec<_> = without.difference(&with).collect();
    assert_eq!(removed, [&("ext4", "rndwr", Rule::ScalingCollapse)]);
}

#[test]
fn the_worst_cells_have_the_ratios_of_the_published_figures() {
    let matrix = engel_matrix();
    let analysis = find_anomalies(&matrix, Some(DEVICE_BANDWIDTH));
    let find = |variant: &str, mode: &str, rule| {
        let named = |f: &&Finding| matrix.variants[f.variant].name == variant && matrix.modes[f.mode].name == mode;
        let mut parts = analysis.findings.iter().filter(named).flat_map(|finding| &finding.parts);
        parts.find(|part| part.rule == rule).unwrap()
    };
    // 512 B, 4 threads: 221,629 sequential against 1,227,643 random.
    let worst = find("ext4", "seqwr", Rule::SequentialBelowRandom).worst_flag();
    assert_eq!(Some(worst.cell), matrix.find("ext4", "seqwr", 512, 4));
    assert!((worst.ratio.value - 221_629.0 / 1_227_643.0).abs() < 1e-12);
    // From 4 KiB (30,740) to 512 B (1,888) with one thread.
    let worst = find("btrfs", "seqwr", Rule::IopsRise).worst_flag();
    assert_eq!(
        (Some(worst.cell), worst.reference),
        (matrix.find("btrfs", "seqwr", 512, 1), matrix.find("btrfs", "seqwr", 4096, 1))
    );
    assert!((worst.ratio.value - 1_888.0 / 30_740.0).abs() < 1e-12);
    // 4 KiB: 89,250 with one thread, 12,917 with 16.
    let worst = find("xfs", "seqwr", Rule::ScalingCollapse).worst_flag();
    assert_eq!(Some(worst.cell), matrix.find("xfs", "seqwr", 4096, 16));
    assert!((worst.ratio.value - 12_917.0 / 89_250.0).abs() < 1e-12);
}
