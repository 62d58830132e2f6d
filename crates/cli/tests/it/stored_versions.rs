//! Runs that earlier versions stored. A directory `stored-version-N` has a run of store version N, which every later program
//! must read: two filesystems in guests, two rounds.

use crate::common::Place;
use serde_json::Value;
use std::path::Path;

/// The store versions that the documentation promises to read.
const PROMISED_VERSIONS: [u32; 1] = [5];

#[test]
fn runs_of_promised_store_versions_are_read() {
    for version in PROMISED_VERSIONS {
        let place = Place::new();
        let source = format!("{}/tests/it/stored-version-{version}", env!("CARGO_MANIFEST_DIR"));
        let run = place.runs().join("20260101-000000-stored-abcd");
        std::fs::create_dir_all(&run).unwrap();
        for file in ["run.db", "plan.toml"] {
            std::fs::copy(Path::new(&source).join(file), run.join(file)).unwrap();
        }
        let (json, _) = place.expect(0, &["report", "latest", "--format", "json"]);
        let report: Value = serde_json::from_str(&json).unwrap();
        let variants = report["variants"].as_array().unwrap().iter();
        let names: Vec<&str> = variants.filter_map(|variant| variant["name"].as_str()).collect();
        assert_eq!(names, ["ext4", "xfs"], "version {version}");
        let (csv, _) = place.expect(0, &["report", "latest", "--format", "csv"]);
        let tasks = csv.lines().filter(|line| line.contains(",tree,")).count();
        assert!(tasks >= 2 * 2 * 2, "version {version}: {tasks} samples of tasks in\n{csv}");
    }
}
