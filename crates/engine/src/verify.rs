//! Verified blocks, whose header has a magic number, file, offset, generation, size, and a checksum of the whole block.

use crate::error::{EngineError, Result};
use std::path::Path;

/// Bytes of the header of a verified block.
pub const HEADER_BYTES: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"fsarenaB");
/// Bytes of the header that hold the checksum, which covers all other bytes.
const CHECKSUM_BYTES: std::ops::Range<usize> = 28..32;

/// The identity that a verified block carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIdentity {
    /// Number of the file in its set.
    pub file: u32,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// The number of writes since the file was prepared.
    pub generation: u32,
}

/// Writes the header of a verified block over its first bytes.
pub fn seal_block(block: &mut [u8], identity: BlockIdentity) {
    block[0..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..16].copy_from_slice(&identity.offset.to_le_bytes());
    block[16..20].copy_from_slice(&identity.file.to_le_bytes());
    block[20..24].copy_from_slice(&identity.generation.to_le_bytes());
    let length = block.len() as u32;
    block[24..28].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(block);
    block[CHECKSUM_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Checks a verified block and returns its generation. If `generation` is not None, the block must have this generation.
///
/// # Errors
/// [`EngineError::Corrupt`] if the block is not the expected one.
pub fn check_block(block: &[u8], path: &Path, file: u32, offset: u64, generation: Option<u32>) -> Result<u32> {
    let corrupt =
        |expected: String, found: String| Err(EngineError::Corrupt { path: path.into(), offset, expected, found });
    let u32_at = |start: usize| u32::from_le_bytes(block[start..start + 4].try_into().expect("four bytes"));
    let u64_at = |start: usize| u64::from_le_bytes(block[start..start + 8].try_into().expect("eight bytes"));
    if u64_at(0) != MAGIC {
        let found = format!("the bytes {:02x?}", &block[..8]);
        return corrupt("a verified block (files must be prepared for verification)".into(), found);
    }
    if u32_at(24) as usize != block.len() {
        return corrupt(format!("a block of {} bytes", block.len()), format!("one of {} bytes", u32_at(24)));
    }
    if (u32_at(16), u64_at(8)) != (file, offset) {
        let found = format!("the block of file {} at byte {}", u32_at(16), u64_at(8));
        return corrupt(format!("the block of file {file} at byte {offset}"), found);
    }
    let (stored, computed) = (u32_at(CHECKSUM_BYTES.start), checksum(block));
    if stored != computed {
        return corrupt(format!("contents with checksum {stored:08x}"), format!("contents with {computed:08x}"));
    }
    match generation {
        Some(expected) if expected != u32_at(20) => {
            corrupt(format!("generation {expected}"), format!("generation {}", u32_at(20)))
        }
        _ => Ok(u32_at(20)),
    }
}

/// The CRC-32 of a block without its checksum.
fn checksum(block: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[..CHECKSUM_BYTES.start]);
    crc.update(&block[CHECKSUM_BYTES.end..]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed_block() -> Vec<u8> {
        let mut block = vec![7; 512];
        seal_block(&mut block, BlockIdentity { file: 2, offset: 1024, generation: 5 });
        block
    }

    #[track_caller]
    /// The message of the error that the check must return.
    fn error(block: &[u8], file: u32, offset: u64, generation: Option<u32>) -> String {
        check_block(block, Path::new("/mnt/f"), file, offset, generation).unwrap_err().to_string()
    }

    #[test]
    fn a_sealed_block_passes() {
        assert_eq!(check_block(&sealed_block(), Path::new("/mnt/f"), 2, 1024, None).unwrap(), 5);
        assert_eq!(check_block(&sealed_block(), Path::new("/mnt/f"), 2, 1024, Some(5)).unwrap(), 5);
    }

    #[test]
    fn a_flipped_bit_in_any_byte_is_found() {
        for byte in 0..512 {
            let mut block = sealed_block();
            block[byte] ^= 0x10;
            assert!(check_block(&block, Path::new("f"), 2, 1024, None).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn a_mismatch_has_file_offset_expected_and_found_content() {
        let of_stale_block = error(&sealed_block(), 2, 1024, Some(6));
        assert_eq!(of_stale_block, "wrong data at byte 1024 of \"/mnt/f\": expected generation 6, found generation 5");
        assert!(error(&sealed_block(), 2, 2048, None).contains("found the block of file 2 at byte 1024"));
        assert!(error(&[0; 512], 2, 1024, None).contains("prepared for verification"));
        assert!(error(&sealed_block()[..256], 2, 1024, None).contains("one of 512 bytes"));
    }
}
