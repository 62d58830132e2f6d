//! Measures the tasks of a cell. Before a task it waits until the machine is idle. It takes readings, does the work,
//! takes readings, syncs, and takes readings again.

use crate::executor::CommandLog;
use crate::idle::{self, wait_until_idle};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{Activity, CellEvent, CommandRecord, MEANWHILE_SEPARATOR, Note, NoteKind, Phase};
use fsarena_core::metric::reading::{self, LAYOUT_READINGS};
use fsarena_core::metric::{
    INSTRUCTION_READINGS, LIFECYCLE_READINGS, MULTI_CLIENT_READINGS, SERVICE_READINGS, TIMER_READINGS,
};
use fsarena_core::plan::IdlePlan;
use fsarena_core::sample::{ReadingDef, Sample, TaskOutput};
use fsarena_guest::instruction_counter::Mark;
use fsarena_load::workloads;
use fsarena_probe::{ProbeTarget, Session, probes};
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{dirs::FilesystemSpace, kernel::SysRoot};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The definitions of all readings that a sample can have: of the timer, of probes, of the lifecycle, and of loads.
pub fn reading_defs() -> impl Iterator<Item = ReadingDef> {
    let others = LIFECYCLE_READINGS
        .iter()
        .chain(LAYOUT_READINGS)
        .chain(INSTRUCTION_READINGS)
        .chain(workloads::reading_defs())
        .chain(SERVICE_READINGS)
        .chain(MULTI_CLIENT_READINGS);
    TIMER_READINGS.iter().copied().chain(probes::reading_defs()).chain(others.copied())
}

/// A task that is not one of the workload: mkfs, mount, unmount, or the measurement of the layout.
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

/// How often the page cache of the machine was dropped since it booted; None if the kernel does not count that.
fn cache_drop_count(kernel: &SysRoot) -> Option<u64> {
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
    /// A directory of the filesystem under test. The used space of that filesystem is read before and after each task
    /// of the workload. None if it is not read.
    used_space_dir: Option<PathBuf>,
    /// Devices that are not under test but whose writes are counted, each with the reading that gets the count. Such
    /// writes show that a command writes to the wrong place.
    other_devices: Vec<(&'static str, (u32, u32))>,
    /// The value of [`cache_drop_count`] at the last call of [`Bench::take_cache_drop`].
    cache_drops: Option<u64>,
    /// Called at each moment of [`Mark`] of each task, so that the instruction counter of a guest can separate the
    /// parts of a task.
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
            used_space_dir: None,
            other_devices: vec![],
            cache_drops: cache_drop_count(kernel),
            mark,
            emit,
        }
    }

    /// From now on, also measures by how much the used space of the filesystem of a directory grows during each task of
    /// the workload.
    pub fn enable_space_reading(&mut self, dir: &Path) {
        self.used_space_dir = Some(dir.into());
    }

    /// The used space of the filesystem under test in bytes; None if it is not read, or for a task that is not one of
    /// the workload.
    fn used_bytes(&self, info: &TaskInfo) -> Option<u64> {
        let dir = self.used_space_dir.as_ref().filter(|_| info.in_totals)?;
        FilesystemSpace::at_path(dir).ok()?.used_bytes()
    }

    /// From now on, also counts the bytes that tasks write to other devices than the one under test: the devices below
    /// these directories, each with the id of the reading that gets the count. Skips the device under test, and a
    /// device that is counted already.
    pub fn count_writes_to_other_devices<'d>(&mut self, dirs: impl Iterator<Item = (&'static str, &'d Path)>) {
        for (id, dir) in dirs {
            let Ok(Some(device)) = device::device_of_path(&self.kernel, dir) else { continue };
            let device = device_numbers(&device);
            if self.device != Some(device) && self.other_devices.iter().all(|(_, known)| *known != device) {
                self.other_devices.push((id, device));
            }
        }
    }

    /// The bytes written so far to each device of [`Bench::count_writes_to_other_devices`].
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

    /// Returns a log that emits each command as an event of the cell.
    pub fn log(&mut self) -> impl FnMut(CommandRecord) {
        |record| self.emit(CellEvent::Command(record))
    }

    /// Returns whether the page cache of the machine was dropped since the last call, or since the probes were opened, and
    /// forgets these drops.
    pub fn take_cache_drop(&mut self) -> bool {
        let drops = cache_drop_count(&self.kernel);
        std::mem::replace(&mut self.cache_drops, drops) < drops
    }

    /// Waits until the machine is idle before the task of this name; adds a note if it is still busy at the timeout, or if
    /// a reading failed.
    pub fn wait_until_idle(&mut self, task: &str) {
        self.emit(CellEvent::Phase { name: Phase::Idle(task.into()) });
        let target =
            idle::IdleTarget { kernel: &self.kernel, device: self.device, timeouts_in_a_row: self.timeouts_in_a_row };
        let wait = wait_until_idle(target, self.idle_plan);
        self.record_time(Activity::Idle, wait.waited);
        self.timeouts_in_a_row = if wait.found_idle { 0 } else { self.timeouts_in_a_row + 1 };
        if !wait.busy.is_empty() {
            let state = if wait.found_idle { "not known to be idle" } else { "still busy" };
            let mut text = format!("{state} after {:.1} s: {}", wait.waited.as_secs_f64(), wait.busy.join(", "));
            if !wait.disturbers.is_empty() {
                text.push_str(&format!("{MEANWHILE_SEPARATOR}{}", wait.disturbers.join(", ")));
            }
            self.note(Note::new(NoteKind::IdleTimeout, text).task(task));
        }
    }

    /// Sleeps for this time after the idle wait. A signal that interrupts fsarena ends the sleep.
    pub fn idle_for(&mut self, time: Duration) {
        let started = Instant::now();
        while started.elapsed() < time && fsarena_sys::cancel::received_signal().is_none() {
            std::thread::sleep((time - started.elapsed().min(time)).min(Duration::from_millis(100)));
        }
        if !time.is_zero() {
            self.record_time(Activity::Idle, started.elapsed());
        }
    }

    /// Measures one piece of work and the sync after it, and emits the sample.
    ///
    /// `work` gets a log for its commands. The log stays in memory: nothing is emitted while the clock runs. The time of the work and
    /// the sync counts for `category`.
    ///
    /// # Errors
    /// Those of the work itself; then no sample is emitted.
    pub fn measure<E>(
        &mut self,
        info: &TaskInfo,
        category: Activity,
        work: impl FnOnce(CommandLog) -> Result<TaskOutput, E>,
        sync: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), E> {
        self.emit(CellEvent::Phase { name: Phase::Task(info.id.to_string()) });
        (self.mark)(Mark::BeforeReadings);
        let mut commands = Vec::new();
        let written_before = self.other_bytes_written();
        let used_before = self.used_bytes(info);
        let before = self.session.read_before();
        let started_at = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since_epoch| since_epoch.as_secs_f64());
        let work_started = Instant::now();
        (self.mark)(Mark::Begin);
        let result = work(&mut |record| commands.push(record));
        (self.mark)(Mark::Return);
        let elapsed = work_started.elapsed();
        let at_return = self.session.read_at_return();
        // The time of the readings between the return and the sync does not count.
        let sync_started = Instant::now();
        let synced = sync();
        if result.is_ok() {
            (self.mark)(Mark::Synced);
        }
        let until_synced = elapsed + sync_started.elapsed();
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
        let command_peak = output.peak_memory_bytes as f64;
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
    pub fn record_time(&mut self, category: Activity, time: Duration) {
        self.emit(CellEvent::Spent { activity: category, ns: time.as_nanos() as u64 });
    }
}
