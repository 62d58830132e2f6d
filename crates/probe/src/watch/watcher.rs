//! The watcher: reads all counters during a window, closes it, and begins the next.

use crate::ProbeTarget;
use crate::watch::counter::{Counter, CounterError, WatchError};
use crate::watch::counters::CounterSpec;
use crate::watch::gauges::{Gauges, WATCH_CPU};
use crate::watch::window::{Moment, RequestTally};
use crate::watch::window::{Window, WindowMark};
use crate::watch::{plan::Watch, service::Service, target::WatchTarget};
use fsarena_core::setting_text::setting;
use fsarena_core::{event::Note, metric::reading, sample::Readings};
use fsarena_sys::cpu::{self, ProcessCpuTimes};
use fsarena_sys::{cancel, kernel::SysRoot};
use rustix::thread::{NanosleepRelativeResult, Timespec};
use std::time::Duration;

/// The longest time that an endpoint may take to answer: less than a second, so that readings once a second stay in time.
const COUNTER_TIMEOUT: Duration = Duration::from_millis(900);
/// A window gets the mark [`WindowMark::TooLong`] if it took more than its intended length times this factor, plus a second.
const LONG_FACTOR: f64 = 1.5;

/// A function that returns the current time. Tests replace it.
type Clock = Box<dyn Fn() -> Moment + Send>;

/// A watch in progress.
pub struct Watcher {
    kernel: SysRoot,
    clock: Clock,
    watch: Watch,
    counter: Option<Box<dyn Counter>>,
    tally: RequestTally,
    gauges: Gauges,
    service: Service,
    target: WatchTarget,
    /// The CPU times of the kernel threads at the beginning of the window.
    kernel_thread_times: ProcessCpuTimes,
    /// The CPU time of this process at the beginning of the window, in nanoseconds.
    own_cpu_ns: u64,
    /// The beginning of the window.
    window_start: Moment,
    /// The number of the window.
    window_number: u32,
    notes: Vec<Note>,
    absent_sources: Vec<String>,
}

impl Watcher {
    /// Opens the counter, the gauges, the service and the device, and begins the window with the number `first_window`.
    ///
    /// # Errors
    /// The path, the device or a process that the watch names by its id does not exist, or the counter is invalid.
    pub fn begin(kernel: &SysRoot, watch: &Watch, first_window: u32) -> Result<Watcher, WatchError> {
        Watcher::begin_with_clock(Box::new(Moment::now), kernel, watch, first_window)
    }

    /// Like [`Watcher::begin`], with `clock` instead of the clock of the machine.
    fn begin_with_clock(
        clock: Clock,
        kernel: &SysRoot,
        watch: &Watch,
        first_window: u32,
    ) -> Result<Watcher, WatchError> {
        let target = WatchTarget::find(kernel, &watch.place)?;
        let device = target.device_numbers();
        let timeout = COUNTER_TIMEOUT.min(watch.reading_interval.max(Duration::from_millis(100)));
        let mut counter = watch.counter.as_ref().map(|spec| spec.open(kernel, device, timeout)).transpose()?;
        let (mut gauges, mut notes) = Gauges::open(ProbeTarget { kernel: kernel.clone(), device });
        notes.extend(target.notes());
        let mut tally = RequestTally::default();
        let mut absent_sources = vec![];
        if let Some(counter) = &mut counter {
            let reading = counter.read();
            if let Err(CounterError(why)) = &reading {
                absent_sources.push(format!("the counter does not answer yet: {why}"));
            }
            tally.begin(&reading);
        }
        let service = Service::new(kernel, &watch.services)?;
        for spec in service.absent_specs() {
            absent_sources.push(format!("no process of {} runs yet", setting("service", &spec)));
        }
        // Begins the first window of the gauges; there are no readings before it.
        gauges.close_window(&mut Readings::default());
        Ok(Watcher {
            kernel: kernel.clone(),
            watch: watch.clone(),
            counter,
            tally,
            gauges,
            service,
            target,
            kernel_thread_times: cpu::kernel_thread_times(kernel),
            own_cpu_ns: measure_own_cpu_ns(),
            window_start: clock(),
            window_number: first_window,
            notes,
            absent_sources,
            clock,
        })
    }

    /// Notes on the machine and on the sources of the readings.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Sentences on a counter that did not answer, and on services that did not run, when the watch began. The watch
    /// reads each of them as soon as it answers or runs.
    pub fn absent_sources(&self) -> &[String] {
        &self.absent_sources
    }

    /// Checks that the user did not mistype the name of the counter or its service. A service that is down passes.
    ///
    /// # Errors
    /// The service has no counter of this name, or this machine has no such service.
    pub fn check_counter_name(&self) -> Result<(), WatchError> {
        match &self.counter {
            Some(counter) => counter.check_before_watch(),
            None => Ok(()),
        }
    }

    /// The id of a process that the watch names by its id and that has ended; None if all of them run.
    pub fn ended_process(&self) -> Option<i32> {
        self.service.ended_process()
    }

    /// Watches until a signal arrives, a process that the watch names by its id has ended, or `max_windows` windows have closed.
    /// Calls `on_window` for each window that closes, including one that ends before its time.
    ///
    /// # Errors
    /// The errors of `on_window`.
    pub fn run<E>(
        &mut self,
        max_windows: Option<u32>,
        mut on_window: impl FnMut(&Window) -> Result<(), E>,
    ) -> Result<(), E> {
        for _ in 0..max_windows.unwrap_or(u32::MAX) {
            let is_complete = self.read_until_window_ends();
            let mut window = self.close_window();
            let ended_process = self.ended_process();
            match ended_process {
                Some(pid) => window.marks.push(WindowMark::ProcessEnded(pid)),
                None if !is_complete => window.marks.push(WindowMark::CutShort),
                None => {}
            }
            on_window(&window)?;
            if !is_complete || ended_process.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the counter and the service at regular intervals until the window ends. Returns false if before that a signal arrived
    /// or a process that the watch names by its id ended.
    fn read_until_window_ends(&mut self) -> bool {
        let window_s = self.watch.window_length.as_secs_f64();
        let interval_s = self.watch.reading_interval.as_secs_f64();
        // The number of intervals from the beginning of the window to the last reading.
        let mut intervals_read = 0.0;
        loop {
            if cancel::received_signal().is_some() || self.ended_process().is_some() {
                return false;
            }
            let elapsed_s = (self.clock)().awake_s - self.window_start.awake_s;
            if elapsed_s >= window_s {
                return true;
            }
            // Count from the beginning of the window, not from the last reading, so that a slow endpoint does not delay later
            // readings.
            let next_reading_s = (intervals_read + 1.0) * interval_s;
            if next_reading_s < window_s && elapsed_s >= next_reading_s {
                intervals_read = (elapsed_s / interval_s).floor();
                self.read_within_window();
                continue;
            }
            sleep(next_reading_s.min(window_s) - elapsed_s);
        }
    }

    /// Reads the counter and the service once within a window.
    pub fn read_within_window(&mut self) {
        if let Some(counter) = &mut self.counter {
            self.tally.add(&counter.read());
        }
        self.service.read();
    }

    /// Closes the window, returns it, and begins the next.
    pub fn close_window(&mut self) -> Window {
        let mut readings = Readings::default();
        let (requests, mut marks) = match &mut self.counter {
            Some(counter) => self.tally.close(&counter.read()),
            None => (None, vec![]),
        };
        let now = (self.clock)();
        let errors = self.gauges.close_window(&mut readings);
        marks.extend(errors.into_iter().map(WindowMark::ProbeUnreadable));
        self.service.close_window(&mut readings);
        let kernel_thread_times = cpu::kernel_thread_times(&self.kernel);
        if !kernel_thread_times.is_empty() {
            let cpu_ns = cpu::cpu_ns_between(&self.kernel_thread_times, &kernel_thread_times);
            readings.set(reading::KERNEL_THREADS_CPU, cpu_ns as f64);
        }
        if let Some(mark) = self.target.close_window(&mut readings) {
            marks.push(mark);
            self.gauges.set_device(self.target.device_numbers());
            self.reopen_device_counter();
        }
        if let Some(requests) = requests {
            readings.set(reading::REQUESTS, requests);
        }
        let own_cpu_ns = measure_own_cpu_ns();
        readings.set(WATCH_CPU, own_cpu_ns.saturating_sub(self.own_cpu_ns) as f64);
        let seconds = now.awake_s - self.window_start.awake_s;
        readings.set(reading::ELAPSED, (seconds * 1e9).round());
        marks.extend(now.marks_since(&self.window_start));
        if seconds > LONG_FACTOR * self.watch.window_length.as_secs_f64() + 1.0 {
            marks.push(WindowMark::TooLong(seconds));
        }
        let window =
            Window { number: self.window_number, started_at: self.window_start.wall_s, seconds, readings, marks };
        (self.kernel_thread_times, self.own_cpu_ns, self.window_start) = (kernel_thread_times, own_cpu_ns, now);
        self.window_number += 1;
        window
    }

    /// If the watch counts the operations of its device as requests, counts those of the current device from now on.
    fn reopen_device_counter(&mut self) {
        if self.watch.counter != Some(CounterSpec::Device) {
            return;
        }
        let opened = CounterSpec::Device.open(&self.kernel, self.target.device_numbers(), COUNTER_TIMEOUT);
        // If there is no device now, keep the former counter, so that its readings fail and mark the windows.
        let Ok(mut counter) = opened else { return };
        self.tally = RequestTally::default();
        self.tally.begin(&counter.read());
        self.counter = Some(counter);
    }
}

/// The CPU time of this process, and of the commands that it ran for its counter, in nanoseconds.
fn measure_own_cpu_ns() -> u64 {
    cpu::process_cpu_ns(std::process::id() as i32).unwrap_or(0) + cpu::CpuTime::of_ended_children().total_ns()
}

/// Sleeps for this number of seconds, or until a signal arrives.
fn sleep(seconds: f64) {
    let time = Duration::from_secs_f64(seconds.max(0.0));
    let request = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match rustix::thread::nanosleep(&request) {
        NanosleepRelativeResult::Ok | NanosleepRelativeResult::Interrupted(_) => {}
        // Cannot happen for a time that is not negative.
        NanosleepRelativeResult::Err(_) => std::thread::sleep(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{recorder::Recorder, service::ServiceSpec, target::WatchedPlace};
    use fsarena_core::{event::NoteKind, host::Host};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::{io::Write, sync::Arc};

    fn watch(log: &Path, place: WatchedPlace, services: Vec<ServiceSpec>) -> Watch {
        let counter = Some(CounterSpec::Log { file: log.into(), word: None });
        let (window_length, reading_interval) = (Duration::from_millis(40), Duration::from_millis(10));
        Watch { name: "here".into(), counter, place, services, window_length, reading_interval }.checked().unwrap()
    }

    #[test]
    fn windows_have_the_requests_and_readings_of_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "before\n").unwrap();
        let place = WatchedPlace { path: Some(dir.path().to_path_buf()), device: None };
        let watch = watch(&log, place, vec![ServiceSpec::Pid(std::process::id() as i32)]);
        let mut watcher = Watcher::begin(&SysRoot::host(), &watch, 5).unwrap();
        let mut windows = vec![];
        let result: Result<(), ()> = watcher.run(Some(3), |window| {
            windows.push(window.clone());
            let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
            for _ in 0..window.number {
                file.write_all(b"x\n").unwrap();
            }
            Ok(())
        });
        result.unwrap();
        let requests: Vec<_> = windows.iter().map(|window| window.readings.get("requests_count")).collect();
        assert_eq!(requests, [Some(0.0), Some(5.0), Some(6.0)]);
        assert_eq!(windows.iter().map(|window| window.number).collect::<Vec<_>>(), [5, 6, 7]);
        for window in &windows {
            assert!(window.seconds >= 0.04 && window.marks.iter().all(|mark| !mark.invalidates_window()), "{window:?}");
            for id in ["elapsed_ns", "machine_cpu_ns", "service_cpu_ns", "watch_cpu_ns", "filesystem_used_bytes"] {
                assert!(window.readings.get(id).is_some(), "{id} {window:?}");
            }
        }
        // Each window begins when the one before ended.
        for pair in windows.windows(2) {
            assert!((pair[0].started_at + pair[0].seconds - pair[1].started_at).abs() < 0.01);
        }
    }

    #[test]
    fn the_operations_of_a_new_device_are_counted() {
        let root = fsarena_sys::testkit::FakeRoot::with(&[("proc/self/mountinfo", "")]);
        let write_stat = |path: &Path, writes: u32| {
            let dev = path.metadata().unwrap().dev();
            let stat = format!("sys/dev/block/{}:{}/stat", rustix::fs::major(dev), rustix::fs::minor(dev));
            root.write_file(&stat, &format!("0 0 0 0 {writes} 0 0 0 0 0 0\n"));
        };
        let dir = tempfile::tempdir().unwrap();
        // The path of the watch leads to another filesystem after a while.
        let (link, other_filesystem) = (dir.path().join("link"), Path::new("/proc"));
        symlink(dir.path(), &link).unwrap();
        write_stat(dir.path(), 100);
        write_stat(other_filesystem, 7);
        let place = WatchedPlace { path: Some(link.clone()), device: None };
        let watch = Watch { counter: Some(CounterSpec::Device), ..watch(&link, place, vec![]) };
        let mut watcher = Watcher::begin(&SysRoot::at(root.path()), &watch, 0).unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink(other_filesystem, &link).unwrap();
        let marks = watcher.close_window().marks;
        assert!(marks.iter().any(|mark| matches!(mark, WindowMark::DeviceChanged(_))), "{marks:?}");
        write_stat(other_filesystem, 12);
        assert_eq!(watcher.close_window().readings.get("requests_count"), Some(5.0));
    }

    /// Steps a fake clock, because only root can set the machine's clock, and all its users would notice.
    #[test]
    fn a_step_of_the_clock_marks_one_window_and_loses_nothing() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log");
        std::fs::write(&log, "").unwrap();
        let watch = watch(&log, WatchedPlace::default(), vec![]);
        let step_s = Arc::new(AtomicI64::new(0));
        let step_of_clock_s = step_s.clone();
        let clock = Box::new(move || {
            let now = Moment::now();
            Moment { wall_s: now.wall_s + step_of_clock_s.load(Ordering::Relaxed) as f64, ..now }
        });
        let mut watcher = Watcher::begin_with_clock(clock, &SysRoot::host(), &watch, 0).unwrap();
        let mut recorder = Recorder::create(root.path(), &watch, &Host::default(), "0").unwrap();
        let result: Result<(), WatchError> = watcher.run(Some(4), |window| {
            // Step the clock back by an hour while the third window is open: the second has just closed.
            if window.number == 1 {
                step_s.store(-3600, Ordering::Relaxed);
            }
            std::fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"x\n").unwrap();
            recorder.record_window(window)
        });
        result.unwrap();
        let run = recorder.run_dir().clone();
        drop(recorder);

        let record = fsarena_store::read(&run).unwrap();
        assert_eq!(record.metric("requests_count").unwrap().1[..], [0.0, 1.0, 1.0, 1.0]);
        let [(round, note)] = &record.notes[..] else { panic!("{:?}", record.notes) };
        assert_eq!((round, note.kind), (&Some(2), NoteKind::Remark), "kept and used");
        assert!(note.text.starts_with("the clock was stepped by -3600.0"), "{}", note.text);
        let lengths = record.metric("elapsed_ns").unwrap().1;
        assert!(lengths.iter().all(|ns| (0.04e9..3600e9).contains(ns)), "{lengths:?}");
        let starts = &record.samples.started_at;
        assert!(starts[1] < starts[2] && starts[3] < starts[0], "the wall clock is recorded as it was: {starts:?}");
    }
}
