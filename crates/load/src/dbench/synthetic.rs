//! A load of our own with the statistics of dbench's standard loadfile: `dbench-like`.
//!
//! It is made of lives, not of independent draws: a name is looked up in vain, the file is created, its end is
//! set, it is written, closed, renamed, opened again and read, and removed; beside that, files that stay are looked
//! up, held open, read and updated. How many lives and visits of each kind a cycle has is fixed, and so are the
//! shares of all operations; the seed decides their order, places and sizes.

mod cycle;
mod script;
#[cfg(test)]
mod tests;

use super::kind::Kind;
use super::program::{Action, Builder, Program};
use fsarena_core::schedule::mix;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use script::{DIRECTORIES, Line, Script, Staying, WRITE, home};

/// What the seed is mixed with.
const LIKE: u64 = 0x11CE;
/// Different cycles of a pass.
const CYCLES: u32 = 8;
/// How often a pass goes through them: 128 cycles, where the standard loadfile has 129.
const ROUNDS: i64 = 16;
/// Files that stay, by size in bytes: 56, of 20.9 MB in all.
const STAYING: [(usize, i64); 2] = [(16, 1 << 20), (40, 102_400)];
/// The load of a seed.
///
/// # Panics
/// Never: what is made here is a program.
pub fn program(seed: u64) -> Program {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, LIKE));
    let mut builder = Builder::default();
    let staying = staying();
    let mut script = Script::default();
    set_up(&staying, &mut script);
    add(&mut builder, &script.lines);
    control(&mut builder, Action::Loop, &[ROUNDS]);
    for number in 0..CYCLES {
        add(&mut builder, &cycle::lines(&staying, number, &mut rng));
    }
    control(&mut builder, Action::EndLoop, &[]);
    builder.finish().expect("a loop of operations that ends is a program")
}

fn staying() -> Vec<Staying> {
    let sizes = STAYING.into_iter().flat_map(|(count, bytes)| std::iter::repeat_n(bytes, count));
    sizes
        .enumerate()
        .map(|(at, bytes)| Staying { name: format!("{}/kept{at:02}.dat", home(at)), bytes })
        .collect()
}

/// Empties what another pass left, and makes the directories and the files that stay.
fn set_up(staying: &[Staying], script: &mut Script) {
    script.does(Kind::Deltree, &["/clients/client1"], &[]);
    script.does(Kind::Mkdir, &["/clients"], &[]);
    for directory in std::iter::once("/clients/client1".to_string()).chain((0..DIRECTORIES.len()).map(home)) {
        let handle = script.handle();
        script.does(Kind::NtCreateX, &[&directory], &[0x1, 0x2, handle]);
        script.does(Kind::Close, &[], &[handle]);
    }
    for file in staying {
        let handle = script.create(&file.name);
        script.does(Kind::QueryFs, &[], &[1]);
        let chunks = (0..file.bytes).step_by(WRITE as usize).map(|at| (file.bytes - at).min(WRITE));
        script.write_chunks(handle, &chunks.collect::<Vec<_>>());
        script.does(Kind::Close, &[], &[handle]);
    }
}

fn add(builder: &mut Builder, lines: &[Line]) {
    for line in lines {
        let number = builder.len() as u32 + 1;
        let names: Vec<&[u8]> = line.names.iter().map(String::as_bytes).collect();
        builder
            .operation(number, line.kind, &names, &line.numbers, line.expected)
            .expect("scripts make operations that are complete");
    }
}

fn control(builder: &mut Builder, action: Action, numbers: &[i64]) {
    let number = builder.len() as u32 + 1;
    builder.control(number, action, numbers).expect("there is one loop");
}
