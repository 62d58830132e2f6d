//! Whether the native fileio and the real sysbench agree: paired blocks on ext4 and XFS, four modes, 1 and 16
//! threads, on a loop image. Prints the ratio of their requests a second with its 95% interval.
//!
//! `cargo run --release -p fsarena --example agreement -- DIR [BLOCKS] [SECONDS] [SETTING=VALUE]...` (root; DIR
//! has room for an image)

use fsarena_core::cell::Arm;
use fsarena_core::factor;
use fsarena_core::metric;
use fsarena_core::scale::Scale;
use fsarena_core::setting::{Settings, Value};
use fsarena_fs::lifecycle;
use fsarena_fs::safety::ScratchDevice;
use fsarena_load::workload::{Job, Place};
use fsarena_load::workloads;
use fsarena_stats::ratio::Ratio;
use fsarena_sys::loopdev::LoopOptions;
use fsarena_sys::undo::Journal;
use fsarena_sys::{image, loopdev};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

const MODES: [&str; 4] = ["seqrd", "rndrd", "seqwr", "rndwr"];
const THREADS: [i64; 2] = [1, 16];
const TOOLS: [&str; 2] = ["native", "sysbench"];
/// The size of the image. Files take an eighth of it.
const IMAGE_BYTES: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (settings, plain): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.contains('='));
    let [dir, numbers @ ..] = plain.as_slice() else {
        return Err("arguments: DIR [BLOCKS] [SECONDS]".into());
    };
    let blocks: u64 = numbers.first().map_or(Ok(8), |text| text.parse())?;
    let seconds: f64 = numbers.get(1).map_or(Ok(1.0), |text| text.parse())?;
    let bench = Bench::new(Path::new(dir.as_str()), seconds, &settings)?;
    println!("native / sysbench, {blocks} blocks of {seconds} s a cell, {}", bench.describe());
    for fs in ["ext4", "xfs"] {
        let mut d: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        let mut medians: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for block in 0..blocks {
            bench.block(fs, block, &mut |cell, rates| {
                d.entry(cell).or_default().push((rates[0] / rates[1]).ln());
                medians.entry(cell).or_default().push(rates[1]);
            })?;
        }
        for ((mode, threads), d) in d {
            let Some(ratio) = Ratio::of(d) else { continue };
            let rates = medians.remove(&(mode, threads)).unwrap_or_default();
            let (name, threads) = (MODES[mode], THREADS[threads]);
            let median = fsarena_stats::comparison::median(&rates).unwrap_or(f64::NAN);
            println!(
                "{fs:<5} {name} {threads:>3} threads  {:.3} [{:.3}, {:.3}]{}  sysbench {median:>9.0}/s",
                ratio.value,
                ratio.low,
                ratio.high,
                if ratio.separated() { " differ" } else { "       " },
            );
        }
    }
    bench.device.release(&mut |_| {})?;
    Ok(())
}

/// The image, and how each cell is run.
struct Bench {
    settings: Settings,
    // Dropped in this order: detached and removed before the directory goes.
    device: ScratchDevice,
    journal: Journal,
    target: PathBuf,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new(within: &Path, seconds: f64, words: &[&String]) -> Result<Bench, Box<dyn Error>> {
        let dir = tempfile::Builder::new().prefix("fsarena-agreement-").tempdir_in(within)?;
        let journal = Journal::create(&dir.path().join("state"), "agreement")?;
        let image = image::create(&journal, &dir.path().join("test.img"), IMAGE_BYTES, true)?;
        let options = LoopOptions { direct_io: true, discard: false };
        let device = loopdev::attach(&journal, image.path(), options, &mut |_| {})?;
        let device = ScratchDevice::from_loop(device, image)?;
        let target = dir.path().join("mnt");
        std::fs::create_dir(&target)?;
        let defs = workloads::find("fileio").ok_or("no fileio")?.def().settings;
        let mut settings = Settings::defaults(defs);
        // sysbench writes zeros, and so does its peer here.
        settings.0.insert("payload".into(), Value::Text("zeros".into()));
        settings.0.insert("total_bytes".into(), Value::Int((IMAGE_BYTES / 8) as i64));
        settings.0.insert("seconds".into(), Value::Float(seconds));
        for word in words {
            let (id, text) = word.split_once('=').ok_or("SETTING=VALUE")?;
            let def = defs.iter().find(|def| def.id == id).ok_or("no such setting")?;
            settings.0.insert(id.into(), def.kind.parse(text).ok_or("no such value")?);
        }
        Ok(Bench { settings, device, journal, target, _dir: dir })
    }

    fn describe(&self) -> String {
        let text = |id| self.settings.0.get(id).map_or(String::new(), Value::to_string);
        format!("bs={} fsync_every={} direct={}", text("bs"), text("fsync_every"), text("direct"))
    }

    /// One block: a fresh filesystem, every cell by both tools, in random order.
    fn block(
        &self,
        fs: &str,
        block: u64,
        found: &mut dyn FnMut((usize, usize), [f64; 2]),
    ) -> Result<(), Box<dyn Error>> {
        let def = fsarena_fs::filesystems::find(fs)?;
        let arm = Arm { name: fs.into(), levels: [(factor::FS.to_string(), fs.to_string())].into() };
        let options = lifecycle::options(def, &arm)?;
        lifecycle::format(&self.device, def, &options, &mut |_| {})?;
        let mounted =
            lifecycle::mount(&self.device, &self.journal, def, &options, &self.target, &mut |_| {})?;
        let seed = fsarena_core::schedule::mix(0xA6EE, block);
        for cell in fsarena_core::schedule::block(seed, 0, MODES.len() * THREADS.len()) {
            let (mode, threads) = (cell / THREADS.len(), cell % THREADS.len());
            let mut rates = [0.0; 2];
            for tool in fsarena_core::schedule::block(seed, 1 + cell as u32, TOOLS.len()) {
                rates[tool] = self.rate(TOOLS[tool], MODES[mode], THREADS[threads], seed)?;
            }
            found((mode, threads), rates);
        }
        mounted.unmount(&mut |_| {})?;
        Ok(())
    }

    /// Requests a second of one cell by one tool.
    fn rate(&self, tool: &str, mode: &str, threads: i64, seed: u64) -> Result<f64, Box<dyn Error>> {
        let mut settings = self.settings.clone();
        settings.0.insert("engine".into(), Value::Text(tool.into()));
        settings.0.insert("modes".into(), Value::Text(mode.into()));
        settings.0.insert("threads".into(), Value::Int(threads));
        let job = Job { settings, scale: Scale::Quick, seed };
        let place = Place { root: self.target.clone(), other: self.target.clone() };
        let mut rate = None;
        for step in workloads::find("fileio").ok_or("no fileio")?.steps(&job, &place)? {
            for action in step.prepare {
                action.perform(&mut |_| {})?;
            }
            std::fs::File::open(&self.target).and_then(|dir| Ok(rustix::fs::syncfs(dir)?))?;
            for action in step.work {
                let (readings, _) = action.perform(&mut |_| {})?;
                rate = metric::find("iops").and_then(|iops| (iops.from)(&|id| readings.get(id)));
            }
        }
        Ok(rate.ok_or("no rate")?)
    }
}
