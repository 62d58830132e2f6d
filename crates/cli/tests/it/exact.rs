//! Guests that count instructions, through the real binary.

use crate::common::{Place, text};
use std::path::{Path, PathBuf};

/// Cells that are over in a moment, of two identical variants.
const TINY: [&str; 16] = [
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

/// Where a kernel for guests is, without fetching one. Says so where the test is skipped for the lack of something.
fn cache() -> Option<PathBuf> {
    if !fsarena_sys::testkit::program("qemu-system-x86_64") {
        return None;
    }
    let kernels = |dir: &Path| {
        let boot = std::fs::read_dir(dir.join("boot")).into_iter().flatten().flatten();
        boot.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"vmlinuz-")).count() > 0
    };
    let cache = fsarena_guest::cache::dir();
    let fetched = std::fs::read_dir(&cache).into_iter().flatten().flatten().any(|entry| kernels(&entry.path()));
    let found = fetched || kernels(Path::new("/"));
    if !found {
        fsarena_sys::testkit::skipped(&format!("no kernel in /boot or {}", cache.display()));
    }
    found.then_some(cache)
}

#[test]
fn the_same_work_takes_the_same_number_of_instructions() {
    let Some(cache) = cache() else { return };
    let place = Place::new();
    let expect = |args: &[&str]| {
        let output = place.fsarena(args).env("FSARENA_CACHE_DIR", &cache).output().unwrap();
        assert!(output.status.success(), "{args:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    let printed = expect(&TINY);
    let csv = expect(&["report", "--format", "csv"]);
    assert!(printed.contains("kernel_instructions") && printed.contains("they ignore caches"), "{printed}");
    // No time of an emulated clock passes for one.
    let heads: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let timed = |head: &&&str| head.ends_with("_ns") || head.ends_with("_s");
    let unknown: Vec<_> = heads.iter().filter(timed).filter(|head| **head != "started_at_s").collect();
    let column = |name: &str| heads.iter().position(|head| *head == name).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    for head in unknown {
        assert!(rows.iter().all(|row| row[column(head)].is_empty()), "{head} has values");
    }
    let counts = |task: &str, round: &str| -> Vec<f64> {
        let of = rows.iter().filter(|row| row[column("task")] == task && row[column("round")] == round);
        of.map(|row| row[column("kernel_instructions_count")].parse().unwrap()).collect()
    };
    for task in ["cp", "rm"] {
        let ([a, b], [next, _]) = (&counts(task, "0")[..], &counts(task, "1")[..]) else { panic!("{task}: {csv}") };
        assert_eq!(a, b, "{task}");
        // The next round draws another tree.
        assert!(*a > 1e6 && a != next && (a - next).abs() / a < 0.05, "{task}: {a} and {next}");
    }
    let page = expect(&["analyse", "latest", "--profile", "cp", "--quiet"]);
    assert!(page.contains("instructions of the kernel") && page.contains("ext4_"), "{page}");
    let picture = place.run_text("profile/cp-0.svg");
    assert!(picture.contains("<svg") && picture.contains("ext4_"), "{page}");
    let counts_of_all = |csv: &str| -> Vec<String> {
        let kernel = column("kernel_instructions_count");
        csv.lines().skip(1).map(|line| line.split(',').nth(kernel).unwrap().to_string()).collect()
    };
    // Another run begins with a machine that was saved at the same instruction.
    expect(&TINY);
    assert_eq!(counts_of_all(&csv), counts_of_all(&expect(&["report", "--format", "csv"])));
}

#[test]
fn flags_of_the_self_test_that_contradict_each_other_are_refused() {
    let place = Place::new();
    let (_, said) = place.expect(2, &["selftest", "--exact", "--here"]);
    assert!(said.contains("cannot be used with"), "{said}");
    place.expect(2, &["selftest", "--repeats", "2"]);
}
