//! The files of kernels: decompresses the kernel inside a bzImage, and determines how QEMU can boot an ELF file.
//!
//! An emulated CPU spends seconds on the decompression at each boot; the host needs one second, once. The layout of a
//! bzImage is that of the kernel's documentation, "The Linux/x86 Boot Protocol".

use crate::{Error, Result, cache};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{io::Read, time::Duration};

/// Offsets in a bzImage, in bytes, and the magic number at the first of them.
const MAGIC_OFFSET: usize = 0x202;
const BZIMAGE_MAGIC: &[u8] = b"HdrS";
const SETUP_SECTORS_OFFSET: usize = 0x1F1;
const RELEASE_OFFSET: usize = 0x20E;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH_OFFSET: usize = 0x24C;
const SECTOR_BYTES: usize = 512;
/// The largest kernel that is read and decompressed, in bytes. The largest real kernels have 100 MB, or 800 MB with debug
/// symbols.
pub const MAX_KERNEL_BYTES: u64 = 1 << 30;
/// The prefix of the names of unpacked kernels in the cache.
const NAME_PREFIX: &str = "vmlinux-";
/// The number of unpacked kernels to keep: kernel developers add one every day.
const MAX_KEPT: usize = 12;
/// The time since the last use after which an unpacked kernel may be removed: a run in progress needs the kernel that it
/// unpacked.
const MIN_IDLE: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest release in uname(2), in bytes.
const MAX_RELEASE_BYTES: usize = 64;
/// The text before the release in every kernel.
const BANNER: &[u8] = b"Linux version ";

/// The release of a kernel file, and the range of the compressed kernel in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// The output of `uname -r` in the guest; empty if the file does not contain it.
    pub release: String,
    /// The range of the compressed kernel in the file, if it has one.
    payload: Option<std::ops::Range<usize>>,
}

/// Reads the release of a kernel file, and finds the compressed kernel in it.
///
/// # Errors
/// The file is neither a bzImage nor an ELF file, or ends too early.
pub fn inspect_kernel(path: &Path, bytes: &[u8]) -> Result<KernelInfo> {
    if bytes.starts_with(ELF_MAGIC) {
        return Ok(KernelInfo { release: find_release(bytes).unwrap_or_default(), payload: None });
    }
    if !is_compressed(bytes) {
        return Err(Error::invalid_file(path, "not an x86 kernel; expected a bzImage or a vmlinux"));
    }
    let truncated = || Error::invalid_file(path, "is a truncated kernel: it ends before its payload does");
    let u32_at = |offset: usize| Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?) as usize);
    let sectors = if bytes[SETUP_SECTORS_OFFSET] == 0 { 4 } else { bytes[SETUP_SECTORS_OFFSET] };
    let start = (usize::from(sectors) + 1) * SECTOR_BYTES + u32_at(PAYLOAD_OFFSET).ok_or_else(truncated)?;
    let end = start + u32_at(PAYLOAD_LENGTH_OFFSET).ok_or_else(truncated)?;
    if end > bytes.len() {
        return Err(truncated());
    }
    let release_offset =
        SECTOR_BYTES + usize::from(u16::from_le_bytes([bytes[RELEASE_OFFSET], bytes[RELEASE_OFFSET + 1]]));
    let release = bytes.get(release_offset..).and_then(parse_release).unwrap_or_default();
    Ok(KernelInfo { release, payload: Some(start..end) })
}

/// Whether these are the bytes of a bzImage, whose kernel is compressed.
pub fn is_compressed(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_OFFSET..MAGIC_OFFSET + BZIMAGE_MAGIC.len()) == Some(BZIMAGE_MAGIC) && !bytes.starts_with(ELF_MAGIC)
}

/// An uncompressed kernel in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedKernel {
    /// Its file in the cache.
    pub path: PathBuf,
    /// How QEMU can boot it.
    pub kind: ElfKind,
}

/// Returns the uncompressed kernel from one of the caches, or unpacks it into the first. None if it is not compressed in a
/// known way; the guest then unpacks it by itself.
///
/// # Errors
/// The payload is damaged, or the cache cannot be written.
pub fn find_or_unpack(
    path: &Path,
    bytes: &[u8],
    info: &KernelInfo,
    caches: &[&Path],
) -> Result<Option<UnpackedKernel>> {
    let [first, ..] = caches else { return Ok(None) };
    let Some(payload) = info.payload.clone().map(|range| &bytes[range]) else { return Ok(None) };
    let damaged = |error: &dyn std::fmt::Display| Error::invalid_file(path, format!("is a damaged kernel: {error}"));
    let Some(reader) = decompressing_reader(payload).map_err(|error| damaged(&error))? else {
        return Ok(None);
    };
    let name = format!("{NAME_PREFIX}{}-{:08x}", info.release, fnv_checksum(payload));
    for path in caches.iter().flat_map(|dir| cache::find_entries(dir, &name)) {
        if let Some(kind) = kind_of_entry(&path) {
            return Ok(Some(UnpackedKernel { path, kind }));
        }
        cache::remove_entry(&path);
        cache::record_damage(&path, "unpacks the kernel again");
    }
    let mut vmlinux = Vec::new();
    reader.take(MAX_KERNEL_BYTES).read_to_end(&mut vmlinux).map_err(|error| damaged(&error))?;
    if !vmlinux.starts_with(ELF_MAGIC) {
        return Err(Error::invalid_file(path, "holds something else than a kernel"));
    }
    let unpacked = write_entry(&vmlinux, first, &name).map_err(Error::io("writing in", first))?;
    cache::remove_oldest(first, NAME_PREFIX, MAX_KEPT, MIN_IDLE);
    Ok(Some(UnpackedKernel { path: unpacked, kind: elf_kind(&vmlinux) }))
}

/// How QEMU can boot the kernel in an entry of the cache; None if the entry is damaged. A run looks for its kernel several
/// times, and a kernel is large, so this process reads it only once, and whenever it has changed.
fn kind_of_entry(entry: &Path) -> Option<ElfKind> {
    static KINDS: Mutex<BTreeMap<String, ElfKind>> = Mutex::new(BTreeMap::new());
    let state = cache::digest_state(entry)?;
    let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kind) = kinds.get(&state) {
        return Some(*kind);
    }
    let vmlinux = std::fs::read(entry).ok()?;
    if !cache::matches_digest(entry, &vmlinux[..]) {
        return None;
    }
    let kind = elf_kind(&vmlinux);
    kinds.insert(state, kind);
    Some(kind)
}

/// Writes an entry of the cache. It gets its name only when it is complete and on the disk.
fn write_entry(vmlinux: &[u8], dir: &Path, name: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(cache::name_with_digest(name, &cache::digest(vmlinux)?));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    std::io::Write::write_all(&mut file, vmlinux)?;
    // All users may use the kernels that root unpacked.
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(path)
}

/// The release in the banner of an uncompressed kernel.
fn find_release(bytes: &[u8]) -> Option<String> {
    let offset = memchr::memmem::find(bytes, BANNER)?;
    parse_release(&bytes[offset + BANNER.len()..]).filter(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}

/// The release up to the next blank or NUL. It becomes a part of file names, so it must be a valid release of uname(2):
/// short and without a slash.
fn parse_release(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().take(MAX_RELEASE_BYTES + 1).position(|byte| matches!(byte, 0 | b' '))?;
    let word = std::str::from_utf8(&bytes[..end]).ok()?;
    word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/').then(|| word.to_string())
}

/// An FNV-1a checksum, which distinguishes builds of one release.
fn fnv_checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The first bytes of files that xz, zstd and gzip compressed.
pub(crate) const XZ_MAGIC: &[u8] = &[0xFD, b'7', b'z', b'X', b'Z', 0];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
const GZIP_MAGIC: &[u8] = &[0x1F, 0x8B, 8];

/// A reader that decompresses these bytes; None if they are not compressed in a known way.
///
/// # Errors
/// The header of the compressed data is damaged.
pub(crate) fn decompressing_reader<'a>(bytes: &'a [u8]) -> std::io::Result<Option<Box<dyn Read + 'a>>> {
    Ok(match bytes {
        // Only one stream, because in a bzImage the size of the decompressed kernel follows it.
        bytes if bytes.starts_with(XZ_MAGIC) => Some(Box::new(lzma_rust2::XzReader::new(bytes, false))),
        bytes if bytes.starts_with(GZIP_MAGIC) => Some(Box::new(flate2::read::GzDecoder::new(bytes))),
        bytes if bytes.starts_with(ZSTD_MAGIC) => {
            Some(Box::new(ruzstd::decoding::StreamingDecoder::new(bytes).map_err(std::io::Error::other)?))
        }
        _ => None,
    })
}

/// The first bytes of every ELF file.
pub(crate) const ELF_MAGIC: &[u8] = b"\x7fELF";
/// The owner and the type of the note with the address at which QEMU enters a kernel: `XEN_ELFNOTE_PHYS32_ENTRY`.
const ENTRY_NOTE_OWNER: &[u8] = b"Xen";
const ENTRY_NOTE_TYPE: u32 = 0x12;
/// Kernels for x86 lie above this address, programs below it.
const KERNEL_BASE: u64 = 0xC000_0000;

/// How QEMU can use an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElfKind {
    /// A kernel that QEMU boots (`CONFIG_PVH`).
    Bootable,
    /// A kernel that QEMU boots only inside its bzImage.
    WithoutEntry,
    /// Anything else.
    Program,
}

/// Reads the headers and notes of an ELF file.
pub fn elf_kind(bytes: &[u8]) -> ElfKind {
    let kind = match bytes.get(4) {
        Some(1) => read_elf_kind::<FileHeader32<Endianness>>(bytes),
        _ => read_elf_kind::<FileHeader64<Endianness>>(bytes),
    };
    kind.unwrap_or(ElfKind::Program)
}

fn read_elf_kind<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> object::Result<ElfKind> {
    let header = H::parse(bytes)?;
    let endian = header.endian()?;
    let mut kind = ElfKind::Program;
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_vaddr(endian).into() >= KERNEL_BASE {
            kind = ElfKind::WithoutEntry;
        }
        let Some(mut notes) = segment.notes(endian, bytes)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == ENTRY_NOTE_OWNER && note.n_type(endian) == ENTRY_NOTE_TYPE {
                return Ok(ElfKind::Bootable);
            }
        }
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage with one sector of setup, a release and a payload.
    fn bzimage(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 2 * SECTOR_BYTES + 16];
        bytes[SETUP_SECTORS_OFFSET] = 1;
        bytes[MAGIC_OFFSET..MAGIC_OFFSET + 4].copy_from_slice(BZIMAGE_MAGIC);
        bytes[RELEASE_OFFSET..RELEASE_OFFSET + 2].copy_from_slice(&0x100u16.to_le_bytes());
        bytes[SECTOR_BYTES + 0x100..SECTOR_BYTES + 0x100 + 14].copy_from_slice(b"6.1.0-test (x)");
        bytes[PAYLOAD_OFFSET] = 16;
        bytes[PAYLOAD_LENGTH_OFFSET] = payload.len() as u8;
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn the_release_and_the_payload_of_a_bzimage_are_found() {
        let path = Path::new("k");
        let whole = bzimage(b"payload");
        let info = inspect_kernel(path, &whole).unwrap();
        assert_eq!((info.release.as_str(), &whole[info.payload.unwrap()]), ("6.1.0-test", &b"payload"[..]));
        let error = inspect_kernel(path, &whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{error}");
        assert!(inspect_kernel(path, b"#!/bin/sh").is_err());
        let mut with_slash = whole;
        with_slash[SECTOR_BYTES + 0x100..SECTOR_BYTES + 0x104].copy_from_slice(b"../x");
        assert_eq!(inspect_kernel(path, &with_slash).unwrap().release, "");
    }

    #[test]
    fn an_elf_file_has_no_payload() {
        let bytes = b"\x7fELF....Linux version %s\0....Linux version 6.2.1 (me)".to_vec();
        assert_eq!(
            inspect_kernel(Path::new("k"), &bytes).unwrap(),
            KernelInfo { release: String::new(), payload: None }
        );
        let bytes = b"\x7fELF....Linux version 6.2.1 (me)";
        assert_eq!(inspect_kernel(Path::new("k"), bytes).unwrap().release, "6.2.1");
    }

    #[test]
    fn kernels_are_unpacked_once() {
        use flate2::{Compression, write::GzEncoder};
        let cache = tempfile::tempdir().unwrap();
        let mut gzip = GzEncoder::new(vec![], Compression::fast());
        std::io::Write::write_all(&mut gzip, b"\x7fELF by gzip").unwrap();
        let zstd =
            ruzstd::encoding::compress_to_vec(&b"\x7fELF by zstd"[..], ruzstd::encoding::CompressionLevel::Fastest);
        // The kernel's makefile appends the decompressed size to the stream.
        for payload in [gzip.finish().unwrap(), [&zstd[..], &[12, 0, 0, 0]].concat()] {
            let bytes = bzimage(&payload);
            let info = inspect_kernel(Path::new("k"), &bytes).unwrap();
            let unpack = || find_or_unpack(Path::new("k"), &bytes, &info, &[cache.path()]).unwrap().unwrap();
            let first = unpack();
            assert!(std::fs::read(&first.path).unwrap().starts_with(b"\x7fELF by "));
            assert_eq!(unpack(), first);
            // Damage of the same length, and truncation.
            for damage in [&b"\x7fELF by hand"[..], b""] {
                std::fs::write(&first.path, damage).unwrap();
                assert_eq!(unpack(), first);
                assert!(std::fs::read(&first.path).unwrap().starts_with(b"\x7fELF by "));
            }
        }
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_damaged_payload_is_an_error_and_an_unknown_one_is_left_to_the_guest() {
        let cache = tempfile::tempdir().unwrap();
        let bytes = bzimage(&[XZ_MAGIC, b"nonsense"].concat());
        let info = inspect_kernel(Path::new("k"), &bytes).unwrap();
        let error = find_or_unpack(Path::new("k"), &bytes, &info, &[cache.path()]).unwrap_err().to_string();
        assert!(error.contains("damaged kernel"), "{error}");
        let bytes = bzimage(b"lz4");
        let info = inspect_kernel(Path::new("k"), &bytes).unwrap();
        assert_eq!(find_or_unpack(Path::new("k"), &bytes, &info, &[cache.path()]).unwrap(), None);
    }

    /// A file of 64 bits with one segment of notes at this address, which has one note.
    fn elf_file(address: u64, note_owner: &[u8; 4], note_type: u32) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        file.extend([2u16, 62].map(u16::to_le_bytes).concat());
        file.extend(1u32.to_le_bytes());
        file.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
        file.extend(0u32.to_le_bytes());
        file.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
        file.extend([4u32, 4].map(u32::to_le_bytes).concat());
        file.extend([120, address, address, 20, 20, 4].map(u64::to_le_bytes).concat());
        file.extend([4, 4, note_type].map(u32::to_le_bytes).concat());
        file.extend(note_owner);
        file.extend(0x100_0000u32.to_le_bytes());
        file
    }

    #[test]
    fn the_note_of_xen_makes_a_kernel_bootable() {
        const HIGH: u64 = 0xFFFF_FFFF_8100_0000;
        assert_eq!(elf_kind(&elf_file(HIGH, b"Xen\0", 0x12)), ElfKind::Bootable);
        assert_eq!(elf_kind(&elf_file(0x10_0000, b"Xen\0", 0x12)), ElfKind::Bootable);
        assert_eq!(elf_kind(&elf_file(HIGH, b"Xen\0", 0x11)), ElfKind::WithoutEntry);
        assert_eq!(elf_kind(&elf_file(HIGH, b"GNU\0", 0x12)), ElfKind::WithoutEntry);
        assert_eq!(elf_kind(&elf_file(0x6000_0000, b"GNU\0", 3)), ElfKind::Program);
    }

    #[test]
    fn a_file_with_damaged_headers_is_not_a_kernel() {
        let whole = elf_file(0x10_0000, b"Xen\0", 0x12);
        for end in 0..whole.len() {
            assert_eq!(elf_kind(&whole[..end]), ElfKind::Program, "{end}");
        }
        assert_eq!(elf_kind(&std::fs::read("/proc/self/exe").unwrap()), ElfKind::Program);
    }
}
