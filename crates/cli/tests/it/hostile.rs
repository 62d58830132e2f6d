//! `--erase` on generated device set-ups: nothing is erased that was not fsarena's own or named.
//!
//! A simple model of the rule says of each set-up whether it may be erased; the guard has to agree, and where it refuses
//! not one byte may differ. `make hostile` tries 10,000, the whole suite 50 (`FSARENA_HOSTILE`). A set-up is repeated by
//! the seed that its failure names: `FSARENA_SEED=7 FSARENA_HOSTILE=1`.

mod stage;

use crate::common::{Place, root, text};
use fsarena_fs::filesystems;
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::safety::{ScratchDevice, WrittenLog};
use fsarena_sys::kernel::SysRoot;
use stage::{Namespace, Stage, Templates};
use std::path::Path;

/// The real binary tries one set-up in this number.
const BINARY: u64 = 250;
const MIB: u64 = 1 << 20;

/// A generated set-up.
#[derive(Debug, Clone)]
struct SetUp {
    seed: u64,
    size: u64,
    content: Content,
    holder: Holder,
    name: Name,
    /// Whether a partition of the disk is named. Its content is meant then.
    partition: bool,
    read_only: bool,
    /// The argument of `--erase-signature`.
    given_up: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Zeros,
    Ones,
    /// Data without a signature: where, and its length.
    Data(u64, u64),
    /// As a template has it: the types of its signatures.
    Signatures(Vec<String>),
    Table(String),
    /// A filesystem that fsarena made and gave back.
    Own,
    /// It, with one sector changed afterwards.
    OwnChanged,
    /// It, made under another name.
    OwnRenamed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Holder {
    None,
    IdleSecondLoop,
    Mounted,
    MountedInNamespace,
    MountedThroughSecondLoop,
    CopyMounted,
    LoopAbove,
    Swap,
    SwapThroughSecondLoop,
    Exclusive,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Name {
    ById,
    /// A link in by-id to a link elsewhere.
    ByIdToLink,
    Kernel,
    LinkElsewhere,
    ByIdToImage,
    Image,
    ByIdToNull,
    Dangling,
}

/// The rule, as the guide says it.
fn may_be_erased(set_up: &SetUp) -> bool {
    let named = matches!(set_up.name, Name::ById | Name::ByIdToLink);
    let idle = matches!(set_up.holder, Holder::None | Holder::IdleSecondLoop);
    let given_up = |kind: &str| set_up.given_up.as_deref() == Some(kind);
    let content = match &set_up.content {
        Content::Zeros | Content::Ones | Content::Own => true,
        Content::Data(..) => given_up("unknown"),
        Content::Signatures(kinds) => kinds.iter().all(|kind| given_up(kind)),
        Content::OwnChanged | Content::OwnRenamed => given_up("ext2"),
        Content::Table(_) => false,
    };
    named && idle && content && !set_up.read_only
}

/// Random choices.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // splitmix64, so that neighbouring seeds have nothing in common.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

fn generate(seed: u64, templates: &Templates) -> SetUp {
    use Holder::*;
    let mut dice = Dice(seed);
    let dice = &mut dice;
    let holder = match dice.below(10) {
        0..6 => None,
        _ => dice.pick(&[
            IdleSecondLoop,
            Mounted,
            MountedInNamespace,
            MountedThroughSecondLoop,
            CopyMounted,
            LoopAbove,
            Swap,
            SwapThroughSecondLoop,
            Exclusive,
        ]),
    };
    let partition = dice.below(6) == 0;
    let size = match dice.below(40) {
        // Room for a whole run.
        _ if seed.is_multiple_of(BINARY) => 96 * MIB,
        _ if partition => 2 * MIB,
        0 => 200 * MIB,
        1 => 65 * MIB,
        2..10 => 16 * MIB + 4096,
        10..20 => 3 * MIB + 512,
        _ => dice.pick(&[MIB, 4 * MIB, 16 * MIB]),
    };
    let content = match holder {
        Mounted | MountedInNamespace | MountedThroughSecondLoop | CopyMounted => {
            Content::Signatures(vec![dice.pick(&["ext2", "ext4"]).into()])
        }
        Swap | SwapThroughSecondLoop => Content::Signatures(vec!["swap".into()]),
        _ => match dice.below(12) {
            0 => Content::Zeros,
            1 => Content::Ones,
            2 | 3 => data(dice, size),
            4 if !partition => Content::Table(dice.pick(&templates.tables(size))),
            5 if size > 2 * MIB => Content::Own,
            6 if size > 2 * MIB => Content::OwnChanged,
            7 => Content::OwnRenamed,
            _ => Content::Signatures(dice.pick(&templates.kinds(size))),
        },
    };
    let right = match &content {
        Content::Signatures(kinds) => kinds[0].clone(),
        Content::Table(kind) => kind.clone(),
        Content::Data(..) => "unknown".into(),
        _ => "ext2".into(),
    };
    let others = ["unknown", "ext2", "ext4", "swap", "xfs", "dos", ""];
    let given_up = match dice.below(6) {
        0 | 1 => Option::None,
        2 => Some(dice.pick(&others).to_string()),
        _ => Some(right),
    };
    let names = [
        Name::ByIdToLink,
        Name::Kernel,
        Name::LinkElsewhere,
        Name::ByIdToImage,
        Name::Image,
        Name::ByIdToNull,
        Name::Dangling,
    ];
    let name = if dice.below(3) < 2 { Name::ById } else { dice.pick(&names) };
    SetUp { seed, size, content, holder, name, partition, read_only: dice.below(12) == 0, given_up }
}

/// On a small device it may be one byte anywhere, on a large one it is as large as the guide says.
fn data(dice: &mut Dice, size: u64) -> Content {
    let whole = size <= 64 * MIB;
    let least = if whole { 1 } else { size.div_ceil(500) + 4096 };
    let length = (least << dice.below(6)).min(size);
    Content::Data(dice.below(size - length + 1), length)
}

#[test]
fn nothing_is_erased_that_was_not_fsarenas_own_or_named() {
    if !root() {
        return;
    }
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let count: u64 = number("FSARENA_HOSTILE", 50);
    let seed = number("FSARENA_SEED", u64::from(std::process::id()) * BINARY * 1000);
    println!("FSARENA_SEED={seed} FSARENA_HOSTILE={count}");
    let place = Place::new();
    let (templates, namespace) = (Templates::make(&place.dir), Namespace::make());
    let (mut failures, mut erased, mut by_binary) = (vec![], 0, 0);
    for number in 0..count {
        let set_up = generate(seed.wrapping_add(number), &templates);
        let binary = set_up.seed.is_multiple_of(BINARY);
        by_binary += u64::from(binary);
        match attempt(&place, &namespace, &templates, &set_up, binary) {
            Ok(()) => erased += u64::from(may_be_erased(&set_up)),
            Err(why) => {
                println!("FAILED {set_up:?}: {why}");
                failures.push(set_up.seed);
            }
        }
        if number % 500 == 499 {
            println!("{}: {erased} erased, {} failures", number + 1, failures.len());
        }
    }
    println!("{count} set-ups, {by_binary} by the binary, {erased} erased as they may be, {} failures", failures.len());
    assert_eq!(failures, [0; 0], "seeds");
    crate::common::gate::wait_until("nothing is left", || place.left().is_empty());
}

/// Tries to erase one set-up, and compares what came of it with the rule.
fn attempt(
    place: &Place,
    namespace: &Namespace,
    templates: &Templates,
    set_up: &SetUp,
    binary: bool,
) -> Result<(), String> {
    let stage = Stage::build(place, namespace, templates, set_up);
    let before = stage.digest();
    let given_up = set_up.given_up.as_deref();
    let outcome =
        if binary { by_binary(place, &stage.name, given_up) } else { erase(&stage.name, given_up, &stage.written) };
    let changed = stage.digest() != before;
    match (may_be_erased(set_up), outcome) {
        (false, _) if changed => Err("it was changed".into()),
        (true, Ok(())) if changed => Ok(()),
        (false, Err(_)) => Ok(()),
        (true, Ok(())) => Err("it was taken, and is as it was".into()),
        (true, Err(why)) => Err(format!("it was refused: {why}")),
        (false, Ok(())) => Err("it was taken".into()),
    }
}

/// Through the guard and mkfs, as a run does.
fn erase(name: &Path, given_up: Option<&str>, written: &WrittenLog) -> Result<(), String> {
    let scratch = ScratchDevice::from_user_named(&SysRoot::host(), name, given_up, written);
    let scratch = scratch.map_err(|error| error.to_string())?;
    let ext2 = filesystems::find("ext2").unwrap();
    lifecycle::format(&scratch, ext2, &VariantOptions::default(), &mut |_| {}).unwrap();
    scratch.release(&mut |_| {}).map_err(|error| error.to_string())
}

fn by_binary(place: &Place, name: &Path, given_up: Option<&str>) -> Result<(), String> {
    let given_up = given_up.map(|kind| vec!["--erase-signature", kind]).unwrap_or_default();
    let args = ["run", "plan.toml", "--fs", "ext2", "--set", "tasks=1", "--erase", name.to_str().unwrap()];
    let output = place.output(&[&args[..], &given_up].concat());
    let _ = std::fs::remove_dir_all(place.runs());
    match output.status.code() {
        Some(0) => Ok(()),
        code => Err(format!("exit code {code:?}: {}", text(&output.stderr))),
    }
}
