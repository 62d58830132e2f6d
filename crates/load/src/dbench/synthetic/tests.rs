//! Compares the statistics of the generated load with those of dbench's standard loadfile (4.0, 458,344 operations).

use super::*;
use crate::dbench::cursor::{Cursor, Step};
use crate::dbench::{kind::KINDS, load_stats::LoadStats};
use std::sync::LazyLock;

const SEEDS: [u64; 3] = [1, 2, 3];

#[track_caller]
fn near(what: &str, found: f64, stated: f64, tolerance: f64) {
    assert!((found - stated).abs() <= tolerance, "{what}: {found:.2}, stated {stated} ± {tolerance}");
}

fn for_each_seed(check: impl Fn(&LoadStats)) {
    static STATS: LazyLock<Vec<LoadStats>> =
        LazyLock::new(|| SEEDS.into_iter().map(|seed| LoadStats::collect(&program(seed))).collect());
    STATS.iter().for_each(check);
}

#[test]
fn the_shares_of_operations_match_the_standard_loadfile_within_a_fifth_of_a_point() {
    let stated = [
        (OperationKind::ReadX, 27.1),
        (OperationKind::NtCreateX, 17.3),
        (OperationKind::QueryPath, 15.7),
        (OperationKind::Close, 12.7),
        (OperationKind::WriteX, 8.6),
        (OperationKind::Find, 6.1),
        (OperationKind::Unlink, 3.5),
        (OperationKind::QueryFs, 2.9),
        (OperationKind::QueryFile, 2.7),
        (OperationKind::SetFile, 1.4),
        (OperationKind::Flush, 1.2),
        (OperationKind::Rename, 0.7),
        (OperationKind::LockX, 0.06),
        (OperationKind::UnlockX, 0.06),
    ];
    for_each_seed(|stats| {
        for (kind, percent) in stated {
            let found = 100.0 * stats.count(kind) as f64 / stats.operations() as f64;
            near(kind.def().name, found, percent, 0.2);
        }
        near("operations", stats.operations() as f64, 458_344.0, 0.02 * 458_344.0);
    });
}

#[test]
fn the_shares_of_failures_match_the_standard_loadfile_within_a_point() {
    for_each_seed(|stats| {
        let failed =
            |kind: OperationKind| 100.0 * stats.failures[kind as usize] as f64 / stats.count(kind) as f64;
        near("creates", failed(OperationKind::NtCreateX), 26.5, 1.0);
        near("lookups", failed(OperationKind::QueryPath), 34.0, 1.0);
        near("patterns", failed(OperationKind::Find), 52.0, 1.0);
        let all: u64 = stats.failures.iter().sum();
        near("all", 100.0 * all as f64 / stats.operations() as f64, 13.0, 1.0);
        let others = KINDS.iter().filter(|def| {
            ![OperationKind::NtCreateX, OperationKind::QueryPath, OperationKind::Find].contains(&def.kind)
        });
        assert!(others.into_iter().all(|def| stats.failures[def.kind as usize] == 0));
    });
}

#[test]
fn the_shares_of_sizes_match_the_standard_loadfile_within_two_points() {
    for_each_seed(|stats| {
        let share = |sizes: &std::collections::BTreeMap<i64, u64>, size| {
            100.0 * sizes.get(&size).copied().unwrap_or(0) as f64 / sizes.values().sum::<u64>() as f64
        };
        for (size, percent) in [(65_536, 32.0), (4096, 25.0), (1, 19.0)] {
            near(&format!("writes of {size}"), share(&stats.write_sizes, size), percent, 2.0);
        }
        for (size, percent) in [(4096, 67.0), (61_440, 13.0)] {
            near(&format!("reads of {size}"), share(&stats.read_sizes, size), percent, 2.0);
        }
        let writes = stats.count(OperationKind::WriteX) as f64;
        near("writes within", 100.0 * stats.writes_within as f64 / writes, 52.0, 2.0);
        let reads = stats.count(OperationKind::ReadX) as f64;
        near("sequential reads", 100.0 * stats.sequential_reads as f64 / reads, 50.0, 4.0);
        near("bytes read", stats.read_bytes as f64 / 1e9, 1.472, 0.05 * 1.472);
        near("bytes written", stats.written_bytes as f64 / 1e9, 1.016, 0.05 * 1.016);
    });
}

#[test]
fn the_shares_of_opens_match_the_standard_loadfile_within_a_point() {
    for_each_seed(|stats| {
        let closes = stats.count(OperationKind::Close) as f64;
        near("opens without data", 100.0 * stats.idle_opens as f64 / closes, 37.5, 1.0);
        near("opens that read", 100.0 * stats.reading_opens as f64 / closes, 36.9, 1.0);
    });
}

#[test]
fn the_numbers_of_existing_and_open_files_match_the_standard_loadfile() {
    for_each_seed(|stats| {
        assert!((72..=85).contains(&stats.most_files), "{} files at most", stats.most_files);
        let mean = stats.files_by_operation as f64 / stats.operations() as f64;
        near("files on average", mean, 69.0, 3.0);
        assert_eq!(stats.directories, 11);
        assert!((8..=23).contains(&stats.most_open), "{} open at most", stats.most_open);
        near("megabytes at most", stats.most_bytes as f64 / 1e6, 24.0, 1.5);
    });
}

/// A checksum of every line.
fn fingerprint(seed: u64) -> u32 {
    let program = program(seed);
    let mut cursor = Cursor::new(&program, 0, 1, 0);
    let mut hasher = crc32fast::Hasher::new();
    for _ in 0..program.operations() {
        let Step::Operation(kind, one, numbers) = cursor.step() else { break };
        let mut name = vec![kind as u8];
        for id in one.names.iter().take(kind.def().name_count) {
            program.names.compose(*id, b"c", &Default::default(), &mut name);
        }
        hasher.update(&name);
        numbers.iter().for_each(|number| hasher.update(&number.to_le_bytes()));
    }
    hasher.finalize()
}

#[test]
fn a_seed_always_makes_the_same_load() {
    assert_eq!(fingerprint(1), fingerprint(1));
    assert_ne!(fingerprint(1), fingerprint(2));
    // A change of this number is a change of the workload: figures from before cannot be compared any more.
    assert_eq!(fingerprint(1), 330_326_464);
}

#[test]
fn every_cycle_closes_and_removes_what_it_creates() {
    let program = program(5);
    let stats = LoadStats::collect(&program);
    assert!(program.bytes() < 2 << 20, "{} bytes", program.bytes());
    assert_eq!(stats.count(OperationKind::Unlink), 124 * 128);
    assert_eq!(stats.count(OperationKind::NtCreateX) - stats.failures[0], stats.count(OperationKind::Close));
}
