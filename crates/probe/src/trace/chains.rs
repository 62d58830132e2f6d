//! Call chains, each kept once.

use std::collections::HashMap;

// Marks between the parts of a chain (enum perf_callchain_context). Every value at or above MAX is one.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

/// A chain in this collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(usize);

/// A call chain, innermost frame first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// Addresses in the kernel.
    pub kernel: Vec<u64>,
    /// Addresses in the program.
    pub user: Vec<u64>,
}

/// Every distinct chain that was seen. A contended lock has few, so an event costs a number.
#[derive(Debug, Default)]
pub struct Chains {
    ids: HashMap<Box<[u8]>, ChainId>,
    chains: Vec<Chain>,
}

impl Chains {
    /// The chain of these bytes: addresses of 8 bytes with context marks in between.
    pub fn intern(&mut self, bytes: &[u8]) -> ChainId {
        if let Some(id) = self.ids.get(bytes) {
            return *id;
        }
        let id = ChainId(self.chains.len());
        self.ids.insert(bytes.into(), id);
        self.chains.push(Chain::parse(bytes));
        id
    }

    /// The chain of an id that [`Chains::intern`] gave.
    pub fn get(&self, id: ChainId) -> &Chain {
        &self.chains[id.0]
    }
}

impl Chain {
    fn parse(bytes: &[u8]) -> Chain {
        let mut chain = Chain::default();
        let mut context = CONTEXT_KERNEL;
        for address in bytes.chunks_exact(8) {
            let address = u64::from_ne_bytes(address.try_into().expect("chunks of eight bytes"));
            match (address, context) {
                (CONTEXT_MAX.., _) => context = address,
                (_, CONTEXT_KERNEL) => chain.kernel.push(address),
                (_, CONTEXT_USER) => chain.user.push(address),
                // Hypervisors and guests are not asked for.
                _ => {}
            }
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::decode::tests::addresses;
    use proptest::prelude::*;

    #[test]
    fn marks_part_kernel_from_user() {
        let bytes = addresses(&[CONTEXT_KERNEL, 0xffff_ffff_8100_0000, CONTEXT_USER, 0x5000, 0x6000]);
        let chain = Chain::parse(&bytes);
        assert_eq!(chain, Chain { kernel: vec![0xffff_ffff_8100_0000], user: vec![0x5000, 0x6000] });
    }

    #[test]
    fn an_equal_chain_is_kept_once() {
        let mut chains = Chains::default();
        let a = chains.intern(&addresses(&[CONTEXT_KERNEL, 1]));
        let b = chains.intern(&addresses(&[CONTEXT_KERNEL, 2]));
        assert_eq!(chains.intern(&addresses(&[CONTEXT_KERNEL, 1])), a);
        assert_ne!(a, b);
        assert_eq!(chains.get(b).kernel, [2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_some_chain(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut chains = Chains::default();
            let id = chains.intern(&bytes);
            let chain = chains.get(id);
            prop_assert!(chain.kernel.len() + chain.user.len() <= bytes.len() / 8);
        }
    }
}
