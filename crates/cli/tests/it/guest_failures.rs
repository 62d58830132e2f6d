//! Guests that fail: each is one failed cell with its reason, and leaves nothing behind.

use crate::common::kernel::{self, find_debian_kernel, has_programs};
use crate::common::{self, Sandbox, runs_as_root};
use crate::common::{gate::wait_until, nobody::Nobody};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const QEMU: &str = "qemu-system-x86_64";
/// Flags that run one short cell.
const ONE_CELL_ARGS: [&str; 8] = ["run", "--scale", "tiny", "--rounds", "1", "--set", "tasks=1", "--quiet"];

/// Runs one cell as an ordinary user, with these further arguments, and asserts the exit code. Returns standard output and
/// standard error.
#[track_caller]
fn run_one_cell(nobody: &Nobody, code: i32, extra_args: &[&str]) -> (String, String) {
    nobody.expect(code, &[&ONE_CELL_ARGS[..], &["--full"], extra_args].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn features_that_the_kernel_lacks_are_refused_before_anything_is_made() {
    if !runs_as_root() || !has_programs(&[QEMU, "mkfs.jfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let kernel = nobody.home.join("bzImage");
    std::fs::write(&kernel, "text").unwrap();
    let assert_refused = |extra_args: &[&str], word: &str| {
        let (_, stderr) = run_one_cell(&nobody, 6, extra_args);
        assert!(stderr.contains(word), "{stderr}");
        assert!(!nobody.home.join("runs").exists());
    };
    assert_refused(&["--on", "qemu", "--kernel", text(&kernel), "--fs", "ext4"], "not an x86 kernel");
    // A kernel that has only ext4 built in, without modules and with a directory of modules.
    let own = nobody.home.join("own");
    kernel::write_failing_kernel(&own, Some("ext4"));
    let args = ["--on", "qemu", "--kernel", text(&own)];
    assert_refused(&[&args[..], &["--fs", "jfs"]].concat(), "has no jfs");
    let modules = nobody.home.join("modules");
    std::fs::create_dir_all(modules.join("kernel")).unwrap();
    std::fs::write(modules.join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
    assert_refused(&[&args[..], &["--modules", text(&modules), "--fs", "jfs"]].concat(), "has no jfs");
    let Some(cloud) = find_debian_kernel("6.1", "-cloud-amd64") else { return };
    assert_refused(&["--on", "qemu", "--kernel", "debian:6.1-cloud", "--fs", "jfs"], "-cloud-amd64 has no jfs");
    let bytes = std::fs::read(kernel::kernel_image(&cloud)).unwrap();
    std::fs::write(&kernel, &bytes[..bytes.len() / 2]).unwrap();
    assert_refused(&["--on", "qemu", "--kernel", text(&kernel), "--fs", "ext4"], "is a truncated kernel");
}

/// One run of two kernels that fail: the error names the reason for each, and the run continues with the next one.
#[test]
fn a_kernel_that_panics_or_hangs_is_one_failed_cell() {
    if !runs_as_root() || !has_programs(&[QEMU]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let [panics, hangs] = ["panics", "hangs"].map(|name| nobody.home.join(name));
    kernel::write_failing_kernel(&panics, Some("Kernel panic - not syncing: stand-in without ext4\r\n"));
    kernel::write_failing_kernel(&hangs, None);
    [&hangs, &panics].iter().for_each(|kernel| kernel::add_built_in_filesystem(kernel, "ext4"));
    let kernels = ["--kernel", text(&hangs), "--kernel", text(&panics)];
    let args = ["--on", "qemu", "--fs", "ext4", "--guest-timeout", "5s"];
    let (_, stderr) = run_one_cell(&nobody, 4, &[&args[..], &kernels].concat());
    assert!(stderr.contains("has sent nothing for 5 s since it was started"), "{stderr}");
    assert!(stderr.contains("its kernel panicked") && stderr.contains("stand-in without ext4"), "{stderr}");
}

/// The events of a guest: a sample and the end of a cell.
const GUEST_EVENTS: [&str; 2] = [
    r#"{"event":{"event":"sample","task":{"id":{"name":"touch"},"title":"Touch","in_totals":true},"started_at":1.0,"readings":{"elapsed_ns":5e6,"user_ns":1e6,"system_ns":4e6}}}"#,
    r#"{"end":{"outcome":"done"}}"#,
];

/// Replaces QEMU by a script. In it `$DISK` is the image of the disk under test; its standard output is the event channel, and
/// its standard error the console.
fn replace_qemu(sandbox: &Sandbox, script: &str) {
    let version = "[ \"$1\" = --version ] && echo 'QEMU emulator version 7.2.0' && exit";
    let disk = "for word; do case $word in *id=test,*) DISK=${word##*file=};; esac; done";
    // A trial boot under KVM has no disk.
    sandbox.shim(QEMU, &format!("{version}\n{disk}\n[ -n \"$DISK\" ] || exit 1\n{script}"));
}

/// A kernel of the user with a filesystem that no distribution has. The test does all steps of a cell without a real kernel.
#[test]
fn a_kernel_of_the_user_runs_a_filesystem_that_it_has() {
    if !runs_as_root() || !has_programs(&["mkfs.reiser4", "mkfs.jfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let own = nobody.home.join("linux");
    // The kernel sends its events through the port that guests use if instructions are counted.
    kernel::write_printing_kernel(&own, kernel::EVENT_PORT, &format!("{}\n{}\n", GUEST_EVENTS[0], GUEST_EVENTS[1]));
    ["ext4", "reiser4"].iter().for_each(|filesystem| kernel::add_built_in_filesystem(&own, filesystem));
    let script = format!(
        "dd if=\"$DISK\" bs=1 skip=65536 count=7 2>/dev/null | grep -q ReIsEr4 || exit 3\n\
         printf '%s\\n' '{}' '{}'",
        GUEST_EVENTS[0], GUEST_EVENTS[1]
    );
    replace_qemu(&sandbox, &script);
    let args = ["--on", "qemu", "--fresh-guests", "--kernel", text(&own), "--fs"];
    let (answer, _) = run_one_cell(&nobody, 0, &[&args[..], &["reiser4"]].concat());
    assert!(answer.contains("Touch"), "{answer}");
    let (_, stderr) = run_one_cell(&nobody, 6, &[&args[..], &["jfs"]].concat());
    assert!(stderr.contains("has no jfs"), "{stderr}");
    let direct = ["run", "engel", "--on", "qemu", "--kernel", text(&own), "--fs", "reiser4"];
    let (_, stderr) = nobody.expect(2, &direct);
    assert!(stderr.contains("Reiser4 has no direct I/O") && stderr.contains("direct=false"), "{stderr}");
    // A kernel that panics because of the filesystem.
    replace_qemu(&sandbox, "echo 'Kernel panic - not syncing: reiser4' >&2; exit 1");
    let (_, stderr) = run_one_cell(&nobody, 4, &[&args[..], &["reiser4"]].concat());
    assert!(stderr.contains("its kernel panicked") && stderr.contains("not syncing: reiser4"), "{stderr}");
    std::fs::remove_file(sandbox.dir.join("shims").join(QEMU)).unwrap();
    if !has_programs(&[QEMU]) {
        return;
    }
    let args = ["--on", "exact", "--kernel", text(&own), "--fs"];
    let (answer, _) = run_one_cell(&nobody, 0, &[&args[..], &["reiser4"]].concat());
    assert!(answer.contains("Touch") && answer.contains("kernel_instructions"), "{answer}");
    let (_, stderr) = run_one_cell(&nobody, 6, &[&args[..], &["jfs"]].concat());
    assert!(stderr.contains("has no jfs"), "{stderr}");
}

/// The first guest of the cell is killed after its first sample. The second does the whole cell.
#[test]
fn a_cell_whose_guest_dies_once_runs_again() {
    if !runs_as_root() || !has_programs(&["mkfs.reiser4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let own = nobody.home.join("linux");
    let script = format!(
        "printf '%s\\n' '{}'\n[ -e once ] || {{ touch once; sleep 0.1; kill -9 $$; }}\nprintf '%s\\n' '{}'",
        GUEST_EVENTS[0], GUEST_EVENTS[1]
    );
    kernel::write_failing_kernel(&own, None);
    ["ext4", "reiser4"].iter().for_each(|filesystem| kernel::add_built_in_filesystem(&own, filesystem));
    replace_qemu(&sandbox, &script);
    let args = ["--on", "qemu", "--fresh-guests", "--kernel", text(&own), "--fs", "reiser4"];
    let (answer, _) = run_one_cell(&nobody, 0, &args);
    let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(answer.contains("a program that it needs died in round 1, and fsarena ran the cell again"), "{answer}");
    let (csv, _) = nobody.expect(0, &["report", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let run = std::fs::read_dir(nobody.home.join("runs")).unwrap().next().unwrap().unwrap().path();
    let mut guests: Vec<_> = std::fs::read_dir(run.join("guests"))
        .unwrap()
        .map(|guest| guest.unwrap().file_name().into_string().unwrap())
        .collect();
    guests.sort();
    let [last, first] = &guests[..] else { panic!("{guests:?}") };
    assert_eq!(*first, format!("{last}-died"));
    assert!(!run.join("images").exists());
}

#[test]
fn an_unpacked_kernel_that_was_damaged_is_unpacked_again() {
    if !runs_as_root() || !has_programs(&[QEMU, "gzip"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let own = nobody.home.join("bzImage");
    kernel::write_printing_kernel(&own, kernel::EVENT_PORT, &format!("{}\n{}\n", GUEST_EVENTS[0], GUEST_EVENTS[1]));
    kernel::add_built_in_filesystem(&own, "ext4");
    kernel::convert_to_bzimage(&own);
    let run = || run_one_cell(&nobody, 0, &["--on", "exact", "--kernel", text(&own), "--fs", "ext4"]).0;
    let cached_kernel = || {
        let entries = std::fs::read_dir(nobody.home.join(".cache/fsarena")).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        let kernel_files: Vec<PathBuf> = files.filter(|path| text(path).contains("/vmlinux-")).collect();
        let [kernel_file] = &kernel_files[..] else { panic!("{kernel_files:?}") };
        assert!(text(kernel_file).contains("/vmlinux-6.66.0-"), "{kernel_file:?}");
        kernel_file.clone()
    };
    assert!(!run().contains("was damaged"));
    let (entry, whole) = (cached_kernel(), std::fs::read(cached_kernel()).unwrap());
    for damaged in [&whole[..100], &[&whole[..300], &b"?"[..], &whole[301..]].concat()] {
        std::fs::write(&entry, damaged).unwrap();
        let answer = run();
        assert_eq!(answer.matches("was damaged").count(), 1, "{answer}");
        assert_eq!((cached_kernel(), std::fs::read(cached_kernel()).unwrap()), (entry.clone(), whole.clone()));
    }
}

/// A kernel of Debian whose unpacked form lacks the note with its entry point.
#[test]
fn a_bzimage_whose_payload_lacks_the_entry_note_boots_as_it_is() {
    let Some(cloud) =
        find_debian_kernel("6.1", "-cloud-amd64").filter(|_| runs_as_root() && has_programs(&[QEMU, "gzip"]))
    else {
        return;
    };
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let own = nobody.home.join("bzImage");
    kernel::copy_without_note(&kernel::kernel_image(&cloud), &own);
    let args = ["--on", "qemu", "--fresh-guests", "--kernel", text(&own), "--modules", text(&cloud), "--fs", "ext4"];
    let (answer, _) = run_one_cell(&nobody, 0, &args);
    assert!(answer.contains("Touch 20 files") && !answer.contains("Failed"), "{answer}");
}

#[test]
fn a_file_that_is_not_a_kernel_is_reported_as_such() {
    if !runs_as_root() || !has_programs(&[QEMU]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    for on in ["exact", "qemu"] {
        let (_, stderr) = run_one_cell(&nobody, 6, &["--on", on, "--kernel", "/bin/sh", "--fs", "ext4"]);
        assert!(stderr.contains("is a program, not a kernel that QEMU boots"), "{stderr}");
        let (_, stderr) = run_one_cell(&nobody, 2, &["--on", on, "--kernel", "nowhere/linux", "--fs", "ext4"]);
        assert!(stderr.contains("No such file or directory: nowhere/linux"), "{stderr}");
    }
    assert!(!nobody.home.join("runs").exists());
}

/// With too little memory a real kernel panics. A full filesystem fails only its variant.
#[test]
fn a_guest_without_memory_or_room_fails_alone() {
    if !runs_as_root() || !has_programs(&[QEMU]) || find_debian_kernel("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let args = ["--on", "qemu", "--kernel", "debian:6.1-cloud", "--fs", "ext4"];
    let with_memory = |code, mib: u64| {
        run_one_cell(&nobody, code, &[&args[..], &["--guest-memory", &format!("{mib}MiB")]].concat()).1
    };
    // fsarena knows before the boot that this is too little.
    let stderr = with_memory(6, 64);
    assert!(stderr.contains("cannot boot"), "{stderr}");
    // Enough memory for the initramfs, but not to unpack it.
    let program_mib = std::fs::metadata(common::program()).unwrap().len() >> 20;
    let stderr = with_memory(4, (5 * program_mib / 2).max(program_mib + 70));
    assert!(["too little memory", "memory ran out"].iter().any(|words| stderr.contains(words)), "{stderr}");
    // The filesystem of one variant has too few inodes for 313 files.
    let full = ["run", "--scale", "quick", "--rounds", "1", "--set", "tasks=1", "--mkfs", "", "--mkfs", "-N 16"];
    let (answer, _) = nobody.expect(0, &[&full[..], &["--full"], &args].concat());
    let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(answer.contains("No space left on device"), "{answer}");
    assert!(answer.contains("Touch"), "{answer}");
}

/// If fsarena is killed while a guest runs, no process stays, and `recover` removes everything else.
#[test]
fn a_killed_run_leaves_no_guest() {
    if !runs_as_root() || !has_programs(&[QEMU]) || find_debian_kernel("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let args = [&ONE_CELL_ARGS[..], &["--on", "qemu", "--fs", "ext4", "--kernel", "debian:6.1-cloud"]].concat();
    let mut run = nobody.fsarena(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let uses_sandbox = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(text(&sandbox.dir))
    };
    let own_processes = || -> Vec<i32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(uses_sandbox).collect()
    };
    // The processes are fsarena, the process that supervises the guest, and the guest.
    wait_until("the guest begins", || own_processes().len() >= 3);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("every process is gone", || own_processes().is_empty());
    let (_, stderr) = nobody.expect(0, &["recover"]);
    assert!(stderr.contains("its process") && !stderr.contains("failed"), "{stderr}");
    let (_, stderr) = nobody.expect(0, &["recover"]);
    assert!(!stderr.contains("its process"), "{stderr}");
    assert_eq!(common::leftovers_below(&nobody.home), [""; 0]);
}
