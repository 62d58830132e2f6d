//! Measures one task: waits until the machine is idle, takes readings, does the work, takes readings, syncs, and takes
//! readings again.

use crate::executor::Log;
use crate::idle::{self, wait_until_idle};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, CommandRecord, MEANWHILE_SEPARATOR, Note, NoteKind, Phase, SpentOn};
use fsarena_core::metric::layout::LAYOUT_READINGS;
use fsarena_core::metric::{
    INSTRUCTION_READINGS, JOINT_READINGS, LIFECYCLE_READINGS, SERVICE_READINGS, TIMER_READINGS, reading,
};
use fsarena_core::plan::IdlePlan;
use fsarena_core::sample::{ReadingDef, Sample, TaskOutput};
use fsarena_guest::counter::Mark;
use fsarena_load::workloads;
use fsarena_probe::{ProbeTarget, Session, probes};
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{dirs::Space, kernel::SysRoot};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Every reading that a sample can have: of the timer, of probes, of the lifecycle, and of loads.
pub fn readings() -> impl Iterator<Item = ReadingDef> {
    let fixed = LIFECYCLE_READINGS
        .iter()
        .chain(LAYOUT_READINGS)
        .chain(INSTRUCTION_READINGS)
        .chain(workloads::reading_defs())
        .chain(SERVICE_READINGS)
        .chain(JOINT_READINGS);
    TIMER_READINGS.iter().copied().chain(probes::reading_defs()).chain(fixed.copied())
}

/// A task that every filesystem has, whatever the workload: mkfs, mount or unmount.
pub fn lifecycle_task(id: &str, title: &str) -> TaskInfo {
    TaskInfo { id: TaskId::new(id), title: title.into(), number: None, in_totals: false }
}

/// The major and minor number of a device.
pub fn device_numbers(device: &BlockDevice) -> (u32, u32) {
    (device.major, device.minor)
}

/// A note that the device readings cover only the first device, for a filesystem on several.
pub fn first_device_note(devices: &[&Path]) -> Option<Note> {
    let (first, other_devices) = devices.split_first().filter(|(_, other_devices)| !other_devices.is_empty())?;
    let other_devices: Vec<String> = other_devices.iter().map(|device| device.display().to_string()).collect();
    let text =
        format!("readings of the device are of {} alone, not of {}", first.display(), other_devices.join(" and "));
    Some(Note::new(NoteKind::Remark, text).task("device"))
}

/// A note that the device readings cover the disk below the links of a stack.
pub fn below_stack_note() -> Note {
    let text = "readings of the device are of the disk below the stack, with what the stack writes itself";
    Note::new(NoteKind::Remark, text).task("device")
}

/// How often the page cache of the machine was dropped since it booted.
fn cache_drops(kernel: &SysRoot) -> Option<u64> {
    let counters = kernel.read("proc/vmstat").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("drop_pagecache ")?.trim().parse().ok())
}

/// Measures the tasks of one cell and emits events.
pub struct Bench<'a> {
    kernel: SysRoot,
    session: Session,
    device: Option<(u32, u32)>,
    idle_plan: &'a IdlePlan,
    /// How many waits in a row have timed out.
    timeouts_in_a_row: u32,
    /// A directory of the filesystem under test, whose used space is read before and after each task of the workload.
    filesystem: Option<PathBuf>,
    /// Devices that are not under test but whose writes are counted, each with the reading that gets the count. Such writes
    /// show that a command writes to the wrong place.
    other_devices: Vec<(&'static str, (u32, u32))>,
    /// How often the page cache of the machine was dropped before the last look; None if the kernel does not count that.
    cache_drops: Option<u64>,
    /// Called at the begin, return and sync of each task, so that the instruction counter of a guest can separate them.
    mark: fn(Mark),
    emit: &'a mut dyn FnMut(CellEvent),
}

impl<'a> Bench<'a> {
    /// Opens the probes for the device under test.
    pub fn open(
        kernel: &SysRoot,
        device: Option<(u32, u32)>,
        idle_plan: &'a IdlePlan,
        mark: fn(Mark),
        emit: &'a mut dyn FnMut(CellEvent),
    ) -> Bench<'a> {
        let (session, notes) = Session::open(&ProbeTarget { kernel: kernel.clone(), device });
        notes.into_iter().for_each(|note| emit(CellEvent::Note(note)));
        Bench {
            kernel: kernel.clone(),
            session,
            device,
            idle_plan,
            timeouts_in_a_row: 0,
            filesystem: None,
            other_devices: vec![],
            cache_drops: cache_drops(kernel),
            mark,
            emit,
        }
    }

    /// Reads the growth of the used space of the filesystem of a directory during each task of the workload.
    pub fn read_used_space(&mut self, dir: &Path) {
        self.filesystem = Some(dir.into());
    }

    /// The used space of the filesystem under test in bytes; None for a task that is not of the workload.
    fn used_bytes(&self, info: &TaskInfo) -> Option<u64> {
        let dir = self.filesystem.as_ref().filter(|_| info.in_totals)?;
        Space::at_path(dir).ok()?.used_bytes()
    }

    /// Counts the bytes that tasks write to the devices below directories other than that under test; the reading with the
    /// given id gets the count. Skips the device under test, and a device that has a reading already.
    pub fn count_other_devices<'d>(&mut self, dirs: impl Iterator<Item = (&'static str, &'d Path)>) {
        for (id, dir) in dirs {
            let Ok(Some(device)) = device::device_of_path(&self.kernel, dir) else { continue };
            let device = device_numbers(&device);
            if self.device != Some(device) && self.other_devices.iter().all(|(_, known)| *known != device) {
                self.other_devices.push((id, device));
            }
        }
    }

    /// The bytes written so far to each device of [`Bench::count_other_devices`].
    fn other_bytes_written(&self) -> Vec<Option<f64>> {
        let written = |(_, (major, minor)): &(&str, (u32, u32))| {
            let stat = self.kernel.read(&format!("sys/dev/block/{major}:{minor}/stat")).ok()?;
            // The seventh field counts written sectors of 512 bytes.
            Some(512.0 * stat.split_ascii_whitespace().nth(6)?.parse::<f64>().ok()?)
        };
        self.other_devices.iter().map(written).collect()
    }

    /// Emits an event of the cell.
    pub fn emit(&mut self, event: CellEvent) {
        (self.emit)(event);
    }

    /// Emits a note.
    pub fn note(&mut self, note: Note) {
        self.emit(CellEvent::Note(note));
    }

    /// A log that emits the commands that it receives.
    pub fn log(&mut self) -> impl FnMut(CommandRecord) {
        |record| self.emit(CellEvent::Command(record))
    }

    /// Whether the page cache of the machine was dropped since this function was last called, or the probes opened.
    pub fn was_cache_dropped(&mut self) -> bool {
        let drops = cache_drops(&self.kernel);
        std::mem::replace(&mut self.cache_drops, drops) < drops
    }

    /// Waits until the machine is idle before the task of this name; adds a note if it is still busy at the timeout.
    pub fn wait_until_idle(&mut self, task: &str) {
        self.emit(CellEvent::Phase { name: Phase::Idle(task.into()) });
        let target =
            idle::IdleTarget { kernel: &self.kernel, device: self.device, timeouts_in_a_row: self.timeouts_in_a_row };
        let wait = wait_until_idle(target, self.idle_plan);
        self.record_time(SpentOn::Idle, wait.waited);
        self.timeouts_in_a_row = if wait.busy.is_empty() { 0 } else { self.timeouts_in_a_row + 1 };
        if !wait.busy.is_empty() {
            let mut text = format!("still busy after {:.1} s: {}", wait.waited.as_secs_f64(), wait.busy.join(", "));
            if !wait.disturbers.is_empty() {
                text.push_str(&format!("{MEANWHILE_SEPARATOR}{}", wait.disturbers.join(", ")));
            }
            self.note(Note::new(NoteKind::IdleTimeout, text).task(task));
        }
    }

    /// Lets the machine idle for a while after the idle wait; a signal that interrupts fsarena ends it.
    pub fn idle_for(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && fsarena_sys::cancel::requested().is_none() {
            std::thread::sleep((time - begun.elapsed().min(time)).min(Duration::from_millis(100)));
        }
        if !time.is_zero() {
            self.record_time(SpentOn::Idle, begun.elapsed());
        }
    }

    /// Measures one piece of work and the sync after it, and emits the sample.
    ///
    /// `work` gets a log for its commands. The log stays in memory: nothing is emitted while the clock runs. `category` is the
    /// category of the time.
    ///
    /// # Errors
    /// Those of the work itself; then no sample is emitted.
    pub fn measure<E>(
        &mut self,
        info: &TaskInfo,
        category: SpentOn,
        work: impl FnOnce(Log) -> Result<TaskOutput, E>,
        sync: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), E> {
        self.emit(CellEvent::Phase { name: Phase::Task(info.id.to_string()) });
        (self.mark)(Mark::Ahead);
        let mut commands = Vec::new();
        let written_before = self.other_bytes_written();
        let used_before = self.used_bytes(info);
        let before = self.session.read_before();
        let started_at = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since_epoch| since_epoch.as_secs_f64());
        let begun = Instant::now();
        (self.mark)(Mark::Begin);
        let result = work(&mut |record| commands.push(record));
        (self.mark)(Mark::Return);
        let elapsed = begun.elapsed();
        let at_return = self.session.read_at_return();
        // The readings between return and sync take time, which counts for neither.
        let resumed = Instant::now();
        let synced = sync();
        if result.is_ok() {
            (self.mark)(Mark::Synced);
        }
        let until_synced = elapsed + resumed.elapsed();
        let at_synced = self.session.read_at_synced();

        self.record_time(category, until_synced);
        commands.into_iter().for_each(|record| self.emit(CellEvent::Command(record)));
        let output = result?;
        let mut readings = self.session.compute_readings(&before, &at_return, &at_synced);
        readings.set(reading::ELAPSED, elapsed.as_nanos() as f64);
        if let (Some(before), Some(after)) = (used_before, self.used_bytes(info))
            && after > before
        {
            readings.set(reading::SPACE_GROWTH, (after - before) as f64);
        }
        let written_after = self.other_bytes_written();
        for (((id, _), before), after) in self.other_devices.iter().zip(written_before).zip(written_after) {
            if let (Some(before), Some(after)) = (before, after) {
                readings.set(id, after - before);
            }
        }
        match synced {
            Ok(()) => readings.set(reading::SYNCED, until_synced.as_nanos() as f64),
            Err(error) => {
                let text = format!("the data may not be on the device: syncfs failed: {error}");
                self.note(Note::new(NoteKind::Unavailable, text).task(info.id.to_string()));
            }
        }
        self.session.take_notes().into_iter().for_each(|note| self.note(note));
        output.printed_metrics.into_iter().for_each(|info| self.emit(CellEvent::Reading(info)));
        readings.extend(output.readings);
        // The peak memory of a task is the peak of its largest process: this one or a command.
        let command_peak = output.peak_bytes as f64;
        if command_peak > readings.get(reading::PEAK_MEMORY).unwrap_or(0.0) {
            readings.set(reading::PEAK_MEMORY, command_peak);
        }
        let sample =
            Sample { task: info.clone(), started_at, readings, series: output.series, latencies: output.latencies };
        self.emit(CellEvent::Sample(sample));
        output.parts.into_iter().for_each(|part| self.emit(CellEvent::Sample(part.into_sample(started_at))));
        Ok(())
    }

    /// Emits how much time was spent on a category.
    pub fn record_time(&mut self, category: SpentOn, time: Duration) {
        self.emit(CellEvent::Spent { what: category, ns: time.as_nanos() as u64 });
    }
}
