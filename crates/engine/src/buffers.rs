//! I/O buffers and their contents.

use crate::job::Content;
use crate::verify::{BlockIdentity, seal_block};
use fsarena_core::schedule::mix;
use fsarena_sys::cancel;
use memmap2::MmapMut;
use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};

/// The smallest unit in which any filesystem or device deduplicates. Each write puts a new number into every piece of this
/// size.
const DEDUP_UNIT_BYTES: usize = 512;
/// Bytes that are filled between two checks for a signal.
const FILL_CHUNK_BYTES: usize = 1 << 20;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;
/// Bytes from the start of a page to a buffer for buffered I/O.
///
/// The kernel copies blocks of the page cache, which begin at the start of a page, with `rep movsb`. On AMD's Zen 3 and 4 this
/// instruction is slow if source and destination have about the same offset within their pages (bug 30994 of glibc). An offset
/// of half a page avoids that for reads and for writes. Buffers of other programs rarely start at a page either.
const HALF_PAGE_BYTES: usize = PAGE_BYTES / 2;

/// The I/O buffers of one worker, aligned for direct or buffered I/O. Each is a separate mapping, so that a Rust reference to
/// one never covers another one that the kernel may be writing to.
#[derive(Debug)]
pub struct IoBuffers {
    mappings: Vec<MmapMut>,
    /// The offset of the buffer in its mapping, in bytes.
    start: usize,
}

impl IoBuffers {
    /// Allocates `count` zeroed buffers of `block_bytes` bytes, for direct or buffered I/O. Returns None without enough
    /// memory, or if `count` or `block_bytes` is 0.
    pub fn new(count: u32, block_bytes: u32, direct: bool) -> Option<IoBuffers> {
        let start = buffer_start(direct);
        let map = |_| MmapMut::map_anon(start + block_bytes as usize);
        let mappings = (0..count).map(map).collect::<Result<Vec<_>, _>>().ok()?;
        (!mappings.is_empty() && block_bytes > 0).then_some(IoBuffers { mappings, start })
    }

    /// Bytes of memory that a buffer of `block_bytes` bytes takes: whole pages.
    pub fn bytes_per_buffer(block_bytes: u32, direct: bool) -> u64 {
        (buffer_start(direct) + block_bytes as usize).next_multiple_of(PAGE_BYTES) as u64
    }

    /// Leaks the memory of all buffers. This is necessary if the kernel may still write to them.
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

/// The offset of a buffer in its mapping, in bytes. Direct I/O needs aligned buffers.
fn buffer_start(direct: bool) -> usize {
    if direct { 0 } else { HALF_PAGE_BYTES }
}

/// Fills buffers with random data or zeros.
#[derive(Debug, Clone)]
pub struct Filler {
    writes_zeros: bool,
    /// The last number that was written into a buffer.
    last_number: u64,
}

impl Filler {
    /// Makes a filler. Fillers with different seeds write different data.
    pub fn new(content: Content, seed: u64) -> Filler {
        Filler { writes_zeros: content == Content::Zeros, last_number: mix(seed, 0xF111) }
    }

    /// Fills a whole buffer, for its first use. Stops early after a signal.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        if self.writes_zeros {
            return buffer.fill(0);
        }
        self.last_number = mix(self.last_number, 1);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.last_number);
        let pieces = buffer.chunks_mut(FILL_CHUNK_BYTES).take_while(|_| cancel::received_signal().is_none());
        pieces.for_each(|piece| rng.fill_bytes(piece));
    }

    /// Changes a filled buffer so that every piece of it differs from all that were written before, with one store per 512
    /// bytes. Only a remainder of fewer than 8 bytes cannot always differ.
    #[inline(always)]
    pub fn refresh(&mut self, buffer: &mut [u8]) {
        if self.writes_zeros {
            return;
        }
        let mut pieces = buffer.chunks_exact_mut(DEDUP_UNIT_BYTES);
        for piece in &mut pieces {
            piece[..8].copy_from_slice(&self.next_number());
        }
        let remainder = pieces.into_remainder();
        if !remainder.is_empty() {
            let length = remainder.len().min(8);
            remainder[..length].copy_from_slice(&self.next_number()[..length]);
        }
    }

    /// The next number of a Weyl sequence: the step is odd, so no number repeats within 2⁶⁴ steps.
    #[inline(always)]
    fn next_number(&mut self) -> [u8; 8] {
        self.last_number = self.last_number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.last_number.to_le_bytes()
    }

    /// Refreshes a buffer and seals it as a verified block.
    pub fn seal(&mut self, buffer: &mut [u8], identity: BlockIdentity) {
        self.refresh(buffer);
        seal_block(buffer, identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap_and_are_page_aligned_only_for_direct_io() {
        for (direct, block, offset) in [(true, 512, 0), (false, 512, 2048), (true, 8192, 0), (false, 8192, 2048)] {
            let mut buffers = IoBuffers::new(3, block, direct).unwrap();
            for slot in 0..3 {
                assert_eq!(buffers.pointer(slot) as usize % 4096, offset);
                buffers.get(slot).fill(slot as u8 + 1);
            }
            assert!((0..3).all(|slot| buffers.get(slot) == vec![slot as u8 + 1; block as usize]));
        }
    }

    #[test]
    fn buffers_take_whole_pages() {
        let bytes = IoBuffers::bytes_per_buffer;
        assert_eq!([bytes(512, true), bytes(4096, true), bytes(4097, true)], [4096, 4096, 8192]);
        assert_eq!([bytes(512, false), bytes(4096, false), bytes(8192, false)], [4096, 8192, 12288]);
    }

    #[test]
    fn refreshed_pieces_are_never_equal() {
        for size in [4096, 1000, 100] {
            let mut filler = Filler::new(Content::Random, 1);
            let mut buffer = vec![0; size];
            filler.fill(&mut buffer);
            let mut seen = std::collections::HashSet::new();
            for _ in 0..100 {
                filler.refresh(&mut buffer);
                assert!(buffer.chunks(DEDUP_UNIT_BYTES).all(|piece| seen.insert(piece.to_vec())));
            }
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
}
