//! Window after window.

use crate::counters::{Counter, Trouble};
use crate::gauges::{Gauges, OWN_CPU};
use crate::window::{Mark, Window};
use crate::window::{Moment, Tally};
use crate::{Error, plan::Watch, service::Service, target::Target};
use fsarena_core::{event::Note, metric::reading, sample::Readings};
use fsarena_probe::Scene;
use fsarena_sys::cpu::{self, CpuTimes};
use fsarena_sys::{cancel, kernel::SysRoot};
use rustix::thread::{NanosleepRelativeResult, Timespec};
use std::time::Duration;

/// An endpoint has this long to answer: less than a second, so that readings keep their rhythm.
const WAIT_TIMEOUT: Duration = Duration::from_millis(900);
/// A window gets the mark `Long` if it took more than this factor of its intended length, plus a second.
const LONG: f64 = 1.5;

/// Tells what time it is.
pub type Clock = Box<dyn Fn() -> Moment + Send>;

/// A watch that is going on.
pub struct Watcher {
    kernel: SysRoot,
    clock: Clock,
    watch: Watch,
    counter: Option<Box<dyn Counter>>,
    tally: Tally,
    gauges: Gauges,
    service: Service,
    target: Target,
    threads: CpuTimes,
    own_ns: u64,
    began: Moment,
    next: u32,
    notes: Vec<Note>,
    silent: Vec<String>,
}

impl Watcher {
    /// Opens all that is to be watched, and begins the window of this number.
    ///
    /// # Errors
    /// Where what was named is not there, or no counter can be of that form.
    pub fn begin(kernel: &SysRoot, watch: &Watch, first: u32) -> Result<Watcher, Error> {
        Watcher::begin_by(Box::new(Moment::now), kernel, watch, first)
    }

    /// The same by another clock than the machine's.
    ///
    /// # Errors
    /// As [`Watcher::begin`].
    pub fn begin_by(clock: Clock, kernel: &SysRoot, watch: &Watch, first: u32) -> Result<Watcher, Error> {
        let target = Target::find(kernel, &watch.at)?;
        let device = target.numbers();
        let timeout = WAIT_TIMEOUT.min(watch.every.max(Duration::from_millis(100)));
        let mut counter =
            watch.counter.as_ref().map(|spec| spec.open(kernel, device, timeout)).transpose()?;
        let (mut gauges, mut notes) = Gauges::open(Scene { kernel: kernel.clone(), device });
        notes.extend(target.notes());
        let mut tally = Tally::default();
        let mut silent = vec![];
        if let Some(counter) = &mut counter {
            let first = counter.read();
            silent.extend(
                first.as_ref().err().map(|Trouble(why)| format!("the counter does not answer yet: {why}")),
            );
            tally.begin(&first);
        }
        let service = Service::new(kernel, &watch.service);
        silent.extend(service.absent().map(|known| format!("no process of --service {known} runs yet")));
        gauges.turn(&mut Readings::default());
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
            silent,
            clock,
        })
    }

    /// What a reader should know of the machine and of where figures come from.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What did not answer or run when the watch began, for people; it is counted from when it does.
    pub fn silent(&self) -> &[String] {
        &self.silent
    }

    /// Refuses a counter that the user probably mistyped. A service that is down is no mistake.
    ///
    /// # Errors
    /// A name that the service or this machine lacks.
    pub fn check(&self) -> Result<(), Error> {
        self.counter.as_ref().map_or(Ok(()), |counter| counter.check())
    }

    /// Watches until a signal comes or this number of windows is reached; tells of each window as it closes. The one that a
    /// signal cuts short is told too.
    ///
    /// # Errors
    /// Those of `tell`.
    pub fn go<E>(
        &mut self,
        windows: Option<u32>,
        mut tell: impl FnMut(&Window) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = windows.unwrap_or(u32::MAX);
        while left > 0 {
            let whole = self.wait();
            let mut window = self.close();
            if !whole {
                window.marks.push(Mark::Cut);
            }
            tell(&window)?;
            if !whole {
                break;
            }
            left -= 1;
        }
        Ok(())
    }

    /// Reads now and then until the window is over. Whether it came to its end.
    fn wait(&mut self) -> bool {
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
            // By the beginning of the window and not by the last reading, so that a slow endpoint delays nothing.
            let due = (readings + 1.0) * every;
            if due < length && passed >= due {
                readings = (passed / every).floor();
                self.read();
                continue;
            }
            sleep(due.min(length) - passed);
        }
    }

    /// One reading within a window.
    pub fn read(&mut self) {
        if let Some(counter) = &mut self.counter {
            self.tally.take(&counter.read());
        }
        self.service.read();
    }

    /// Closes the window and begins the next.
    pub fn close(&mut self) -> Window {
        let mut readings = Readings::default();
        let (requests, mut marks) = match &mut self.counter {
            Some(counter) => self.tally.close(&counter.read()),
            None => (None, vec![]),
        };
        let now = (self.clock)();
        let troubles = self.gauges.turn(&mut readings);
        marks.extend(troubles.into_iter().map(Mark::Unreadable));
        self.service.turn(&mut readings);
        let threads = cpu::kernel_threads(&self.kernel);
        if !threads.is_empty() {
            readings.set(reading::KERNEL_THREADS, cpu::used_between(&self.threads, &threads) as f64);
        }
        if let Some(mark) = self.target.turn(&mut readings) {
            marks.push(mark);
            self.gauges.look_at(self.target.numbers());
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

/// CPU time of this process, and of the commands that it ran for its counter.
fn own_ns() -> u64 {
    cpu::process_ns(std::process::id() as i32).unwrap_or(0) + cpu::Cpu::of_ended_children().total_ns()
}

/// Sleeps for the given number of seconds, or until a signal comes.
fn sleep(seconds: f64) {
    let time = Duration::from_secs_f64(seconds.max(0.0));
    let request = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match rustix::thread::nanosleep(&request) {
        NanosleepRelativeResult::Ok | NanosleepRelativeResult::Interrupted(_) => {}
        // Nothing else can be wrong with a time that is not negative.
        NanosleepRelativeResult::Err(_) => std::thread::sleep(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{counters::CounterSpec, recorder::Recorder, service::Known, target::Where};
    use fsarena_core::{event::NoteKind, host::Host};
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::{io::Write, sync::Arc};

    fn watch(log: &std::path::Path, at: Where, service: Vec<Known>) -> Watch {
        let counter = Some(CounterSpec::Log { file: log.into(), word: None });
        let (window, every) = (Duration::from_millis(40), Duration::from_millis(10));
        Watch { name: "here".into(), counter, at, service, window, every }.checked().unwrap()
    }

    #[test]
    fn windows_have_what_happened_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "before\n").unwrap();
        let at = Where { path: Some(dir.path().to_path_buf()), device: None };
        let watch = watch(&log, at, vec![Known::Pid(std::process::id() as i32)]);
        let mut watcher = Watcher::begin(&SysRoot::host(), &watch, 5).unwrap();
        let mut windows = vec![];
        let told: Result<(), ()> = watcher.go(Some(3), |window| {
            windows.push(window.clone());
            let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
            (0..window.number).for_each(|_| file.write_all(b"x\n").unwrap());
            Ok(())
        });
        told.unwrap();
        let requests: Vec<_> = windows.iter().map(|window| window.readings.get("requests_count")).collect();
        assert_eq!(requests, [Some(0.0), Some(5.0), Some(6.0)]);
        assert_eq!(windows.iter().map(|window| window.number).collect::<Vec<_>>(), [5, 6, 7]);
        for window in &windows {
            assert!(window.seconds >= 0.04 && window.marks.iter().all(|mark| !mark.spoils()), "{window:?}");
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

    /// Only root can set the machine's clock, and everybody on it would notice: this one is stepped in its place.
    #[test]
    fn a_step_of_the_clock_marks_one_window_and_loses_nothing() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log");
        std::fs::write(&log, "").unwrap();
        let watch = watch(&log, Where::default(), vec![]);
        let stepped_s = Arc::new(AtomicI64::new(0));
        let by = stepped_s.clone();
        let clock = Box::new(move || {
            let now = Moment::now();
            Moment { wall_s: now.wall_s + by.load(Ordering::Relaxed) as f64, ..now }
        });
        let mut watcher = Watcher::begin_by(clock, &SysRoot::host(), &watch, 0).unwrap();
        let mut recorder = Recorder::create(root.path(), &watch, &Host::default(), "0").unwrap();
        let told: Result<(), Error> = watcher.go(Some(4), |window| {
            // An hour back, while the third is open: the second has just closed.
            if window.number == 1 {
                stepped_s.store(-3600, Ordering::Relaxed);
            }
            std::fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"x\n").unwrap();
            recorder.keep(window)
        });
        told.unwrap();
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
        assert!(began[1] < began[2] && began[3] < began[0], "the wall clock is told as it was: {began:?}");
    }
}
