//! Measures whether a native load of fsarena agrees with the real tool, in paired rounds on ext4 and XFS on a loop image.
//! Prints the ratio of their rates with its 95% interval, and the ratios of their CPU time for each operation.
//!
//! `cargo run --release -p fsarena --example agreement -- fileio|dbench DIR [ROUNDS] [SECONDS] [SETTING=VALUE]...`
//!
//! Needs root, and space for an image in DIR. Settings that are axes of the comparison, such as `clients=20`, and `fs=xfs`
//! select cells.

use fsarena_core::setting::{SettingValue, Settings};
use fsarena_core::{cell::Variant, factor, metric, sample::Readings, scale::Scale};
use fsarena_fs::{lifecycle, safety::ScratchDevice};
use fsarena_load::workload::{Job, Place};
use fsarena_load::workloads;
use fsarena_stats::ratio::Ratio;
use fsarena_sys::cpu::CpuTime;
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::{image, undo::Journal};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, error::Error};

/// One comparison between fsarena's engine and the real program.
struct Comparison {
    workload: &'static str,
    /// Values of its setting `engine`: fsarena's own load, then the real program.
    tools: [&'static str; 2],
    /// Settings with their values. Every combination is a cell.
    axes: &'static [(&'static str, &'static [&'static str])],
    /// Settings of all cells. The payload is zeros, because the real programs write zeros.
    fixed: &'static [(&'static str, &'static str)],
    metric: &'static str,
    image_bytes: u64,
}

const COMPARISONS: [Comparison; 2] = [
    Comparison {
        workload: "fileio",
        tools: ["native", "sysbench"],
        axes: &[("modes", &["seqrd", "rndrd", "seqwr", "rndwr"]), ("threads", &["1", "16"])],
        fixed: &[("payload", "zeros"), ("total_bytes", "134217728")],
        metric: "iops",
        image_bytes: 1 << 30,
    },
    Comparison {
        workload: "dbench",
        tools: ["native", "dbench"],
        axes: &[("clients", &["1", "4", "20"])],
        fixed: &[("payload", "zeros")],
        metric: "throughput",
        image_bytes: 2 << 30,
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut assignments, positional): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.contains('='));
    let selected_filesystems: Vec<String> =
        assignments.extract_if(.., |assignment| assignment.starts_with("fs=")).cloned().collect();
    let [workload, dir, numbers @ ..] = positional.as_slice() else {
        return Err("arguments: fileio|dbench DIR [ROUNDS] [SECONDS] [SETTING=VALUE]...".into());
    };
    let comparison = COMPARISONS.iter().find(|comparison| comparison.workload == workload.as_str());
    let comparison = comparison.ok_or("compared are fileio and dbench")?;
    let rounds: u64 = numbers.first().map_or(Ok(8), |text| text.parse())?;
    let seconds = numbers.get(1).map_or("1", |text| text.as_str());
    let run = ComparisonRun::new(comparison, Path::new(dir.as_str()), seconds, &assignments)?;
    let [ours, real] = comparison.tools;
    println!("{ours} / {real}, {}, {rounds} rounds of {seconds} s a cell", comparison.metric);
    for fs in ["ext4", "xfs"] {
        if !selected_filesystems.is_empty() && !selected_filesystems.contains(&format!("fs={fs}")) {
            continue;
        }
        let mut pairs_of_cells: BTreeMap<usize, Vec<[ToolResult; 2]>> = BTreeMap::new();
        for round in 0..rounds {
            for (cell, results) in run.run_round(fs, round)? {
                pairs_of_cells.entry(cell).or_default().push(results);
            }
        }
        for (cell, pairs) in pairs_of_cells {
            println!("{fs:<5} {:<28} {}", show_settings(&comparison.settings_of(cell)), show_ratios(&pairs));
        }
    }
    run.device.release(&mut |_| {})?;
    Ok(())
}

impl Comparison {
    fn cell_count(&self) -> usize {
        self.axes.iter().map(|(_, values)| values.len()).product()
    }

    /// The settings of the cell with this number.
    fn settings_of(&self, cell: usize) -> Vec<(&'static str, &'static str)> {
        let mut settings = vec![];
        let mut rest = cell;
        for (id, values) in self.axes {
            settings.push((*id, values[rest % values.len()]));
            rest /= values.len();
        }
        settings
    }
}

fn show_settings(settings: &[(&str, &str)]) -> String {
    settings.iter().map(|(id, value)| format!("{id}={value}")).collect::<Vec<_>>().join(" ")
}

/// The result of one tool in one cell of one round.
#[derive(Debug, Clone, Copy)]
struct ToolResult {
    /// The value of the metric.
    value: f64,
    /// CPU time of one operation in nanoseconds, in user mode and in the kernel.
    user_ns: f64,
    system_ns: f64,
}

/// The number of a cell, with the results of fsarena's own load and of the real program.
type CellResults = (usize, [ToolResult; 2]);

/// Formats the ratios of both tools, and the median of the real tool.
fn show_ratios(pairs: &[[ToolResult; 2]]) -> String {
    let show_ratio = |quantity: fn(&ToolResult) -> f64| {
        let logarithms = pairs.iter().map(|[ours, real]| (quantity(ours) / quantity(real)).ln()).collect();
        Ratio::from_log_ratios(logarithms).map_or("-".into(), |ratio| {
            let differ = if ratio.is_significant() { " differ" } else { "       " };
            format!("{:.3} [{:.3}, {:.3}]{differ}", ratio.value, ratio.low, ratio.high)
        })
    };
    let real_values: Vec<f64> = pairs.iter().map(|[_, real]| real.value).collect();
    let median = fsarena_stats::comparison::median(&real_values).unwrap_or(f64::NAN);
    let value = show_ratio(|result| result.value);
    let (user, system) = (show_ratio(|result| result.user_ns), show_ratio(|result| result.system_ns));
    format!("{value}  real {median:>12.0}/s  user CPU {user}  system CPU {system}")
}

/// The device, the settings and the selected cells of a comparison.
struct ComparisonRun {
    comparison: &'static Comparison,
    /// The indices of the selected cells.
    cells: Vec<usize>,
    settings: Settings,
    // The fields are dropped in this order: the device is detached and its image removed before the directory.
    device: ScratchDevice,
    journal: Journal,
    target: PathBuf,
    _dir: tempfile::TempDir,
}

impl ComparisonRun {
    /// Prepares a device in a directory. `assignments` are the settings of the command line.
    fn new(
        comparison: &'static Comparison,
        parent_dir: &Path,
        seconds: &str,
        assignments: &[&String],
    ) -> Result<ComparisonRun, Box<dyn Error>> {
        let dir = tempfile::Builder::new().prefix("fsarena-agreement-").tempdir_in(parent_dir)?;
        let journal = Journal::create(&dir.path().join("state"), "agreement")?;
        let image = image::create(&journal, &dir.path().join("test.img"), comparison.image_bytes, true)?;
        let options = LoopOptions { direct_io: true, discard: false };
        let device = loopdev::attach(&journal, image.path(), options, &mut |_| {})?;
        let device = ScratchDevice::from_loop(device, image)?;
        let target = dir.path().join("mnt");
        std::fs::create_dir(&target)?;
        let mut settings =
            Settings::defaults(workloads::find_workload(comparison.workload).ok_or("no workload")?.def().settings);
        comparison.fixed.iter().try_for_each(|(id, text)| set(comparison, &mut settings, id, text))?;
        set(comparison, &mut settings, "seconds", seconds)?;
        for assignment in assignments {
            let (id, text) = assignment.split_once('=').ok_or("SETTING=VALUE")?;
            set(comparison, &mut settings, id, text)?;
        }
        // Select the cells that have the values of the axes on the command line.
        let is_selected = |(id, value): &(&str, &str)| {
            let mut assigned = assignments.iter().filter_map(|assignment| assignment.split_once('='));
            assigned.all(|(assigned_id, assigned_value)| assigned_id != *id || assigned_value == *value)
        };
        let cells =
            (0..comparison.cell_count()).filter(|&cell| comparison.settings_of(cell).iter().all(is_selected)).collect();
        Ok(ComparisonRun { comparison, cells, settings, device, journal, target, _dir: dir })
    }

    /// Runs one round: makes a filesystem, and runs every cell with both tools, in random order.
    fn run_round(&self, fs: &str, round: u64) -> Result<Vec<CellResults>, Box<dyn Error>> {
        let def = fsarena_fs::filesystems::find(fs)?;
        let variant = Variant { name: fs.into(), levels: [(factor::FS.to_string(), fs.to_string())].into() };
        let options = lifecycle::variant_options(def, &variant)?;
        lifecycle::format(&self.device, def, &options, &mut |_| {})?;
        let mounted = lifecycle::mount(&self.device, &self.journal, def, &options, &self.target, &mut |_| {})?;
        let seed = fsarena_core::schedule::mix(0xA6EE, round);
        let mut results_of_cells = vec![];
        for index in fsarena_core::schedule::order_of_round(seed, 0, self.cells.len()) {
            let cell = self.cells[index];
            let mut results = [ToolResult { value: 0.0, user_ns: 0.0, system_ns: 0.0 }; 2];
            for tool in fsarena_core::schedule::order_of_round(seed, 1 + cell as u32, 2) {
                results[tool] = self.run_cell(tool, cell, seed)?;
            }
            results_of_cells.push((cell, results));
        }
        mounted.unmount(&mut |_| {})?;
        Ok(results_of_cells)
    }

    /// Runs a cell with one of the tools.
    fn run_cell(&self, tool: usize, cell: usize, seed: u64) -> Result<ToolResult, Box<dyn Error>> {
        let mut settings = self.settings.clone();
        set(self.comparison, &mut settings, "engine", self.comparison.tools[tool])?;
        for (id, value) in self.comparison.settings_of(cell) {
            set(self.comparison, &mut settings, id, value)?;
        }
        let job = Job { settings, scale: Scale::Quick, seed };
        let place = Place { root: self.target.clone(), source_dir: self.target.clone(), server_user: None };
        let mut tasks = workloads::find_workload(self.comparison.workload).ok_or("no workload")?.tasks(&job, &place)?;
        let task = tasks.pop().ok_or("a cell has a task")?;
        for action in task.preparation {
            action.perform(&mut |_| {})?;
        }
        std::fs::File::open(&self.target).and_then(|dir| Ok(rustix::fs::syncfs(dir)?))?;
        let cpu_before_ns = cpu_ns();
        let mut readings = Readings::default();
        for action in task.work {
            readings.extend(action.perform(&mut |_| {})?.readings);
        }
        let cpu_after_ns = cpu_ns();
        let value = metric::find(self.comparison.metric).and_then(|metric| (metric.formula)(&|id| readings.get(id)));
        let operations = readings.get("all_operations_count").ok_or("no operations")?;
        let [user_ns, system_ns] = [0, 1].map(|mode| (cpu_after_ns[mode] - cpu_before_ns[mode]) as f64 / operations);
        Ok(ToolResult { value: value.ok_or("no figure")?, user_ns, system_ns })
    }
}

/// User and system CPU time of this process and of its ended children, in nanoseconds.
fn cpu_ns() -> [u64; 2] {
    let (own, ended) = (CpuTime::of_this_process(), CpuTime::of_ended_children());
    [own.user_ns + ended.user_ns, own.system_ns + ended.system_ns]
}

/// Parses a value and sets it in the settings.
fn set(comparison: &Comparison, settings: &mut Settings, id: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let defs = workloads::find_workload(comparison.workload).ok_or("no workload")?.def().settings;
    let def = defs.iter().find(|def| def.id == id).ok_or_else(|| format!("no setting {id}"))?;
    let value: SettingValue = def.kind.parse(text).ok_or_else(|| format!("{id} is {}", def.kind))?;
    settings.0.insert(id.into(), value);
    Ok(())
}
