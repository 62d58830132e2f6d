//! Filesystems that lie in memory or are read-only, through the real binary.

use crate::common::gate::{Gate, Running, When};
use crate::common::kernel::{debian, has};
use crate::common::nobody::Nobody;
use crate::common::{Place, root};
use rustix::process::Signal;

/// The programs of the read-only filesystems.
const PACKERS: [&str; 2] = ["mkfs.erofs", "mksquashfs"];
/// The tasks of a workload that only reads.
const READS: [&str; 4] = ["walk", "stat", "read", "rndread"];
const RUN: [&str; 6] = ["run", "plan.toml", "--workload", "read-tree", "--set", "tree_files=60"];

/// The values of a column of the latest run, by variant; without those that are empty.
fn column(place: &Place, name: &str) -> Vec<(String, String)> {
    let (csv, _) = place.expect(0, &["report", "latest", "--format", "csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let at = |name: &str| heads.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {heads:?}"));
    let (variant, value) = (at("variant"), at(name));
    let rows = lines.map(|row| (row[variant].to_string(), row[value].to_string()));
    rows.filter(|(_, value)| !value.is_empty()).collect()
}

fn tasks_of(place: &Place, variant: &str) -> Vec<String> {
    let mut rows: Vec<_> = place.rows("latest").into_iter().filter(|row| row.1 == variant).collect();
    rows.sort_by_key(|row| row.0);
    rows.into_iter().map(|row| row.2).collect()
}

#[test]
fn one_table_compares_read_only_filesystems_memory_and_ext4() {
    if !root() || !has(&PACKERS) {
        return;
    }
    let place = Place::new();
    let more = ["--fs", "ext4,erofs,squashfs,tmpfs", "--rounds", "2"];
    place.expect(0, &[&RUN[..], &more].concat());
    let once = |lifecycle: &[&'static str]| [lifecycle, &READS, &["unmount"]].concat();
    let (made, mounted) = (once(&["mkfs", "mount"]), once(&["mount"]));
    assert_eq!(tasks_of(&place, "ext4"), [made.clone(), made.clone()].concat());
    assert_eq!(tasks_of(&place, "tmpfs"), [mounted.clone(), mounted.clone()].concat());
    for packed in ["erofs", "squashfs"] {
        // mkfs packs the files once in a run.
        assert_eq!(tasks_of(&place, packed), [made.clone(), mounted.clone()].concat());
    }
    let stored = column(&place, "held_bytes");
    assert_eq!(stored.len(), 8, "{stored:?}");
    let bytes = |variant: &str| {
        let mut of = stored.iter().filter(|(name, _)| name == variant).map(|(_, value)| value.parse::<f64>().unwrap());
        let (first, second) = (of.next().unwrap(), of.next().unwrap());
        assert_eq!(first, second, "{variant}");
        first
    };
    assert!(bytes("squashfs") < bytes("erofs") && bytes("squashfs") % 4096.0 == 0.0, "{stored:?}");
    assert!(bytes("erofs") < bytes("ext4") && bytes("tmpfs") > 60.0 * 4096.0, "{stored:?}");
    let (report, _) = place.expect(0, &["report", "latest", "--format", "md", "--full"]);
    for words in ["Bytes that the files take", "packed by its mkfs", "keeps its files in memory"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let log = place.run_text("command.log");
    assert!(log.contains("\"mksquashfs\"") && log.contains("\"-t\",\"tmpfs\"") && log.contains("\"size="), "{log}");
    place.assert_clean();
    assert!(place.run_file("packed").is_none());
}

#[test]
fn commands_read_what_their_setup_made_and_cannot_write() {
    if !root() || !has(&PACKERS) {
        return;
    }
    let place = Place::new();
    let run = |setup: &'static str, command: &'static [&'static str]| {
        let run = ["run", "--fs", "squashfs,ext4", "--rounds", "1", "--scale", "tiny", "--setup", setup, "--"];
        [&run[..], command].concat()
    };
    place.expect(0, &run("echo text > file", &["grep", "text", "file"]));
    assert_eq!(tasks_of(&place, "squashfs"), ["mkfs", "mount", "grep", "unmount"]);
    place.expect(0, &run("echo text > file", &["touch", "other"]));
    let (report, _) = place.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("squashfs: failed in round 1") && report.contains("Read-only file system"), "{report}");
    // What makes the files fails before mkfs packs them, in the variants that need them.
    let (_, said) = place.expect(4, &run("exit 7", &["grep", "text", "file"]));
    assert!(said.contains("the files to pack"), "{said}");
    place.assert_clean();
}

#[test]
fn what_these_filesystems_cannot_do_is_refused_with_the_way_out() {
    if !root() {
        return;
    }
    let place = Place::new();
    let refused = |code: i32, args: &[&str], words: &str| {
        let (_, said) = place.expect(code, args);
        assert!(said.contains(words), "{args:?}: {said}");
        assert!(!place.runs().exists());
    };
    refused(2, &["run", "plan.toml", "--fs", "erofs"], "EROFS is read-only, and the workload coreutils writes here");
    refused(
        2,
        &["run", "plan.toml", "--fs", "squashfs"],
        "only read: command with a `setup` that makes the files; fileio with",
    );
    let tmpfs = |more: &[&'static str]| [&["run", "plan.toml", "--fs", "tmpfs"][..], more].concat();
    refused(2, &tmpfs(&["--factor", "stack=crypt"]), "tmpfs lies in memory, on no device; leave out `stack`");
    refused(2, &tmpfs(&["--mkfs", "-b 4096"]), "tmpfs is made by its mount: leave out the factor `mkfs`");
    refused(2, &tmpfs(&["--mount", "huge=alwyas"]), "huge=always");
    let small = [
        "run",
        "--scale",
        "tiny",
        "--fs",
        "tmpfs",
        "--workload",
        "tree",
        "--set",
        "tree_files=5000",
        "--factor",
        "memory=32MiB",
    ];
    refused(6, &small, "tmpfs keeps its files in memory");
    refused(2, &["run", "--scale", "tiny", "--fs", "tmpfs,ext4", "--workload", "fileio"], "no direct I/O");
    if has(&PACKERS) {
        let erofs = [&RUN[..], &["--fs", "erofs", "--mkfs", "-z lz5"]].concat();
        refused(2, &erofs, "mkfs.erofs refuses `-z lz5`");
        refused(2, &[&RUN[..], &["--fs", "squashfs", "--factor", "layer=overlay"]].concat(), "squashfs is read-only");
    }
    place.assert_clean();
}

#[test]
fn a_kill_while_files_are_packed_leaves_nothing() {
    if !root() || !has(&PACKERS) {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mksquashfs", "*packed*", 0);
    let args = [&RUN[..], &["--fs", "squashfs,tmpfs", "--rounds", "1"]].concat();
    let mut run = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    place.expect(0, &["recover"]);
    place.assert_clean();
    assert!(place.run_file("packed").is_none());
    place.expect(0, &["run", "--resume", "latest"]);
    assert_eq!(tasks_of(&place, "squashfs").len(), 7);
    place.assert_clean();
}

#[test]
fn guests_mount_read_only_filesystems_and_memory_without_root() {
    if !root() || !has(&["qemu-system-x86_64", "mksquashfs"]) || debian("6.1", "-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let run = ["run", "--on", "qemu", "--kernel", "debian:6.1", "--workload", "read-tree", "--scale", "tiny"];
    let (_, said) = nobody.expect(0, &[&run[..], &["--fs", "squashfs,tmpfs", "--rounds", "1", "--full"]].concat());
    assert!(!said.contains("failed"), "{said}");
}
