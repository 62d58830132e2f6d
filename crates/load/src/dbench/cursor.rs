//! Walks through the steps of a program for one client: resolves loops, repetitions, and numbers that depend on the
//! run. Performs no operations.

use super::kind::{MAX_NUMBERS, Numbers, OperationKind};
use super::name::RandomStrings;
use super::number::{Number, parse_integer};
use super::program::{Instruction, InstructionAction, LoadProgram};
use fsarena_core::schedule::mix;
use rand::{Rng, SeedableRng, rngs::Xoshiro256PlusPlus};

/// The next step of a program.
#[derive(Debug, Clone, Copy)]
pub enum Step<'p> {
    /// An operation with its resolved numbers.
    Operation(OperationKind, &'p Instruction, Numbers),
    /// Any other action that the client performs itself, with its numbers; never a loop or a repetition. The string of
    /// [`InstructionAction::DrawString`] has already been drawn.
    Control(InstructionAction, Numbers),
    /// The end of the program. The next step is the first one again.
    End,
}

/// The position of a client in a program.
#[derive(Debug)]
pub struct Cursor<'p> {
    program: &'p LoadProgram,
    /// The index of the next instruction.
    next_index: usize,
    /// Remaining repetitions of the current operation.
    repetitions_left: i64,
    /// The index of the first instruction of the current loop.
    loop_start: usize,
    /// Remaining rounds of the current loop, including this one.
    loop_rounds_left: i64,
    /// The numbers of the previous operation.
    previous_numbers: Numbers,
    client: i64,
    clients: i64,
    rng: Xoshiro256PlusPlus,
    /// The current random strings.
    pub strings: RandomStrings,
}

impl<'p> Cursor<'p> {
    /// Makes a cursor at the first line, for client number `client` (from 0) of `clients`.
    pub fn new(program: &'p LoadProgram, client: u32, clients: u32, seed: u64) -> Cursor<'p> {
        Cursor {
            program,
            next_index: 0,
            repetitions_left: 1,
            loop_start: 0,
            loop_rounds_left: 0,
            previous_numbers: [0; MAX_NUMBERS],
            client: client.into(),
            clients: clients.into(),
            rng: Xoshiro256PlusPlus::seed_from_u64(mix(seed, client.into())),
            strings: Default::default(),
        }
    }

    /// Moves to the next step and returns it.
    #[inline]
    pub fn next_step(&mut self) -> Step<'p> {
        loop {
            let program = self.program;
            let Some(instruction) = program.instructions.get(self.next_index) else {
                self.next_index = 0;
                return Step::End;
            };
            if let InstructionAction::Operation(kind) = instruction.action {
                self.repetitions_left -= 1;
                if self.repetitions_left == 0 {
                    self.next_index += 1;
                    self.repetitions_left = 1;
                }
                self.previous_numbers = std::array::from_fn(|index| self.resolve_number(instruction, index));
                return Step::Operation(kind, instruction, self.previous_numbers);
            }
            self.next_index += 1;
            if let Some(step) = self.apply_control(instruction) {
                return step;
            }
        }
    }

    /// Applies an instruction that is not an operation to the cursor. Returns a step unless it is a loop or a repetition.
    fn apply_control(&mut self, instruction: &Instruction) -> Option<Step<'p>> {
        let program = self.program;
        let numbers: Numbers = std::array::from_fn(|index| program.number(instruction, index).unwrap_or(0));
        match instruction.action {
            InstructionAction::Loop => {
                self.loop_start = self.next_index;
                self.loop_rounds_left = numbers[0];
                return None;
            }
            InstructionAction::EndLoop => {
                self.loop_rounds_left -= 1;
                if self.loop_rounds_left > 0 {
                    self.next_index = self.loop_start;
                }
                return None;
            }
            InstructionAction::Repeat => {
                self.repetitions_left = numbers[0];
                return None;
            }
            InstructionAction::DrawString => {
                let (slot, string) = &program.strings[numbers[0] as usize];
                string.draw_into(&mut self.rng, &mut self.strings[usize::from(*slot)]);
            }
            _ => {}
        }
        Some(Step::Control(instruction.action, numbers))
    }

    /// The value of a number of an instruction.
    #[inline]
    fn resolve_number(&mut self, instruction: &Instruction, index: usize) -> i64 {
        let number = match self.program.number(instruction, index) {
            Ok(value) => return value,
            Err(number) => number,
        };
        let previous = self.previous_numbers[index];
        match number {
            Number::Literal(value) => *value,
            // Like two calls of C's random(), this is never negative.
            Number::Random(qualifiers) => {
                qualifiers.iter().fold((self.rng.next_u64() >> 1) as i64, |value, qualifier| qualifier.apply(value))
            }
            Number::PreviousPlus(summand) => previous.wrapping_add(*summand),
            Number::PreviousPlusChild => previous.wrapping_add(self.client),
            Number::PreviousPlusClients => previous.wrapping_add(self.clients),
            Number::RandomStringValue(slot) => parse_integer(&self.strings[usize::from(*slot)]).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loadfile;
    use super::*;

    /// Takes `count` steps. Returns the handle of each operation, and the action and two numbers of any other step.
    fn walk(text: &str, count: usize) -> Vec<String> {
        let program = loadfile::parse("test", text.as_bytes()).unwrap();
        let mut cursor = Cursor::new(&program, 3, 8, 1);
        let mut steps = vec![];
        for _ in 0..count {
            steps.push(match cursor.next_step() {
                Step::Operation(_, _, numbers) => numbers[0].to_string(),
                Step::Control(action, [first, second, ..]) => format!("{action:?} {first} {second}"),
                Step::End => "End".into(),
            });
        }
        steps
    }

    #[test]
    fn loops_and_repetitions_are_expanded() {
        let text = "Flush 1 0x0\nLOOP 2\nFlush 2 0x0\nREPEAT 3\nFlush 3 0x0\nENDLOOP\nFlush 4 0x0\n";
        let steps = walk(text, 12).join(" ");
        assert_eq!(steps, "1 2 3 3 3 2 3 3 3 4 End 1");
    }

    #[test]
    fn relative_numbers_and_stored_strings_are_resolved() {
        let text = "Flush 10 0x0\nREPEAT 2\nFlush +5 0x0\nFlush +child 0x0\nFlush +num_children 0x0\n";
        assert_eq!(walk(text, 5).join(" "), "10 15 20 23 31");
        let text = "RANDOMSTRING 2 \"[7]1\"\nFlush $2 0x0\n";
        assert_eq!(walk(text, 2).join(" "), "DrawString 0 0 71");
    }

    #[test]
    fn random_numbers_are_qualified_and_depend_on_seed_and_client() {
        let text = "Flush *%100/10+1 0x0\n";
        let program = loadfile::parse("test", text.as_bytes()).unwrap();
        let draw = |client| {
            let mut cursor = Cursor::new(&program, client, 8, 5);
            let mut handles = vec![];
            while handles.len() < 100 {
                if let Step::Operation(_, _, numbers) = cursor.next_step() {
                    handles.push(numbers[0]);
                }
            }
            handles
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(1).iter().all(|n| (1..=91).contains(n) && n % 10 == 1));
    }

    #[test]
    fn control_lines_become_steps_with_their_numbers() {
        let text = "SLEEP 5\nSETSP 2\nWAITSP 1 2\nWRITEPATTERN ab\n1.5 Flush 1 0x0\n";
        assert_eq!(
            walk(text, 6),
            ["Sleep 5 0", "SetSyncPoint 2 0", "WaitForSyncPoint 1 2", "SetPattern 0 0", "WaitUntil 1500000000 0", "1"]
        );
    }
}
