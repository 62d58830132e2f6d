//! Clients as processes or threads: started together, watched, and ended together.

use super::board::{Board, Phase};
use super::client::{Client, Shared};
use super::options::{ClientMode, Options};
use super::{error::Error, time_series::TimeSeries};
use fsarena_core::series::Point;
use fsarena_engine::clock::Clock;
use fsarena_sys::cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, waitpid};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often the watcher looks at the recorders.
const LOOK: Duration = Duration::from_millis(10);
/// A client keeps no large thing on its stack, except where it deletes a tree.
const STACK_BYTES: usize = 512 << 10;

/// How long the phases took, and what was moved meanwhile.
#[derive(Debug, Clone)]
pub struct Times {
    /// The warm-up.
    pub warm_up: Duration,
    /// The measured phase.
    pub measured: Duration,
    /// Bytes read and written in it.
    pub bytes: [u64; 2],
    /// All phases over time.
    pub series: Vec<Point>,
}

/// Runs all clients from start to end.
///
/// # Errors
/// Clients that cannot be had, and the first that could not go on.
pub fn run<C: Clock>(shared: &Shared<C>) -> Result<Times, Error> {
    match shared.options.mode {
        ClientMode::Threads => threads(shared),
        ClientMode::Processes => processes(shared),
    }
}

fn threads<C: Clock>(shared: &Shared<C>) -> Result<Times, Error> {
    std::thread::scope(|scope| {
        let mut started = vec![];
        for number in 0..shared.options.clients {
            let builder = std::thread::Builder::new().name(format!("client{number}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, move || Client::new(shared, number).run()) {
                Ok(handle) => started.push(handle),
                Err(source) => {
                    shared.board.enter(Phase::Over);
                    let what =
                        format!("no thread for client {number}; take fewer clients, or raise `ulimit -u`");
                    return Err(Error::Resource { what, source });
                }
            }
        }
        let times = watch(shared.board, shared.options, &mut |wait| {
            std::thread::sleep(wait);
            started.iter().any(|handle| handle.is_finished())
        });
        shared.board.enter(Phase::Over);
        for handle in started {
            if let Err(panic) = handle.join() {
                std::panic::resume_unwind(panic);
            }
        }
        said(shared.board)?;
        times.ok_or(Error::Cancelled)
    })
}

/// A client that is a process.
struct Child {
    number: u32,
    pid: Pid,
    ended: OwnedFd,
}

fn processes<C: Clock>(shared: &Shared<C>) -> Result<Times, Error> {
    let mut children = vec![];
    for number in 0..shared.options.clients {
        match start(shared, number) {
            Ok(child) => children.push(child),
            Err(source) => {
                shared.board.enter(Phase::Over);
                children.into_iter().try_for_each(reap)?;
                let what = format!(
                    "no process for client {number}; take fewer clients, or raise `ulimit -u` and `ulimit -n`"
                );
                return Err(Error::Resource { what, source });
            }
        }
    }
    let times = watch(shared.board, shared.options, &mut |wait| any_ended(&children, wait));
    shared.board.enter(Phase::Over);
    let lost = children.into_iter().map(reap).fold(Ok(()), Result::and);
    said(shared.board)?;
    lost?;
    times.ok_or(Error::Cancelled)
}

fn start<C: Clock>(shared: &Shared<C>, number: u32) -> std::io::Result<Child> {
    let parent = rustix::process::getpid();
    // SAFETY: the child has this thread only. glibc and musl leave malloc usable behind fork, no other lock is
    // taken, and the child leaves by _exit without running what this process has to run at its end.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            let work = std::panic::AssertUnwindSafe(|| child(shared, number, parent));
            let code = if std::panic::catch_unwind(work).is_ok() { 0 } else { 101 };
            // SAFETY: it ends this process.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let pid = Pid::from_raw(pid).ok_or(std::io::ErrorKind::Other)?;
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(ended) => Ok(Child { number, pid, ended }),
                Err(errno) => {
                    // The pid still belongs to the child: only this process can reap it.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                    Err(errno.into())
                }
            }
        }
    }
}

fn child<C: Clock>(shared: &Shared<C>, number: u32, parent: Pid) {
    // Nobody would end it.
    let dies = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if dies.is_ok() && rustix::process::getppid() == Some(parent) {
        Client::new(shared, number).run();
    }
}

/// Waits until a child ends, at most `wait`. Returns whether one ended.
fn any_ended(children: &[Child], wait: Duration) -> bool {
    let fds = children.iter().map(|child| PollFd::new(&child.ended, PollFlags::IN));
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    // A signal ends it early; then the caller looks.
    poll(&mut fds.collect::<Vec<_>>(), Some(&wait)).is_ok_and(|ended| ended > 0)
}

fn reap(child: Child) -> Result<(), Error> {
    let lost = |how: String| Err(Error::Lost { client: child.number, how });
    loop {
        match waitpid(Some(child.pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return lost(errno.to_string()),
            Ok(None) => return lost("nothing".into()),
            Ok(Some((_, status))) => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(0), _) => Ok(()),
                    (Some(code), _) => lost(format!("exit {code}")),
                    (_, signal) => lost(format!("signal {}", signal.unwrap_or(0))),
                };
            }
        }
    }
}

/// Leads all through the phases; absent where they end before their time.
fn watch(board: &Board, options: &Options, ended: &mut dyn FnMut(Duration) -> bool) -> Option<Times> {
    // A client may end before this thread saw it ready, so always check for the end first.
    let mut early = |wait: Duration| {
        ended(wait)
            || cancel::requested().is_some()
            || board.recorders().any(|recorder| recorder.failure.count.load(Relaxed) > 0)
    };
    while board.ready() < options.clients {
        if early(Duration::from_millis(1)) {
            return None;
        }
    }
    let (begun, mut series) = (Instant::now(), TimeSeries::begin(options));
    board.enter(Phase::WarmUp);
    let (least, most) = (options.warm_up, options.warm_up + options.measured);
    // As in the real one, until every client has moved something; but some move nothing at all.
    let moved = || board.recorders().all(|recorder| recorder.bytes.load(Relaxed) > 0);
    while begun.elapsed() < least || (least > Duration::ZERO && begun.elapsed() < most && !moved()) {
        if early(least.saturating_sub(begun.elapsed()).clamp(Duration::from_millis(1), LOOK)) {
            return None;
        }
        series.look(board);
    }
    if least > Duration::ZERO {
        series.warmed_up(board);
    }
    let counted = Instant::now();
    board.enter(Phase::Measured);
    while counted.elapsed() < options.measured {
        if early(options.measured.saturating_sub(counted.elapsed()).min(LOOK)) {
            return None;
        }
        series.look(board);
    }
    let bytes =
        [0, 1].map(|way| board.recorders().map(|recorder| recorder.measured_bytes[way].load(Relaxed)).sum());
    let measured = counted.elapsed();
    board.enter(Phase::Over);
    Some(Times { warm_up: counted.duration_since(begun), measured, bytes, series: series.points(board) })
}

/// The first client that could not go on.
fn said(board: &Board) -> Result<(), Error> {
    for (client, recorder) in board.recorders().enumerate() {
        let Some(said) = recorder.failure.said() else { continue };
        let system = said.errno.map(|errno| format!(": {}", std::io::Error::from_raw_os_error(errno)));
        let full = said.errno.is_some_and(|errno| [libc::ENOSPC, libc::EDQUOT].contains(&errno));
        let why = format!("{}{}", said.text.trim_end_matches('\0'), system.unwrap_or_default());
        return Err(Error::Client { client: client as u32, line: said.line, why, full });
    }
    Ok(())
}
