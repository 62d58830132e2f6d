//! OpenZFS through the real binary, as far as that needs no compiled modules: `contrib/test-zfs` compiles them, and tries
//! the rest.

use crate::common::kernel::{debian, has};
use crate::common::nobody::Nobody;
use crate::common::{Place, root};

#[test]
fn pools_are_refused_outside_guests_and_properties_that_name_a_place_everywhere() {
    if !root() {
        return;
    }
    let place = Place::new();
    let run = ["run", "plan.toml", "--fs", "ext4,zfs"];
    for (code, args, words) in [
        (6, &[][..], "fsarena makes zfs in guests only"),
        (6, &[], "--on qemu"),
        (5, &["--on", "qemu", "--mkfs", "-O mountpoint=none"], "mountpoint"),
        (5, &["--on", "qemu", "--mkfs", "-o altroot=x"], "altroot"),
        (2, &["--on", "qemu", "--options", "tuned-2011"], "zfs"),
    ] {
        let (_, said) = place.expect(code, &[&run[..], args].concat());
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert!(!place.runs().exists(), "nothing was made");
}

#[test]
fn a_kernel_without_the_modules_is_refused_with_the_command_that_compiles_them() {
    if !root() || !has(&["qemu-system-x86_64"]) || debian("6.1", "-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let run = ["run", "--on", "qemu", "--kernel", "debian:6.1", "--fs", "zfs", "--workload", "tree"];
    // Where root has compiled them, the kernel has zfs, and nothing is refused.
    let compiled = std::fs::read_dir(fsarena_guest::cache::SHARED).into_iter().flatten().flatten();
    if compiled.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("modules-zfs-dkms-")) {
        return fsarena_sys::testkit::skipped("a cache without modules of OpenZFS");
    }
    let (_, said) = nobody.expect(6, &run);
    assert!(said.contains("has no zfs; `fsarena doctor --install zfs` compiles it"), "{said}");
    let (_, said) = nobody.expect(2, &["doctor", "--kernel", "debian:6.1"]);
    assert!(said.contains("FILESYSTEM"), "{said}");
}
