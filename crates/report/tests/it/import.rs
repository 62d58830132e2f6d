//! No file makes an importer panic.

use fsarena_report::compare::compare_samples;
use fsarena_report::import::{IMPORTERS, parse};
use proptest::prelude::*;

/// One file of each format, to be damaged.
const GOOD: [&str; 8] = [
    "round,task,elapsed_s\n1,cp,2.5\n2,cp,2.6\n",
    r#"{"results": [{"command": "cp", "times": [1.0, 1.5], "parameters": {"n": "1"}}]}"#,
    "round: 1\nUnit hits better=higher\nBenchmarkX-8 100 12.5 ns/op 3 hits\n",
    r#"{"fio version": "3", "jobs": [{"jobname": "r", "read": {"total_ios": 1, "iops": 2.0}}]}"#,
    "sysbench 1.0.20 (using LuaJIT)\nDoing x test\n    reads/s:   8921.07\n transactions: 2 (1.9 per sec.)\n",
    "dbench version 4\n Operation Count AvgLat MaxLat\n Flush 6 2.5 3.1\nThroughput 3.5 MB/sec 2 clients\n",
    "IOR-4.1.0: MPI Coordinated Test of Parallel I/O\naccess : single-shared-file\nResults:\n\naccess bw(MiB/s) IOPS\n\
     write 323.05 1300.18 0.0015 2048.00 256.00 0.0001 0.0123 0.0000 0.0124 0\n",
    "mdtest-4.1.0 was launched\nSUMMARY rate: (of 1 iterations)\n   File stat 5.5 3.5 4.5 1.0\n-- finished\n",
];

/// A file of some format in which some bytes are others.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (0..GOOD.len(), changes, any::<prop::sample::Index>()).prop_map(|(which, changes, end)| {
        let mut bytes = GOOD[which].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        bytes
    })
}

/// A short captured file of which some bytes are others, cut off somewhere.
fn damaged_capture() -> impl Strategy<Value = Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign");
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let mut files: Vec<Vec<u8>> = files.filter(|bytes| (1..6_000).contains(&bytes.len())).collect();
    files.sort();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (0..files.len(), changes, any::<prop::sample::Index>()).prop_map(move |(which, changes, end)| {
        let mut bytes = files[which].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        bytes
    })
}

fn never_panics(bytes: &[u8]) {
    let formats = IMPORTERS.iter().map(|importer| Some(importer.id)).chain([None]);
    for format in formats {
        match parse("some file", bytes, format) {
            Ok(samples) => {
                let values = samples.series.iter().flat_map(|series| &series.values);
                assert!(values.clone().count() > 0 && values.clone().all(|value| value.is_finite()));
                let _ = compare_samples(&samples, &samples, None, 0.01);
            }
            Err(error) => assert!(error.to_string().starts_with("some file"), "{error}"),
        }
    }
}

proptest! {
    #[test]
    fn bytes_of_any_kind(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        never_panics(&bytes);
    }

    #[test]
    fn text_of_any_kind(text in "\\PC*") {
        never_panics(text.as_bytes());
    }

    #[test]
    fn damaged_files(bytes in damaged()) {
        never_panics(&bytes);
    }

    #[test]
    fn damaged_captures(bytes in damaged_capture()) {
        never_panics(&bytes);
    }
}

#[test]
fn every_format_recognises_its_own() {
    let mut formats: Vec<&str> = GOOD.iter().map(|text| parse("a", text.as_bytes(), None).unwrap().format).collect();
    let mut ids: Vec<&str> = IMPORTERS.iter().map(|importer| importer.id).collect();
    formats.sort_unstable();
    ids.sort_unstable();
    assert_eq!(formats, ids);
}
