//! Refusals of OpenZFS, which need no kernel modules. `contrib/test-zfs` compiles the modules and tests runs.

use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root};

#[test]
fn pools_are_refused_outside_guests_and_properties_with_paths_in_guests() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let run = ["run", "plan.toml", "--fs", "ext4,zfs"];
    for (code, args, words) in [
        (6, &[][..], "fsarena makes zfs in guests only"),
        (6, &[], "--on qemu"),
        (5, &["--on", "qemu", "--mkfs", "-O mountpoint=none"], "mountpoint"),
        (5, &["--on", "qemu", "--mkfs", "-o altroot=x"], "altroot"),
        (2, &["--on", "qemu", "--options", "tuned-2011"], "zfs"),
    ] {
        let (_, stderr) = sandbox.expect(code, &[&run[..], args].concat());
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    assert!(!sandbox.runs_dir().exists(), "nothing was made");
}

#[test]
fn a_kernel_without_the_modules_is_refused_with_the_command_that_compiles_them() {
    if !runs_as_root() || !has_programs(&["qemu-system-x86_64"]) || find_debian_kernel("6.1", "-amd64").is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let run = ["run", "--on", "qemu", "--kernel", "debian:6.1", "--fs", "zfs", "--workload", "tree"];
    // If root has compiled the modules, the kernel has zfs, and the run is not refused.
    let compiled = std::fs::read_dir(fsarena_sys::dirs::SHARED_CACHE).into_iter().flatten().flatten();
    if compiled.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("modules-zfs-dkms-")) {
        return fsarena_sys::testkit::record_skip("a cache without modules of OpenZFS");
    }
    let (_, stderr) = nobody.expect(6, &run);
    assert!(stderr.contains("has no zfs; `fsarena doctor --install zfs` compiles it"), "{stderr}");
    let (_, stderr) = nobody.expect(2, &["doctor", "--kernel", "debian:6.1"]);
    assert!(stderr.contains("FILESYSTEM"), "{stderr}");
}
