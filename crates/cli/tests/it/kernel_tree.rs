//! A kernel in the tree where it was built, as a guest boots it.

use crate::common::kernel::{debian, has, image};
use crate::common::{Place, text};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes a build tree of a fetched kernel: its image, its modules where a build leaves them, and both lists.
fn build_tree(package: &Path, tree: &Path) {
    let release = image(package).file_name().unwrap().to_string_lossy().replace("vmlinuz-", "");
    let modules = package.join("lib/modules").join(release);
    std::fs::create_dir_all(tree.join("arch/x86/boot")).unwrap();
    std::fs::copy(image(package), tree.join("arch/x86/boot/bzImage")).unwrap();
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
    if !has(&["qemu-system-x86_64"]) {
        return;
    }
    let Some(package) = debian("6.1.", "-amd64") else { return };
    let place = Place::new();
    build_tree(&package, &place.dir.join("home/linux"));
    let run = ["run", "peiffer", "--on", "exact", "--fs", "ext4", "--scale", "tiny", "--rounds", "1", "-q"];
    // `~` is not at the beginning of the word, so no shell expands it.
    let output = place.fsarena(&[&run[..], &["--kernel=~/linux"]].concat()).output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}\n{said}");
    let flat = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("DEBUG KERNEL: 6.1.") && flat.contains("is built with KASAN, lockdep (PROVE_LOCKING)"),
        "{printed}"
    );
    let tree = place.dir.join("home/linux").display().to_string();
    assert!(place.run_text("plan.toml").contains(&tree), "{printed}");
    place.assert_clean();

    let without = place.dir.join("none");
    std::fs::create_dir(&without).unwrap();
    let (_, said) = place.expect(6, &[&run[..], &["--kernel", "none"]].concat());
    assert!(said.contains("neither vmlinux, arch/x86/boot/bzImage nor boot/vmlinuz-RELEASE"), "{said}");
}
