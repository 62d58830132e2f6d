//! The commands of the guide, run in the order in which a reader types them.
//!
//! A page of the guide has blocks of the language `console`: a line that begins with `$ ` is a command, the lines below it
//! are what it printed. A block with a second word behind its fence is a file of that name, which the commands find.
//!
//! `make guide` runs the commands as they stand and writes what they print into the pages. The test runs them shortened.

use crate::common::{Place, root as as_root, text as utf8};
use page::{Block, repository_root, split_page};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{LazyLock, Mutex};

#[path = "../../src/doc_pages.rs"]
#[allow(dead_code)] // The unit tests of the book read pages by it too.
mod page;

/// `all`, or a part of the paths of the pages to write. Without it nothing is written.
const WRITE: &str = "FSARENA_GUIDE";

/// What happens with a command that the test does not run. The program's parser takes it: the unit tests of the book try
/// that with every command.
#[derive(Clone, Copy, PartialEq)]
enum Instead {
    /// `make guide` runs it.
    Parsed,
    /// `make guide` keeps what stands below it.
    Kept,
}

/// The commands that the test does not run: how each begins, what happens instead, and why. The first that fits counts.
const NOT_RUN: &[(&str, Instead, &str)] = &[
    ("make", Instead::Kept, "contrib/test-fresh makes and installs in new Debian roots"),
    ("ls /dev/disk/by-id", Instead::Kept, "the names are those of the reader's disks"),
    (
        "fsarena run engel --erase",
        Instead::Kept,
        "erases a disk of the reader's; the tests of erase have disks of their own",
    ),
    ("fsarena run apps/git --fs ext4,xfs,btrfs --set input", Instead::Kept, "takes a repository of the reader's"),
    ("fsarena run apps/git", Instead::Parsed, "the tests of apps run every application"),
    ("fsarena run  ", Instead::Kept, "every filesystem and all 21 tasks; the tests of studies run them"),
    ("fsarena run --fs ext4,xfs --claim", Instead::Kept, "an example of the README, which shows no answer"),
    (
        "fsarena ab peiffer --on exact --a fs=ext4,kernel=debian:6.1 --b fs=ext4,kernel=debian:6.12 --margin",
        Instead::Kept,
        "likewise; boots guests for minutes",
    ),
    ("fsarena ab peiffer --on exact", Instead::Parsed, "boots guests for minutes; the tests of exact do that once"),
    ("fsarena ab --on exact", Instead::Parsed, "likewise"),
    (
        "fsarena bisect",
        Instead::Kept,
        "fetches kernels and boots guests for minutes; the tests of bisect have histories",
    ),
    ("fsarena analyse latest --profile", Instead::Parsed, "likewise"),
    ("fsarena doctor --install", Instead::Kept, "compiles for minutes; contrib/test-zfs does that"),
    ("fsarena run peiffer --on qemu", Instead::Kept, "boots guests; the tests of guests do that once"),
    ("fsarena run peiffer --on exact", Instead::Parsed, "likewise; the tests of stacks have one guest"),
    (
        "fsarena run --fs ext4,xfs,btrfs --vary layer=overlay-upper",
        Instead::Parsed,
        "copies a tree of the machine's; the tests of stacks have one of their own",
    ),
];

/// The pages whose commands run: the README, the tutorial, the cookbook, and what stands beside them.
fn pages() -> Vec<PathBuf> {
    let guide = ["README.md", "docs/guide/tutorial.md", "docs/guide/faq.md", "docs/guide/troubleshooting.md"];
    let mut pages: Vec<PathBuf> = guide.iter().map(|page| repository_root().join(page)).collect();
    pages.extend(page::pages().into_iter().filter(|page| page.parent().unwrap().ends_with("docs/guide/cookbook")));
    pages
}

/// A command of a page, on one line.
fn commands(block: &Block) -> Vec<String> {
    let joined = block.text.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.strip_prefix("$ ")).map(String::from).collect()
}

fn not_run(command: &str) -> Option<Instead> {
    NOT_RUN.iter().find(|(begins, ..)| command.starts_with(begins)).map(|(_, instead, _)| *instead)
}

/// A place with the files that a page shows, in which `fsarena` is the program under test.
fn place(page: &Path, place: Place) -> Place {
    std::os::unix::fs::symlink(crate::common::program(), place.dir.join("shims/fsarena")).unwrap();
    for block in split_page(page).0.iter().filter(|block| !block.file.is_empty()) {
        std::fs::write(place.dir.join(&block.file), &block.text).unwrap();
    }
    place
}

fn run(place: &Place, line: &str) -> Output {
    let mut shell = place.started_as(Path::new("/bin/bash"), &["-c", line]);
    shell.env("COLUMNS", "100").env("USER", "you").output().unwrap()
}

/// The exit codes of a run that worked, whatever its claims turned out to be.
const WORKED: [Option<i32>; 3] = [Some(0), Some(3), Some(4)];
/// The exit code where this machine lacks something.
const LACKS: i32 = 6;

/// Runs a command that works where the machine has what it needs; notes a skip and returns none where it has not.
fn expect(place: &Place, page: &Path, line: &str) -> Option<Output> {
    let program = line.split(' ').next().unwrap();
    if ["hyperfine", "fio"].contains(&program) && !fsarena_sys::testkit::program(program) {
        return None;
    }
    let output = run(place, line);
    let (printed, said) = (utf8(&output.stdout), utf8(&output.stderr));
    if output.status.code() == Some(LACKS) && line != SHORT {
        fsarena_sys::testkit::skipped(said.trim().lines().next().unwrap_or("what fsarena needs"));
        return None;
    }
    assert!(WORKED.contains(&output.status.code()), "{}: {line}\n{printed}\n{said}", page.display());
    Some(output)
}

/// How a comparison begins.
static COMPARES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^fsarena (run|ab|advise)").unwrap());

/// The command that runs a plan cut down.
const SHORT: &str = "fsarena run short.toml --quiet";

/// The data that the guide works on, and some of it.
const LARGE: &str = "/usr/include ";
const SMALL: &str = "/usr/include/linux ";

/// Runs a command of a page. Of a comparison the program resolves the plan, and runs one round of it at the smallest
/// scale, without waiting until the machine is idle. None where the machine lacks something.
fn run_shortened(place: &Place, page: &Path, line: &str) -> Option<Output> {
    if !COMPARES.is_match(line) {
        return expect(place, page, line);
    }
    let long = Regex::new(r" --(scale [a-z]+|set seconds=[0-9.]+)").unwrap();
    let line = COMPARES.replace(line, "fsarena $1 --dry-run --scale tiny").replace(LARGE, SMALL);
    let (flags, work) = line.split_once(" -- ").map_or((&*line, None), |(flags, work)| (flags, Some(work)));
    let first = " --scale tiny";
    let (head, tail) = flags.split_once(first).unwrap();
    let flags = format!("{head}{first}{}", long.replace_all(tail, ""));
    let line = work.map_or(flags.clone(), |work| format!("{flags} -- {work}"));
    let mut plan = utf8(&expect(place, page, &line)?.stdout);
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
    // Its image has 2 GiB at least, which takes seconds to write.
    plan = plan.replace(", \"btrfs\"", "");
    let ends = Regex::new("(?m)^(budget_s|best_within) = .*\n").unwrap();
    std::fs::write(place.dir.join("short.toml"), &*ends.replace_all(&plan, "")).unwrap();
    expect(place, page, SHORT)
}

#[test]
fn every_command_of_the_guide_runs() {
    if !as_root() || std::env::var_os(WRITE).is_some() {
        return;
    }
    let next = Mutex::new(pages().into_iter());
    let work = || {
        while let Some(page) = { next.lock().unwrap().next() } {
            let place = place(&page, Place::new());
            let blocks = split_page(&page).0;
            let lines = blocks.iter().filter(|block| block.language == "console").flat_map(commands);
            for line in lines.filter(|line| not_run(line).is_none()) {
                // Later commands of the page need what this one leaves.
                let began = std::time::Instant::now();
                let done = run_shortened(&place, &page, &line);
                println!("{:5.1} s  {line}", began.elapsed().as_secs_f64());
                if done.is_none() {
                    break;
                }
            }
            place.assert_clean();
        }
    };
    // A skip is noted with the name of its thread.
    let name = std::thread::current().name().unwrap_or_default().to_string();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, work).unwrap();
        }
    });
}

#[test]
fn every_exception_is_one_of_a_command() {
    let lines: Vec<String> =
        pages().iter().flat_map(|page| split_page(page).0).flat_map(|block| commands(&block)).collect();
    for (begins, _, why) in NOT_RUN {
        assert!(!why.is_empty() && lines.iter().any(|line| line.starts_with(begins)), "{begins}");
    }
}

/// Runs the commands of the pages that `FSARENA_GUIDE` names, and writes what they print below them.
#[test]
fn the_outputs_in_the_guide_are_rewritten() {
    let Ok(wanted) = std::env::var(WRITE) else { return };
    for page in pages() {
        if wanted == "all" || page.to_string_lossy().contains(&wanted) {
            eprintln!("{}", page.display());
            let place = place(&page, Place::below(Path::new("/var/tmp")));
            let written = written(&page, &place);
            std::fs::write(&page, written).unwrap();
        }
    }
}

/// The page with what its commands print here. An output that was cut, with `…` as its last line, stays as short.
fn written(page: &Path, place: &Place) -> String {
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
        if not_run(&command) == Some(Instead::Kept) {
            old.iter().for_each(|line| out += &format!("{line}\n"));
            continue;
        }
        let mut new = printed(place, page, &command);
        if old.last().is_some_and(|line| line == "…") && old.len() <= new.len() {
            new.truncate(old.len() - 1);
            new.push("…".into());
        }
        new.iter().for_each(|line| out += &format!("{line}\n"));
    }
    out
}

/// The lines that a command prints, with a short name for the directory it ran in.
fn printed(place: &Place, page: &Path, command: &str) -> Vec<String> {
    eprintln!("  {command}");
    let output = expect(place, page, command).expect("this machine lacks what the command needs");
    let printed = utf8(&output.stdout).replace(&*place.dir.to_string_lossy(), "/srv/bench");
    printed.trim_matches('\n').lines().map(|line| line.trim_end().to_string()).collect()
}
