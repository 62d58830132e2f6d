//! Kernels for guests: fetched ones of Debian, and tiny kernels that fail in one way.

use std::path::{Path, PathBuf};

/// The entry point of the tiny kernels, in physical memory.
const ENTRY_ADDRESS: u32 = 0x10_0000;
/// The bytes of the headers before the code in the file.
const HEADER_BYTES: usize = 0x100;

/// Whether these programs are installed. If one is not, notes that the test is skipped.
pub fn has_programs(names: &[&str]) -> bool {
    names.iter().all(|name| fsarena_sys::testkit::has_program(name))
}

/// Finds a fetched Debian kernel whose release begins with `begin` and ends with `end`; `.ci/run` fetches them. If there is
/// none, notes that the test is skipped.
pub fn find_debian_kernel(begin: &str, end: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(fsarena_sys::dirs::SHARED_CACHE).into_iter().flatten().flatten();
    let mut roots = entries.map(|entry| entry.path()).filter(|path| path.join("boot").is_dir());
    let matches = |root: &PathBuf| {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix("linux-image-").is_some_and(|release| {
            let is_same_flavour = release.contains("-cloud-") == end.contains("-cloud-");
            is_same_flavour && release.starts_with(begin) && release.ends_with(end)
        })
    };
    let kernel = roots.find(matches);
    if kernel.is_none() {
        fsarena_sys::testkit::record_skip(&format!(
            "no linux-image-{begin}…{end} in {}",
            fsarena_sys::dirs::SHARED_CACHE
        ));
    }
    kernel
}

/// The image of a fetched kernel.
pub fn kernel_image(root: &Path) -> PathBuf {
    let entries = std::fs::read_dir(root.join("boot")).unwrap().flatten().map(|entry| entry.path());
    let is_image = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("vmlinuz-");
    entries.into_iter().find(is_image).unwrap()
}

/// The I/O port of the serial console.
const CONSOLE_PORT: u16 = 0x3f8;
/// The I/O port to which guests write events if instructions are counted.
pub const EVENT_PORT: u16 = 0xe9;

/// Writes an x86 kernel that prints `text` on its serial port and dies of a fault. Without a text it hangs.
pub fn write_failing_kernel(path: &Path, text: Option<&str>) {
    match text {
        // cli; hlt; in a loop
        None => std::fs::write(path, elf(&[0xFA, 0xF4, 0xEB, 0xFC])).unwrap(),
        Some(text) => write_printing_kernel(path, CONSOLE_PORT, text),
    }
}

/// Writes an x86 kernel that writes `text` to an I/O port, and dies of a fault.
pub fn write_printing_kernel(path: &Path, port: u16, text: &str) {
    let mut code = vec![0xBE]; // mov esi, text
    code.extend((ENTRY_ADDRESS + 32).to_le_bytes());
    code.extend([0x66, 0xBA]); // mov dx, port
    code.extend(port.to_le_bytes());
    code.extend([0xAC, 0x84, 0xC0, 0x74, 0x03, 0xEE, 0xEB, 0xF8]); // up to a zero byte: out dx, al
    code.extend([0x0F, 0x01, 0x1D]); // lidt of nothing
    code.extend((ENTRY_ADDRESS + 26).to_le_bytes());
    code.push(0xCC); // int3: no handler, so the machine resets
    code.resize(32, 0);
    code.extend(text.as_bytes());
    code.push(0);
    std::fs::write(path, elf(&code)).unwrap();
}

/// Makes a tiny kernel look as if it had a filesystem built in, by appending the name of the filesystem.
pub fn add_built_in_filesystem(path: &Path, filesystem: &str) {
    let mut image = std::fs::read(path).unwrap();
    image.extend(filesystem.as_bytes());
    image.push(0);
    std::fs::write(path, image).unwrap();
}

/// A 64-bit ELF file with one segment, and the note with its entry point (Xen's PHYS32_ENTRY).
fn elf(code: &[u8]) -> Vec<u8> {
    let note_offset = HEADER_BYTES - 24;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([2u16, 62].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    file.extend([u64::from(ENTRY_ADDRESS), 64, 0].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 2, 64, 0, 0].map(u16::to_le_bytes).concat());
    let mut segment = |kind: u32, offset: usize, address: u32, size: usize| {
        file.extend([kind, 7].map(u32::to_le_bytes).concat());
        let (offset, address, size) = (offset as u64, u64::from(address), size as u64);
        file.extend([offset, address, address, size, size, 4].map(u64::to_le_bytes).concat());
    };
    segment(1, HEADER_BYTES, ENTRY_ADDRESS, code.len());
    segment(4, note_offset, 0, 20);
    file.resize(note_offset, 0);
    file.extend([4u32, 4, 18].map(u32::to_le_bytes).concat());
    file.extend(b"Xen\0");
    file.extend(ENTRY_ADDRESS.to_le_bytes());
    file.resize(HEADER_BYTES, 0);
    file.extend(code);
    file
}

/// Replaces an ELF file by a bzImage that has it as its payload.
pub fn convert_to_bzimage(path: &Path) {
    let payload = gzip(path);
    let mut image = vec![0; 1024];
    image[0x1F1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20E..0x210].copy_from_slice(&100u16.to_le_bytes());
    image[512 + 100..512 + 109].copy_from_slice(b"6.66.0 (x");
    std::fs::write(path, append_payload(image, &payload)).unwrap();
}

/// Copies a bzImage with another payload in its header: an ELF file without an entry note. The copy boots as before, because
/// nothing that boots a bzImage reads that field.
pub fn copy_without_note(bzimage: &Path, copy: &Path) {
    let mut program = elf(&[0xF4]);
    program[HEADER_BYTES - 12..HEADER_BYTES - 8].copy_from_slice(b"GNU\0");
    std::fs::write(copy, program).unwrap();
    let payload = gzip(copy);
    std::fs::write(copy, append_payload(std::fs::read(bzimage).unwrap(), &payload)).unwrap();
}

/// The contents of a file, compressed.
fn gzip(path: &Path) -> Vec<u8> {
    std::process::Command::new("gzip").arg("-c").arg(path).output().unwrap().stdout
}

/// Appends a payload to a bzImage. Its offset in the header counts from the end of the setup code.
fn append_payload(mut image: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let offset = image.len() - (usize::from(image[0x1F1]) + 1) * 512;
    image[0x248..0x24C].copy_from_slice(&(offset as u32).to_le_bytes());
    image[0x24C..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend(payload);
    image
}
