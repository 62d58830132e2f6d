//! One target under libFuzzer: `FUZZ_TARGET=claim fuzz -runs=1000 FOLDER`.
#![no_main]

use fsarena_fuzz::{TARGETS, Target};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::OnceLock;

/// Memory, in bytes, that no input may make a target take. An allocation beyond it fails, and that is a crash.
const MEMORY: u64 = 1 << 30;

static TARGET: OnceLock<&Target> = OnceLock::new();

fn choose() -> &'static Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::Data, limit).expect("a limit of memory");
    target.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        println!("{}", names.join("\n"));
        std::process::exit(i32::from(!name.is_empty()))
    })
}

libfuzzer_sys::fuzz_target!(
    init: {
        TARGET.get_or_init(choose);
    },
    |input: &[u8]| fsarena_fuzz::run(TARGET.get_or_init(choose), input)
);

// Half by bytes, half by words.
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    if seed.is_multiple_of(2) {
        return libfuzzer_sys::fuzzer_mutate(data, size, most);
    }
    let changed = fsarena_fuzz::words::change(&data[..size], seed);
    let length = changed.len().min(most);
    data[..length].copy_from_slice(&changed[..length]);
    length
});
