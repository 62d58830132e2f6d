//! The parts of a machine in which nothing varies: whatever the host does at its own pace would show in the count.
//!
//! A virtio disk completes when a thread of QEMU gets to it, so that the guest is interrupted after another number of
//! instructions each time. The disks here are memory (NVDIMM): the guest copies, and is done. Its words leave through
//! an I/O port, which takes a byte while the guest's own instruction waits.

use crate::modules::Modules;
use std::{ffi::OsString, path::Path};

/// The drivers of disks that are memory.
pub const MEMORY_DISKS: [&str; 2] = ["nfit", "nd_pmem"];
/// The I/O port that takes the guest's words: where machines have had one for debugging since Bochs.
pub const PORT: u64 = 0xe9;

/// Whether a kernel is known to have disks that are memory.
pub fn has_memory_disks(modules: &Modules) -> bool {
    MEMORY_DISKS.iter().all(|name| modules.has(name))
}

/// The memory of a machine, and its disks of these images, which stay as they are: what is written to them is this
/// guest's own, and gone with it.
pub fn memory(mib: u64, images: &[(&str, &Path)]) -> Vec<OsString> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let disks: u64 = images.iter().map(|(_, path)| size(path).next_multiple_of(1 << 30)).sum();
    // Each may be aligned to a gibibyte.
    let most = mib + (disks >> 20) + 1024 * images.len() as u64;
    let mut words: Vec<OsString> =
        vec!["-m".into(), format!("{mib}M,slots={},maxmem={most}M", images.len()).into()];
    for (name, path) in images {
        let head = format!("memory-backend-file,id=memory-{name},share=off,size={},mem-path=", size(path));
        words.extend(["-object".into(), option(&head, path)]);
        words.extend(["-device".into(), format!("nvdimm,id={name},memdev=memory-{name}").into()]);
    }
    words
}

/// What the guest says, on standard output.
pub const EVENTS: &str =
    "-chardev file,id=events,path=/dev/stdout -device isa-debugcon,iobase=0xe9,chardev=events";

/// One instruction is one nanosecond, and waiting takes none of the host's time; the same random numbers and the same
/// day each time.
pub const CLOCK: &str = "-icount shift=0,sleep=off,align=off -seed 1 -rtc base=2020-01-01T00:00:00,clock=vm";

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = OsString> {
    text.split(' ').map(OsString::from)
}

/// An option that ends with a path. QEMU wants commas in it doubled.
pub(crate) fn option(head: &str, path: &Path) -> OsString {
    format!("{head}{}", path.to_string_lossy().replace(',', ",,")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_memory_beside_the_machines_own() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("a,b.img");
        std::fs::File::create(&image).unwrap().set_len(300 << 20).unwrap();
        let words: Vec<String> =
            memory(512, &[("test", &image)]).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words[1], "512M,slots=1,maxmem=2560M");
        assert!(
            words[3].starts_with("memory-backend-file,id=memory-test,share=off,size=314572800,"),
            "{words:?}"
        );
        assert!(
            words[3].ends_with("/a,,b.img") && words[5] == "nvdimm,id=test,memdev=memory-test",
            "{words:?}"
        );
    }
}
