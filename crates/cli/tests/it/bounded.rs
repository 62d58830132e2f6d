//! Small inputs have a bounded cost, and errors repeat no more of them than a person reads.

use crate::common::gate::Running;
use crate::common::kernel::has;
use crate::common::{Place, root, text};
use std::time::{Duration, Instant};
use std::{fmt::Write, os::unix::fs::symlink, os::unix::process::CommandExt, process::Command, process::Stdio};

/// Nothing here takes a second; the machine of a test may be busy.
const WITHIN: Duration = Duration::from_secs(120);
/// The most address space of a command here, in bytes.
const MEMORY: u64 = 2 << 30;

/// Gives a command little memory.
pub fn in_little_memory(command: &mut Command) {
    // SAFETY: setrlimit is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let limit = rustix::process::Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
            Ok(rustix::process::setrlimit(rustix::process::Resource::As, limit)?)
        });
    }
}

/// Runs a command in little memory: exit code and words.
#[track_caller]
pub fn expect(place: &Place, code: i32, args: &[&str], words: &[&str]) -> String {
    let begun = Instant::now();
    let mut command = place.fsarena(args);
    in_little_memory(&mut command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    let shown: String = said.chars().take(3000).collect();
    assert_eq!(output.status.code(), Some(code), "{shown}");
    assert!(begun.elapsed() < WITHIN, "{:?}: {shown}", begun.elapsed());
    assert!(words.iter().all(|word| said.contains(word)), "{shown}\nlacks one of {words:?}");
    assert!(said.len() < 6000 && !said.contains("bug"), "{} bytes: {shown}", said.len());
    printed
}

fn numbers(count: u32, of: impl Fn(u32) -> String) -> String {
    (0..count).map(of).collect::<Vec<_>>().join(",")
}

#[test]
fn combinations_have_a_limit() {
    let place = Place::new();
    let levels = |word: &str| numbers(1000, |at| format!("\"{word}{at}\""));
    let factors =
        format!("fs = [\"ext4\"]\nmkfs = [{}]\nmount = [{}]\nkernel = [{}]", levels("-L"), levels("x"), levels("k"));
    place.edit_plan("fs = [\"ext4\"]", &factors);
    let words = ["1000000000 variants", "1000 mkfs × 1000 mount", "the limit is 10000"];
    expect(&place, 2, &["run", "plan.toml", "--dry-run"], &words);
    let (blocks, threads) = (numbers(2000, |at| (512 * (at + 1)).to_string()), numbers(50, |at| (at + 1).to_string()));
    let engel = ["run", "engel", "--on", "dir:home", "--dry-run", "--bs", &blocks, "--threads", &threads];
    expect(&place, 2, &engel, &["tasks", "2000 bs", "50 threads", "the limit is 10000"]);
}

#[test]
fn tables_have_limits() {
    let place = Place::new();
    let write = |name: &str, text: &str| std::fs::write(place.dir.join(name), text).unwrap();
    let wide = |columns: u32| {
        let row = |times: u32| numbers(columns, |at| (times * (at + 1)).to_string());
        format!("{}\n{}\n{}\n", numbers(columns, |at| format!("m{at}")), row(1), row(2))
    };
    write("wide.csv", &wide(40_000));
    expect(&place, 2, &["compare", "wide.csv", "wide.csv"], &["40000 series", "the limit is 10000"]);
    write("less.csv", &wide(3_000));
    expect(&place, 0, &["compare", "less.csv", "less.csv", "--format", "json"], &[]);
    let curve = |rows: u32, of: fn(u32) -> u32| {
        (1..=rows).fold(String::from("n,x\n"), |mut text, at| {
            writeln!(text, "{},{}", of(at), 100 + at % 7).unwrap();
            text
        })
    };
    write("long.csv", &curve(20_000, |at| at));
    expect(&place, 2, &["analyse", "long.csv"], &["20001 rows", "the limit is 10000"]);
    write("many.csv", &curve(9_000, |at| at));
    expect(&place, 2, &["analyse", "many.csv"], &["9000 numbers of clients", "the limit is 500"]);
    write("repeats.csv", &curve(9_000, |at| at % 4 + 1));
    expect(&place, 0, &["analyse", "repeats.csv"], &[]);
}

#[test]
fn files_are_read_up_to_a_limit() {
    let place = Place::new();
    let sparse = std::fs::File::create(place.dir.join("sparse.csv")).unwrap();
    sparse.set_len(3 << 30).unwrap();
    let limit = ["sparse.csv", "it has 3.0 GiB, and the limit is"];
    if has(&["qemu-system-x86_64"]) {
        let kernel = ["run", "plan.toml", "--on", "qemu", "--kernel", "sparse.csv", "--dry-run"];
        expect(&place, 2, &kernel, &limit);
    }
    expect(&place, 2, &["run", "sparse.csv"], &limit);
    expect(&place, 2, &["compare", "sparse.csv", "sparse.csv"], &limit);
    expect(&place, 2, &["analyse", "sparse.csv"], &limit);
}

#[test]
fn buffers_larger_than_the_free_memory_are_refused() {
    let place = Place::new();
    let load = "load --rw write --create-on-open --bs 1g --size 1g --numjobs 1024 --dir home --quiet";
    let words = ["1024 buffers of 1.0 GiB need 1.0 TiB", "available", "fewer threads"];
    expect(&place, 6, &load.split(' ').collect::<Vec<_>>(), &words);
    place.assert_clean();
}

#[test]
fn sizes_that_no_disk_has_do_not_wrap() {
    if !root() {
        return;
    }
    let place = Place::new();
    for args in [
        &["run", "plan.toml", "--size", "16EiB", "--dry-run"][..],
        &["run", "plan.toml", "--size", "15.9999EiB", "--on", "ram", "--dry-run"],
        &["load", "--size", "16EiB", "--nrfiles", "9", "--dir", "home"],
    ] {
        expect(&place, 6, args, &["too little room"]);
    }
}

#[test]
fn stages_in_a_circle_are_named() {
    let place = Place::new();
    let plan = std::fs::read_to_string(place.dir.join("plan.toml")).unwrap();
    for (of_one, words) in [("one", "in a circle: `one` → `one`"), ("two", "in a circle: `one` → `two` → `one`")]
    {
        let stages = format!(
            "[[stage]]\nname = \"one\"\nbest = \"fs\"\nof = \"{of_one}\"\n\
             [[stage]]\nname = \"two\"\nbest = \"fs\"\nof = \"one\"\n"
        );
        std::fs::write(place.dir.join("stages.toml"), plan.clone() + &stages).unwrap();
        expect(&place, 2, &["run", "stages.toml", "--on", "dir:home", "--dry-run"], &[words]);
    }
}

#[test]
fn one_directory_is_one_variant() {
    let place = Place::new();
    symlink("home", place.dir.join("link")).unwrap();
    for other in ["dir:home/", "dir:link", "dir:shims/../home"] {
        let words = ["home", "are the same directory"];
        expect(&place, 2, &["run", "plan.toml", "--on", "dir:home", "--on", other, "--dry-run"], &words);
    }
    expect(&place, 0, &["run", "plan.toml", "--on", "dir:home", "--on", "dir:shims", "--dry-run"], &[]);
    // A directory that a run on images would not use.
    expect(&place, 2, &["run", "--factor", "dir=home", "--dry-run"], &["`dir` needs --on dir:home"]);
}

#[test]
fn a_packaged_kernel_has_a_version() {
    let place = Place::new();
    let args = ["run", "plan.toml", "--on", "qemu", "--kernel", "debian:", "--dry-run"];
    expect(&place, 2, &args, &["`debian:` lacks its version"]);
}

#[test]
fn long_and_hostile_inputs_are_repeated_in_part_and_harmless() {
    let place = Place::new();
    let long = "x".repeat(120_000);
    let run = ["run", "plan.toml", "--on", "dir:home", "--dry-run", "--claim"];
    expect(&place, 2, &[&run[..], &[&long]].concat(), &["column 120001"]);
    expect(&place, 2, &[&run[..], &[&format!("{long}.elapsed: a < b")]].concat(), &["characters …"]);
    expect(&place, 2, &["report", "latest", "--claim", &long], &["characters …", "--claim"]);
    expect(&place, 2, &["report", &long], &["characters …"]);
    let runs = place.runs().join("20260101-000000-bad-2222");
    std::fs::create_dir_all(&runs).unwrap();
    std::fs::write(runs.join("run.db"), "").unwrap();
    std::fs::write(runs.join("plan.toml"), "name = \"\x1b]0;owned\x07\x1b[2J\"\n\x1b[31m = 1\n").unwrap();
    for args in [&["show", "latest"][..], &["report", "latest"], &["run", "--resume", "latest"]] {
        let output = place.output(args);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(2) && !all.contains(['\x1b', '\x07']), "{args:?}\n{all:?}");
    }
}

#[test]
fn a_run_needs_no_temporary_directory_and_no_kind_umask() {
    let place = Place::new();
    let mut run = place.fsarena(&["run", "plan.toml", "--on", "dir:home"]);
    run.env("TMPDIR", "/nonexistent/fsarena");
    // SAFETY: umask is async-signal-safe.
    unsafe {
        run.pre_exec(|| {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
            Ok(())
        });
    }
    let mut run = Running::start(&place, run);
    assert_eq!(run.ended().code(), Some(0), "{}", run.said());
    let mode = |name: &str| {
        let meta = place.run_file(name).unwrap().metadata().unwrap();
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
    };
    assert_eq!((mode(""), mode("run.db"), mode("report.html")), (0o711, 0o600, 0o600));
}
