//! Measures how well guests reproduce differences: ten tasks on three filesystems, on the machine itself and in every kind of
//! guest. Prints, as Markdown, the ratio of each pair of filesystems with its 95% interval, and whether guests show the same
//! order as the machine.
//!
//! `cargo build --release -p fsarena && cargo run --release -p fsarena --example truth -- DIR [ROUNDS] [SCALE]`
//!
//! The runs on the machine itself need root. The example reuses complete runs in DIR. DIR should be in memory (`/dev/shm`), so
//! that no disk affects the figures.

use fsarena_core::observations::{Grid, dropped_rounds};
use fsarena_core::{record::RunRecord, sample::Direction};
use fsarena_report::document::{Cell, Document, Table, markdown};
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_store::RunDir;
use std::path::{Path, PathBuf};
use std::{error::Error, process::Command};

/// The places to compare: a name, the value of `--on`, and the metric.
const PLACES: [(&str, &str, &str); 3] =
    [("machine", "ram", "synced"), ("TCG", "qemu", "synced"), ("exact", "exact", "instructions")];
const FILESYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// The tasks by their published numbers: files, directories, a tree, large files.
const TASKS: &str = "1,3,4,6,7,9,11,12,19,20";
/// The ratio from which a difference counts as large.
const LARGE_RATIO: f64 = 1.5;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, rest @ ..] = args.as_slice() else { return Err("arguments: DIR [ROUNDS] [SCALE]".into()) };
    let rounds = rest.first().map_or("8", String::as_str);
    let scale = rest.get(1).map_or("quick", String::as_str);
    let mut place_results = vec![];
    for (name, on, metric) in PLACES {
        let record = read_or_make_run(&Path::new(dir).join(on), on, rounds, scale)?;
        eprintln!("{name}: {}", record.status.why);
        place_results.push(PlaceResult::of(record, metric).ok_or_else(|| format!("{name} has no {metric}"))?);
    }
    print_table(&place_results)
}

/// Returns the newest run in a directory if it is complete; else makes a new run.
fn read_or_make_run(runs_dir: &Path, on: &str, rounds: &str, scale: &str) -> Result<RunRecord, Box<dyn Error>> {
    if let Ok(found) = RunDir::find(runs_dir, "latest")
        && let record = fsarena_store::read(&found)?
        && record.status.complete
    {
        return Ok(record);
    }
    let status = Command::new(find_fsarena()?)
        .args(["run", "piszcz", "--on", on, "--fs", &FILESYSTEMS.join(","), "--rounds", rounds, "--scale", scale])
        .args(["--set", &format!("tasks={TASKS}"), "--set", "driver=native", "--seed", "1", "--runs"])
        .arg(runs_dir)
        .stdout(std::process::Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("fsarena run --on {on}: {status}").into());
    }
    Ok(fsarena_store::read(&RunDir::find(runs_dir, "latest")?)?)
}

/// Returns the path of the program `fsarena`, which is in the parent directory of this example.
fn find_fsarena() -> Result<PathBuf, Box<dyn Error>> {
    let own_path = std::env::current_exe()?;
    let program = own_path.ancestors().nth(2).ok_or("no target directory")?.join("fsarena");
    if program.exists() { Ok(program) } else { Err("build it first: cargo build --release -p fsarena".into()) }
}

/// A run on the machine or in one kind of guest, with the values of its metric.
struct PlaceResult {
    record: RunRecord,
    grid: Grid,
    lower_is_better: bool,
}

impl PlaceResult {
    fn of(record: RunRecord, metric: &str) -> Option<PlaceResult> {
        let grid = Grid::without_rounds(&record, metric, &dropped_rounds(&record))?;
        Some(PlaceResult { lower_is_better: grid.metric.direction == Direction::Lower, grid, record })
    }

    /// The ratio of the cost of the second filesystem to that of the first, in a task.
    fn ratio(&self, task: &str, first: &str, second: &str) -> Option<Ratio> {
        let task = self.record.tasks.iter().position(|info| info.id.to_string() == task)?;
        let variant = |name: &str| self.record.variants.iter().position(|variant| variant.name == name);
        let values = &self.grid.values[task];
        let ratio = Ratio::from_log_ratios(log_ratios(&values[variant(first)?], &values[variant(second)?]).d)?;
        Some(if self.lower_is_better { ratio } else { ratio.inverse() })
    }
}

/// Whether a guest shows the same order of two filesystems as the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// A significant difference in the same direction.
    Kept,
    /// A significant difference in the other direction.
    Reversed,
    /// No significant difference.
    Open,
}

impl Order {
    /// Compares the ratios of two filesystems. None if the difference on the machine is not significant.
    fn of(machine: &Ratio, guest: &Ratio) -> Option<Order> {
        let same = (machine.value > 1.0) == (guest.value > 1.0);
        machine.is_significant().then_some(match (guest.is_significant(), same) {
            (false, _) => Order::Open,
            (true, true) => Order::Kept,
            (true, false) => Order::Reversed,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Order::Kept => "kept",
            Order::Reversed => "REVERSED",
            Order::Open => "open",
        }
    }
}

fn print_table(place_results: &[PlaceResult]) -> Result<(), Box<dyn Error>> {
    let mut table = Table::of_figures(["task", "ratio"]);
    table.header.extend(PLACES.iter().map(|(name, ..)| name.to_string()));
    let mut orders: Vec<Vec<(Order, bool)>> = vec![vec![]; place_results.len()];
    let tasks = place_results[0].record.tasks.iter().filter(|task| task.in_totals);
    for task in tasks {
        for (first, second) in [(0, 1), (0, 2), (1, 2)] {
            let (first, second) = (FILESYSTEMS[first], FILESYSTEMS[second]);
            let ratios: Vec<Option<Ratio>> = place_results
                .iter()
                .map(|place_result| place_result.ratio(&task.id.to_string(), first, second))
                .collect();
            let mut row: Vec<Cell> = vec![task.title.as_str().into(), format!("{second}/{first}").into()];
            for (place, ratio) in ratios.iter().enumerate() {
                let order = ratios[0].zip(*ratio).and_then(|(machine, guest)| Order::of(&machine, &guest));
                let large = ratios[0].is_some_and(|ratio| ratio.value.max(1.0 / ratio.value) >= LARGE_RATIO);
                orders[place].extend(order.map(|order| (order, large)));
                row.push(format_cell(*ratio, order.filter(|_| place > 0)).into());
            }
            table.rows.push(row);
        }
    }
    let mut document = Document::default();
    document.table(table);
    document.list(summarize(&orders));
    markdown::write_markdown(&document, None, &mut std::io::stdout().lock())?;
    Ok(())
}

fn format_cell(ratio: Option<Ratio>, order: Option<Order>) -> String {
    let Some(ratio) = ratio else { return "–".into() };
    let word = order.map_or(String::new(), |order| format!(" {}", order.word()));
    format!("{:.2} [{:.2}–{:.2}]{word}", ratio.value, ratio.low, ratio.high)
}

/// For each guest: how many of the pairs with a significant difference on the machine it keeps, reverses, and leaves open.
fn summarize(orders: &[Vec<(Order, bool)>]) -> Vec<String> {
    let mut lines = vec![];
    for ((name, ..), orders) in PLACES.iter().zip(orders).skip(1) {
        let all = count_orders(orders.iter().map(|(order, _)| *order));
        let large = count_orders(orders.iter().filter(|(_, large)| *large).map(|(order, _)| *order));
        lines.push(format!("{name}: {all}; of those of {LARGE_RATIO} times and more: {large}."));
    }
    lines
}

fn count_orders(orders: impl Iterator<Item = Order>) -> String {
    let orders: Vec<Order> = orders.collect();
    let [kept, reversed, open] = [Order::Kept, Order::Reversed, Order::Open]
        .map(|counted| orders.iter().filter(|order| **order == counted).count());
    format!("{kept} of {} kept, {reversed} reversed, {open} open", orders.len())
}
