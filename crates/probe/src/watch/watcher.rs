//! The watcher: reads all counters during a window, closes it, and begins the next.

use crate::ProbeTarget;
use crate::watch::counter::{Counter, CounterError, WatchError};
use crate::watch::gauges::{Gauges, OWN_CPU};
use crate::watch::window::{Mark, Window};
use crate::watch::window::{Moment, RequestTally};
use crate::watch::{plan::Watch, service::Service, target::WatchTarget};
use fsarena_core::setting_text::setting;
use fsarena_core::{event::Note, metric::reading, sample::Readings};
use fsarena_sys::cpu::{self, CpuTimes};
use fsarena_sys::{cancel, kernel::SysRoot};
use rustix::thread::{NanosleepRelativeResult, Timespec};
use std::time::Duration;

/// The largest time that an endpoint may take to answer: less than a second, so that readings once a second stay in time.
const WAIT_TIMEOUT: Duration = Duration::from_millis(900);
/// A window gets the mark `Long` if it took more than this factor of its intended length, plus a second.
const LONG: f64 = 1.5;

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
    threads: CpuTimes,
    /// The CPU time of this process at the beginning of the window, in nanoseconds.
    own_ns: u64,
    /// The beginning of the window.
    began: Moment,
    /// The number of the window.
    next: u32,
    notes: Vec<Note>,
    missing: Vec<String>,
}

impl Watcher {
    /// Opens the counter, the gauges, the service and the device, and begins the window with the number `first`.
    ///
    /// # Errors
    /// The path or the device does not exist, or the counter is invalid.
    pub fn begin(kernel: &SysRoot, watch: &Watch, first: u32) -> Result<Watcher, WatchError> {
        Watcher::begin_with_clock(Box::new(Moment::now), kernel, watch, first)
    }

    /// Like [`Watcher::begin`], with another clock than that of the machine.
    fn begin_with_clock(
        clock: Clock,
        kernel: &SysRoot,
        watch: &Watch,
        first: u32,
    ) -> Result<Watcher, WatchError> {
        let target = WatchTarget::find(kernel, &watch.at)?;
        let device = target.numbers();
        let timeout = WAIT_TIMEOUT.min(watch.every.max(Duration::from_millis(100)));
        let mut counter =
            watch.counter.as_ref().map(|spec| spec.open(kernel, device, timeout)).transpose()?;
        let (mut gauges, mut notes) = Gauges::open(ProbeTarget { kernel: kernel.clone(), device });
        notes.extend(target.notes());
        let mut tally = RequestTally::default();
        let mut missing = vec![];
        if let Some(counter) = &mut counter {
            let reading = counter.read();
            if let Err(CounterError(why)) = &reading {
                missing.push(format!("the counter does not answer yet: {why}"));
            }
            tally.begin(&reading);
        }
        let service = Service::new(kernel, &watch.service);
        missing.extend(
            service
                .absent()
                .map(|known| format!("no process of {} runs yet", setting("service", &known.to_string()))),
        );
        gauges.close_window(&mut Readings::default());
        Ok(Watcher {
            kernel: kernel.clone(),
            watch: watch.clone(),
            counter,
            tally,
            gauges,
            service,
            target,
            threads: cpu::kernel_threads(kernel),
            own_ns: own_ns(),
            began: clock(),
            next: first,
            notes,
            missing,
            clock,
        })
    }

    /// Notes on the machine and on the sources of the readings.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Sentences on a counter that did not answer, and on services that did not run, when the watch began. fsarena counts them
    /// as soon as they do.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Checks for names that the user probably mistyped. A service that is down passes.
    ///
    /// # Errors
    /// The service or this machine lacks the name of the counter.
    pub fn check(&self) -> Result<(), WatchError> {
        match &self.counter {
            Some(counter) => counter.check(),
            None => Ok(()),
        }
    }

    /// Watches until a signal arrives or the watch has this number of windows. Calls `on_window` for each window that closes,
    /// including one that a signal cuts short.
    ///
    /// # Errors
    /// The errors of `on_window`.
    pub fn run<E>(
        &mut self,
        windows: Option<u32>,
        mut on_window: impl FnMut(&Window) -> Result<(), E>,
    ) -> Result<(), E> {
        for _ in 0..windows.unwrap_or(u32::MAX) {
            let complete = self.read_until_window_ends();
            let mut window = self.close();
            if !complete {
                window.marks.push(Mark::Cut);
            }
            on_window(&window)?;
            if !complete {
                break;
            }
        }
        Ok(())
    }

    /// Reads the counter and the service at regular intervals until the window ends. Returns false if a signal arrived before.
    fn read_until_window_ends(&mut self) -> bool {
        let length = self.watch.window.as_secs_f64();
        let every = self.watch.every.as_secs_f64();
        let mut readings = 0.0;
        loop {
            if cancel::requested().is_some() {
                return false;
            }
            let passed = (self.clock)().awake_s - self.began.awake_s;
            if passed >= length {
                return true;
            }
            // Count from the beginning of the window, not from the last reading, so that a slow endpoint does not delay later
            // readings.
            let due = (readings + 1.0) * every;
            if due < length && passed >= due {
                readings = (passed / every).floor();
                self.read();
                continue;
            }
            sleep(due.min(length) - passed);
        }
    }

    /// Reads the counter and the service once within a window.
    pub fn read(&mut self) {
        if let Some(counter) = &mut self.counter {
            self.tally.add(&counter.read());
        }
        self.service.read();
    }

    /// Closes the window, returns it, and begins the next.
    pub fn close(&mut self) -> Window {
        let mut readings = Readings::default();
        let (requests, mut marks) = match &mut self.counter {
            Some(counter) => self.tally.close(&counter.read()),
            None => (None, vec![]),
        };
        let now = (self.clock)();
        let troubles = self.gauges.close_window(&mut readings);
        marks.extend(troubles.into_iter().map(Mark::Unreadable));
        self.service.close_window(&mut readings);
        let threads = cpu::kernel_threads(&self.kernel);
        if !threads.is_empty() {
            readings.set(reading::KERNEL_THREADS, cpu::used_between(&self.threads, &threads) as f64);
        }
        if let Some(mark) = self.target.close_window(&mut readings) {
            marks.push(mark);
            self.gauges.set_device(self.target.numbers());
        }
        if let Some(requests) = requests {
            readings.set(reading::REQUESTS, requests);
        }
        let own = own_ns();
        readings.set(OWN_CPU, own.saturating_sub(self.own_ns) as f64);
        let seconds = now.awake_s - self.began.awake_s;
        readings.set(reading::ELAPSED, (seconds * 1e9).round());
        marks.extend(now.marks(&self.began));
        if seconds > LONG * self.watch.window.as_secs_f64() + 1.0 {
            marks.push(Mark::Long(seconds));
        }
        let window = Window { number: self.next, started_at: self.began.wall_s, seconds, readings, marks };
        (self.threads, self.own_ns, self.began) = (threads, own, now);
        self.next += 1;
        window
    }
}

/// The CPU time of this process, and of the commands that it ran for its counter, in nanoseconds.
fn own_ns() -> u64 {
    cpu::process_ns(std::process::id() as i32).unwrap_or(0) + cpu::Cpu::of_ended_children().total_ns()
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
    use crate::watch::{
        counters::CounterSpec, recorder::Recorder, service::ServiceSpec, target::WatchedPlace,
    };
    use fsarena_core::{event::NoteKind, host::Host};
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::{io::Write, sync::Arc};

    fn watch(log: &std::path::Path, at: WatchedPlace, service: Vec<ServiceSpec>) -> Watch {
        let counter = Some(CounterSpec::Log { file: log.into(), word: None });
        let (window, every) = (Duration::from_millis(40), Duration::from_millis(10));
        Watch { name: "here".into(), counter, at, service, window, every }.checked().unwrap()
    }

    #[test]
    fn windows_have_the_requests_and_readings_of_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "before\n").unwrap();
        let at = WatchedPlace { path: Some(dir.path().to_path_buf()), device: None };
        let watch = watch(&log, at, vec![ServiceSpec::Pid(std::process::id() as i32)]);
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
            assert!(
                window.seconds >= 0.04 && window.marks.iter().all(|mark| !mark.invalidates_window()),
                "{window:?}"
            );
            for id in
                ["elapsed_ns", "machine_cpu_ns", "service_cpu_ns", "watch_cpu_ns", "filesystem_used_bytes"]
            {
                assert!(window.readings.get(id).is_some(), "{id} {window:?}");
            }
        }
        // Each begins where the one before ended.
        for pair in windows.windows(2) {
            assert!((pair[0].started_at + pair[0].seconds - pair[1].started_at).abs() < 0.01);
        }
    }

    /// Steps a fake clock, because only root can set the machine's clock, and all its users would notice.
    #[test]
    fn a_step_of_the_clock_marks_one_window_and_loses_nothing() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log");
        std::fs::write(&log, "").unwrap();
        let watch = watch(&log, WatchedPlace::default(), vec![]);
        let stepped_s = Arc::new(AtomicI64::new(0));
        let by = stepped_s.clone();
        let clock = Box::new(move || {
            let now = Moment::now();
            Moment { wall_s: now.wall_s + by.load(Ordering::Relaxed) as f64, ..now }
        });
        let mut watcher = Watcher::begin_with_clock(clock, &SysRoot::host(), &watch, 0).unwrap();
        let mut recorder = Recorder::create(root.path(), &watch, &Host::default(), "0").unwrap();
        let result: Result<(), WatchError> = watcher.run(Some(4), |window| {
            // Step the clock back by an hour while the third window is open: the second has just closed.
            if window.number == 1 {
                stepped_s.store(-3600, Ordering::Relaxed);
            }
            std::fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"x\n").unwrap();
            recorder.record_window(window)
        });
        result.unwrap();
        let run = recorder.run().clone();
        drop(recorder);

        let record = fsarena_store::read(&run).unwrap();
        assert_eq!(record.metric("requests_count").unwrap().1[..], [0.0, 1.0, 1.0, 1.0]);
        let [(round, note)] = &record.notes[..] else { panic!("{:?}", record.notes) };
        assert_eq!((round, note.kind), (&Some(2), NoteKind::Remark), "kept and used");
        assert!(note.text.starts_with("the clock was stepped by -3600.0"), "{}", note.text);
        let lengths = record.metric("elapsed_ns").unwrap().1;
        assert!(lengths.iter().all(|ns| (0.04e9..3600e9).contains(ns)), "{lengths:?}");
        let began = &record.samples.started_at;
        assert!(
            began[1] < began[2] && began[3] < began[0],
            "the wall clock is recorded as it was: {began:?}"
        );
    }
}
