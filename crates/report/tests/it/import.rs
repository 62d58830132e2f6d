//! Importers return an error for damaged files, and never panic.

use fsarena_report::compare::compare_samples;
use fsarena_report::import::{IMPORTERS, parse};
use proptest::prelude::*;

/// A valid file of each format.
const VALID_FILES: [&str; 8] = [
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

/// One of these files with some bytes changed, cut off at some length.
fn damaged(files: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (0..files.len(), changes, any::<prop::sample::Index>()).prop_map(move |(file, changes, end)| {
        let mut bytes = files[file].clone();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        bytes
    })
}

fn valid_files() -> Vec<Vec<u8>> {
    VALID_FILES.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// The short captured files.
fn captured_files() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign");
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let mut files: Vec<Vec<u8>> = files.filter(|bytes| (1..6_000).contains(&bytes.len())).collect();
    files.sort();
    files
}

/// Imports a file in every format and with an unknown format. The samples must be finite numbers that can be compared, and an
/// error must name the file.
fn import_in_every_format(bytes: &[u8]) {
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
    fn any_bytes_are_imported_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        import_in_every_format(&bytes);
    }

    #[test]
    fn any_text_is_imported_or_refused(text in "\\PC*") {
        import_in_every_format(text.as_bytes());
    }

    #[test]
    fn damaged_files_are_imported_or_refused(bytes in damaged(valid_files())) {
        import_in_every_format(&bytes);
    }

    #[test]
    fn damaged_captured_files_are_imported_or_refused(bytes in damaged(captured_files())) {
        import_in_every_format(&bytes);
    }
}

#[test]
fn the_format_of_every_valid_file_is_recognised() {
    let mut formats: Vec<&str> =
        VALID_FILES.iter().map(|text| parse("a", text.as_bytes(), None).unwrap().format).collect();
    let mut ids: Vec<&str> = IMPORTERS.iter().map(|importer| importer.id).collect();
    formats.sort_unstable();
    ids.sort_unstable();
    assert_eq!(formats, ids);
}
