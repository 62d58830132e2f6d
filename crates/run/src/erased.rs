//! A device that the user named for erasing: the same state before every filesystem, and its health.

use crate::context::RunContext;
use crate::error::{CellResult, Result};
use crate::executor::{Log, RunSink, logged};
use crate::settings::setting;
use bytesize::ByteSize;
use fsarena_core::event::{Event, Note, NoteKind};
use fsarena_engine::{Bound, Files, LoadJob, LoadOutcome, Open, Pattern, Warmup, steady::pts_steady};
use fsarena_fs::{lifecycle::Devices, safety::ScratchDevice};
use fsarena_sys::{argv::Argv, device::BlockDevice};
use serde_json::Value;

/// How the erased device of a run is treated.
pub struct Erased {
    device: BlockDevice,
    /// Whether it is discarded before each mkfs.
    discards: bool,
    health: Health,
}

impl Erased {
    /// Brings the device into the state that the plan asks for. None where the run
    /// erases no device.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn begin(run: &RunContext, device: Option<&ScratchDevice>, tell: RunSink) -> Result<Option<Erased>> {
        let Some((scratch, device)) = device.and_then(|scratch| Some((scratch, scratch.device()?))) else {
            return Ok(None);
        };
        let path = device.path.display();
        let (plan, begins) = (&run.plan, !run.check.resumed);
        // A device that was brought into its steady state stays in it.
        let keeps = plan.device.precondition && !begins;
        let discards = !keeps && device.discards() && logged(tell, |log| scratch.discard(log))?.is_ok();
        if plan.device.precondition && begins {
            tell(Event::Note(precondition(scratch, discards)?))?;
        } else if !keeps && !discards {
            let text = format!(
                "{path} takes no discard: an SSD remembers what earlier variants wrote, and its speed can depend on that"
            );
            tell(Event::Note(Note::new(NoteKind::Fairness, text).fix(setting("precondition", ""))))?;
        }
        let health = Health::read(device);
        let facts = health.facts();
        if !facts.is_empty() {
            tell(Event::Note(Note::new(NoteKind::Options, facts.join(", ")).task("device")))?;
        }
        let discards = discards && !plan.device.precondition;
        Ok(Some(Erased { device: device.clone(), discards, health }))
    }

    /// Before mkfs: whatever the variant before wrote, the device knows nothing of it any more.
    ///
    /// # Errors
    /// Where blkdiscard(8) fails.
    pub fn before_mkfs(&self, devices: &Devices, log: Log) -> CellResult {
        let mut erased = devices.all().filter(|device| self.discards && !device.is_made());
        Ok(erased.try_for_each(|device| device.discard(log))?)
    }

    /// After a cell: says that the device was too hot for its full speed.
    pub fn throttled(&mut self) -> Option<Note> {
        let before = std::mem::replace(&mut self.health, Health::read(&self.device));
        let why = self.health.throttled_since(&before)?;
        let path = self.device.path.display();
        let text = format!("{path} was too hot for its full speed in this cell: {why}");
        Some(Note::new(NoteKind::Fairness, text).fix("cool the device"))
    }
}

/// The known facts of a disk at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
struct Health {
    firmware: Option<String>,
    /// Degrees Celsius.
    temperature: Option<i64>,
    /// Per cent of the life that its maker rates it for.
    worn: Option<u64>,
    /// Minutes above the temperatures from which it slows down, in its whole life.
    hot_minutes: Option<u64>,
    /// Whether it says that it is too hot now.
    too_hot: bool,
}

/// The bit of NVMe's critical warning that says "above a temperature threshold" (NVM Express Base Specification 2.0, 5.16.1.3).
const TEMPERATURE_BIT: u64 = 2;

impl Health {
    /// Reads it; what cannot be read is left out.
    fn read(device: &BlockDevice) -> Health {
        let asked = Argv::new("smartctl").args(["--json", "--all"]).arg(&device.path).run();
        // Its exit status is a set of bits, most of them about the disk, not about the reading.
        let smart = asked.map(|ended| serde_json::from_str(&ended.stdout).unwrap_or_default());
        Health::of(smart.unwrap_or_default(), device.firmware())
    }

    /// What `smartctl --json --all` says.
    fn of(smart: Value, firmware: Option<String>) -> Health {
        let nvme = |name| smart["nvme_smart_health_information_log"][name].as_u64();
        let minutes = nvme("warning_temp_time").zip(nvme("critical_comp_time"));
        Health {
            firmware: smart["firmware_version"].as_str().map(String::from).or(firmware),
            temperature: smart["temperature"]["current"].as_i64(),
            worn: smart["endurance_used"]["current_percent"].as_u64().or(nvme("percentage_used")),
            hot_minutes: minutes.map(|(warning, critical)| warning + critical),
            too_hot: nvme("critical_warning").unwrap_or_default() & TEMPERATURE_BIT != 0,
        }
    }

    /// For people, one fact each.
    fn facts(&self) -> Vec<String> {
        let facts = [
            self.firmware.as_ref().map(|version| format!("firmware {version}")),
            self.worn.map(|percent| format!("{percent}% of its rated life used")),
            self.temperature.map(|degrees| format!("{degrees} °C at the start")),
        ];
        facts.into_iter().flatten().collect()
    }

    /// Why the device was slower than it can be since an earlier moment, if it says that it was.
    fn throttled_since(&self, before: &Health) -> Option<String> {
        let minutes = self.hot_minutes?.saturating_sub(before.hot_minutes?);
        let degrees = self.temperature.map_or(String::new(), |degrees| format!("{degrees} °C, "));
        match (minutes, self.too_hot) {
            (0, false) => None,
            (0, true) => Some(format!("{degrees}above its threshold")),
            (minutes, _) => Some(format!("{degrees}{minutes} more minutes above its warning temperature")),
        }
    }
}

/// Passes over the whole device, and their blocks in bytes: the workload-independent preconditioning.
const PASSES: u32 = 2;
const PASS_BLOCK: u32 = 128 << 10;
/// Blocks of the random writes that follow, in bytes: the workload-dependent preconditioning.
const BLOCK: u32 = 4 << 10;
/// Seconds of one round of them, and the most rounds. A device that a pass fills sooner gets rounds of that time.
const ROUND_S: f64 = 60.0;
const MOST_ROUNDS: usize = 25;
/// Rounds of the window that has to be steady.
const WINDOW: usize = 5;
/// Writers at a time.
const THREADS: u32 = 4;

/// Brings an SSD into its steady state by the Solid State Storage Performance Test Specification (SNIA, version 2.0.2): fills
/// the device, then writes to it at random until the speed is steady. Returns the note for the report.
///
/// # Errors
/// Where the device cannot be written.
fn precondition(device: &ScratchDevice, purged: bool) -> Result<Note> {
    device.begin()?;
    let files = Files::device(device.path()).map_err(fsarena_load::task::TaskError::from)?;
    let size = files.bytes() / u64::from(PASS_BLOCK) * u64::from(PASS_BLOCK);
    let write = |block_bytes, pattern, bound| -> Result<LoadOutcome> {
        let job = LoadJob {
            open: Open { direct: true, ..Open::default() },
            block_bytes,
            threads: THREADS,
            pattern,
            read_share: 0.0,
            bound,
            warmup: Warmup::None,
            ..LoadJob::default()
        };
        Ok(fsarena_engine::run(&job, &files, &mut |_| {}).map_err(fsarena_load::task::TaskError::from)?)
    };
    let mut pass_s = 0.0;
    for _ in 0..PASSES {
        let sequential = Pattern::Sequential { shared_cursor: true };
        pass_s = seconds(&write(PASS_BLOCK, sequential, Bound::Bytes(size))?);
    }
    let round_s = f64::clamp(pass_s, 0.1, ROUND_S);
    let mut iops: Vec<f64> = vec![];
    while iops.len() < MOST_ROUNDS && !is_steady(&iops) {
        let outcome = write(BLOCK, Pattern::Uniform, Bound::Seconds(round_s))?;
        let count: u64 = outcome.kinds.iter().map(|kind| kind.count).sum();
        iops.push(count as f64 / seconds(&outcome));
    }
    Ok(describe_preconditioning(
        &format!("{} ({})", device.path().display(), ByteSize(files.bytes())),
        purged,
        round_s,
        &iops,
    ))
}

fn seconds(outcome: &LoadOutcome) -> f64 {
    outcome.elapsed_ns as f64 / 1e9
}

fn is_steady(iops: &[f64]) -> bool {
    iops.last_chunk::<WINDOW>().is_some_and(pts_steady)
}

/// The note on what was written to the device, and whether its speed was steady then.
fn describe_preconditioning(device: &str, purged: bool, round_s: f64, iops: &[f64]) -> Note {
    let purge = if purged { "purged by a discard" } else { "not purged, because it takes no discard" };
    let last = &iops[iops.len().saturating_sub(WINDOW)..];
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    let text = format!(
        "preconditioned: {device} was {purge}, written {PASSES} times in blocks of 128 KiB, then at random in blocks of 4 \
         KiB for {} rounds of {round_s:.1} s, in the last {} of them {mean:.0} writes/s; from then on nothing discards it",
        iops.len(),
        last.len()
    );
    if is_steady(iops) {
        return Note::new(NoteKind::Remark, format!("{text}. By SNIA's rule that is steady"));
    }
    Note::new(NoteKind::Fairness, format!("{text}. By SNIA's rule that is not steady"))
        .fix("find out why its speed varies: another user of the device, or heat")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(json: &str) -> Health {
        Health::of(serde_json::from_str(json).unwrap(), Some("of the kernel".into()))
    }

    #[test]
    fn an_nvme_disk_tells_its_wear_and_its_heat() {
        let at = |minutes: u64, warning: u64| {
            health(&format!(
                r#"{{"firmware_version": "2B2QEXM7", "temperature": {{"current": 71}}, "power_on_time": {{"hours": 1}},
                "nvme_smart_health_information_log": {{"critical_warning": {warning}, "percentage_used": 3,
                "warning_temp_time": {minutes}, "critical_comp_time": 1}}}}"#
            ))
        };
        assert_eq!(
            at(5, 0).facts(),
            ["firmware 2B2QEXM7", "3% of its rated life used", "71 °C at the start"]
        );
        assert_eq!(at(5, 0).throttled_since(&at(5, 0)), None);
        let hot = at(7, 0).throttled_since(&at(5, 0)).unwrap();
        assert_eq!(hot, "71 °C, 2 more minutes above its warning temperature");
        assert_eq!(at(5, 2).throttled_since(&at(5, 0)).unwrap(), "71 °C, above its threshold");
    }

    #[test]
    fn without_smart_the_kernel_knows_the_firmware() {
        let plain = health("{}");
        assert_eq!(plain.facts(), ["firmware of the kernel"]);
        assert_eq!(plain.throttled_since(&plain), None);
    }

    #[test]
    fn five_rounds_alike_are_steady() {
        let steady =
            describe_preconditioning("/dev/x", true, 60.0, &[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        assert_eq!(steady.kind, NoteKind::Remark);
        assert!(
            steady.text.contains("for 6 rounds of 60.0 s, in the last 5 of them 100 writes/s"),
            "{}",
            steady.text
        );
        let falling: Vec<f64> = (0..25).map(|round| 1e4 / f64::from(round + 1)).collect();
        let never = describe_preconditioning("/dev/x", false, 60.0, &falling);
        assert!(never.kind == NoteKind::Fairness && never.text.contains("not steady"), "{}", never.text);
        assert!(!is_steady(&[100.0; 4]));
    }
}
