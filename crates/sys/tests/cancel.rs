//! Tests that a signal ends the running command but not commands that clean up. A child process receives the signal.

use fsarena_sys::{CommandError, argv::Argv};
use fsarena_sys::{cancel, kernel::SysRoot, process};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "FSARENA_TEST_CHILD";

#[test]
fn a_signal_ends_the_command_but_not_the_clean_up() {
    if std::env::var_os(CHILD).is_some() {
        run_until_interrupted();
    }
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let journal = format!("cancel-test-{}-{number}", std::process::id());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_signal_ends_the_command_but_not_the_clean_up"])
            .env(CHILD, "1")
            .env(process::JOURNAL_VARIABLE, &journal)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The child itself, and the sleep that it runs.
        while process::processes_of_journal(&SysRoot::host(), &journal).unwrap().len() < 2 {
            assert!(child.try_wait().unwrap().is_none(), "the child failed");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        // A killed process takes a moment to disappear; the sleep itself would take far longer.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !process::processes_of_journal(&SysRoot::host(), &journal).unwrap().is_empty() {
            assert!(Instant::now() < deadline, "the command outlived the signal");
            std::thread::yield_now();
        }
    }
}

/// Runs in the child process: ends by the signal if its assertions hold, and panics otherwise.
fn run_until_interrupted() -> ! {
    cancel::install_handlers().unwrap();
    let _deferred_signals = cancel::defer_signals();
    assert_eq!(cancel::received_signal(), None);
    let stopped = Argv::new("sh").args(["-c", "sleep 60; true"]).run();
    assert!(matches!(stopped, Err(CommandError::Interrupted { .. })), "{stopped:?}");
    assert!(Argv::new("true").run().is_err());
    assert!(Argv::new("true").ignore_cancel().run().unwrap().status.success());
    cancel::die_by_signal(cancel::received_signal().unwrap())
}
