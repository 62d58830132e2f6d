//! Guests with a kernel from its build tree.

use crate::common::kernel::{find_debian_kernel, has_programs, kernel_image};
use crate::common::{Sandbox, text};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes a build tree from a kernel package: the image, the modules where a build leaves them, and both lists of modules.
fn make_build_tree(package: &Path, tree: &Path) {
    let release = kernel_image(package).file_name().unwrap().to_string_lossy().replace("vmlinuz-", "");
    let modules = package.join("lib/modules").join(release);
    std::fs::create_dir_all(tree.join("arch/x86/boot")).unwrap();
    std::fs::copy(kernel_image(package), tree.join("arch/x86/boot/bzImage")).unwrap();
    for dir in ["arch/x86/crypto", "block", "crypto", "drivers", "fs", "lib"] {
        symlink(modules.join("kernel").join(dir), tree.join(dir)).unwrap();
    }
    let installed = std::fs::read_to_string(modules.join("modules.order")).unwrap();
    let built = installed.lines().map(|line| line.replacen("kernel/", "", 1).replace(".ko", ".o\n"));
    std::fs::write(tree.join("modules.order"), built.collect::<String>()).unwrap();
    std::fs::copy(modules.join("modules.builtin"), tree.join("modules.builtin")).unwrap();
    std::fs::write(tree.join(".config"), "CONFIG_KASAN=y\nCONFIG_PROVE_LOCKING=y\n").unwrap();
}

#[test]
fn a_guest_boots_the_kernel_of_a_build_tree() {
    if !has_programs(&["qemu-system-x86_64"]) {
        return;
    }
    let Some(package) = find_debian_kernel("6.1.", "-amd64") else { return };
    let sandbox = Sandbox::new();
    make_build_tree(&package, &sandbox.dir.join("home/linux"));
    let run = ["run", "peiffer", "--on", "exact", "--fs", "ext4", "--scale", "tiny", "--rounds", "1", "-q"];
    // `~` is not at the beginning of the word, so no shell expands it.
    let output = sandbox.fsarena(&[&run[..], &["--kernel=~/linux"]].concat()).output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}\n{stderr}");
    let printed_words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        printed_words.contains("DEBUG KERNEL: 6.1.")
            && printed_words.contains("is built with KASAN, lockdep (PROVE_LOCKING)"),
        "{printed}"
    );
    let tree = sandbox.dir.join("home/linux").display().to_string();
    assert!(sandbox.run_text("plan.toml").contains(&tree), "{printed}");
    sandbox.assert_clean();

    let empty_tree = sandbox.dir.join("none");
    std::fs::create_dir(&empty_tree).unwrap();
    let (_, stderr) = sandbox.expect(6, &[&run[..], &["--kernel", "none"]].concat());
    assert!(stderr.contains("neither vmlinux, arch/x86/boot/bzImage nor boot/vmlinuz-RELEASE"), "{stderr}");
}
