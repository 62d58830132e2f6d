//! Sets up an io_uring with the features that the kernel supports.

use super::error::{Error, Result};
use super::fill::Slots;
use super::job::{Job, UringUse};
use io_uring::IoUring;
use io_uring::types::{SubmitArgs, Timespec};
use rustix::fd::BorrowedFd;
use std::{io, os::fd::AsRawFd, time::Duration};

/// How long the kernel gets to find memory while nothing is in flight whose end would free some.
const PAUSE: Duration = Duration::from_micros(100);
/// `IORING_ENTER_GETEVENTS`, which the crate does not export.
const GET_EVENTS: u32 = 1;

/// A worker's ring.
pub struct Ring {
    /// The ring itself.
    pub uring: IoUring,
    /// The features that it has.
    pub in_use: UringUse,
    /// Whether waiting can time out (`IORING_FEAT_EXT_ARG`).
    pub timed_wait: bool,
    /// The answers to the next calls: the kernel's, or one of these errors.
    #[cfg(test)]
    pub answers: std::collections::VecDeque<Option<i32>>,
}

impl Ring {
    /// A ring for a job. It must be made by the thread that uses it.
    ///
    /// # Errors
    /// Where the kernel has no io_uring, forbids it, or has no room for another.
    pub fn new(job: &Job, files: &[BorrowedFd], slots: &mut Slots) -> Result<Ring> {
        let (uring, mut in_use) = set_up(job.depth, job.uring)?;
        if job.uring.fixed_files && !files.is_empty() {
            let raw: Vec<_> = files.iter().map(|file| file.as_raw_fd()).collect();
            in_use.fixed_files = uring.submitter().register_files(&raw).is_ok();
        }
        if job.uring.fixed_buffers {
            let iov_len = job.block_bytes as usize;
            let iovec = |slot| libc::iovec { iov_base: slots.pointer(slot).cast(), iov_len };
            let buffers: Vec<_> = (0..job.depth as usize).map(iovec).collect();
            // SAFETY: a worker drops its ring before its buffers, and operations are drained before that.
            in_use.fixed_buffers = unsafe { uring.submitter().register_buffers(&buffers) }.is_ok();
        }
        let timed_wait = uring.params().is_feature_ext_arg();
        Ok(Ring {
            uring,
            in_use,
            timed_wait,
            #[cfg(test)]
            answers: Default::default(),
        })
    }

    /// Submits what is queued and waits for this many completions.
    ///
    /// # Errors
    /// Those of `io_uring_enter`; [`Ring::after`] knows which of them pass.
    #[inline(always)]
    pub fn submit_and_wait(&mut self, want: usize) -> io::Result<()> {
        self.answer()?;
        self.uring.submit_and_wait(want).map(drop)
    }

    /// Submits what is queued and waits for one completion, at most for a time.
    ///
    /// # Errors
    /// `ETIME` where the time is over, and those of [`Ring::submit_and_wait`].
    pub fn submit_and_wait_for(&mut self, time: Timespec) -> io::Result<()> {
        self.answer()?;
        self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)).map(drop)
    }

    /// Waits for one completion and submits nothing. Only such a call makes deferred completions visible.
    fn wait_for_one(&mut self) -> io::Result<()> {
        self.answer()?;
        // SAFETY: without a signal mask there is no pointer that the kernel follows.
        let waited = unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 1, GET_EVENTS, None) };
        match waited {
            // Those that are to be reaped first are as good as a new one.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                Ok(())
            }
            waited => waited.map(drop),
        }
    }

    /// Prepares another try after an error of one that was to submit. What was not submitted stays queued. The kernel
    /// answers EAGAIN and EBUSY while it lacks memory, or room for completions: both become free as operations end.
    ///
    /// # Errors
    /// An error that does not pass.
    #[cold]
    pub fn after(&mut self, error: io::Error, in_flight: usize) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN | libc::EBUSY) if self.is_used(in_flight) => self.wait_for_one(),
            Some(libc::EAGAIN | libc::EBUSY) => {
                std::thread::sleep(PAUSE);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Waits until one more operation has ended, submitting nothing. False where the kernel has none left.
    ///
    /// # Errors
    /// Where the kernel refuses to wait.
    pub fn drain_one(&mut self, in_flight: usize) -> io::Result<bool> {
        self.is_used(in_flight).then(|| self.wait_for_one()).transpose().map(|waited| waited.is_some())
    }

    /// Whether the kernel has any of the operations in flight: the others are still queued.
    fn is_used(&mut self, in_flight: usize) -> bool {
        in_flight > self.uring.submission().len()
    }

    #[inline(always)]
    fn answer(&mut self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(Some(error)) = self.answers.pop_front() {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(())
    }
}

/// The ways to set a ring up, the best first.
fn ways(allowed: UringUse) -> Vec<UringUse> {
    let ways = [[true, true, false], [true, false, true], [false, false, true], [false; 3]];
    let way = |[single_issuer, defer_taskrun, coop_taskrun]: [bool; 3]| UringUse {
        single_issuer,
        defer_taskrun,
        coop_taskrun,
        fixed_files: false,
        fixed_buffers: false,
    };
    let allowed = [allowed.single_issuer, allowed.defer_taskrun, allowed.coop_taskrun];
    let fits = |way: &[bool; 3]| way.iter().zip(allowed).all(|(uses, allowed)| allowed || !uses);
    ways.into_iter().filter(fits).map(way).collect()
}

fn set_up(depth: u32, allowed: UringUse) -> Result<(IoUring, UringUse)> {
    let mut refused = None;
    for way in ways(allowed) {
        let mut builder = IoUring::builder();
        if way.single_issuer {
            builder.setup_single_issuer();
        }
        if way.defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if way.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        match builder.build(depth) {
            Ok(uring) => return Ok((uring, way)),
            // The kernel does not know a flag; an older way may do.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = Some(error),
            Err(error) => return Err(unavailable(error)),
        }
    }
    Err(unavailable(refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))))
}

fn unavailable(source: io::Error) -> Error {
    let advice = match source.raw_os_error() {
        Some(libc::ENOSYS) => "; this kernel has no io_uring: take the sync engine",
        Some(libc::EPERM | libc::EACCES) => {
            "; io_uring is forbidden here (sysctl kernel.io_uring_disabled, or a container): take the sync engine"
        }
        Some(libc::EMFILE | libc::ENFILE) => "; raise `ulimit -n`, or take fewer threads",
        Some(libc::ENOMEM) => "; raise `ulimit -l`, or take fewer threads or less depth",
        _ => "",
    };
    Error::Resource { what: "no io_uring".into(), source, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(bits: [bool; 3]) -> UringUse {
        let [single_issuer, defer_taskrun, coop_taskrun] = bits;
        UringUse { single_issuer, defer_taskrun, coop_taskrun, ..UringUse::default() }
    }

    #[test]
    fn older_ways_follow_newer_ones() {
        let shown = |allowed| -> Vec<(bool, bool, bool)> {
            ways(allowed).iter().map(|w| (w.single_issuer, w.defer_taskrun, w.coop_taskrun)).collect()
        };
        assert_eq!(
            shown(allow([true; 3])),
            [(true, true, false), (true, false, true), (false, false, true), (false, false, false)]
        );
        // Deferred task work needs a single issuer.
        assert_eq!(shown(allow([false, true, true])), [(false, false, true), (false, false, false)]);
        assert_eq!(shown(allow([false; 3])), [(false, false, false)]);
    }

    #[test]
    fn what_is_switched_off_is_not_used() {
        let job = Job {
            depth: 4,
            engine: super::super::job::Engine::IoUring,
            uring: UringUse { fixed_buffers: false, fixed_files: false, ..allow([false; 3]) },
            ..Job::default()
        };
        let mut slots = Slots::new(4, 4096).unwrap();
        match Ring::new(&job, &[], &mut slots) {
            Ok(ring) => {
                let used = ring.in_use;
                assert!(!used.single_issuer && !used.defer_taskrun && !used.coop_taskrun);
                assert!(!used.fixed_files && !used.fixed_buffers);
            }
            // A machine without io_uring says what to do instead.
            Err(error) => assert!(error.to_string().contains("take the sync engine"), "{error}"),
        }
    }
}
