//! Filesystems in memory and read-only filesystems.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root};

/// The mkfs programs of the read-only filesystems.
const MKFS_PROGRAMS: [&str; 2] = ["mkfs.erofs", "mksquashfs"];
/// The tasks of the workload `read-tree`.
const READ_TASKS: [&str; 4] = ["walk", "stat", "read", "rndread"];
const RUN_ARGS: [&str; 6] = ["run", "plan.toml", "--workload", "read-tree", "--set", "tree_files=60"];

/// The variant and the value of each row of the latest run in a column; without empty values.
fn column_values(sandbox: &Sandbox, name: &str) -> Vec<(String, String)> {
    let (csv, _) = sandbox.expect(0, &["report", "latest", "--format", "csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let index =
        |name: &str| header.iter().position(|title| *title == name).unwrap_or_else(|| panic!("{name}: {header:?}"));
    let (variant, value) = (index("variant"), index(name));
    let rows = lines.map(|row| (row[variant].to_string(), row[value].to_string()));
    rows.filter(|(_, value)| !value.is_empty()).collect()
}

fn tasks_of(sandbox: &Sandbox, variant: &str) -> Vec<String> {
    let mut rows: Vec<_> = sandbox.rows("latest").into_iter().filter(|row| row.1 == variant).collect();
    rows.sort_by_key(|row| row.0);
    rows.into_iter().map(|row| row.2).collect()
}

#[test]
fn one_run_compares_read_only_filesystems_memory_and_ext4() {
    if !runs_as_root() || !has_programs(&MKFS_PROGRAMS) {
        return;
    }
    let sandbox = Sandbox::new();
    let args = ["--fs", "ext4,erofs,squashfs,tmpfs", "--rounds", "2"];
    sandbox.expect(0, &[&RUN_ARGS[..], &args].concat());
    let tasks_of_round = |lifecycle: &[&'static str]| [lifecycle, &READ_TASKS, &["unmount"]].concat();
    let (made, mounted) = (tasks_of_round(&["mkfs", "mount"]), tasks_of_round(&["mount"]));
    assert_eq!(tasks_of(&sandbox, "ext4"), [made.clone(), made.clone()].concat());
    assert_eq!(tasks_of(&sandbox, "tmpfs"), [mounted.clone(), mounted.clone()].concat());
    for fs in ["erofs", "squashfs"] {
        // mkfs packs the files once in a run.
        assert_eq!(tasks_of(&sandbox, fs), [made.clone(), mounted.clone()].concat());
    }
    let held_bytes = column_values(&sandbox, "held_bytes");
    assert_eq!(held_bytes.len(), 8, "{held_bytes:?}");
    let bytes = |variant: &str| {
        let values = held_bytes.iter().filter(|(name, _)| name == variant);
        let mut values = values.map(|(_, value)| value.parse::<f64>().unwrap());
        let (first, second) = (values.next().unwrap(), values.next().unwrap());
        assert_eq!(first, second, "{variant}");
        first
    };
    assert!(bytes("squashfs") < bytes("erofs") && bytes("squashfs") % 4096.0 == 0.0, "{held_bytes:?}");
    assert!(bytes("erofs") < bytes("ext4") && bytes("tmpfs") > 60.0 * 4096.0, "{held_bytes:?}");
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md", "--full"]);
    for words in ["Bytes that the files take", "packed by its mkfs", "keeps its files in memory"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let log = sandbox.run_text("command.log");
    assert!(log.contains("\"mksquashfs\"") && log.contains("\"-t\",\"tmpfs\"") && log.contains("\"size="), "{log}");
    sandbox.assert_clean();
    assert!(sandbox.run_file("packed").is_none());
}

#[test]
fn commands_read_what_their_setup_made_and_cannot_write() {
    if !runs_as_root() || !has_programs(&MKFS_PROGRAMS) {
        return;
    }
    let sandbox = Sandbox::new();
    let run_args = |setup: &'static str, command: &'static [&'static str]| {
        let run = ["run", "--fs", "squashfs,ext4", "--rounds", "1", "--scale", "tiny", "--setup", setup, "--"];
        [&run[..], command].concat()
    };
    sandbox.expect(0, &run_args("echo text > file", &["grep", "text", "file"]));
    assert_eq!(tasks_of(&sandbox, "squashfs"), ["mkfs", "mount", "grep", "unmount"]);
    sandbox.expect(0, &run_args("echo text > file", &["touch", "other"]));
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("squashfs: failed in round 1") && report.contains("Read-only file system"), "{report}");
    // A failing setup fails the cell before mkfs packs its files.
    let (_, stderr) = sandbox.expect(4, &run_args("exit 7", &["grep", "text", "file"]));
    assert!(stderr.contains("the files to pack"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn unsupported_uses_are_refused_with_a_remedy() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let assert_refused = |code: i32, args: &[&str], words: &str| {
        let (_, stderr) = sandbox.expect(code, args);
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert!(!sandbox.runs_dir().exists());
    };
    assert_refused(
        2,
        &["run", "plan.toml", "--fs", "erofs"],
        "EROFS is read-only, and the workload coreutils writes here",
    );
    assert_refused(
        2,
        &["run", "plan.toml", "--fs", "squashfs"],
        "only read: command with a `setup` that makes the files; fileio with",
    );
    let tmpfs_run = |extra_args: &[&'static str]| [&["run", "plan.toml", "--fs", "tmpfs"][..], extra_args].concat();
    assert_refused(
        2,
        &tmpfs_run(&["--factor", "stack=crypt"]),
        "tmpfs lies in memory, on no device; leave out `stack`",
    );
    assert_refused(2, &tmpfs_run(&["--mkfs", "-b 4096"]), "tmpfs is made by its mount: leave out the factor `mkfs`");
    assert_refused(2, &tmpfs_run(&["--mount", "huge=alwyas"]), "huge=always");
    let small_memory = [
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
    assert_refused(6, &small_memory, "tmpfs keeps its files in memory");
    assert_refused(2, &["run", "--scale", "tiny", "--fs", "tmpfs,ext4", "--workload", "fileio"], "no direct I/O");
    if has_programs(&MKFS_PROGRAMS) {
        let erofs = [&RUN_ARGS[..], &["--fs", "erofs", "--mkfs", "-z lz5"]].concat();
        assert_refused(2, &erofs, "mkfs.erofs refuses `-z lz5`");
        assert_refused(
            2,
            &[&RUN_ARGS[..], &["--fs", "squashfs", "--factor", "layer=overlay"]].concat(),
            "squashfs is read-only",
        );
    }
    sandbox.assert_clean();
}

#[test]
fn a_kill_while_files_are_packed_leaves_nothing() {
    if !runs_as_root() || !has_programs(&MKFS_PROGRAMS) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mksquashfs", "*packed*", 0);
    let args = [&RUN_ARGS[..], &["--fs", "squashfs,tmpfs", "--rounds", "1"]].concat();
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut run);
    run.kill_and_recover(&sandbox);
    assert!(sandbox.run_file("packed").is_none());
    sandbox.expect(0, &["run", "--resume", "latest"]);
    assert_eq!(tasks_of(&sandbox, "squashfs").len(), 7);
    sandbox.assert_clean();
}

#[test]
fn guests_mount_read_only_filesystems_and_memory_without_root() {
    if !runs_as_root()
        || !has_programs(&["qemu-system-x86_64", "mksquashfs"])
        || find_debian_kernel("6.1", "-amd64").is_none()
    {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let run = ["run", "--on", "qemu", "--kernel", "debian:6.1", "--workload", "read-tree", "--scale", "tiny"];
    let (_, stderr) = nobody.expect(0, &[&run[..], &["--fs", "squashfs,tmpfs", "--rounds", "1", "--full"]].concat());
    assert!(!stderr.contains("failed"), "{stderr}");
}
