//! I/O buffers, their contents, and verified blocks: magic, file, offset, generation, size, and a checksum over all of it.

use crate::error::{EngineError, Result};
use crate::job::Content;
use fsarena_core::schedule::mix;
use fsarena_sys::cancel;
use memmap2::MmapMut;
use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::path::Path;

/// Each write puts a new number into every piece of this size, the smallest unit in which any filesystem or device
/// deduplicates.
const PIECE: usize = 512;
/// Bytes that are filled between two checks for a signal.
const AT_ONCE: usize = 1 << 20;

/// Equal, aligned buffers. Each is a separate mapping, so that a reference to one never covers another, which the
/// kernel may be writing to.
#[derive(Debug)]
pub struct Slots {
    buffers: Vec<MmapMut>,
}

impl Slots {
    /// Allocates `count` zeroed buffers of `block` bytes. Returns none if there is not enough memory.
    pub fn new(count: u32, block: u32) -> Option<Slots> {
        let buffers = (0..count).map(|_| MmapMut::map_anon(block as usize)).collect::<Result<Vec<_>, _>>();
        Some(Slots { buffers: buffers.ok().filter(|buffers| !buffers.is_empty() && block > 0)? })
    }

    /// Leaks the buffers, because the kernel may still write to them.
    pub fn leak(&mut self) {
        self.buffers.drain(..).for_each(std::mem::forget);
    }

    /// The address of a buffer, for the kernel.
    #[inline(always)]
    pub fn pointer(&mut self, slot: usize) -> *mut u8 {
        self.get(slot).as_mut_ptr()
    }

    /// A buffer. The kernel must not be writing to it.
    #[inline(always)]
    pub fn get(&mut self, slot: usize) -> &mut [u8] {
        &mut self.buffers[slot]
    }
}

/// Fills buffers with noise or zeros.
#[derive(Debug, Clone)]
pub struct Filler {
    zeros: bool,
    next: u64,
}

impl Filler {
    /// Makes a filler. Fillers with different seeds write different noise.
    pub fn new(content: Content, seed: u64) -> Filler {
        Filler { zeros: content == Content::Zeros, next: mix(seed, 0xF111) }
    }

    /// Fills a buffer for the first time: with noise, or zeros.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        if self.zeros {
            return buffer.fill(0);
        }
        self.next = mix(self.next, 1);
        let mut noise = Xoshiro256PlusPlus::seed_from_u64(self.next);
        // After a signal nothing is written any more.
        let pieces = buffer.chunks_mut(AT_ONCE).take_while(|_| cancel::requested().is_none());
        pieces.for_each(|piece| noise.fill_bytes(piece));
    }

    /// Makes a filled buffer differ from all written before, with one store in each 512 bytes.
    #[inline(always)]
    pub fn refresh(&mut self, buffer: &mut [u8]) {
        if self.zeros {
            return;
        }
        for piece in buffer.chunks_exact_mut(PIECE) {
            // A Weyl sequence: odd steps, so no number comes twice in 2⁶⁴.
            self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
            piece[..8].copy_from_slice(&self.next.to_le_bytes());
        }
    }

    /// Refreshes a buffer and seals it as a verified block.
    pub fn seal(&mut self, buffer: &mut [u8], identity: Identity) {
        self.refresh(buffer);
        seal_block(buffer, identity);
    }
}

/// Bytes of the header of a verified block.
pub const HEADER: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"fsarenaB");
/// Bytes of the header that hold the checksum, which covers all other bytes.
const CRC: std::ops::Range<usize> = 28..32;

/// The identity that a verified block carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Number of the file in its set.
    pub file: u32,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// How often it has been written since it was prepared.
    pub generation: u32,
}

/// Writes the header of a verified block over its first bytes.
fn seal_block(block: &mut [u8], identity: Identity) {
    block[0..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..16].copy_from_slice(&identity.offset.to_le_bytes());
    block[16..20].copy_from_slice(&identity.file.to_le_bytes());
    block[20..24].copy_from_slice(&identity.generation.to_le_bytes());
    let length = block.len() as u32;
    block[24..28].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(block);
    block[CRC].copy_from_slice(&crc.to_le_bytes());
}

/// Checks a verified block and returns its generation. If `generation` is known, the block must have that one.
///
/// # Errors
/// [`EngineError::Corrupt`] with file, offset, expectation and finding.
pub fn check_block(
    block: &[u8],
    path: &Path,
    file: u32,
    offset: u64,
    generation: Option<u32>,
) -> Result<u32> {
    let wrong = |expected: String, found: String| {
        Err(EngineError::Corrupt { path: path.into(), offset, expected, found })
    };
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
    if long(0) != MAGIC {
        let found = format!("the bytes {:02x?}", &block[..8]);
        return wrong("a verified block (files must be prepared for verification)".into(), found);
    }
    if word(24) as usize != block.len() {
        return wrong(format!("a block of {} bytes", block.len()), format!("one of {} bytes", word(24)));
    }
    if (word(16), long(8)) != (file, offset) {
        let found = format!("the block of file {} at byte {}", word(16), long(8));
        return wrong(format!("the block of file {file} at byte {offset}"), found);
    }
    let (stored, computed) = (word(CRC.start), checksum(block));
    if stored != computed {
        return wrong(
            format!("contents with checksum {stored:08x}"),
            format!("contents with {computed:08x}"),
        );
    }
    match generation {
        Some(expected) if expected != word(20) => {
            wrong(format!("generation {expected}"), format!("generation {}", word(20)))
        }
        _ => Ok(word(20)),
    }
}

fn checksum(block: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[..CRC.start]);
    crc.update(&block[CRC.end..]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_apart() {
        let mut slots = Slots::new(3, 512).unwrap();
        for slot in 0..3 {
            assert_eq!(slots.pointer(slot) as usize % 4096, 0);
            slots.get(slot).fill(slot as u8 + 1);
        }
        assert!((0..3).all(|slot| slots.get(slot) == [slot as u8 + 1; 512]));
    }

    #[test]
    fn refreshed_pieces_are_never_alike() {
        let mut filler = Filler::new(Content::Random, 1);
        let mut buffer = vec![0; 4096];
        filler.fill(&mut buffer);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100 {
            filler.refresh(&mut buffer);
            assert!(buffer.chunks(PIECE).all(|piece| seen.insert(piece.to_vec())));
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        let mut filler = Filler::new(Content::Zeros, 1);
        let mut buffer = vec![1; 1000];
        filler.fill(&mut buffer);
        filler.refresh(&mut buffer);
        assert!(buffer.iter().all(|&byte| byte == 0));
    }

    fn sealed() -> Vec<u8> {
        let mut block = vec![7; 512];
        seal_block(&mut block, Identity { file: 2, offset: 1024, generation: 5 });
        block
    }

    #[track_caller]
    fn said(block: &[u8], file: u32, offset: u64, generation: Option<u32>) -> String {
        check_block(block, Path::new("/mnt/f"), file, offset, generation).unwrap_err().to_string()
    }

    #[test]
    fn a_sealed_block_passes() {
        assert_eq!(check_block(&sealed(), Path::new("/mnt/f"), 2, 1024, None).unwrap(), 5);
        assert_eq!(check_block(&sealed(), Path::new("/mnt/f"), 2, 1024, Some(5)).unwrap(), 5);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for at in 0..512 {
            let mut block = sealed();
            block[at] ^= 0x10;
            assert!(check_block(&block, Path::new("f"), 2, 1024, None).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_mismatch_says_where_and_what() {
        let stale = said(&sealed(), 2, 1024, Some(6));
        assert_eq!(stale, "wrong data at byte 1024 of \"/mnt/f\": expected generation 6, found generation 5");
        assert!(said(&sealed(), 2, 2048, None).contains("found the block of file 2 at byte 1024"));
        assert!(said(&[0; 512], 2, 1024, None).contains("prepared for verification"));
        assert!(said(&sealed()[..256], 2, 1024, None).contains("one of 512 bytes"));
    }
}
