//! I/O buffers and their contents.

use super::job::Content;
use super::verify::{self, Identity};
use fsarena_core::schedule::mix;
use fsarena_sys::cancel;
use memmap2::MmapMut;
use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Each write puts a new number into every piece of this size, the smallest unit in which any filesystem or device
/// deduplicates.
const PIECE: usize = 512;
/// Bytes that are filled between two looks for a signal.
const AT_ONCE: usize = 1 << 20;

/// Equal, aligned buffers. Each is a separate mapping, so that a reference to one never covers another, which the
/// kernel may be writing to.
#[derive(Debug)]
pub struct Slots {
    buffers: Vec<MmapMut>,
}

impl Slots {
    /// Allocates `count` zeroed buffers of `block` bytes; none if there is not enough memory.
    pub fn new(count: u32, block: u32) -> Option<Slots> {
        let buffers = (0..count).map(|_| MmapMut::map_anon(block as usize)).collect::<Result<Vec<_>, _>>();
        Some(Slots { buffers: buffers.ok().filter(|buffers| !buffers.is_empty() && block > 0)? })
    }

    /// Gives the buffers up without freeing them: the kernel may still write to them.
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

/// Gives buffers their contents.
#[derive(Debug, Clone)]
pub struct Filler {
    zeros: bool,
    next: u64,
}

impl Filler {
    /// Contents of a kind; those of different seeds differ.
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
        // Of a load that a signal ends nothing is written any more.
        let pieces = buffer.chunks_mut(AT_ONCE).take_while(|_| cancel::requested().is_none());
        pieces.for_each(|piece| noise.fill_bytes(piece));
    }

    /// Makes a filled buffer unlike all written before it: one store in each 512 bytes.
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
        verify::seal(buffer, identity);
    }
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
}
