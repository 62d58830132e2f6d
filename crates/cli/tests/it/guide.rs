//! The commands of the guide, run in the order in which a reader types them.
//!
//! A page of the guide has blocks of the language `console`: a line that begins with `$ ` is a command, the lines below it
//! are what it printed. A block with a second word behind its fence is a file of that name, which the commands find.
//!
//! `make guide` runs the commands as they stand and writes what they print into the pages. The test runs them shortened.

use crate::common::{Sandbox, runs_as_root, text as utf8};
use page::{Block, repository_root, split_page};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{LazyLock, Mutex};

#[path = "../../src/doc_pages.rs"]
#[allow(dead_code)] // The unit tests of the book read pages by it too.
mod page;

/// The variable that makes a test write pages: `all`, or a part of the paths of the pages.
const WRITE_VARIABLE: &str = "FSARENA_GUIDE";

/// What `make guide` does with a command that the test does not run. The unit tests of the book check that every command
/// parses.
#[derive(Clone, Copy, PartialEq)]
enum GuideAction {
    /// It runs the command and writes its output.
    Run,
    /// It keeps the output on the page.
    KeepOutput,
}

/// The commands that the test does not run: the beginning of the command, what `make guide` does, and the reason. The first
/// match counts.
const NOT_RUN: &[(&str, GuideAction, &str)] = &[
    ("make", GuideAction::KeepOutput, "contrib/test-fresh makes and installs in new Debian roots"),
    ("ls /dev/disk/by-id", GuideAction::KeepOutput, "the names are those of the reader's disks"),
    (
        "fsarena run engel --erase",
        GuideAction::KeepOutput,
        "erases a disk of the reader's; the tests of erase have disks of their own",
    ),
    (
        "fsarena run apps/git --fs ext4,xfs,btrfs --set input",
        GuideAction::KeepOutput,
        "takes a repository of the reader's",
    ),
    ("fsarena run apps/git", GuideAction::Run, "the tests of apps run every application"),
    ("fsarena run  ", GuideAction::KeepOutput, "every filesystem and all 21 tasks; the tests of studies run them"),
    ("fsarena run --fs ext4,xfs --claim", GuideAction::KeepOutput, "an example of the README, which shows no answer"),
    (
        "fsarena ab peiffer --on exact --a fs=ext4,kernel=debian:6.1 --b fs=ext4,kernel=debian:6.12 --margin",
        GuideAction::KeepOutput,
        "likewise; boots guests for minutes",
    ),
    ("fsarena ab peiffer --on exact", GuideAction::Run, "boots guests for minutes; the tests of exact do that once"),
    ("fsarena ab --on exact", GuideAction::Run, "likewise"),
    (
        "fsarena bisect",
        GuideAction::KeepOutput,
        "fetches kernels and boots guests for minutes; the tests of bisect have histories",
    ),
    ("fsarena analyse latest --profile", GuideAction::Run, "likewise"),
    ("fsarena doctor --install", GuideAction::KeepOutput, "compiles for minutes; contrib/test-zfs does that"),
    ("fsarena run peiffer --on qemu", GuideAction::KeepOutput, "boots guests; the tests of guests do that once"),
    ("fsarena run peiffer --on exact", GuideAction::Run, "likewise; the tests of stacks have one guest"),
    (
        "fsarena run --fs ext4,xfs,btrfs --vary layer=overlay-upper",
        GuideAction::Run,
        "copies a tree of the machine's; the tests of stacks have one of their own",
    ),
];

/// The pages whose commands run: the README, the tutorial, the cookbook, the FAQ and the page on troubleshooting.
fn pages() -> Vec<PathBuf> {
    let guide = ["README.md", "docs/guide/tutorial.md", "docs/guide/faq.md", "docs/guide/troubleshooting.md"];
    let mut pages: Vec<PathBuf> = guide.iter().map(|page| repository_root().join(page)).collect();
    pages.extend(page::pages().into_iter().filter(|page| page.parent().unwrap().ends_with("docs/guide/cookbook")));
    pages
}

/// The commands of a block, each on one line.
fn commands(block: &Block) -> Vec<String> {
    let joined = block.text.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.strip_prefix("$ ")).map(String::from).collect()
}

/// What `make guide` does with a command that the test does not run; None if the test runs it.
fn action_of_skipped_command(command: &str) -> Option<GuideAction> {
    NOT_RUN.iter().find(|(beginning, ..)| command.starts_with(beginning)).map(|(_, action, _)| *action)
}

/// Prepares a sandbox for a page: with the files that the page shows, and with the program under test as `fsarena`.
fn make_sandbox(page: &Path, sandbox: Sandbox) -> Sandbox {
    std::os::unix::fs::symlink(crate::common::program(), sandbox.dir.join("shims/fsarena")).unwrap();
    for block in split_page(page).0.iter().filter(|block| !block.file.is_empty()) {
        std::fs::write(sandbox.dir.join(&block.file), &block.text).unwrap();
    }
    sandbox
}

/// Runs a line in bash.
fn run_line(sandbox: &Sandbox, line: &str) -> Output {
    let mut shell = sandbox.command(Path::new("/bin/bash"), &["-c", line]);
    shell.env("COLUMNS", "100").env("USER", "you").output().unwrap()
}

/// The exit codes of a successful command, with any outcome of its claims.
const SUCCESS_CODES: [Option<i32>; 3] = [Some(0), Some(3), Some(4)];
/// The exit code if this machine lacks something.
const MISSING_CODE: i32 = 6;

/// Runs a command that must succeed. If this machine lacks something, notes that the command is skipped and returns None.
fn expect_success(sandbox: &Sandbox, page: &Path, line: &str) -> Option<Output> {
    let program = line.split(' ').next().unwrap();
    if ["hyperfine", "fio"].contains(&program) && !fsarena_sys::testkit::has_program(program) {
        return None;
    }
    let output = run_line(sandbox, line);
    let (printed, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    if output.status.code() == Some(MISSING_CODE) && line != SHORT_RUN {
        fsarena_sys::testkit::record_skip(stderr.trim().lines().next().unwrap_or("what fsarena needs"));
        return None;
    }
    assert!(SUCCESS_CODES.contains(&output.status.code()), "{}: {line}\n{printed}\n{stderr}", page.display());
    Some(output)
}

/// Matches a command that starts a comparison.
static COMPARISON_COMMAND: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^fsarena (run|ab|advise)").unwrap());

/// The command that runs a shortened plan.
const SHORT_RUN: &str = "fsarena run short.toml --quiet";

/// The directory that the guide works on.
const LARGE_TREE: &str = "/usr/include ";
/// The part of it that the test works on.
const SMALL_TREE: &str = "/usr/include/linux ";

/// Runs a command of a page. Of a comparison it runs one round at the smallest scale, with hardly any idle wait: it
/// resolves the plan with `--dry-run`, shortens it and runs it. None if this machine lacks something.
fn run_shortened(sandbox: &Sandbox, page: &Path, line: &str) -> Option<Output> {
    if !COMPARISON_COMMAND.is_match(line) {
        return expect_success(sandbox, page, line);
    }
    let length_flags = Regex::new(r" --(scale [a-z]+|set seconds=[0-9.]+)").unwrap();
    let line = COMPARISON_COMMAND.replace(line, "fsarena $1 --dry-run --scale tiny").replace(LARGE_TREE, SMALL_TREE);
    let (flags, work) = line.split_once(" -- ").map_or((&*line, None), |(flags, work)| (flags, Some(work)));
    let first = " --scale tiny";
    let (head, tail) = flags.split_once(first).unwrap();
    let flags = format!("{head}{first}{}", length_flags.replace_all(tail, ""));
    let line = work.map_or(flags.clone(), |work| format!("{flags} -- {work}"));
    let mut plan = utf8(&expect_success(sandbox, page, &line)?.stdout);
    for (key, value) in [
        ("rounds", "1"),
        ("room", "67108864"),
        ("seconds", "0.1"),
        ("timeout_s", "0.02"),
        ("dirty", "\"1 GiB\""),
        ("io_pressure_percent", "100.0"),
    ] {
        let set = Regex::new(&format!("(?m)^{key} = .*$")).unwrap();
        plan = set.replace(&plan, format!("{key} = {value}")).into_owned();
    }
    // Leave out btrfs: its image has at least 2 GiB, which takes seconds to write.
    plan = plan.replace(", \"btrfs\"", "");
    let stop_rules = Regex::new("(?m)^(budget_s|best_within) = .*\n").unwrap();
    std::fs::write(sandbox.dir.join("short.toml"), &*stop_rules.replace_all(&plan, "")).unwrap();
    expect_success(sandbox, page, SHORT_RUN)
}

#[test]
fn every_command_of_the_guide_runs() {
    if !runs_as_root() || std::env::var_os(WRITE_VARIABLE).is_some() {
        return;
    }
    let next = Mutex::new(pages().into_iter());
    let work = || {
        while let Some(page) = { next.lock().unwrap().next() } {
            let sandbox = make_sandbox(&page, Sandbox::new());
            let blocks = split_page(&page).0;
            let lines = blocks.iter().filter(|block| block.language == "console").flat_map(commands);
            for line in lines.filter(|line| action_of_skipped_command(line).is_none()) {
                // Later commands of the page need the results of this one.
                let begun = std::time::Instant::now();
                let output = run_shortened(&sandbox, &page, &line);
                println!("{:5.1} s  {line}", begun.elapsed().as_secs_f64());
                if output.is_none() {
                    break;
                }
            }
            sandbox.assert_clean();
        }
    };
    // testkit notes a skip with the name of its thread, so the threads have the name of the test.
    let name = std::thread::current().name().unwrap_or_default().to_string();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, work).unwrap();
        }
    });
}

#[test]
fn every_exception_matches_a_command() {
    let lines: Vec<String> =
        pages().iter().flat_map(|page| split_page(page).0).flat_map(|block| commands(&block)).collect();
    for (beginning, _, why) in NOT_RUN {
        assert!(!why.is_empty() && lines.iter().any(|line| line.starts_with(beginning)), "{beginning}");
    }
}

/// Runs the commands of the pages that `FSARENA_GUIDE` names, and writes what they print below them.
#[test]
fn the_outputs_in_the_guide_are_rewritten() {
    let Ok(selection) = std::env::var(WRITE_VARIABLE) else { return };
    for page in pages() {
        if selection == "all" || page.to_string_lossy().contains(&selection) {
            eprintln!("{}", page.display());
            let sandbox = make_sandbox(&page, Sandbox::below(Path::new("/var/tmp")));
            let text = page_with_outputs(&page, &sandbox);
            std::fs::write(&page, text).unwrap();
        }
    }
}

/// The text of a page with the output of its commands on this machine. An output that was cut, with `…` as its last line,
/// stays as short.
fn page_with_outputs(page: &Path, sandbox: &Sandbox) -> String {
    let text = page::read_page(page);
    let (mut lines, mut out, mut inside) = (text.lines().peekable(), String::new(), false);
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        if line.starts_with("```") {
            inside = !inside && line == "```console";
        }
        let Some(mut command) = line.strip_prefix("$ ").filter(|_| inside).map(String::from) else {
            continue;
        };
        while let Some(first) = command.strip_suffix('\\') {
            let next = lines.next().unwrap();
            out += &format!("{next}\n");
            command = format!("{first}{}", next.trim_start());
        }
        let mut old = vec![];
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ") && !line.starts_with("```")) {
            old.push(line.to_string());
        }
        if action_of_skipped_command(&command) == Some(GuideAction::KeepOutput) {
            old.iter().for_each(|line| out += &format!("{line}\n"));
            continue;
        }
        let mut new = output_lines(sandbox, page, &command);
        if old.last().is_some_and(|line| line == "…") && old.len() <= new.len() {
            new.truncate(old.len() - 1);
            new.push("…".into());
        }
        new.iter().for_each(|line| out += &format!("{line}\n"));
    }
    out
}

/// The lines that a command prints, with a short name for the directory it ran in.
fn output_lines(sandbox: &Sandbox, page: &Path, command: &str) -> Vec<String> {
    eprintln!("  {command}");
    let output = expect_success(sandbox, page, command).expect("this machine lacks what the command needs");
    let printed = utf8(&output.stdout).replace(&*sandbox.dir.to_string_lossy(), "/srv/bench");
    printed.trim_matches('\n').lines().map(|line| line.trim_end().to_string()).collect()
}
