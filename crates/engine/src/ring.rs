//! A worker's io_uring, with the features that the kernel supports.

use crate::buffers::IoBuffers;
use crate::error::{EngineError, Result};
use crate::job::{LoadJob, UringFeatures};
use io_uring::IoUring;
use io_uring::types::{SubmitArgs, Timespec};
use rustix::fd::BorrowedFd;
use std::{io, os::fd::AsRawFd, time::Duration};

/// The pause before a submission is retried for lack of memory, if no operation is in flight that could free some.
const RETRY_PAUSE: Duration = Duration::from_micros(100);
/// `IORING_ENTER_GETEVENTS`, which the crate does not export.
const GET_EVENTS: u32 = 1;

/// A worker's ring.
pub struct Ring {
    /// The ring itself.
    pub uring: IoUring,
    /// The features that it uses.
    pub features: UringFeatures,
    /// Whether waiting can time out (`IORING_FEAT_EXT_ARG`).
    pub can_time_out: bool,
    /// Scripted results of the next calls in tests: this error, or None for the kernel's own result.
    #[cfg(test)]
    pub scripted_results: std::collections::VecDeque<Option<i32>>,
}

impl Ring {
    /// Sets up a ring for a job. The thread that uses the ring must call this.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or has no memory for another ring.
    pub fn new(job: &LoadJob, files: &[BorrowedFd], buffers: &mut IoBuffers) -> Result<Ring> {
        let (uring, mut features) = build_uring(job.depth, job.uring)?;
        if job.uring.fixed_files && !files.is_empty() {
            let raw: Vec<_> = files.iter().map(|file| file.as_raw_fd()).collect();
            features.fixed_files = uring.submitter().register_files(&raw).is_ok();
        }
        // Registration saves pinning pages for each direct operation. Buffered operations pin none.
        if job.uring.fixed_buffers && job.open.direct {
            let iov_len = job.block_bytes as usize;
            let iovec = |slot| libc::iovec { iov_base: buffers.pointer(slot).cast(), iov_len };
            let iovecs: Vec<_> = (0..job.depth as usize).map(iovec).collect();
            // SAFETY: a worker drops its ring before its buffers, and operations are drained before that.
            features.fixed_buffers = unsafe { uring.submitter().register_buffers(&iovecs) }.is_ok();
        }
        let can_time_out = uring.params().is_feature_ext_arg();
        Ok(Ring {
            uring,
            features,
            can_time_out,
            #[cfg(test)]
            scripted_results: Default::default(),
        })
    }

    /// Submits all queued operations, and waits until this many completions are ready. The first system call only submits
    /// and makes finished operations visible. Often these suffice; else a second call waits. That second call costs less
    /// than an unnecessary sleep with its wake-up.
    ///
    /// # Errors
    /// The errors of `io_uring_enter`; [`Ring::wait_before_retry`] handles the temporary ones.
    #[inline(always)]
    pub fn submit_and_wait(&mut self, completions: usize) -> io::Result<()> {
        self.scripted_error()?;
        let queued = self.uring.submission().len() as u32;
        // SAFETY: without a signal mask there is no pointer that the kernel follows; the queued entries are complete.
        unsafe { self.uring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) }?;
        if self.uring.completion().len() < completions {
            self.uring.submit_and_wait(completions)?;
        }
        Ok(())
    }

    /// Submits all queued operations and waits for one completion, at most for this time. Call it only if
    /// [`Ring::can_time_out`].
    ///
    /// # Errors
    /// `ETIME` on timeout, and the errors of [`Ring::submit_and_wait`].
    pub fn submit_and_wait_for(&mut self, timeout: Timespec) -> io::Result<()> {
        self.scripted_error()?;
        self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)).map(drop)
    }

    /// Waits for one completion without submitting. Deferred completions become visible only by such a call.
    ///
    /// # Errors
    /// The wait failed.
    pub fn wait_for_one(&mut self) -> io::Result<()> {
        self.scripted_error()?;
        // SAFETY: without a signal mask there is no pointer that the kernel follows.
        let result = unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 1, GET_EVENTS, None) };
        match result {
            // These errors mean that the caller has to reap completions first, which it does next in any case.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Waits until a failed submission can be retried; its operations are still queued. The kernel returns EAGAIN while it
    /// lacks memory and EBUSY while it lacks room for completions. Both become free when operations end.
    ///
    /// # Errors
    /// The error is not temporary.
    #[cold]
    pub fn wait_before_retry(&mut self, error: io::Error, in_flight: usize) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN | libc::EBUSY) if self.has_started_any(in_flight) => self.wait_for_one(),
            Some(libc::EAGAIN | libc::EBUSY) => {
                std::thread::sleep(RETRY_PAUSE);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Whether the kernel has any of the operations in flight; the others are still queued here.
    pub fn has_started_any(&mut self, in_flight: usize) -> bool {
        in_flight > self.uring.submission().len()
    }

    /// Fails with the next scripted error of a test; always succeeds otherwise.
    #[inline(always)]
    fn scripted_error(&mut self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(Some(error)) = self.scripted_results.pop_front() {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(())
    }
}

/// The allowed combinations of setup flags for a ring, the best first.
fn setup_candidates(allowed: UringFeatures) -> Vec<UringFeatures> {
    // Single issuer, deferred task work, cooperative task work.
    let combinations = [[true, true, false], [true, false, true], [false, false, true], [false; 3]];
    let features = |[single_issuer, defer_taskrun, coop_taskrun]: [bool; 3]| UringFeatures {
        single_issuer,
        defer_taskrun,
        coop_taskrun,
        fixed_files: false,
        fixed_buffers: false,
    };
    let allowed = [allowed.single_issuer, allowed.defer_taskrun, allowed.coop_taskrun];
    let is_allowed = |combination: &[bool; 3]| combination.iter().zip(allowed).all(|(uses, allowed)| allowed || !uses);
    combinations.into_iter().filter(is_allowed).map(features).collect()
}

/// Builds a ring with the best combination of allowed setup flags that the kernel supports. Also returns this combination.
fn build_uring(depth: u32, allowed: UringFeatures) -> Result<(IoUring, UringFeatures)> {
    for candidate in setup_candidates(allowed) {
        let mut builder = IoUring::builder();
        if candidate.single_issuer {
            builder.setup_single_issuer();
        }
        if candidate.defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if candidate.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        match builder.build(depth) {
            Ok(uring) => return Ok((uring, candidate)),
            // The kernel does not support one of the flags; try the next combination.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(unavailable_error(error)),
        }
    }
    Err(unavailable_error(io::Error::from_raw_os_error(libc::EINVAL)))
}

/// The error of a ring that cannot be set up, with advice.
fn unavailable_error(source: io::Error) -> EngineError {
    let advice = match source.raw_os_error() {
        Some(libc::ENOSYS) => "; this kernel has no io_uring: use the sync engine",
        Some(libc::EPERM | libc::EACCES) => {
            "; io_uring is forbidden here (sysctl kernel.io_uring_disabled, or a container): use the sync engine"
        }
        Some(libc::EMFILE | libc::ENFILE) => "; raise `ulimit -n`, or use fewer threads",
        Some(libc::ENOMEM) => "; raise `ulimit -l`, or use fewer threads or less depth",
        _ => "",
    };
    EngineError::Resource { problem: "no io_uring".into(), source, advice }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// The default features with these setup flags.
    fn allow(setup_flags: [bool; 3]) -> UringFeatures {
        let [single_issuer, defer_taskrun, coop_taskrun] = setup_flags;
        UringFeatures { single_issuer, defer_taskrun, coop_taskrun, ..UringFeatures::default() }
    }

    #[test]
    fn older_features_follow_newer_ones() {
        let flags_of = |allowed| -> Vec<(bool, bool, bool)> {
            setup_candidates(allowed)
                .iter()
                .map(|features| (features.single_issuer, features.defer_taskrun, features.coop_taskrun))
                .collect()
        };
        assert_eq!(
            flags_of(allow([true; 3])),
            [(true, true, false), (true, false, true), (false, false, true), (false, false, false)]
        );
        // Deferred task work needs a single issuer.
        assert_eq!(flags_of(allow([false, true, true])), [(false, false, true), (false, false, false)]);
        assert_eq!(flags_of(allow([false; 3])), [(false, false, false)]);
    }

    #[test]
    fn a_ring_uses_only_allowed_features() {
        let file = std::fs::File::open("/dev/null").unwrap();
        for bits in 0..32u8 {
            let bit = |number: u8| bits >> number & 1 == 1;
            let (fixed_files, fixed_buffers) = (bit(3), bit(4));
            let uring = UringFeatures { fixed_files, fixed_buffers, ..allow([0, 1, 2].map(bit)) };
            let job = LoadJob { depth: 4, engine: crate::job::Engine::IoUring, uring, ..LoadJob::default() };
            let mut buffers = IoBuffers::new(4, 4096, job.open.direct).unwrap();
            match Ring::new(&job, &[file.as_fd()], &mut buffers) {
                Ok(Ring { features, .. }) => {
                    assert!(!features.defer_taskrun || uring.defer_taskrun && uring.single_issuer);
                    assert!(!features.coop_taskrun || uring.coop_taskrun);
                    assert!(!features.fixed_files || uring.fixed_files);
                    assert!(!features.fixed_buffers || uring.fixed_buffers);
                }
                // Without io_uring, the error explains what to do instead.
                Err(error) => assert!(error.to_string().contains("use the sync engine"), "{error}"),
            }
        }
    }
}
