//! Kernels for guests: Debian's, where they were fetched, and stand-ins that do one thing.

use std::path::{Path, PathBuf};

/// Where a kernel without modules is entered, in physical memory.
const ENTRY: u32 = 0x10_0000;
/// Headers before the code in the file.
const HEAD: usize = 0x100;

/// Says so where a test is skipped for the lack of a program.
pub fn has(names: &[&str]) -> bool {
    names.iter().all(|name| fsarena_sys::testkit::program(name))
}

/// The fetched Debian kernel whose package begins and ends so: `.ci/run` fetches them. Says so where there is none.
pub fn debian(begin: &str, end: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(fsarena_guest::cache::SHARED).into_iter().flatten().flatten();
    let mut roots = entries.map(|entry| entry.path()).filter(|path| path.join("boot").is_dir());
    let is = |root: &PathBuf| {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix("linux-image-").is_some_and(|release| {
            let cloud = release.contains("-cloud-") == end.contains("-cloud-");
            cloud && release.starts_with(begin) && release.ends_with(end)
        })
    };
    let found = roots.find(is);
    if found.is_none() {
        fsarena_sys::testkit::skipped(&format!("no linux-image-{begin}…{end} in {}", fsarena_guest::cache::SHARED));
    }
    found
}

/// The image of a fetched kernel.
pub fn image(root: &Path) -> PathBuf {
    let entries = std::fs::read_dir(root.join("boot")).unwrap().flatten().map(|entry| entry.path());
    let is = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("vmlinuz-");
    entries.into_iter().find(is).unwrap()
}

/// The serial port: the console.
const CONSOLE: u16 = 0x3f8;
/// The port that guests speak through where instructions are counted.
pub const VOICE: u16 = 0xe9;

/// Writes an x86 kernel that prints `text` on its serial port and dies of a fault. Without a text it hangs.
pub fn for_x86(path: &Path, text: Option<&str>) {
    match text {
        // cli; hlt; and again
        None => std::fs::write(path, elf(&[0xFA, 0xF4, 0xEB, 0xFC])).unwrap(),
        Some(text) => that_says(path, CONSOLE, text),
    }
}

/// A kernel for x86 that says something through a port, and dies of a fault.
pub fn that_says(path: &Path, port: u16, text: &str) {
    let mut code = vec![0xBE]; // mov esi, text
    code.extend((ENTRY + 32).to_le_bytes());
    code.extend([0x66, 0xBA]); // mov dx, port
    code.extend(port.to_le_bytes());
    code.extend([0xAC, 0x84, 0xC0, 0x74, 0x03, 0xEE, 0xEB, 0xF8]); // until a zero: out dx, al
    code.extend([0x0F, 0x01, 0x1D]); // lidt of nothing
    code.extend((ENTRY + 26).to_le_bytes());
    code.push(0xCC); // int3: no handler, so the machine resets
    code.resize(32, 0);
    code.extend(text.as_bytes());
    code.push(0);
    std::fs::write(path, elf(&code)).unwrap();
}

/// Makes a stand-in name a filesystem as one that has it built in does.
pub fn with_built_in(path: &Path, filesystem: &str) {
    let mut image = std::fs::read(path).unwrap();
    image.extend(filesystem.as_bytes());
    image.push(0);
    std::fs::write(path, image).unwrap();
}

/// An ELF file of 64 bits with one segment, and the note that says where it is entered (Xen's PHYS32_ENTRY).
fn elf(code: &[u8]) -> Vec<u8> {
    let note_at = HEAD - 24;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([2u16, 62].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    file.extend([u64::from(ENTRY), 64, 0].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 2, 64, 0, 0].map(u16::to_le_bytes).concat());
    let mut segment = |kind: u32, offset: usize, address: u32, size: usize| {
        file.extend([kind, 7].map(u32::to_le_bytes).concat());
        let (offset, address, size) = (offset as u64, u64::from(address), size as u64);
        file.extend([offset, address, address, size, size, 4].map(u64::to_le_bytes).concat());
    };
    segment(1, HEAD, ENTRY, code.len());
    segment(4, note_at, 0, 20);
    file.resize(note_at, 0);
    file.extend([4u32, 4, 18].map(u32::to_le_bytes).concat());
    file.extend(b"Xen\0");
    file.extend(ENTRY.to_le_bytes());
    file.resize(HEAD, 0);
    file.extend(code);
    file
}

/// A bzImage in the place of an ELF file, which it has as its payload.
pub fn compress(path: &Path) {
    let payload = gzip(path);
    let mut image = vec![0; 1024];
    image[0x1F1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20E..0x210].copy_from_slice(&100u16.to_le_bytes());
    image[512 + 100..512 + 109].copy_from_slice(b"6.66.0 (x");
    std::fs::write(path, with_payload(image, &payload)).unwrap();
}

/// A copy of a bzImage whose header names an ELF file without any note as its payload. It boots as before: nothing that
/// boots a bzImage looks at that.
pub fn without_note(bzimage: &Path, to: &Path) {
    let mut program = elf(&[0xF4]);
    program[HEAD - 12..HEAD - 8].copy_from_slice(b"GNU\0");
    std::fs::write(to, program).unwrap();
    let payload = gzip(to);
    std::fs::write(to, with_payload(std::fs::read(bzimage).unwrap(), &payload)).unwrap();
}

fn gzip(path: &Path) -> Vec<u8> {
    std::process::Command::new("gzip").arg("-c").arg(path).output().unwrap().stdout
}

/// The setup's header counts from the end of the setup.
fn with_payload(mut image: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let at = image.len() - (usize::from(image[0x1F1]) + 1) * 512;
    image[0x248..0x24C].copy_from_slice(&(at as u32).to_le_bytes());
    image[0x24C..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend(payload);
    image
}
