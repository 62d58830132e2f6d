//! Guests through the real binary, as an ordinary user.

use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root};
use std::path::{Path, PathBuf};

const QEMU: &str = "qemu-system-x86_64";
/// Flags that run the whole study once.
const STUDY_RUN_ARGS: [&str; 7] = ["run", "piszcz", "--scale", "tiny", "--rounds", "1", "--fs"];

/// A text in one line, with single spaces.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The only run in a directory of a user.
fn run_in(nobody: &Nobody, runs: &str) -> PathBuf {
    std::fs::read_dir(nobody.home.join(runs)).unwrap().next().unwrap().unwrap().path()
}

/// Whether guests can boot here, and the mkfs programs of filesystems that only guests mount are installed.
fn can_boot() -> bool {
    runs_as_root()
        && has_programs(&[QEMU, "mkfs.jfs", "mkfs.reiserfs"])
        && find_debian_kernel("6.1", "-amd64").is_some()
}

/// Asserts that the run stored the console and the command line of each guest, and that no image is left.
fn assert_guest_files(run: &Path, guests: usize) {
    let guest_dirs: Vec<_> = std::fs::read_dir(run.join("guests")).unwrap().flatten().collect();
    assert_eq!(guest_dirs.len(), guests);
    let has_both = |dir: &Path| dir.join("command.json").exists() && dir.join("console.log").exists();
    assert!(guest_dirs.iter().all(|guest| has_both(&guest.path())));
    assert!(!run.join("images").exists(), "images are left");
}

/// The study runs on filesystems that the kernel of the host cannot mount.
#[test]
fn a_guest_does_the_whole_study_without_root() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    // The command chooses no guest: fsarena uses one because the user is not root.
    let (emulated, stderr) = nobody.expect(0, &[&STUDY_RUN_ARGS[..], &["ext4,jfs,reiserfs", "--full"]].concat());
    let emulated = in_one_line(&emulated);
    assert!(stderr.contains("so this runs in a guest kernel (--on qemu)"), "{stderr}");
    assert!(emulated.contains("only differences above 1.5 times"), "{emulated}");
    assert!(emulated.contains("from launch to the first timed operation"), "{emulated}");
    assert!(emulated.contains("021 Cat a") && emulated.contains("GEOMETRIC MEAN"), "{emulated}");
    assert_guest_files(&run_in(&nobody, "runs"), 3);
}

/// The mkfs of bcachefs comes from another suite of Debian, with its own libraries.
#[test]
fn an_ordinary_user_compares_bcachefs_in_a_guest() {
    if !can_boot() {
        return;
    }
    if fsarena_sys::program::find("mkfs.bcachefs").is_none() {
        return fsarena_sys::testkit::record_skip("program mkfs.bcachefs in the cache");
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let run = ["run", "--on", "qemu", "--workload", "tree", "--scale", "tiny", "--rounds", "1"];
    nobody.expect(0, &[&run[..], &["--fs", "bcachefs", "--options", "default,no-checksums"]].concat());
    let report = std::fs::read_to_string(run_in(&nobody, "runs").join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let variants: Vec<&str> =
        report["variants"].as_array().unwrap().iter().filter_map(|variant| variant["name"].as_str()).collect();
    assert_eq!(variants, ["default", "no-checksums"], "{report}");
    assert_guest_files(&run_in(&nobody, "runs"), 2);
    let newer = ["run", "--on", "qemu", "--fs", "bcachefs", "--kernel", "debian:6.1", "--rounds", "1"];
    let (_, refusal) = nobody.expect(6, &newer);
    assert!(refusal.contains("has no bcachefs"), "{refusal}");
}

/// A loadfile of dbench: a client writes a file and reads it.
const LOADFILE: &str = "\
NTCreateX \"\\clients\" 0x1 0x2 1 0x0
Close 1 0x0
NTCreateX \"\\clients\\client1\" 0x40 0x2 1 0x0
WriteX 1 0 4096 4096 0x0
Flush 1 0x0
ReadX 1 0 4096 4096 0x0
Close 1 0x0
";

/// Guests see the files and disks that the host makes: the load of a loadfile, and journals on separate disks.
#[test]
fn a_loadfile_runs_on_filesystems_with_external_journals() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let load = nobody.home.join("load.txt");
    std::fs::write(&load, LOADFILE).unwrap();
    let plan = format!(
        "name = \"clients\"\nscale = \"tiny\"\n[idle]\ntimeout = \"20ms\"\n[factors]\njournal = \"external\"\n\
         [[workload]]\nuse = \"dbench\"\nloadfile = {load:?}\nclients = [2]\nseconds = 0.1\n"
    );
    std::fs::write(nobody.home.join("plan.toml"), plan).unwrap();
    let run =
        |code, fs| nobody.expect(code, &["run", "plan.toml", "--rounds", "1", "--on", "qemu", "--fs", fs, "--full"]);
    let (answer, _) = run(0, "ext3,xfs,jfs,reiserfs");
    let answer = in_one_line(&answer);
    assert!(answer.contains("Clients of a file server: 2"), "{answer}");
    assert_guest_files(&run_in(&nobody, "runs"), 4);
    std::fs::remove_file(&load).unwrap();
    let (_, stderr) = run(6, "ext4");
    assert!(stderr.contains("load.txt") && stderr.contains("No such file"), "{stderr}");
    assert_eq!(std::fs::read_dir(nobody.home.join("runs")).unwrap().count(), 1);
}

/// `fsarena ab` compares two kernels of Debian.
#[test]
fn two_kernels_are_compared() {
    if !runs_as_root()
        || !has_programs(&[QEMU])
        || find_debian_kernel("6.1", "-amd64").is_none()
        || find_debian_kernel("6.1", "-cloud-amd64").is_none()
    {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let sides = ["--a", "fs=ext4,kernel=debian:6.1", "--b", "fs=ext4,kernel=debian:6.1-cloud", "--on", "qemu"];
    let (answer, _) = nobody.expect(4, &[&["ab", "peiffer", "--scale", "tiny", "--rounds", "1"][..], &sides].concat());
    assert!(in_one_line(&answer).contains("B (ext4/debian:6.1-cloud) compared with A (ext4/debian:6.1)"), "{answer}");
    let run = run_in(&nobody, "runs");
    assert_guest_files(&run, 2);
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("-cloud-amd64"), "{report}");
}

/// Without KVM a kernel boots once, and its guests start from a snapshot. A damaged snapshot is made again.
#[test]
fn guests_start_from_a_snapshot() {
    if !runs_as_root() || !has_programs(&[QEMU]) || find_debian_kernel("6.1", "-amd64").is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let args = ["run", "--scale", "tiny", "--set", "tasks=1", "--on", "qemu", "--fs", "ext4", "--kernel", "debian:6.1"];
    let run = |runs: &str, rounds: &str, extra_args: &[&str]| {
        let (answer, _) =
            nobody.expect(0, &[&args[..], &["--full", "--runs", runs, "--rounds", rounds], extra_args].concat());
        let run = run_in(&nobody, runs);
        assert!(!run.join("images").exists(), "images are left");
        let mut guests: Vec<PathBuf> =
            std::fs::read_dir(run.join("guests")).unwrap().map(|guest| guest.unwrap().path()).collect();
        guests.sort();
        (in_one_line(&answer), guests)
    };
    let read = |guest: &Path, name: &str| std::fs::read_to_string(guest.join(name)).unwrap();
    let (answer, guests) = run("first", "2", &[]);
    if !answer.contains("(QEMU, translated)") {
        fsarena_sys::testkit::record_skip("with KVM every guest boots by itself");
        return;
    }
    let snapshots = |nobody: &Nobody| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(nobody.home.join(".cache/fsarena")).unwrap().flatten();
        let inside = entries.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten().flatten());
        inside.map(|file| file.path()).filter(|path| path.to_str().unwrap().contains("/state.")).collect()
    };
    assert!(answer.contains("and is kept: guests begin with it"), "{answer}");
    let [state] = &snapshots(&nobody)[..] else { panic!("there is not exactly one snapshot") };
    assert!(guests[0].join("boot.json").exists() && !guests[1].join("boot.json").exists());
    assert!(read(&guests[0], "boot.json").contains("-initrd"));
    assert!(guests.iter().all(|guest| read(guest, "command.json").contains("-incoming")));

    let (answer, guests) = run("fresh", "1", &["--fresh-guests"]);
    assert!(!answer.contains("is kept"), "{answer}");
    assert!(!read(&guests[0], "command.json").contains("-incoming"));

    let (answer, guests) = run("again", "1", &[]);
    assert!(answer.contains("start from a snapshot of an earlier run"), "{answer}");
    assert!(!guests[0].join("boot.json").exists());

    let file = std::fs::File::options().write(true).open(state).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let (answer, guests) = run("damaged", "1", &[]);
    assert_eq!(answer.matches("was damaged").count(), 1, "{answer}");
    assert!(guests[0].join("boot.json").exists());
    assert!(read(&guests[0], "command.json").contains("-incoming"));
    assert_eq!(snapshots(&nobody).len(), 1);
}
