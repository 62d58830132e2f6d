//! A device that the user named for erasing: fsarena brings it into the same state before every mkfs, and reports its
//! health.

use crate::context::RunContext;
use crate::error::{CellResult, Result};
use crate::executor::{CommandLog, RunSink, emit_logged_commands};
use bytesize::ByteSize;
use fsarena_core::event::{Event, Note, NoteKind};
use fsarena_core::setting_text::setting;
use fsarena_engine::{Bound, Files, LoadJob, LoadOutcome, OpenMode, Pattern, Warmup, steady::is_steady_by_snia_rule};
use fsarena_fs::{lifecycle::Devices, safety::ScratchDevice};
use fsarena_sys::{argv::Argv, cancel, device::BlockDevice};
use serde_json::Value;

/// The erased device of a run.
pub struct ErasedDevice {
    device: BlockDevice,
    /// Whether fsarena discards it before each mkfs.
    discards: bool,
    health: Health,
}

impl ErasedDevice {
    /// Brings the device into the state that the plan requires: discarded or preconditioned. None if the run erases no
    /// device.
    ///
    /// # Errors
    /// The device cannot be written.
    pub fn prepare(run: &RunContext, device: Option<&ScratchDevice>, emit: RunSink) -> Result<Option<ErasedDevice>> {
        let Some((scratch, device)) = device.and_then(|scratch| Some((scratch, scratch.device()?))) else {
            return Ok(None);
        };
        let path = device.path.display();
        let plan = &run.plan;
        // A discard would end the steady state into which the first part of a resumed run has brought the device.
        let is_preconditioned = plan.device.precondition && run.requirements.has_measured_cells;
        let discards = !is_preconditioned
            && device.supports_discard()
            && emit_logged_commands(emit, |log| scratch.discard(log))?.is_ok();
        if plan.device.precondition && !is_preconditioned {
            emit(Event::Note(precondition(scratch, discards)?))?;
        } else if !is_preconditioned && !discards {
            let text = format!(
                "{path} takes no discard: an SSD remembers what earlier variants wrote, and its speed can depend on that"
            );
            emit(Event::Note(Note::new(NoteKind::Fairness, text).fix(setting("precondition", ""))))?;
        }
        let health = Health::read(device);
        let facts = health.facts();
        if !facts.is_empty() {
            emit(Event::Note(Note::new(NoteKind::Options, facts.join(", ")).task("device")))?;
        }
        let discards = discards && !plan.device.precondition;
        Ok(Some(ErasedDevice { device: device.clone(), discards, health }))
    }

    /// Discards the erased device before mkfs, so that the writes of the variant before have no effect.
    ///
    /// # Errors
    /// blkdiscard(8) fails.
    pub fn discard_before_mkfs(&self, devices: &Devices, log: CommandLog) -> CellResult {
        let mut erased = devices.iter().filter(|device| self.discards && !device.is_made_by_fsarena());
        Ok(erased.try_for_each(|device| device.discard(log))?)
    }

    /// After a cell: a note if the device was too hot for its full speed; else None.
    pub fn throttling_note(&mut self) -> Option<Note> {
        let before = std::mem::replace(&mut self.health, Health::read(&self.device));
        let why = self.health.throttled_since(&before)?;
        let path = self.device.path.display();
        let text = format!("{path} was too hot for its full speed in this cell: {why}");
        Some(Note::new(NoteKind::Fairness, text).fix("cool the device"))
    }
}

/// The health of a disk at one moment, as far as it is known.
#[derive(Debug, Clone, PartialEq, Default)]
struct Health {
    firmware: Option<String>,
    /// Temperature in degrees Celsius.
    celsius: Option<i64>,
    /// Used share of its rated life, in percent.
    worn_percent: Option<u64>,
    /// Minutes that it spent above its warning and critical temperatures in its whole life. Above these it can slow
    /// down.
    hot_minutes: Option<u64>,
    /// Whether it reports that it is too hot now.
    is_too_hot: bool,
}

/// The bit of NVMe's critical warning for a temperature above a threshold (NVM Express Base Specification 2.0,
/// 5.16.1.3).
const TEMPERATURE_BIT: u64 = 2;

impl Health {
    /// Reads the health of a device with smartctl(8). Facts that cannot be read are None.
    fn read(device: &BlockDevice) -> Health {
        let finished = Argv::new("smartctl").args(["--json", "--all"]).arg(&device.path).run();
        // The exit status is ignored: most of its bits describe the disk, not the success of the command.
        let smart = finished.map(|finished| serde_json::from_str(&finished.stdout).unwrap_or_default());
        Health::from_smart(smart.unwrap_or_default(), device.firmware())
    }

    /// Takes the facts from the output of `smartctl --json --all`. `firmware` is the version that the kernel reports.
    fn from_smart(smart: Value, firmware: Option<String>) -> Health {
        let nvme = |name| smart["nvme_smart_health_information_log"][name].as_u64();
        let minutes = nvme("warning_temp_time").zip(nvme("critical_comp_time"));
        Health {
            firmware: smart["firmware_version"].as_str().map(String::from).or(firmware),
            celsius: smart["temperature"]["current"].as_i64(),
            worn_percent: smart["endurance_used"]["current_percent"].as_u64().or(nvme("percentage_used")),
            hot_minutes: minutes.map(|(warning, critical)| warning + critical),
            is_too_hot: nvme("critical_warning").unwrap_or_default() & TEMPERATURE_BIT != 0,
        }
    }

    /// Describes each known fact.
    fn facts(&self) -> Vec<String> {
        let facts = [
            self.firmware.as_ref().map(|version| format!("firmware {version}")),
            self.worn_percent.map(|percent| format!("{percent}% of its rated life used")),
            self.celsius.map(|degrees| format!("{degrees} °C at the start")),
        ];
        facts.into_iter().flatten().collect()
    }

    /// Why the device was too hot for its full speed since the reading `before`; None if it does not report that.
    fn throttled_since(&self, before: &Health) -> Option<String> {
        let minutes = self.hot_minutes?.saturating_sub(before.hot_minutes?);
        let degrees = self.celsius.map_or(String::new(), |degrees| format!("{degrees} °C, "));
        match (minutes, self.is_too_hot) {
            (0, false) => None,
            (0, true) => Some(format!("{degrees}above its threshold")),
            (minutes, _) => Some(format!("{degrees}{minutes} more minutes above its warning temperature")),
        }
    }
}

/// Number of sequential passes over the whole device: the workload-independent preconditioning.
const FILL_PASSES: u32 = 2;
/// Bytes of one write of such a pass.
const FILL_BLOCK_BYTES: u32 = 128 << 10;
/// Bytes of one random write: the workload-dependent preconditioning, which follows.
const RANDOM_BLOCK_BYTES: u32 = 4 << 10;
/// Seconds of one round of random writes. If a pass over the device takes less, a round takes as long as the pass.
const ROUND_S: f64 = 60.0;
/// The largest number of rounds of random writes.
const MAX_ROUNDS: usize = 25;
/// Number of consecutive rounds with a steady speed that end the preconditioning.
const STEADY_ROUNDS: usize = 5;
/// Number of threads that write.
const THREADS: u32 = 4;

/// Brings an SSD into its steady state by the Solid State Storage Performance Test Specification (SNIA, version 2.0.2):
/// fills the device, then writes to it at random until the speed is steady. `was_purged` is whether fsarena has
/// discarded the device before. Returns the note for the report.
///
/// # Errors
/// The device cannot be written, or a signal arrived.
fn precondition(device: &ScratchDevice, was_purged: bool) -> Result<Note> {
    device.begin_overwriting()?;
    let files = Files::device(device.path()).map_err(fsarena_load::task::TaskError::from)?;
    let size = files.bytes_per_file() / u64::from(FILL_BLOCK_BYTES) * u64::from(FILL_BLOCK_BYTES);
    let write = |block_bytes, pattern, bound| -> Result<LoadOutcome> {
        let job = LoadJob {
            open: OpenMode { direct: true, ..OpenMode::default() },
            block_bytes,
            threads: THREADS,
            pattern,
            read_share: 0.0,
            bound,
            warmup: Warmup::None,
            ..LoadJob::default()
        };
        let outcome = fsarena_engine::run(&job, &files, &mut |_| {}).map_err(fsarena_load::task::TaskError::from)?;
        // A signal ends a load early, so the device is not preconditioned.
        cancel::check()?;
        Ok(outcome)
    };
    let mut pass_s = 0.0;
    for _ in 0..FILL_PASSES {
        let sequential = Pattern::Sequential { shared_cursor: true };
        pass_s = elapsed_s(&write(FILL_BLOCK_BYTES, sequential, Bound::Bytes(size))?);
    }
    let round_s = f64::clamp(pass_s, 0.1, ROUND_S);
    let mut iops: Vec<f64> = vec![];
    while iops.len() < MAX_ROUNDS && !is_steady(&iops) {
        let outcome = write(RANDOM_BLOCK_BYTES, Pattern::Uniform, Bound::Seconds(round_s))?;
        let count: u64 = outcome.kinds.iter().map(|kind| kind.count).sum();
        iops.push(count as f64 / elapsed_s(&outcome));
    }
    Ok(describe_preconditioning(
        &format!("{} ({})", device.path().display(), ByteSize(files.bytes_per_file())),
        was_purged,
        round_s,
        &iops,
    ))
}

/// The duration of a load in seconds.
fn elapsed_s(outcome: &LoadOutcome) -> f64 {
    outcome.elapsed_ns as f64 / 1e9
}

/// Whether the last [`STEADY_ROUNDS`] rounds have a steady speed.
fn is_steady(iops: &[f64]) -> bool {
    iops.last_chunk::<STEADY_ROUNDS>().is_some_and(is_steady_by_snia_rule)
}

/// The note on the preconditioning: what was written to the device, and whether its speed became steady.
fn describe_preconditioning(device: &str, was_purged: bool, round_s: f64, iops: &[f64]) -> Note {
    let purged_text = if was_purged { "purged by a discard" } else { "not purged, because it takes no discard" };
    let last_rounds = &iops[iops.len().saturating_sub(STEADY_ROUNDS)..];
    let mean = last_rounds.iter().sum::<f64>() / last_rounds.len() as f64;
    let text = format!(
        "preconditioned: {device} was {purged_text}, written {FILL_PASSES} times in blocks of 128 KiB, then at random in blocks of 4 \
         KiB for {} rounds of {round_s:.1} s, in the last {} of them {mean:.0} writes/s; from then on nothing discards it",
        iops.len(),
        last_rounds.len()
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
        Health::from_smart(serde_json::from_str(json).unwrap(), Some("of the kernel".into()))
    }

    #[test]
    fn wear_and_temperature_of_an_nvme_disk_are_read_from_smartctl() {
        let health_with = |minutes: u64, warning: u64| {
            health(&format!(
                r#"{{"firmware_version": "2B2QEXM7", "temperature": {{"current": 71}}, "power_on_time": {{"hours": 1}},
                "nvme_smart_health_information_log": {{"critical_warning": {warning}, "percentage_used": 3,
                "warning_temp_time": {minutes}, "critical_comp_time": 1}}}}"#
            ))
        };
        assert_eq!(health_with(5, 0).facts(), ["firmware 2B2QEXM7", "3% of its rated life used", "71 °C at the start"]);
        assert_eq!(health_with(5, 0).throttled_since(&health_with(5, 0)), None);
        let hot = health_with(7, 0).throttled_since(&health_with(5, 0)).unwrap();
        assert_eq!(hot, "71 °C, 2 more minutes above its warning temperature");
        assert_eq!(health_with(5, 2).throttled_since(&health_with(5, 0)).unwrap(), "71 °C, above its threshold");
    }

    #[test]
    fn without_smart_the_firmware_version_comes_from_the_kernel() {
        let plain = health("{}");
        assert_eq!(plain.facts(), ["firmware of the kernel"]);
        assert_eq!(plain.throttled_since(&plain), None);
    }

    #[test]
    fn five_rounds_with_equal_speed_are_steady() {
        let steady = describe_preconditioning("/dev/x", true, 60.0, &[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        assert_eq!(steady.kind, NoteKind::Remark);
        assert!(steady.text.contains("for 6 rounds of 60.0 s, in the last 5 of them 100 writes/s"), "{}", steady.text);
        let falling: Vec<f64> = (0..25).map(|round| 1e4 / f64::from(round + 1)).collect();
        let never = describe_preconditioning("/dev/x", false, 60.0, &falling);
        assert!(never.kind == NoteKind::Fairness && never.text.contains("not steady"), "{}", never.text);
        assert!(!is_steady(&[100.0; 4]));
    }
}
