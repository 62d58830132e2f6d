//! Guests that count instructions, through the real binary.

use crate::common::{Sandbox, text};
use std::path::{Path, PathBuf};

/// Flags that run short cells of two identical variants.
const TINY_RUN_ARGS: [&str; 16] = [
    "run",
    "peiffer",
    "--on",
    "exact",
    "--variant",
    "ext4",
    "--variant",
    "ext4",
    "--scale",
    "tiny",
    "--rounds",
    "2",
    "--seed",
    "1",
    "--fixed-layout",
    "--quiet",
];

/// The cache of kernels, if a guest can boot without fetching a kernel. Otherwise notes that the test is skipped.
fn kernel_cache() -> Option<PathBuf> {
    if !fsarena_sys::testkit::has_program("qemu-system-x86_64") {
        return None;
    }
    let has_kernel = |dir: &Path| {
        let boot = std::fs::read_dir(dir.join("boot")).into_iter().flatten().flatten();
        boot.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"vmlinuz-")).count() > 0
    };
    let cache = fsarena_sys::dirs::cache_dir();
    let fetched = std::fs::read_dir(&cache).into_iter().flatten().flatten().any(|entry| has_kernel(&entry.path()));
    let is_available = fetched || has_kernel(Path::new("/"));
    if !is_available {
        fsarena_sys::testkit::record_skip(&format!("no kernel in /boot or {}", cache.display()));
    }
    is_available.then_some(cache)
}

#[test]
fn the_same_work_takes_the_same_number_of_instructions() {
    let Some(cache) = kernel_cache() else { return };
    let sandbox = Sandbox::new();
    let expect = |args: &[&str]| {
        let output = sandbox.fsarena(args).env("FSARENA_CACHE_DIR", &cache).output().unwrap();
        assert!(output.status.success(), "{args:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    let printed = expect(&TINY_RUN_ARGS);
    let csv = expect(&["report", "--format", "csv"]);
    assert!(printed.contains("kernel_instructions") && printed.contains("they ignore caches"), "{printed}");
    // Times by the emulated clock are left out.
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let is_time = |title: &&&str| title.ends_with("_ns") || title.ends_with("_s");
    let time_columns: Vec<_> = header.iter().filter(is_time).filter(|title| **title != "started_at_s").collect();
    let column = |name: &str| header.iter().position(|title| *title == name).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    for title in time_columns {
        assert!(rows.iter().all(|row| row[column(title)].is_empty()), "{title} has values");
    }
    let counts = |task: &str, round: &str| -> Vec<f64> {
        let matching = rows.iter().filter(|row| row[column("task")] == task && row[column("round")] == round);
        matching.map(|row| row[column("kernel_instructions_count")].parse().unwrap()).collect()
    };
    for task in ["cp", "rm"] {
        let ([first, second], [next_round, _]) = (&counts(task, "0")[..], &counts(task, "1")[..]) else {
            panic!("{task}: {csv}")
        };
        assert_eq!(first, second, "{task}");
        // The next round works on another random tree.
        assert!(
            *first > 1e6 && first != next_round && (first - next_round).abs() / first < 0.05,
            "{task}: {first} and {next_round}"
        );
    }
    let page = expect(&["analyse", "latest", "--profile", "cp", "--quiet"]);
    assert!(page.contains("instructions of the kernel") && page.contains("ext4_"), "{page}");
    let picture = sandbox.run_text("profile/cp-0.svg");
    assert!(picture.contains("<svg") && picture.contains("ext4_"), "{page}");
    let all_counts = |csv: &str| -> Vec<f64> {
        let kernel = column("kernel_instructions_count");
        csv.lines().skip(1).map(|line| line.split(',').nth(kernel).unwrap().parse().unwrap()).collect()
    };
    // Another run starts from a snapshot taken at the same instruction. A rare cell takes some instructions more
    // (docs/internals/guests.md): at most one of these four, and at most 0.1%.
    expect(&TINY_RUN_ARGS);
    let (former, repeated) = (all_counts(&csv), all_counts(&expect(&["report", "--format", "csv"])));
    assert_eq!(former.len(), repeated.len());
    let is_near = |(count, again): (&f64, &f64)| (count - again).abs() <= 1e-3 * count;
    assert!(former.iter().zip(&repeated).all(is_near), "{former:?} and {repeated:?}");
    let differing_cells = former.chunks(4).zip(repeated.chunks(4)).filter(|(cell, again)| cell != again).count();
    assert!(differing_cells <= 1, "{former:?} and {repeated:?}");
}

#[test]
fn flags_of_the_self_test_that_contradict_each_other_are_refused() {
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.expect(2, &["selftest", "--exact", "--here"]);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
    sandbox.expect(2, &["selftest", "--repeats", "2"]);
}
