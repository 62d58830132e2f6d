//! Runs one target with libFuzzer: `FUZZ_TARGET=claim fuzz -runs=1000 FOLDER`. Without `FUZZ_TARGET` it lists the targets.
#![no_main]

use fsarena_fuzz::{TARGETS, Target};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::OnceLock;

/// The limit of memory in bytes. An allocation beyond it fails, which libFuzzer reports as a crash.
const MAX_MEMORY_BYTES: u64 = 1 << 30;

static TARGET: OnceLock<&Target> = OnceLock::new();

/// The target that `FUZZ_TARGET` names. Also limits the memory of the process. If the name is missing or unknown, prints the
/// names of all targets and exits.
fn choose_target() -> &'static Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let limit = Rlimit { current: Some(MAX_MEMORY_BYTES), maximum: Some(MAX_MEMORY_BYTES) };
    setrlimit(Resource::Data, limit).expect("a limit of memory");
    target.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        println!("{}", names.join("\n"));
        std::process::exit(i32::from(!name.is_empty()))
    })
}

libfuzzer_sys::fuzz_target!(
    init: {
        TARGET.get_or_init(choose_target);
    },
    |input: &[u8]| fsarena_fuzz::run(TARGET.get_or_init(choose_target), input)
);

// libFuzzer itself makes half of the changes, by bytes; the other half are by words and lines.
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(2) {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mutated = fsarena_fuzz::mutation::mutate_text(&data[..size], seed);
    let length = mutated.len().min(max_size);
    data[..length].copy_from_slice(&mutated[..length]);
    length
});
