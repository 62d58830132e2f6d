//! Guests that fail: each is one clear failed cell, and nothing is left of any.

use crate::common::kernel::{self, debian, has};
use crate::common::{self, Place, root};
use crate::common::{gate::wait_until, nobody::Nobody};
use std::{path::Path, process::Stdio};

const QEMU: &str = "qemu-system-x86_64";
/// One cell that is over in a moment.
const ONE: [&str; 8] = ["run", "--scale", "tiny", "--rounds", "1", "--set", "tasks=1", "--quiet"];

/// What an ordinary user sees of a run of one task with these further arguments.
#[track_caller]
fn seen(nobody: &Nobody, code: i32, more: &[&str]) -> (String, String) {
    nobody.expect(code, &[&ONE[..], &["--full"], more].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn features_that_the_kernel_lacks_are_refused_before_anything_is_made() {
    if !root() || !has(&[QEMU, "mkfs.jfs"]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let kernel = nobody.home.join("bzImage");
    std::fs::write(&kernel, "text").unwrap();
    let refused = |more: &[&str], word: &str| {
        let (_, said) = seen(&nobody, 6, more);
        assert!(said.contains(word), "{said}");
        assert!(!nobody.home.join("runs").exists());
    };
    refused(&["--on", "qemu", "--kernel", text(&kernel), "--fs", "ext4"], "not an x86 kernel");
    // One that has nothing but ext4 in it, first without modules, then with a directory of some.
    let own = nobody.home.join("own");
    kernel::for_x86(&own, Some("ext4"));
    let args = ["--on", "qemu", "--kernel", text(&own)];
    refused(&[&args[..], &["--fs", "jfs"]].concat(), "has no jfs");
    let modules = nobody.home.join("modules");
    std::fs::create_dir_all(modules.join("kernel")).unwrap();
    std::fs::write(modules.join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
    refused(&[&args[..], &["--modules", text(&modules), "--fs", "jfs"]].concat(), "has no jfs");
    let Some(cloud) = debian("6.1", "-cloud-amd64") else { return };
    refused(&["--on", "qemu", "--kernel", "debian:6.1-cloud", "--fs", "jfs"], "-cloud-amd64 has no jfs");
    let bytes = std::fs::read(kernel::image(&cloud)).unwrap();
    std::fs::write(&kernel, &bytes[..bytes.len() / 2]).unwrap();
    refused(&["--on", "qemu", "--kernel", text(&kernel), "--fs", "ext4"], "is a truncated kernel");
}

/// One run of three kernels, none of which works: each is told for what it is, and the next has its turn.
#[test]
fn a_kernel_that_panics_or_hangs_is_one_failed_cell() {
    if !root() || !has(&[QEMU]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let [panics, hangs] = ["panics", "hangs"].map(|name| nobody.home.join(name));
    kernel::for_x86(&panics, Some("Kernel panic - not syncing: stand-in without ext4\r\n"));
    kernel::for_x86(&hangs, None);
    [&hangs, &panics].iter().for_each(|kernel| kernel::with_built_in(kernel, "ext4"));
    let kernels = ["--kernel", text(&hangs), "--kernel", text(&panics)];
    let args = ["--on", "qemu", "--fs", "ext4", "--guest-timeout", "5s"];
    let (_, said) = seen(&nobody, 4, &[&args[..], &kernels].concat());
    assert!(said.contains("has sent nothing for 5 s since it was started"), "{said}");
    assert!(said.contains("its kernel panicked") && said.contains("stand-in without ext4"), "{said}");
}

/// A sample and the end of a cell, as a guest says them.
const SAID: [&str; 2] = [
    r#"{"event":{"event":"sample","task":{"id":{"name":"touch"},"title":"Touch","in_totals":true},"started_at":1.0,"readings":{"elapsed_ns":5e6,"user_ns":1e6,"system_ns":4e6}}}"#,
    r#"{"end":{"outcome":"done"}}"#,
];

/// Puts a script in the place of QEMU. Its disk under test is `$DISK`; it writes events to its standard output, and what
/// stands for the console to its standard error.
fn qemu_that(place: &Place, script: &str) {
    let version = "[ \"$1\" = --version ] && echo 'QEMU emulator version 7.2.0' && exit";
    let disk = "for word; do case $word in *id=test,*) DISK=${word##*file=};; esac; done";
    // A trial boot under KVM has no disk.
    place.shim(QEMU, &format!("{version}\n{disk}\n[ -n \"$DISK\" ] || exit 1\n{script}"));
}

/// A user's own kernels with a filesystem that no distribution has: the whole way of a cell but the kernel.
#[test]
fn a_kernel_of_ones_own_gets_the_filesystem_it_has() {
    if !root() || !has(&["mkfs.reiser4", "mkfs.jfs"]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let own = nobody.home.join("linux");
    // It speaks where instructions are counted.
    kernel::that_says(&own, kernel::VOICE, &format!("{}\n{}\n", SAID[0], SAID[1]));
    ["ext4", "reiser4"].iter().for_each(|filesystem| kernel::with_built_in(&own, filesystem));
    let script = format!(
        "dd if=\"$DISK\" bs=1 skip=65536 count=7 2>/dev/null | grep -q ReIsEr4 || exit 3\n\
         printf '%s\\n' '{}' '{}'",
        SAID[0], SAID[1]
    );
    qemu_that(&place, &script);
    let args = ["--on", "qemu", "--fresh-guests", "--kernel", text(&own), "--fs"];
    let (answer, _) = seen(&nobody, 0, &[&args[..], &["reiser4"]].concat());
    assert!(answer.contains("Touch"), "{answer}");
    let (_, said) = seen(&nobody, 6, &[&args[..], &["jfs"]].concat());
    assert!(said.contains("has no jfs"), "{said}");
    let direct = ["run", "engel", "--on", "qemu", "--kernel", text(&own), "--fs", "reiser4"];
    let (_, said) = nobody.expect(2, &direct);
    assert!(said.contains("Reiser4 has no direct I/O") && said.contains("direct=false"), "{said}");
    // And one that dies of it.
    qemu_that(&place, "echo 'Kernel panic - not syncing: reiser4' >&2; exit 1");
    let (_, said) = seen(&nobody, 4, &[&args[..], &["reiser4"]].concat());
    assert!(said.contains("its kernel panicked") && said.contains("not syncing: reiser4"), "{said}");
    std::fs::remove_file(place.dir.join("shims").join(QEMU)).unwrap();
    if !has(&[QEMU]) {
        return;
    }
    let args = ["--on", "exact", "--kernel", text(&own), "--fs"];
    let (answer, _) = seen(&nobody, 0, &[&args[..], &["reiser4"]].concat());
    assert!(answer.contains("Touch") && answer.contains("kernel_instructions"), "{answer}");
    let (_, said) = seen(&nobody, 6, &[&args[..], &["jfs"]].concat());
    assert!(said.contains("has no jfs"), "{said}");
}

/// The first guest of the cell is killed in its work, with a sample told; the second does it all.
#[test]
fn a_guest_that_dies_once_is_followed_by_a_fresh_one() {
    if !root() || !has(&["mkfs.reiser4"]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let own = nobody.home.join("linux");
    let script = format!(
        "printf '%s\\n' '{}'\n[ -e once ] || {{ touch once; sleep 0.1; kill -9 $$; }}\nprintf '%s\\n' '{}'",
        SAID[0], SAID[1]
    );
    kernel::for_x86(&own, None);
    ["ext4", "reiser4"].iter().for_each(|filesystem| kernel::with_built_in(&own, filesystem));
    qemu_that(&place, &script);
    let args = ["--on", "qemu", "--fresh-guests", "--kernel", text(&own), "--fs", "reiser4"];
    let (answer, _) = seen(&nobody, 0, &args);
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
    if !root() || !has(&[QEMU, "gzip"]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let own = nobody.home.join("bzImage");
    kernel::that_says(&own, kernel::VOICE, &format!("{}\n{}\n", SAID[0], SAID[1]));
    kernel::with_built_in(&own, "ext4");
    kernel::compress(&own);
    let run = || seen(&nobody, 0, &["--on", "exact", "--kernel", text(&own), "--fs", "ext4"]).0;
    let cached = || {
        let entries = std::fs::read_dir(nobody.home.join(".cache/fsarena")).unwrap();
        let mut found = entries.map(|entry| entry.unwrap().path());
        let only = found.find(|path| text(path).contains("/vmlinux-6.66.0-")).unwrap();
        assert!(found.all(|path| !text(&path).contains("/vmlinux-")));
        only
    };
    assert!(!run().contains("was damaged"));
    let (entry, whole) = (cached(), std::fs::read(cached()).unwrap());
    for damaged in [&whole[..100], &[&whole[..300], &b"?"[..], &whole[301..]].concat()] {
        std::fs::write(&entry, damaged).unwrap();
        let answer = run();
        assert_eq!(answer.matches("was damaged").count(), 1, "{answer}");
        assert_eq!((cached(), std::fs::read(cached()).unwrap()), (entry.clone(), whole.clone()));
    }
}

/// A kernel of Debian whose unpacked form lacks the note that QEMU enters it by.
#[test]
fn a_bzimage_that_qemu_cannot_enter_unpacked_boots_whole() {
    let Some(cloud) = debian("6.1", "-cloud-amd64").filter(|_| root() && has(&[QEMU, "gzip"])) else {
        return;
    };
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let own = nobody.home.join("bzImage");
    kernel::without_note(&kernel::image(&cloud), &own);
    let args = ["--on", "qemu", "--fresh-guests", "--kernel", text(&own), "--modules", text(&cloud), "--fs", "ext4"];
    let (answer, _) = seen(&nobody, 0, &args);
    assert!(answer.contains("Touch 20 files") && !answer.contains("Failed"), "{answer}");
}

#[test]
fn a_file_that_is_not_a_kernel_is_reported_as_such() {
    if !root() || !has(&[QEMU]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    for on in ["exact", "qemu"] {
        let (_, said) = seen(&nobody, 6, &["--on", on, "--kernel", "/bin/sh", "--fs", "ext4"]);
        assert!(said.contains("is a program, not a kernel that QEMU boots"), "{said}");
        let (_, said) = seen(&nobody, 2, &["--on", on, "--kernel", "nowhere/linux", "--fs", "ext4"]);
        assert!(said.contains("No such file or directory: nowhere/linux"), "{said}");
    }
    assert!(!nobody.home.join("runs").exists());
}

/// Memory that is too little is told by a real kernel's own panic; a filesystem that is full fails alone.
#[test]
fn a_guest_without_memory_or_room_fails_alone() {
    if !root() || !has(&[QEMU]) || debian("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let args = ["--on", "qemu", "--kernel", "debian:6.1-cloud", "--fs", "ext4"];
    let with_memory =
        |code, mib: u64| seen(&nobody, code, &[&args[..], &["--guest-memory", &format!("{mib}MiB")]].concat()).1;
    // Known to be lacking before the boot.
    let said = with_memory(6, 64);
    assert!(said.contains("cannot boot"), "{said}");
    // Enough to hold the initramfs, and not to unpack it.
    let own = std::fs::metadata(common::program()).unwrap().len() >> 20;
    let said = with_memory(4, (5 * own / 2).max(own + 70));
    assert!(["too little memory", "memory ran out"].iter().any(|words| said.contains(words)), "{said}");
    // 313 files, of which the one filesystem holds 245.
    let full = ["run", "--scale", "quick", "--rounds", "1", "--set", "tasks=1", "--mkfs", "", "--mkfs", "-N 16"];
    let (answer, _) = nobody.expect(0, &[&full[..], &["--full"], &args].concat());
    let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(answer.contains("No space left on device"), "{answer}");
    assert!(answer.contains("Touch"), "{answer}");
}

/// Killed in the midst of a guest, fsarena leaves no process, and nothing that `recover` does not clear away.
#[test]
fn a_killed_run_leaves_no_guest() {
    if !root() || !has(&[QEMU]) || debian("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let args = [&ONE[..], &["--on", "qemu", "--fs", "ext4", "--kernel", "debian:6.1-cloud"]].concat();
    let mut run = nobody.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let image = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(text(&place.dir))
    };
    let ours = || -> Vec<i32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(image).collect()
    };
    // fsarena, the guest's keeper, the guest.
    wait_until("the guest begins", || ours().len() >= 3);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("every process is gone", || ours().is_empty());
    let (_, said) = nobody.expect(0, &["recover"]);
    assert!(said.contains("its process") && !said.contains("failed"), "{said}");
    let (_, said) = nobody.expect(0, &["recover"]);
    assert!(!said.contains("its process"), "{said}");
    assert_eq!(common::left_below(&nobody.home), [""; 0]);
}
