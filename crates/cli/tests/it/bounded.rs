//! Small inputs cannot cost much time or memory, and errors quote only a readable part of long inputs.

use crate::common::gate::BackgroundRun;
use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root, text};
use std::time::{Duration, Instant};
use std::{fmt::Write, os::unix::fs::symlink, os::unix::process::CommandExt, process::Command, process::Stdio};

/// The time limit of a command. Nothing here takes a second, but the machine may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The largest address space of a command, in bytes.
const MAX_MEMORY_BYTES: u64 = 2 << 30;

/// Limits the address space of a command.
pub fn limit_memory(command: &mut Command) {
    // SAFETY: setrlimit is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let limit = rustix::process::Rlimit { current: Some(MAX_MEMORY_BYTES), maximum: Some(MAX_MEMORY_BYTES) };
            Ok(rustix::process::setrlimit(rustix::process::Resource::As, limit)?)
        });
    }
}

/// Runs a command in little memory. Asserts its exit code, that its standard error has these texts and is short, and that
/// it ends in time. Returns its standard output.
#[track_caller]
pub fn expect_bounded(sandbox: &Sandbox, code: i32, args: &[&str], texts: &[&str]) -> String {
    let begun = Instant::now();
    let mut command = sandbox.fsarena(args);
    limit_memory(&mut command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    let beginning: String = stderr.chars().take(3000).collect();
    assert_eq!(output.status.code(), Some(code), "{beginning}");
    assert!(begun.elapsed() < TIME_LIMIT, "{:?}: {beginning}", begun.elapsed());
    assert!(texts.iter().all(|text| stderr.contains(text)), "{beginning}\nlacks one of {texts:?}");
    assert!(stderr.len() < 6000 && !stderr.contains("bug"), "{} bytes: {beginning}", stderr.len());
    printed
}

/// The texts of the numbers up to `count`, joined by commas.
fn join_numbers(count: u32, text: impl Fn(u32) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().join(",")
}

#[test]
fn combinations_have_a_limit() {
    let sandbox = Sandbox::new();
    let levels = |word: &str| join_numbers(1000, |number| format!("\"{word}{number}\""));
    let factors =
        format!("fs = [\"ext4\"]\nmkfs = [{}]\nmount = [{}]\nkernel = [{}]", levels("-L"), levels("x"), levels("k"));
    sandbox.edit_plan("fs = [\"ext4\"]", &factors);
    let words = ["1000000000 variants", "1000 mkfs × 1000 mount", "the limit is 10000"];
    expect_bounded(&sandbox, 2, &["run", "plan.toml", "--dry-run"], &words);
    let (blocks, threads) = (
        join_numbers(2000, |index| (512 * (index + 1)).to_string()),
        join_numbers(50, |index| (index + 1).to_string()),
    );
    let engel = ["run", "engel", "--on", "dir:home", "--dry-run", "--bs", &blocks, "--threads", &threads];
    expect_bounded(&sandbox, 2, &engel, &["tasks", "2000 bs", "50 threads", "the limit is 10000"]);
}

#[test]
fn tables_have_limits() {
    let sandbox = Sandbox::new();
    let write = |name: &str, text: &str| std::fs::write(sandbox.dir.join(name), text).unwrap();
    let wide = |columns: u32| {
        let row = |times: u32| join_numbers(columns, |index| (times * (index + 1)).to_string());
        format!("{}\n{}\n{}\n", join_numbers(columns, |index| format!("m{index}")), row(1), row(2))
    };
    write("wide.csv", &wide(40_000));
    expect_bounded(&sandbox, 2, &["compare", "wide.csv", "wide.csv"], &["40000 series", "the limit is 10000"]);
    write("less.csv", &wide(3_000));
    expect_bounded(&sandbox, 0, &["compare", "less.csv", "less.csv", "--format", "json"], &[]);
    let curve = |rows: u32, clients: fn(u32) -> u32| {
        (1..=rows).fold(String::from("n,x\n"), |mut text, row| {
            writeln!(text, "{},{}", clients(row), 100 + row % 7).unwrap();
            text
        })
    };
    write("long.csv", &curve(20_000, |row| row));
    expect_bounded(&sandbox, 2, &["analyse", "long.csv"], &["20001 rows", "the limit is 10000"]);
    write("many.csv", &curve(9_000, |row| row));
    expect_bounded(&sandbox, 2, &["analyse", "many.csv"], &["9000 numbers of clients", "the limit is 500"]);
    write("repeats.csv", &curve(9_000, |row| row % 4 + 1));
    expect_bounded(&sandbox, 0, &["analyse", "repeats.csv"], &[]);
}

#[test]
fn files_are_read_up_to_a_limit() {
    let sandbox = Sandbox::new();
    let sparse = std::fs::File::create(sandbox.dir.join("sparse.csv")).unwrap();
    sparse.set_len(3 << 30).unwrap();
    let limit = ["sparse.csv", "it has 3.0 GiB, and the limit is"];
    if has_programs(&["qemu-system-x86_64"]) {
        let kernel = ["run", "plan.toml", "--on", "qemu", "--kernel", "sparse.csv", "--dry-run"];
        expect_bounded(&sandbox, 2, &kernel, &limit);
    }
    expect_bounded(&sandbox, 2, &["run", "sparse.csv"], &limit);
    expect_bounded(&sandbox, 2, &["compare", "sparse.csv", "sparse.csv"], &limit);
    expect_bounded(&sandbox, 2, &["analyse", "sparse.csv"], &limit);
}

#[test]
fn buffers_larger_than_the_free_memory_are_refused() {
    let sandbox = Sandbox::new();
    let load = "load --rw write --create-on-open --bs 1g --size 1g --numjobs 1024 --dir home --quiet";
    let words = ["1024 buffers of 1.0 GiB need 1.0 TiB", "available", "fewer threads"];
    expect_bounded(&sandbox, 6, &load.split(' ').collect::<Vec<_>>(), &words);
    sandbox.assert_clean();
}

#[test]
fn sizes_beyond_every_disk_do_not_overflow() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for args in [
        &["run", "plan.toml", "--size", "16EiB", "--dry-run"][..],
        &["run", "plan.toml", "--size", "15.9999EiB", "--on", "ram", "--dry-run"],
        &["load", "--size", "16EiB", "--nrfiles", "9", "--dir", "home"],
    ] {
        expect_bounded(&sandbox, 6, args, &["too little room"]);
    }
}

#[test]
fn stages_in_a_circle_are_named() {
    let sandbox = Sandbox::new();
    let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
    for (predecessor, words) in [("one", "in a circle: `one` → `one`"), ("two", "in a circle: `one` → `two` → `one`")]
    {
        let stages = format!(
            "[[stage]]\nname = \"one\"\nbest = \"fs\"\nof = \"{predecessor}\"\n\
             [[stage]]\nname = \"two\"\nbest = \"fs\"\nof = \"one\"\n"
        );
        std::fs::write(sandbox.dir.join("stages.toml"), plan.clone() + &stages).unwrap();
        expect_bounded(&sandbox, 2, &["run", "stages.toml", "--on", "dir:home", "--dry-run"], &[words]);
    }
}

#[test]
fn one_directory_cannot_be_two_variants() {
    let sandbox = Sandbox::new();
    symlink("home", sandbox.dir.join("link")).unwrap();
    for other in ["dir:home/", "dir:link", "dir:shims/../home"] {
        let words = ["home", "are the same directory"];
        expect_bounded(&sandbox, 2, &["run", "plan.toml", "--on", "dir:home", "--on", other, "--dry-run"], &words);
    }
    expect_bounded(&sandbox, 0, &["run", "plan.toml", "--on", "dir:home", "--on", "dir:shims", "--dry-run"], &[]);
    // A run on images would not use this directory.
    expect_bounded(&sandbox, 2, &["run", "--factor", "dir=home", "--dry-run"], &["`dir` needs --on dir:home"]);
}

#[test]
fn a_packaged_kernel_requires_a_version() {
    let sandbox = Sandbox::new();
    let args = ["run", "plan.toml", "--on", "qemu", "--kernel", "debian:", "--dry-run"];
    expect_bounded(&sandbox, 2, &args, &["`debian:` lacks its version"]);
}

#[test]
fn errors_quote_a_part_of_long_inputs_and_escape_control_characters() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(120_000);
    let run = ["run", "plan.toml", "--on", "dir:home", "--dry-run", "--claim"];
    expect_bounded(&sandbox, 2, &[&run[..], &[&long]].concat(), &["column 120001"]);
    expect_bounded(&sandbox, 2, &[&run[..], &[&format!("{long}.elapsed: a < b")]].concat(), &["characters …"]);
    expect_bounded(&sandbox, 2, &["report", "latest", "--claim", &long], &["characters …", "--claim"]);
    expect_bounded(&sandbox, 2, &["report", &long], &["characters …"]);
    let run = sandbox.runs_dir().join("20260101-000000-bad-2222");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("run.db"), "").unwrap();
    std::fs::write(run.join("plan.toml"), "name = \"\x1b]0;owned\x07\x1b[2J\"\n\x1b[31m = 1\n").unwrap();
    for args in [&["show", "latest"][..], &["report", "latest"], &["run", "--resume", "latest"]] {
        let output = sandbox.output(args);
        let texts = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(2) && !texts.contains(['\x1b', '\x07']), "{args:?}\n{texts:?}");
    }
}

#[test]
fn a_run_needs_neither_a_temporary_directory_nor_a_permissive_umask() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.fsarena(&["run", "plan.toml", "--on", "dir:home"]);
    run.env("TMPDIR", "/nonexistent/fsarena");
    // SAFETY: umask is async-signal-safe.
    unsafe {
        run.pre_exec(|| {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
            Ok(())
        });
    }
    let mut run = BackgroundRun::start(&sandbox, run);
    assert_eq!(run.wait_for_exit().code(), Some(0), "{}", run.output());
    let mode = |name: &str| {
        let meta = sandbox.run_file(name).unwrap().metadata().unwrap();
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
    };
    assert_eq!((mode(""), mode("run.db"), mode("report.html")), (0o711, 0o600, 0o600));
}
