//! `--erase` on generated device set-ups: only content that fsarena made or that the user named is erased.
//!
//! `may_be_erased` is a simple model of the rule. The guard has to agree with it on each set-up, and where it refuses, not
//! one byte may change. `make hostile` tries 10,000, the whole suite 50 (`FSARENA_HOSTILE`). A set-up is repeated by
//! the seed that its failure names: `FSARENA_SEED=7 FSARENA_HOSTILE=1`.

mod stage;

use crate::common::{Sandbox, runs_as_root, text};
use fsarena_fs::filesystems;
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::safety::{ScratchDevice, WrittenLog};
use fsarena_sys::kernel::SysRoot;
use stage::{Namespace, Stage, Templates};
use std::path::Path;

/// One set-up in this number is tried with the program `fsarena` instead of the library.
const PROGRAM_INTERVAL: u64 = 250;
const MIB: u64 = 1 << 20;

/// A generated device: its content, who uses it, and how it is named to fsarena.
#[derive(Debug, Clone)]
struct SetUp {
    seed: u64,
    size_bytes: u64,
    content: Content,
    holder: Holder,
    name: NameKind,
    /// Whether the device is a partition of a disk. `size_bytes` and `content` are those of the partition.
    is_partition: bool,
    read_only: bool,
    /// The argument of `--erase-signature`.
    erase_signature: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Zeros,
    Ones,
    /// Data without a signature.
    Data {
        offset: u64,
        length: u64,
    },
    /// The types of the signatures. A template has them.
    Signatures(Vec<String>),
    /// The type of a partition table.
    Table(String),
    /// A filesystem that fsarena made.
    Own,
    /// A filesystem that fsarena made, with one sector changed afterwards.
    OwnChanged,
    /// A filesystem that fsarena made when the device had another name.
    OwnRenamed,
}

/// What uses the device.
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

/// The path that `--erase` gets.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NameKind {
    /// A link in `/dev/disk/by-id` to the device.
    ById,
    /// A link in `/dev/disk/by-id` to a link elsewhere.
    ByIdToLink,
    /// The name of the kernel, such as `/dev/loop0`.
    Kernel,
    LinkElsewhere,
    ByIdToImage,
    Image,
    ByIdToNull,
    Dangling,
}

/// The rule as documented in the guide.
fn may_be_erased(set_up: &SetUp) -> bool {
    let has_stable_name = matches!(set_up.name, NameKind::ById | NameKind::ByIdToLink);
    let idle = matches!(set_up.holder, Holder::None | Holder::IdleSecondLoop);
    let is_named_signature = |kind: &str| set_up.erase_signature.as_deref() == Some(kind);
    let may_lose_content = match &set_up.content {
        Content::Zeros | Content::Ones | Content::Own => true,
        Content::Data { .. } => is_named_signature("unknown"),
        Content::Signatures(kinds) => kinds.iter().all(|kind| is_named_signature(kind)),
        Content::OwnChanged | Content::OwnRenamed => is_named_signature("ext2"),
        Content::Table(_) => false,
    };
    has_stable_name && idle && may_lose_content && !set_up.read_only
}

/// A generator of random choices. It holds its state.
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

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
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
    let is_partition = dice.below(6) == 0;
    let size_bytes = match dice.below(40) {
        // Room for a whole run.
        _ if seed.is_multiple_of(PROGRAM_INTERVAL) => 96 * MIB,
        _ if is_partition => 2 * MIB,
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
            2 | 3 => generate_data(dice, size_bytes),
            4 if !is_partition => Content::Table(dice.pick(&templates.tables(size_bytes))),
            5 if size_bytes > 2 * MIB => Content::Own,
            6 if size_bytes > 2 * MIB => Content::OwnChanged,
            7 => Content::OwnRenamed,
            _ => Content::Signatures(dice.pick(&templates.kinds(size_bytes))),
        },
    };
    let found_signature = match &content {
        Content::Signatures(kinds) => kinds[0].clone(),
        Content::Table(kind) => kind.clone(),
        Content::Data { .. } => "unknown".into(),
        _ => "ext2".into(),
    };
    let signatures = ["unknown", "ext2", "ext4", "swap", "xfs", "dos", ""];
    let erase_signature = match dice.below(6) {
        0 | 1 => Option::None,
        2 => Some(dice.pick(&signatures).to_string()),
        _ => Some(found_signature),
    };
    let names = [
        NameKind::ByIdToLink,
        NameKind::Kernel,
        NameKind::LinkElsewhere,
        NameKind::ByIdToImage,
        NameKind::Image,
        NameKind::ByIdToNull,
        NameKind::Dangling,
    ];
    let name = if dice.below(3) < 2 { NameKind::ById } else { dice.pick(&names) };
    let read_only = dice.below(12) == 0;
    SetUp { seed, size_bytes, content, holder, name, is_partition, read_only, erase_signature }
}

/// Generates data of a length that the guard has to notice: one byte and more on a small device, which it reads whole; on
/// a large one the least amount that the guide promises.
fn generate_data(dice: &mut Dice, size_bytes: u64) -> Content {
    let is_read_whole = size_bytes <= 64 * MIB;
    let min_length = if is_read_whole { 1 } else { size_bytes.div_ceil(500) + 4096 };
    let length = (min_length << dice.below(6)).min(size_bytes);
    Content::Data { offset: dice.below(size_bytes - length + 1), length }
}

#[test]
fn only_content_of_fsarena_or_with_a_named_signature_is_erased() {
    if !runs_as_root() {
        return;
    }
    let env_number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let count: u64 = env_number("FSARENA_HOSTILE", 50);
    let seed = env_number("FSARENA_SEED", u64::from(std::process::id()) * PROGRAM_INTERVAL * 1000);
    println!("FSARENA_SEED={seed} FSARENA_HOSTILE={count}");
    let sandbox = Sandbox::new();
    let (templates, namespace) = (Templates::make(&sandbox.dir), Namespace::make());
    let (mut failed_seeds, mut erased_count, mut program_count) = (vec![], 0, 0);
    for number in 0..count {
        let set_up = generate(seed.wrapping_add(number), &templates);
        let use_program = set_up.seed.is_multiple_of(PROGRAM_INTERVAL);
        program_count += u64::from(use_program);
        match check_set_up(&sandbox, &namespace, &templates, &set_up, use_program) {
            Ok(()) => erased_count += u64::from(may_be_erased(&set_up)),
            Err(why) => {
                println!("FAILED {set_up:?}: {why}");
                failed_seeds.push(set_up.seed);
            }
        }
        if number % 500 == 499 {
            println!("{}: {erased_count} erased, {} failures", number + 1, failed_seeds.len());
        }
    }
    println!("{count} set-ups, {program_count} by the program, {erased_count} erased, {} failures", failed_seeds.len());
    assert_eq!(failed_seeds, [0; 0], "seeds");
    crate::common::gate::wait_until("nothing is left", || sandbox.leftovers().is_empty());
}

/// Tries to erase the device of a set-up.
///
/// # Errors
/// If the outcome differs from the rule.
fn check_set_up(
    sandbox: &Sandbox,
    namespace: &Namespace,
    templates: &Templates,
    set_up: &SetUp,
    use_program: bool,
) -> Result<(), String> {
    let stage = Stage::build(sandbox, namespace, templates, set_up);
    let before = stage.digest();
    let signature = set_up.erase_signature.as_deref();
    let outcome = match use_program {
        true => erase_by_program(sandbox, &stage.device_name, signature),
        false => erase(&stage.device_name, signature, &stage.written_log),
    };
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

/// Makes a filesystem on a device through the guard, as a run does.
fn erase(name: &Path, signature: Option<&str>, written_log: &WrittenLog) -> Result<(), String> {
    let scratch = ScratchDevice::from_user_named(&SysRoot::host(), name, signature, written_log);
    let scratch = scratch.map_err(|error| error.to_string())?;
    let ext2 = filesystems::find("ext2").unwrap();
    lifecycle::format(&scratch, ext2, &VariantOptions::default(), &mut |_| {}).unwrap();
    scratch.release(&mut |_| {}).map_err(|error| error.to_string())
}

/// Makes a run of `fsarena` on a device.
fn erase_by_program(sandbox: &Sandbox, name: &Path, signature: Option<&str>) -> Result<(), String> {
    let signature = signature.map(|kind| vec!["--erase-signature", kind]).unwrap_or_default();
    let args = ["run", "plan.toml", "--fs", "ext2", "--set", "tasks=1", "--erase", name.to_str().unwrap()];
    let output = sandbox.output(&[&args[..], &signature].concat());
    let _ = std::fs::remove_dir_all(sandbox.runs_dir());
    match output.status.code() {
        Some(0) => Ok(()),
        code => Err(format!("exit code {code:?}: {}", text(&output.stderr))),
    }
}
