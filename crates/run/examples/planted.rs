//! Does counting resolve what is planted, and nothing else?
//!
//! A tree is copied and removed in guests that count instructions, by arms that do the same work with 0.14%, 0.5% and
//! 1% more files, and by pairs of identical arms. Printed are the verdicts after 8 blocks, and how often identical
//! arms were told apart. docs/exact.md holds what came out.
//!
//! ```text
//! cargo run --release -p fsarena-run --example planted -- [FILESYSTEM…] [--pairs N] [--files N]
//! ```

use fsarena_core::cell::{Cell, WorkloadPlan};
use fsarena_core::claim::{Claim, Pair, Relation};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::matrix;
use fsarena_core::metric::reading;
use fsarena_core::plan::{Backing, DevicePlan, Emulator, GuestPlan, Plan, SettlePlan, StopPlan};
use fsarena_core::scale::Scale;
use fsarena_core::schedule::mix;
use fsarena_core::setting::{Settings, Value};
use fsarena_run::executor::Executor;
use fsarena_run::guest::Guests;
use fsarena_run::preflight;
use fsarena_stats::verdict::{Verdict, judge};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::{Journal, state_dir};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The fewest blocks that allow a verdict.
const BLOCKS: u32 = 8;
/// How often each block's work is done for pairs of identical arms.
const REPEATS: u64 = 3;
/// Files in 10,000 that have a twin.
const PLANTED: [u64; 3] = [14, 50, 100];

type Failed = Box<dyn std::error::Error>;
/// Kernel instructions of each step of a cell.
type Counts = BTreeMap<String, f64>;

struct Asked {
    filesystems: Vec<String>,
    pairs: u32,
    files: i64,
}

/// One arm, with guests of its own.
struct Arm {
    plan: Plan,
    guests: Guests,
}

fn main() -> Result<(), Failed> {
    // A guest boots into this very program.
    if fsarena_run::inside::is_here() {
        fsarena_run::inside::main();
    }
    let asked = asked()?;
    let dir = std::env::temp_dir().join(format!("fsarena-planted-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let journal = Journal::create(&state_dir(), "planted")?;
    println!("| filesystem | planted | step | effect | 95% interval | differs | seconds |");
    println!("|---|---|---|---|---|---|---|");
    let ended = asked.filesystems.iter().try_for_each(|fs| filesystem(fs, &asked, &journal, &dir));
    std::fs::remove_dir_all(&dir)?;
    ended
}

fn asked() -> Result<Asked, Failed> {
    let mut asked = Asked { filesystems: vec![], pairs: 0, files: 715 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|word| word.parse::<u32>().ok()).ok_or("a number is missing");
        match word.as_str() {
            "--pairs" => asked.pairs = number()?,
            "--files" => asked.files = number()?.into(),
            fs => asked.filesystems.push(fs.into()),
        }
    }
    if asked.filesystems.is_empty() {
        asked.filesystems = vec!["ext4".into()];
    }
    Ok(asked)
}

fn filesystem(fs: &str, asked: &Asked, journal: &Journal, dir: &Path) -> Result<(), Failed> {
    let mut base = Arm::start(fs, asked, 0, journal, dir)?;
    let begun = Instant::now();
    let blocks: Vec<Counts> = (0..BLOCKS).map(|block| base.run(block)).collect::<Result<_, _>>()?;
    let base_seconds = begun.elapsed().as_secs_f64();
    for planted in PLANTED {
        let mut more = Arm::start(fs, asked, planted, journal, dir)?;
        let begun = Instant::now();
        let with: Vec<Counts> = (0..BLOCKS).map(|block| more.run(block)).collect::<Result<_, _>>()?;
        let seconds = base_seconds + begun.elapsed().as_secs_f64();
        more.end()?;
        for step in blocks[0].keys() {
            let verdict = difference(&blocks, &with, step);
            row(fs, &format!("{}%", planted as f64 / 100.0), step, verdict, seconds);
        }
    }
    identical(fs, asked, &mut base, blocks)?;
    base.end()
}

/// Pairs of identical arms: every block's work is done again, and a pair takes two of its repeats in each block.
fn identical(fs: &str, asked: &Asked, base: &mut Arm, first: Vec<Counts>) -> Result<(), Failed> {
    if asked.pairs == 0 {
        return Ok(());
    }
    let mut repeats: Vec<Vec<Counts>> = first.into_iter().map(|counts| vec![counts]).collect();
    for (block, counts) in repeats.iter_mut().enumerate() {
        for _ in 1..REPEATS {
            counts.push(base.run(block as u32)?);
        }
    }
    let (mut verdicts, mut wrong, mut largest) = (0, 0, 0.0_f64);
    for pair in 0..asked.pairs {
        let drawn = |block: u64| {
            (mix(u64::from(pair), block) % REPEATS, mix(u64::from(pair), !block) % (REPEATS - 1))
        };
        let two = |block: u64| {
            let (a, step) = drawn(block);
            [a, (a + 1 + step) % REPEATS].map(|at| repeats[block as usize][at as usize].clone())
        };
        let (a, b): (Vec<Counts>, Vec<Counts>) = (0..u64::from(BLOCKS)).map(two).map(|[a, b]| (a, b)).unzip();
        for step in a[0].keys() {
            let Some(verdict) = difference(&a, &b, step) else { continue };
            verdicts += 1;
            wrong += u32::from(differs(&verdict));
            largest = largest.max(verdict.effect.abs());
        }
    }
    let boots = u64::from(BLOCKS) * REPEATS;
    println!(
        "\n{fs}: {} pairs of identical arms of {BLOCKS} blocks, of {boots} boots: {wrong} of {verdicts} verdicts say that they \
         differ; the largest difference is {:.6}%.\n",
        asked.pairs,
        100.0 * largest
    );
    Ok(())
}

/// What the blocks say of "b differs from a".
fn difference(a: &[Counts], b: &[Counts], step: &str) -> Option<Verdict> {
    let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b[step] / a[step]).ln()).collect();
    judge(&claim(), &d, None)
}

fn claim() -> Pair {
    match "step.kernel_instructions: b != a".parse::<Claim>().map(|claim| claim.relation) {
        Ok(Relation::Pair(pair)) => pair,
        other => unreachable!("this is a claim about a pair: {other:?}"),
    }
}

fn differs(verdict: &Verdict) -> bool {
    verdict.interval.0 > 0.0 || verdict.interval.1 < 0.0
}

fn row(fs: &str, planted: &str, step: &str, verdict: Option<Verdict>, seconds: f64) {
    let Some(verdict) = verdict else { return };
    let percent = |x: f64| format!("{:.4}%", 100.0 * x);
    println!(
        "| {fs} | {planted} | {step} | {} | {} to {} | {} | {seconds:.0} |",
        percent(verdict.effect),
        percent(verdict.interval.0),
        percent(verdict.interval.1),
        if differs(&verdict) { "yes" } else { "no" },
    );
}

impl Arm {
    fn start(fs: &str, asked: &Asked, twins: u64, journal: &Journal, dir: &Path) -> Result<Arm, Failed> {
        let guest = GuestPlan::of(Emulator::Exact);
        let plan = plan(fs, asked.files, twins, guest.clone())?;
        let arms = matrix::expand(&plan);
        let check = preflight::check(&Kernel::host(), &plan, &arms, dir)?;
        let own = dir.join(format!("{fs}-{twins}"));
        let guests = Guests::start(&plan, &guest, &check, journal, &own, &mut |_| Ok(()))?;
        Ok(Arm { plan, guests })
    }

    fn run(&mut self, block: u32) -> Result<Counts, Failed> {
        let arms = matrix::expand(&self.plan);
        let cell: Cell = matrix::cells(&self.plan, &arms, &[0], block).remove(0);
        let mut counts = Counts::new();
        let ended = self.guests.run(&cell, &mut |event| {
            if let CellEvent::Sample(sample) = event
                && sample.step.in_composite
                && let Some(count) = sample.readings.get(reading::KERNEL_INSTRUCTIONS)
            {
                counts.insert(sample.step.id.to_string(), count);
            }
        })?;
        match ended {
            Outcome::Done => Ok(counts),
            Outcome::Failed { why } => Err(why.into()),
            Outcome::Interrupted => Err("interrupted".into()),
        }
    }

    fn end(self) -> Result<(), Failed> {
        Ok(Box::new(self.guests).finish(&mut |_| Ok(()))?)
    }
}

fn plan(fs: &str, files: i64, twins: u64, guest: GuestPlan) -> Result<Plan, Failed> {
    let tree = fsarena_load::workloads::find("tree").ok_or("there is a workload tree")?;
    let mut settings = Settings::defaults(tree.def().settings);
    settings.0.insert("driver".into(), Value::Text("native".into()));
    settings.0.insert("tree_files".into(), Value::Int(files));
    settings.0.insert("twins".into(), Value::Int(twins as i64));
    Ok(Plan {
        name: "planted".into(),
        title: "Planted work".into(),
        question: "Is it found?".into(),
        scale: Scale::Tiny,
        seed: 1,
        claims: vec![],
        round: None,
        factors: [("fs".to_string(), vec![fs.to_string()])].into(),
        device: DevicePlan {
            backing: Backing::Guest(guest),
            size: None,
            direct_io: false,
            discard: false,
            other_fs: "ext4".into(),
            other_dir: None,
        },
        stop: StopPlan { blocks: BLOCKS, ..StopPlan::default() },
        settle: SettlePlan { timeout_s: 5.0, dirty: bytesize::ByteSize::mib(4), io_pressure_percent: 10.0 },
        arms: vec![],
        workloads: vec![WorkloadPlan { name: "tree".into(), settings }],
    })
}
