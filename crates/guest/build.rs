//! Compiles the instruction counter, a QEMU plugin, and embeds it in the library: users need no separate file.

use std::{path::Path, process::Command};

const SOURCE: &str = "counter/plugin.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let plugin = Path::new(&variable("OUT_DIR")).join("counter.so");
    // QEMU runs on the machine of fsarena. QEMU loads the plugin, so even a static fsarena has a plugin that is linked with the
    // shared C library.
    let is_same_architecture = variable("HOST").split('-').next() == variable("TARGET").split('-').next();
    if !is_same_architecture || !variable("TARGET").contains("linux") {
        std::fs::write(&plugin, []).expect("the build directory can be written");
        return;
    }
    let mut command = Command::new(variable("RUSTC"));
    command.args(["--crate-type", "cdylib", "--crate-name", "counter", "--edition", "2024", "-C", "opt-level=2"]);
    command.args(["-C", "panic=abort", "-C", "strip=symbols", "-o"]).arg(&plugin).arg(SOURCE);
    let status = command.status().expect("rustc can be started");
    assert!(status.success(), "{SOURCE} cannot be compiled: {status}");
}
