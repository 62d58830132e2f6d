//! End-to-end tests with the real binary. They are one program, so that it is linked once and tests that wait run at the same
//! time.

use std::path::Path;

mod ab;
mod advise;
mod aged;
mod analyse;
mod apps;
mod axes;
mod baseline;
mod bisect;
mod bounded;
mod browser;
mod budget;
mod bundle;
mod carry_over;
mod charts;
mod ci_gate;
mod claims;
mod commands;
mod commits;
mod common;
mod config;
mod dbench;
mod dir;
mod disturbed;
mod erase;
mod exact;
mod faults;
mod fileio;
mod find_best;
mod fio_job;
mod five;
mod foreign_files;
mod grid;
mod guard;
mod guest;
mod guest_failures;
mod guest_programs;
mod guide;
mod headline;
mod history;
mod hostile;
mod import;
mod interrupted;
mod kernel_tree;
mod kill;
mod large;
mod layers;
mod leftovers;
mod load;
mod machines;
mod max_slowdown;
mod mean_cost;
mod order;
mod other;
mod own_command;
mod plans;
mod postgres;
mod power;
mod printed;
mod recover;
mod resume;
mod rights;
mod screen;
mod selftest;
mod serve;
mod shards;
mod shells;
mod shipped;
mod signals;
mod special_filesystems;
mod squid;
mod stacks;
mod stored_versions;
mod studies;
mod tampered;
mod tidy;
mod usage;
mod warmup;
mod watch;
mod zfs;

/// Cargo would neither compile nor run the tests of a file that no `mod` names.
#[test]
fn every_file_of_tests_is_registered() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in std::fs::read_dir(crates).unwrap() {
        let dir = entry.unwrap().path().join("tests/it");
        assert_registered(&dir.join("main.rs"), &dir);
    }
}

/// Asserts that `main_file` has a `mod` line for each file in `dir`. Does nothing if `main_file` does not exist.
fn assert_registered(main_file: &Path, dir: &Path) {
    let Ok(text) = std::fs::read_to_string(main_file) else { return };
    for file in std::fs::read_dir(dir).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "main") else { continue };
        let registered = text.lines().any(|line| line == format!("mod {stem};"));
        assert!(registered, "{} has no line for {stem}", main_file.display());
    }
}
