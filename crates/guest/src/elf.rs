//! How QEMU can use an ELF file, by its headers and notes.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

/// The first bytes of every ELF file.
pub(crate) const MAGIC: &[u8] = b"\x7fELF";
/// The owner and the type of the note with the address at which QEMU enters a kernel: `XEN_ELFNOTE_PHYS32_ENTRY`.
const ENTRY_NOTE_OWNER: &[u8] = b"Xen";
const PHYS32_ENTRY: u32 = 0x12;
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
            if note.name() == ENTRY_NOTE_OWNER && note.n_type(endian) == PHYS32_ENTRY {
                return Ok(ElfKind::Bootable);
            }
        }
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of 64 bits with one segment of notes at this address, which has one note.
    fn file(address: u64, owner: &[u8; 4], kind: u32) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        file.extend([2u16, 62].map(u16::to_le_bytes).concat());
        file.extend(1u32.to_le_bytes());
        file.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
        file.extend(0u32.to_le_bytes());
        file.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
        file.extend([4u32, 4].map(u32::to_le_bytes).concat());
        file.extend([120, address, address, 20, 20, 4].map(u64::to_le_bytes).concat());
        file.extend([4, 4, kind].map(u32::to_le_bytes).concat());
        file.extend(owner);
        file.extend(0x100_0000u32.to_le_bytes());
        file
    }

    #[test]
    fn the_note_of_xen_makes_a_kernel_bootable() {
        const HIGH: u64 = 0xFFFF_FFFF_8100_0000;
        assert_eq!(elf_kind(&file(HIGH, b"Xen\0", 0x12)), ElfKind::Bootable);
        assert_eq!(elf_kind(&file(0x10_0000, b"Xen\0", 0x12)), ElfKind::Bootable);
        assert_eq!(elf_kind(&file(HIGH, b"Xen\0", 0x11)), ElfKind::WithoutEntry);
        assert_eq!(elf_kind(&file(HIGH, b"GNU\0", 0x12)), ElfKind::WithoutEntry);
        assert_eq!(elf_kind(&file(0x6000_0000, b"GNU\0", 3)), ElfKind::Program);
    }

    #[test]
    fn damaged_headers_are_no_kernel() {
        let whole = file(0x10_0000, b"Xen\0", 0x12);
        for end in 0..whole.len() {
            assert_eq!(elf_kind(&whole[..end]), ElfKind::Program, "{end}");
        }
        assert_eq!(elf_kind(&std::fs::read("/proc/self/exe").unwrap()), ElfKind::Program);
    }
}
