//! I/O buffers, their contents, and verified blocks, whose header has a magic number, file, offset, generation, size, and a
//! checksum of the whole block.

use crate::error::{EngineError, Result};
use crate::job::Content;
use fsarena_core::schedule::mix;
use fsarena_sys::cancel;
use memmap2::MmapMut;
use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::path::Path;

/// The smallest unit in which any filesystem or device deduplicates. Each write puts a new number into every piece of this
/// size.
const PIECE: usize = 512;
/// Bytes that are filled between two checks for a signal.
const AT_ONCE: usize = 1 << 20;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Distance from the start of a page to a buffer for buffered I/O.
///
/// The kernel copies blocks of the page cache, which begin at the start of a page, with `rep movsb`. On AMD's Zen 3 and 4 this
/// instruction is slow if source and destination have about the same offset within their pages (bug 30994 of glibc). An offset
/// of half a page avoids that for reads and for writes. Buffers of other programs rarely start at a page either.
const HALF_PAGE: usize = PAGE / 2;

/// The I/O buffers of one worker, aligned for direct or buffered I/O. Each is a separate mapping, so that a Rust reference to
/// one never covers another one that the kernel may be writing to.
#[derive(Debug)]
pub struct Slots {
    mappings: Vec<MmapMut>,
    /// The offset of the buffer in each mapping.
    start: usize,
}

impl Slots {
    /// Allocates `count` zeroed buffers of `block` bytes, for direct or buffered I/O. Returns None without enough memory.
    pub fn new(count: u32, block: u32, direct: bool) -> Option<Slots> {
        let start = buffer_start(direct);
        let map = |_| MmapMut::map_anon(start + block as usize);
        let mappings = (0..count).map(map).collect::<Result<Vec<_>, _>>().ok()?;
        (!mappings.is_empty() && block > 0).then_some(Slots { mappings, start })
    }

    /// Bytes of memory that a buffer of `block` bytes takes: whole pages.
    pub fn memory(block: u32, direct: bool) -> u64 {
        (buffer_start(direct) + block as usize).next_multiple_of(PAGE) as u64
    }

    /// Leaks the buffers, because the kernel may still write to them.
    pub fn leak(&mut self) {
        self.mappings.drain(..).for_each(std::mem::forget);
    }

    /// The address of a buffer, for the kernel.
    #[inline(always)]
    pub fn pointer(&mut self, slot: usize) -> *mut u8 {
        self.get(slot).as_mut_ptr()
    }

    /// The buffer of a slot. The kernel must not be writing to it.
    #[inline(always)]
    pub fn get(&mut self, slot: usize) -> &mut [u8] {
        &mut self.mappings[slot][self.start..]
    }
}

/// The start of a buffer in its mapping. Direct I/O needs aligned buffers.
fn buffer_start(direct: bool) -> usize {
    if direct { 0 } else { HALF_PAGE }
}

/// Fills buffers with random data or zeros.
#[derive(Debug, Clone)]
pub struct Filler {
    zeros: bool,
    next: u64,
}

impl Filler {
    /// Makes a filler. Fillers with different seeds write different data.
    pub fn new(content: Content, seed: u64) -> Filler {
        Filler { zeros: content == Content::Zeros, next: mix(seed, 0xF111) }
    }

    /// Fills a whole buffer, for its first use. Stops early after a signal.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        if self.zeros {
            return buffer.fill(0);
        }
        self.next = mix(self.next, 1);
        let mut noise = Xoshiro256PlusPlus::seed_from_u64(self.next);
        let pieces = buffer.chunks_mut(AT_ONCE).take_while(|_| cancel::requested().is_none());
        pieces.for_each(|piece| noise.fill_bytes(piece));
    }

    /// Changes a filled buffer so that it differs from all written before, with one store per 512 bytes.
    #[inline(always)]
    pub fn refresh(&mut self, buffer: &mut [u8]) {
        if self.zeros {
            return;
        }
        for piece in buffer.chunks_exact_mut(PIECE) {
            // A Weyl sequence: the step is odd, so no number repeats within 2⁶⁴ steps.
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
    /// The number of writes since the file was prepared.
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

/// Checks a verified block and returns its generation, which must equal `generation` if that is given.
///
/// # Errors
/// [`EngineError::Corrupt`] if the block is not the expected one.
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
    fn buffers_do_not_overlap_and_are_page_aligned_only_for_direct_io() {
        for (direct, block, offset) in
            [(true, 512, 0), (false, 512, 2048), (true, 8192, 0), (false, 8192, 2048)]
        {
            let mut slots = Slots::new(3, block, direct).unwrap();
            for slot in 0..3 {
                assert_eq!(slots.pointer(slot) as usize % 4096, offset);
                slots.get(slot).fill(slot as u8 + 1);
            }
            assert!((0..3).all(|slot| slots.get(slot) == vec![slot as u8 + 1; block as usize]));
        }
    }

    #[test]
    fn memory_is_whole_pages() {
        let memory = |block, direct| Slots::memory(block, direct);
        assert_eq!([memory(512, true), memory(4096, true), memory(4097, true)], [4096, 4096, 8192]);
        assert_eq!([memory(512, false), memory(4096, false), memory(8192, false)], [4096, 8192, 12288]);
    }

    #[test]
    fn refreshed_pieces_are_never_equal() {
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
    fn error(block: &[u8], file: u32, offset: u64, generation: Option<u32>) -> String {
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
    fn a_mismatch_has_file_offset_expected_and_found_content() {
        let stale = error(&sealed(), 2, 1024, Some(6));
        assert_eq!(stale, "wrong data at byte 1024 of \"/mnt/f\": expected generation 6, found generation 5");
        assert!(error(&sealed(), 2, 2048, None).contains("found the block of file 2 at byte 1024"));
        assert!(error(&[0; 512], 2, 1024, None).contains("prepared for verification"));
        assert!(error(&sealed()[..256], 2, 1024, None).contains("one of 512 bytes"));
    }
}
