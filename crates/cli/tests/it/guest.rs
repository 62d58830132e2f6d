//! Guests through the real binary, as an ordinary user.

use crate::common::kernel::{debian, has};
use crate::common::nobody::Nobody;
use crate::common::{Place, root};
use std::path::{Path, PathBuf};

const QEMU: &str = "qemu-system-x86_64";
/// The whole study.
const STUDY: [&str; 7] = ["run", "piszcz", "--scale", "tiny", "--rounds", "1", "--fs"];

/// What a terminal shows, without its line ends.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The only run in a directory of a user.
fn run_in(nobody: &Nobody, runs: &str) -> PathBuf {
    std::fs::read_dir(nobody.home.join(runs)).unwrap().next().unwrap().unwrap().path()
}

/// Whether the emulator is here, and what makes filesystems that only guests mount.
fn can_boot() -> bool {
    root() && has(&[QEMU, "mkfs.jfs", "mkfs.reiserfs"]) && debian("6.1", "-amd64").is_some()
}

/// Every guest of a run kept its console and its command line, and no image is left.
fn assert_kept(run: &Path, guests: usize) {
    let kept: Vec<_> = std::fs::read_dir(run.join("guests")).unwrap().flatten().collect();
    assert_eq!(kept.len(), guests);
    let has_both = |dir: &Path| dir.join("command.json").exists() && dir.join("console.log").exists();
    assert!(kept.iter().all(|guest| has_both(&guest.path())));
    assert!(!run.join("images").exists(), "images are left");
}

/// The whole study on what this kernel cannot mount.
#[test]
fn a_guest_does_the_whole_study_without_root() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    // The command chooses no guest: fsarena uses one because the user is not root.
    let (emulated, said) = nobody.expect(0, &[&STUDY[..], &["ext4,jfs,reiserfs", "--full"]].concat());
    let emulated = flat(&emulated);
    assert!(said.contains("so this runs in a guest kernel (--on qemu)"), "{said}");
    assert!(emulated.contains("only differences above 1.5 times"), "{emulated}");
    assert!(emulated.contains("from launch to the first timed operation"), "{emulated}");
    assert!(emulated.contains("021 Cat a") && emulated.contains("GEOMETRIC MEAN"), "{emulated}");
    assert_kept(&run_in(&nobody, "runs"), 3);
}

/// mkfs of bcachefs is a program of another suite, which runs with its own libraries.
#[test]
fn an_ordinary_user_compares_bcachefs_in_a_guest() {
    if !can_boot() {
        return;
    }
    if fsarena_sys::program::find("mkfs.bcachefs").is_none() {
        return fsarena_sys::testkit::skipped("program mkfs.bcachefs in the cache");
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let run = ["run", "--on", "qemu", "--workload", "tree", "--scale", "tiny", "--rounds", "1"];
    nobody.expect(0, &[&run[..], &["--fs", "bcachefs", "--options", "default,no-checksums"]].concat());
    let report = std::fs::read_to_string(run_in(&nobody, "runs").join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let variants: Vec<&str> =
        report["variants"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(variants, ["default", "no-checksums"], "{report}");
    assert_kept(&run_in(&nobody, "runs"), 2);
    let newer = ["run", "--on", "qemu", "--fs", "bcachefs", "--kernel", "debian:6.1", "--rounds", "1"];
    let (_, refusal) = nobody.expect(6, &newer);
    assert!(refusal.contains("has no bcachefs"), "{refusal}");
}

/// A client that writes a file and reads it.
const LOAD: &str = "\
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
fn a_loadfile_is_played_over_journals_on_disks_of_their_own() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let load = nobody.home.join("load.txt");
    std::fs::write(&load, LOAD).unwrap();
    let plan = format!(
        "name = \"clients\"\nscale = \"tiny\"\n[idle]\ntimeout = \"20ms\"\n[factors]\njournal = \"external\"\n\
         [[workload]]\nuse = \"dbench\"\nloadfile = {load:?}\nclients = [2]\nseconds = 0.1\n"
    );
    std::fs::write(nobody.home.join("plan.toml"), plan).unwrap();
    let run =
        |code, fs| nobody.expect(code, &["run", "plan.toml", "--rounds", "1", "--on", "qemu", "--fs", fs, "--full"]);
    let (answer, _) = run(0, "ext3,xfs,jfs,reiserfs");
    let answer = flat(&answer);
    assert!(answer.contains("Clients of a file server: 2"), "{answer}");
    assert_kept(&run_in(&nobody, "runs"), 4);
    std::fs::remove_file(&load).unwrap();
    let (_, said) = run(6, "ext4");
    assert!(said.contains("load.txt") && said.contains("No such file"), "{said}");
    assert_eq!(std::fs::read_dir(nobody.home.join("runs")).unwrap().count(), 1);
}

/// Two kernels of Debian as the two sides of a comparison.
#[test]
fn two_kernels_are_compared() {
    if !root() || !has(&[QEMU]) || debian("6.1", "-amd64").is_none() || debian("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let sides = ["--a", "fs=ext4,kernel=debian:6.1", "--b", "fs=ext4,kernel=debian:6.1-cloud", "--on", "qemu"];
    let (answer, _) = nobody.expect(4, &[&["ab", "peiffer", "--scale", "tiny", "--rounds", "1"][..], &sides].concat());
    assert!(flat(&answer).contains("B (ext4/debian:6.1-cloud) compared with A (ext4/debian:6.1)"), "{answer}");
    let run = run_in(&nobody, "runs");
    assert_kept(&run, 2);
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("-cloud-amd64"), "{report}");
}

/// Under translation a kernel boots once; what its guests begin with may be anything but what it was.
#[test]
fn guests_begin_with_a_machine_that_has_booted() {
    if !root() || !has(&[QEMU]) || debian("6.1", "-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let args = ["run", "--scale", "tiny", "--set", "tasks=1", "--on", "qemu", "--fs", "ext4", "--kernel", "debian:6.1"];
    let run = |runs: &str, rounds: &str, more: &[&str]| {
        let (answer, _) =
            nobody.expect(0, &[&args[..], &["--full", "--runs", runs, "--rounds", rounds], more].concat());
        let run = run_in(&nobody, runs);
        assert!(!run.join("images").exists(), "images are left");
        let mut guests: Vec<PathBuf> =
            std::fs::read_dir(run.join("guests")).unwrap().map(|guest| guest.unwrap().path()).collect();
        guests.sort();
        (flat(&answer), guests)
    };
    let read = |guest: &Path, name: &str| std::fs::read_to_string(guest.join(name)).unwrap();
    let (answer, guests) = run("first", "2", &[]);
    if !answer.contains("(QEMU, translated)") {
        fsarena_sys::testkit::skipped("with KVM every guest boots by itself");
        return;
    }
    let kept = |nobody: &Nobody| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(nobody.home.join(".cache/fsarena")).unwrap().flatten();
        let inside = entries.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten().flatten());
        inside.map(|file| file.path()).filter(|path| path.to_str().unwrap().contains("/state.")).collect()
    };
    assert!(answer.contains("and is kept: guests begin with it"), "{answer}");
    let [state] = &kept(&nobody)[..] else { panic!("not one machine is kept") };
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
    assert_eq!(kept(&nobody).len(), 1);
}
