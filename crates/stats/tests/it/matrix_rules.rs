//! Tests each rule on synthetic matrices with planted anomalies, and on matrices without any.

use fsarena_stats::matrix::cells::{Matrix, MatrixRow};
use fsarena_stats::matrix::finding::Rule;
use fsarena_stats::matrix::finding::{Finding, Reliability, confirm, positions_to_rerun};
use fsarena_stats::matrix::{MatrixAnalysis, find_anomalies};
use std::collections::BTreeSet;

const SIZES: [u64; 6] = [512, 1024, 2048, 4096, 8192, 16384];
const THREADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const MODES: [&str; 4] = ["seqrd", "rndrd", "seqwr", "rndwr"];
/// The bandwidth of the device in bytes per second.
const DEVICE: f64 = 600e6;

/// The operations per second of a sound filesystem on a sound device, in a closed loop: each request takes 50 µs, and all
/// threads share the bandwidth.
fn sound_iops(size: u64, threads: u32) -> f64 {
    let (wait_s, transfer_s) = (50e-6, size as f64 / DEVICE);
    let iops_without_limit: f64 = f64::from(threads) / (wait_s + transfer_s);
    // A smooth minimum of this and of the limit 1/`transfer_s`.
    (iops_without_limit.powi(-4) + transfer_s.powi(4)).powf(-0.25)
}

/// Returns the share of the sound value for a variant, mode, size and number of threads; below 1 for a planted anomaly.
type Share = fn(&str, &str, u64, u32) -> f64;

fn rows(variants: &[&str], share: Share, noise: &mut impl FnMut(u32) -> f64, rounds: u32) -> Vec<MatrixRow> {
    let mut rows = Vec::new();
    for variant in variants {
        for mode in MODES {
            for size in SIZES {
                for threads in THREADS {
                    let value = sound_iops(size, threads) * share(variant, mode, size, threads);
                    rows.push(MatrixRow {
                        variant: variant.to_string(),
                        is_bare_device: *variant == "device",
                        mode: mode.to_string(),
                        block_size: size,
                        threads,
                        iops: (0..rounds).map(|round| Some(value * noise(round))).collect(),
                        client_bound: false,
                    });
                }
            }
        }
    }
    rows
}

/// A matrix with one value per cell, without noise.
fn noiseless_matrix(variants: &[&str], share: Share) -> Matrix {
    Matrix::new(&rows(variants, share, &mut |_| 1.0, 1)).unwrap()
}

/// The rules of a finding's parts.
fn rules(finding: &Finding) -> Vec<Rule> {
    finding.parts.iter().map(|part| part.rule).collect()
}

/// The cells of the first part, as (bytes, threads).
fn cells(matrix: &Matrix, finding: &Finding) -> BTreeSet<(u64, u32)> {
    finding.main_part().cells().iter().map(|at| (matrix.sizes[at.size], matrix.threads[at.threads])).collect()
}

/// The finding of an analysis that must have exactly one.
fn only_finding(analysis: &MatrixAnalysis) -> &Finding {
    assert_eq!(analysis.findings.len(), 1, "{:#?}", analysis.findings.iter().map(rules).collect::<Vec<_>>());
    &analysis.findings[0]
}

/// Every combination of these sizes and numbers of threads.
fn grid(sizes: &[u64], threads: &[u32]) -> BTreeSet<(u64, u32)> {
    sizes.iter().flat_map(|size| threads.iter().map(|threads| (*size, *threads))).collect()
}

#[test]
fn a_sound_matrix_has_no_findings() {
    for variants in [vec!["a"], vec!["a", "b", "c"], vec!["a", "b", "device"]] {
        let matrix = noiseless_matrix(&variants, |variant, _, _, _| if variant == "b" { 0.9 } else { 1.0 });
        for device in [None, Some(DEVICE)] {
            assert_eq!(find_anomalies(&matrix, device).findings, [], "{variants:?} {device:?}");
        }
    }
}

#[test]
fn a_saturated_matrix_has_no_findings() {
    // Every cell at the ceiling, some 7% over it and some under, as real ceilings are.
    let saturated: Share = |_, mode, size, threads| {
        let wobble = if (size / 512 + u64::from(threads)).is_multiple_of(3) { 0.93 } else { 1.0 };
        let order = if mode.starts_with("seq") { 0.94 } else { 1.0 };
        wobble * order * DEVICE / size as f64 / sound_iops(size, threads)
    };
    assert_eq!(find_anomalies(&noiseless_matrix(&["a", "b"], saturated), Some(DEVICE)).findings, []);
}

#[test]
fn sequential_below_random_is_one_region() {
    let matrix = noiseless_matrix(&["a", "b"], |variant, mode, size, threads| {
        if (variant, mode) == ("a", "seqwr") && size <= 1024 && threads >= 16 { 0.8 } else { 1.0 }
    });
    let analysis = find_anomalies(&matrix, Some(DEVICE));
    let finding = only_finding(&analysis);
    assert_eq!(rules(finding), [Rule::SequentialBelowRandom]);
    assert_eq!(cells(&matrix, finding), grid(&[512, 1024], &[16, 32, 64]));
    assert!((finding.main_part().worst_flag().ratio.value - 0.8).abs() < 1e-9);
    assert_eq!(finding.reliability, Reliability::SingleValues);
}

#[test]
fn a_collapse_reaches_as_far_as_the_loss_lasts() {
    // 512 B to 2 KiB lose 60% from 8 to 16 threads, and gain nothing further; random is as bad.
    let matrix = noiseless_matrix(&["a", "b", "c"], |variant, mode, size, threads| {
        let is_affected = variant == "a" && mode.ends_with("rd") && size <= 2048 && threads >= 16;
        if is_affected { 0.4 * sound_iops(size, 8) / sound_iops(size, threads) } else { 1.0 }
    });
    let analysis = find_anomalies(&matrix, Some(DEVICE));
    assert_eq!(analysis.findings.len(), 2, "one for each mode");
    for finding in &analysis.findings {
        assert_eq!(finding.main_part().rule, Rule::ScalingCollapse);
        assert_eq!(cells(&matrix, finding), grid(&[512, 1024, 2048], &[16, 32, 64]));
        let worst = finding.main_part().worst_flag();
        assert!((worst.ratio.value - 0.4).abs() < 1e-9);
        assert_eq!(worst.reference.map(|at| matrix.threads[at.threads]), Some(8));
    }
}

#[test]
fn a_lone_cell_of_a_published_table_is_a_finding_only_if_it_is_far_off() {
    let dip = |share: f64| {
        let mut rows =
            rows(&["a"], |_, _, size, threads| 1e5 / sound_iops(size, threads) / size as f64, &mut |_| 1.0, 1);
        let cell = rows.iter_mut().find(|r| (r.mode.as_str(), r.block_size, r.threads) == ("rndwr", 1024, 16));
        let value = &mut cell.unwrap().iops[0];
        *value = value.map(|v| v * share);
        find_anomalies(&Matrix::new(&rows).unwrap(), None)
    };
    assert_eq!(dip(0.9).findings, []);
    assert!(rules(only_finding(&dip(0.6))).contains(&Rule::ScalingCollapse));
}

#[test]
fn small_blocks_that_collapse_are_one_finding_with_its_border() {
    // Under 4 KiB every request costs what a 4 KiB one costs, tenfold.
    let matrix = noiseless_matrix(&["a", "b", "c"], |variant, mode, size, threads| {
        let is_affected = variant == "c" && mode.ends_with("wr") && size < 4096;
        if is_affected { 0.1 * sound_iops(4096, threads) / sound_iops(size, threads) } else { 1.0 }
    });
    let analysis = find_anomalies(&matrix, Some(DEVICE));
    assert_eq!(analysis.findings.len(), 2, "one for each mode");
    for finding in &analysis.findings {
        assert_eq!(finding.main_part().rule, Rule::IopsRise);
        assert!(rules(finding).contains(&Rule::FarBehind) && rules(finding).contains(&Rule::Cliff));
        assert_eq!(cells(&matrix, finding), grid(&[512, 1024, 2048], &THREADS));
        assert!(finding.main_part().flags.iter().all(|f| matrix.sizes[f.reference.unwrap().size] == 4096));
    }
}

#[test]
fn small_blocks_that_a_cache_serves_are_the_flagged_side_of_the_fall() {
    let cached: Share = |variant, mode, size, threads| {
        let is_cached = variant == "b" && mode == "rndrd" && size < 2048;
        if is_cached { DEVICE / size as f64 / sound_iops(size, threads) } else { 1.0 }
    };
    let matrix = noiseless_matrix(&["a", "b"], cached);
    let analysis = find_anomalies(&matrix, Some(DEVICE));
    let fall = analysis.findings.iter().find(|f| f.main_part().rule == Rule::BandwidthFalls).unwrap();
    assert!(fall.main_part().worst_flag().ratio.value > 10.0);
    assert!(cells(&matrix, fall).iter().all(|(size, _)| *size < 2048));
    // The other variant, which is slower than the cache, is no finding.
    assert!(
        analysis
            .findings
            .iter()
            .all(|f| matrix.variants[f.variant].name == "b" || !rules(f).contains(&Rule::FarBehind))
    );
}

#[test]
fn a_row_without_gain_is_serialised_if_random_requests_are_faster() {
    let matrix = noiseless_matrix(&["a", "b"], |variant, mode, size, threads| {
        if (variant, mode) == ("b", "seqrd") { sound_iops(size, 1) / sound_iops(size, threads) } else { 1.0 }
    });
    let analysis = find_anomalies(&matrix, Some(DEVICE));
    let finding = only_finding(&analysis);
    let serialised = finding.parts.iter().find(|part| part.rule == Rule::Serialised).unwrap();
    assert!(serialised.flags.iter().all(|flag| flag.cell.threads > 0));
    assert_eq!(serialised.flags.len(), SIZES.len() * (THREADS.len() - 1));
    // A disk with one head: nothing gains from threads, and sequential requests say nothing about random ones.
    let disk = noiseless_matrix(&["a"], |_, mode, size, threads| {
        let rate = if mode.starts_with("seq") { 100e6 / size as f64 } else { 120.0 };
        rate / sound_iops(size, threads)
    });
    assert_eq!(find_anomalies(&disk, None).findings, []);
}

#[test]
fn cells_are_compared_with_the_bare_device() {
    // Reads above the bare device, and writes below 70% of it.
    let matrix = noiseless_matrix(&["a", "device"], |variant, mode, _, _| match (variant, mode) {
        ("a", "seqrd") => 1.2,
        ("a", "seqwr" | "rndwr") => 0.6,
        _ => 1.0,
    });
    let found: Vec<_> = find_anomalies(&matrix, None).findings.iter().map(|f| (f.mode, rules(f))).collect();
    assert_eq!(found.len(), 3);
    assert!(found.contains(&(0, vec![Rule::AboveDevice])) && found.contains(&(3, vec![Rule::BelowDevice])));
    // An anomaly that the bare device has too is no finding.
    let slow_device = noiseless_matrix(&["a", "device"], |_, mode, size, threads| {
        let slow = mode == "seqwr" && size < 4096;
        if slow {
            0.3
        } else if threads > 16 && mode == "rndrd" {
            0.05
        } else {
            1.0
        }
    });
    assert_eq!(find_anomalies(&slow_device, None).findings, []);
}

#[test]
fn a_single_low_cell_in_a_rising_table_is_found() {
    // At 70% one cell still gains from threads and keeps its place between its neighbours in size.
    let rising: Share =
        |_, _, size, threads| f64::from(threads).powf(0.9) * (size as f64).powf(-0.5) / sound_iops(size, threads);
    let mut rows = rows(&["a"], rising, &mut |_| 1.0, 8);
    for row in rows.iter_mut().filter(|r| r.mode == "rndrd" && (r.block_size, r.threads) == (2048, 8)) {
        row.iops = row.iops.iter().map(|v| v.map(|v| v * 0.7)).collect();
    }
    let matrix = Matrix::new(&rows).unwrap();
    let analysis = find_anomalies(&matrix, None);
    let finding = only_finding(&analysis);
    assert_eq!((finding.main_part().rule, finding.reliability), (Rule::Interaction, Reliability::Unconfirmed));
    assert_eq!(cells(&matrix, finding), grid(&[2048], &[8]));
}

#[test]
fn clean_runs_with_noise_raise_no_flags() {
    let mut noise = Noise(7);
    let mut flagged = 0;
    for run in 0..200 {
        // With another variant or the bare device beside it, with a stated ceiling and without.
        let variants = if run % 2 == 0 { ["a", "b"] } else { ["a", "device"] };
        let device = (run % 4 < 2).then_some(DEVICE);
        let matrix = Matrix::new(&rows(&variants, |_, _, _, _| 1.0, &mut |_| noise.factor(0.02), 8)).unwrap();
        flagged += usize::from(!find_anomalies(&matrix, device).findings.is_empty());
    }
    assert!(flagged <= 20, "{flagged} of 200 clean runs");
}

#[test]
fn a_planted_lock_is_found_in_noise_and_confirmed_on_fresh_rounds() {
    let locked: Share = |variant, mode, size, threads| {
        let is_locked = (variant, mode) == ("a", "seqwr") && size <= 2048;
        if is_locked { sound_iops(size, 1) / sound_iops(size, threads) } else { 1.0 }
    };
    let mut noise = Noise(11);
    // Rounds differ by a factor of up to three, so only comparisons within a round can find the lock.
    let mut drift = |round: u32| noise.factor(0.02) * (1.0 + f64::from(round) / 4.0);
    let first = Matrix::new(&rows(&["a", "b"], locked, &mut drift, 8)).unwrap();
    let mut analysis = find_anomalies(&first, None);
    let finding = only_finding(&analysis);
    assert_eq!((finding.reliability, first.variants[finding.variant].name.as_str()), (Reliability::Unconfirmed, "a"));

    let positions = positions_to_rerun(&analysis.findings);
    assert!(positions.len() >= 2 && positions.len() < 20, "{}", positions.len());
    let fresh = |share: Share, drift: &mut dyn FnMut(u32) -> f64, rounds| {
        let mut rows = rows(&["b", "a"], share, &mut |round| drift(round), rounds);
        rows.retain(|r| {
            first.find(&r.variant, &r.mode, r.block_size, r.threads).is_some_and(|cell| positions.contains(&cell))
        });
        Matrix::new(&rows).unwrap()
    };
    confirm(&mut analysis.findings, &first, &fresh(locked, &mut drift, 7));
    assert_eq!(analysis.findings[0].reliability, Reliability::Unconfirmed, "seven rounds decide nothing");
    confirm(&mut analysis.findings, &first, &fresh(locked, &mut drift, 8));
    assert_eq!(analysis.findings[0].reliability, Reliability::Confirmed);
    confirm(&mut analysis.findings, &first, &fresh(|_, _, _, _| 1.0, &mut drift, 8));
    assert_eq!(analysis.findings[0].reliability, Reliability::NotConfirmed);
}

#[test]
fn missing_and_single_cells_have_no_findings() {
    let mut rows = rows(&["a", "b"], |_, _, _, _| 1.0, &mut |_| 1.0, 1);
    rows.retain(|r| !(r.block_size * u64::from(r.threads)).is_multiple_of(3072) && r.threads != 8 || r.variant == "b");
    rows[5].iops = vec![None];
    assert_eq!(find_anomalies(&Matrix::new(&rows).unwrap(), None).findings, []);
    assert_eq!(find_anomalies(&Matrix::new(&rows[..1]).unwrap(), None).findings, []);
    assert_eq!(find_anomalies(&Matrix::default(), Some(DEVICE)).findings, []);
}

/// Log-normal noise from a small generator (PCG multiplier; sum of twelve uniforms).
struct Noise(u64);

impl Noise {
    fn factor(&mut self, deviation: f64) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        };
        let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        (deviation * normal).exp()
    }
}
