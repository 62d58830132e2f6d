//! A player for dbench's loadfiles, and a synthetic load in the same form.
//!
//! ```text
//! loadfile::load / synthetic::generate_program → LoadProgram → client_runner (clients, phases) → SharedCounters → DbenchOutcome
//! ```
//!
//! The semantics are those of dbench 4.0 and 5.0 on local files. Every operation with a name looks the name up first.
//! If the name is missing, the operation reads the whole directory, as a case-insensitive file server does.

mod calls;
mod client;
mod client_runner;
mod cursor;
mod kind;
pub mod load_peaks;
pub mod loadfile;
mod name;
mod number;
mod outcome;
mod program;
mod shared_counters;
pub mod synthetic;

use crate::dbench::client::{SharedState, WritePayloads};
use crate::dbench::shared_counters::SharedCounters;
use crate::error::{Result, TaskError};
use fsarena_engine::clock::Clock;
use fsarena_sys::cpu::CpuTime;
use std::ffi::{CString, NulError};
use std::{os::unix::ffi::OsStrExt, path::Path};

pub use client::{ClientMode, PlayerOptions};
pub use client_runner::check_open_file_limit;
pub use kind::{KIND_DEFS, OperationKind};
pub use outcome::{DbenchOutcome, reading_defs};
pub use program::LoadProgram;

/// Plays a program in a directory.
///
/// # Errors
/// If the clients cannot be started, or a client fails; the error is that of the first client that failed.
pub fn play(program: &LoadProgram, options: &PlayerOptions, root: &Path) -> Result<DbenchOutcome> {
    program.check_clients(options.clients)?;
    client_runner::check_open_file_limit(options.clients, options.mode, 0)?;
    let counters = SharedCounters::new(options.clients)?;
    let payloads = WritePayloads::new(program, options.content, options.seed);
    let nul_error = |error: NulError| TaskError::io(format!("play in {root:?}"))(error);
    let root = CString::new(root.as_os_str().as_bytes()).map_err(nul_error)?;
    let shared = SharedState { program, counters: &counters, payloads: &payloads, root, options, clock: Clock::best() };
    let cpu_before = client_cpu(options.mode);
    let measurements = client_runner::run_clients(&shared)?;
    Ok(DbenchOutcome::from_counters(&counters, measurements, client_cpu(options.mode).since(cpu_before)))
}

/// The CPU time that clients have used so far. Client processes count once they have ended.
fn client_cpu(mode: ClientMode) -> CpuTime {
    match mode {
        ClientMode::Threads => CpuTime::of_this_process(),
        ClientMode::Processes => CpuTime::of_ended_children(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_engine::Content;
    use std::{os::unix::fs::MetadataExt, time::Duration};

    const MODES: [ClientMode; 2] = [ClientMode::Processes, ClientMode::Threads];

    fn options(mode: ClientMode, clients: u32) -> PlayerOptions {
        PlayerOptions {
            clients,
            mode,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(100),
            rate_mb_s: None,
            content: Content::Zeros,
            seed: 1,
        }
    }

    /// Plays in new directories, each time five times longer, until `is_long_enough` returns true for the outcome or
    /// the time is above 10 s. So the tests also pass on a slow or busy machine.
    fn play_until(
        text: &str,
        mut options: PlayerOptions,
        is_long_enough: impl Fn(&DbenchOutcome) -> bool,
    ) -> (DbenchOutcome, tempfile::TempDir) {
        loop {
            let dir = tempfile::tempdir().unwrap();
            let outcome = play(&parse_program(text), &options, dir.path()).unwrap();
            if is_long_enough(&outcome) || options.measured > Duration::from_secs(10) {
                return (outcome, dir);
            }
            options.measured *= 5;
        }
    }

    fn parse_program(text: &str) -> LoadProgram {
        loadfile::parse("test", text.as_bytes()).unwrap()
    }

    /// A loadfile with every operation.
    const EVERY_OPERATION: &str = "\
Mkdir \"\\clients\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
Deltree \"\\clients\\client1\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\\none\" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
QUERY_PATH_INFORMATION \"\\clients\\client1\\none\" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX \"\\clients\\client1\\a\" 0x40 0x2 2 NT_STATUS_OK
LockX 2 2147483538 1 NT_STATUS_OK
WriteX 2 0 1000 1000 NT_STATUS_OK
UnlockX 2 2147483538 1 NT_STATUS_OK
ReadX 2 999 1000 1 NT_STATUS_OK
QUERY_FILE_INFORMATION 2 258 NT_STATUS_OK
SET_FILE_INFORMATION 2 1004 NT_STATUS_OK
QUERY_FS_INFORMATION 1 NT_STATUS_OK
Flush 2 NT_STATUS_OK
Close 2 NT_STATUS_OK
FIND_FIRST \"\\clients\\client1\\*\" 260 1366 3 NT_STATUS_OK
Rename \"\\clients\\client1\\a\" \"\\clients\\client1\\b\" NT_STATUS_OK
Mkdir \"\\clients\\client1\\d\" NT_STATUS_OK
Rmdir \"\\clients\\client1\\d\" NT_STATUS_OK
Unlink \"\\clients\\client1\\b\" 0x6 NT_STATUS_OK
";

    #[test]
    fn processes_and_threads_perform_and_count_every_operation() {
        for mode in MODES {
            let (outcome, dir) = play_until(EVERY_OPERATION, options(mode, 3), |outcome| {
                outcome.kinds.len() == KIND_DEFS.len()
                    && outcome.operations_by_client.iter().all(|count| *count > 20)
                    && outcome.measurements.bytes.iter().all(|bytes| *bytes > 0)
            });
            assert_eq!(outcome.unexpected_results, 0, "{mode:?}");
            let counts: Vec<u64> = outcome.kinds.iter().map(|(_, measured)| measured.count).collect();
            assert_eq!(counts.len(), KIND_DEFS.len(), "{mode:?}: {counts:?}");
            assert!(
                outcome.operations_by_client.iter().all(|count| *count > 20),
                "{mode:?}: {:?}",
                outcome.operations_by_client
            );
            // Each read and write requests 1,000 bytes, and reads get 1. The bytes are summed just before the clients
            // stop counting operations.
            for (kind, bytes) in
                [OperationKind::ReadX, OperationKind::WriteX].into_iter().zip(outcome.measurements.bytes)
            {
                let count = outcome.kinds.iter().find(|(measured_kind, _)| *measured_kind == kind).unwrap().1.count;
                assert!(bytes % 1000 == 0 && (1..=count).contains(&(bytes / 1000)), "{kind:?}: {bytes}, {count}");
            }
            for client in 0..3 {
                assert!(dir.path().join(format!("clients/client{client}")).is_dir(), "{mode:?}");
            }
            assert!(outcome.cpu.user_ns + outcome.cpu.system_ns > 0);
        }
    }

    #[test]
    fn every_reading_of_a_run_is_defined() {
        let (outcome, _dir) = play_until(EVERY_OPERATION, options(ClientMode::Threads, 1), |outcome| {
            outcome.kinds.len() == KIND_DEFS.len() && outcome.measurements.bytes[0] > 0
        });
        let readings = outcome.readings();
        let known: Vec<&str> =
            reading_defs().chain(fsarena_engine::readings::reading_defs()).map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
        let get = |id| readings.get(id).unwrap();
        assert!(get("flush_operations_count") > 0.0 && get("read_bandwidth_bytes_per_s") > 0.0);
        assert!(get("ntcreatex_latency_p99_ns") <= get("ntcreatex_latency_max_ns"));
        assert_eq!(get("fairness_ratio"), 1.0);
    }

    #[test]
    fn clients_write_zeros_or_noise_or_the_pattern() {
        let text = "WRITEPATTERN xy\nNTCreateX \"\\f\" 0x40 0x2 1 NT_STATUS_OK\nWriteX 1 0 6 6 0x0\nClose 1 0x0\n";
        let without_pattern = text.split_once('\n').unwrap().1;
        let written_data = |text: &str, content| {
            let options = PlayerOptions { content, ..options(ClientMode::Threads, 1) };
            let (_, dir) = play_until(text, options, |outcome| outcome.operations >= 3);
            std::fs::read(dir.path().join("f")).unwrap()
        };
        assert_eq!(written_data(without_pattern, Content::Zeros), [0; 6]);
        assert_eq!(written_data(text, Content::Random), b"xy\nxy\n");
        assert_ne!(written_data(without_pattern, Content::Random), [0; 6]);
    }

    #[test]
    fn each_client_draws_its_own_strings() {
        // Thirty names of 100 million for each of two clients, then a sleep that outlasts the run.
        let text = format!(
            "LOOP 30\nRANDOMSTRING 1 \"{}\"\nNTCreateX \"\\client1_$1\" 0x40 0x2 1 0x0\nClose 1 0x0\nENDLOOP\nSLEEP 1000000000\n",
            "[0123456789]".repeat(8)
        );
        let have_looped = |outcome: &DbenchOutcome| outcome.operations_by_client == [60, 60];
        let (outcome, dir) = play_until(&text, options(ClientMode::Processes, 2), have_looped);
        assert!(have_looped(&outcome), "{:?}", outcome.operations_by_client);
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut strings: Vec<String> =
            names.map(|name| name.to_str().unwrap().split_once('_').unwrap().1.to_string()).collect();
        strings.sort();
        strings.dedup();
        assert_eq!(strings.len(), 60);
    }

    #[test]
    fn clients_wait_until_another_client_sets_its_point() {
        // Client 0 sets its point to 7, for which all clients wait. With 8, no client gets to its operations.
        let text = "SETSP +0\nWAITSP 0 7\nNTCreateX \"\\client1\" 0x40 0x2 1 0x0\nClose 1 0x0\n";
        let dir = tempfile::tempdir().unwrap();
        let awaited_point = text.replace("+0", "7");
        for mode in MODES {
            let all_operate = |outcome: &DbenchOutcome| outcome.operations_by_client.iter().all(|count| *count > 0);
            let (outcome, _dir) = play_until(&awaited_point, options(mode, 3), all_operate);
            assert!(all_operate(&outcome), "{mode:?}: {:?}", outcome.operations_by_client);
            let outcome = play(&parse_program(&text.replace("+0", "8")), &options(mode, 3), dir.path()).unwrap();
            assert_eq!(outcome.operations, 0, "{mode:?}");
        }
        let error =
            play(&parse_program("WAITSP 3 1\nFlush 1 *\n"), &options(ClientMode::Threads, 3), dir.path()).unwrap_err();
        assert!(error.to_string().contains("requires client number 3"), "{error}");
    }

    #[test]
    fn a_rate_holds_each_client_back() {
        // 100 bytes for each operation at 0.1 MB/s are 1,000 operations a second for each of two clients.
        let text = "NTCreateX \"\\client1\" 0x40 0x2 1 0x0\nREPEAT 100000\nWriteX 1 0 100 100 0x0\nClose 1 0x0\n";
        for mode in MODES {
            let options =
                PlayerOptions { rate_mb_s: Some(0.1), measured: Duration::from_millis(300), ..options(mode, 2) };
            let (outcome, _dir) = play_until(text, options, |outcome| outcome.sum_kinds().count > 0);
            let mb_s = outcome.readings().get("served_bytes_per_s").unwrap() / 1e6;
            assert!(mb_s <= 0.21, "{mode:?}: {mb_s}");
            assert!(outcome.sum_kinds().count > 0);
        }
    }

    #[test]
    fn a_failed_client_ends_the_run_with_an_error_that_has_line_and_name() {
        for (text, expected) in [
            ("Unlink \"\\none\" NT_STATUS_OK\n", "line 1: unlink /"),
            ("Mkdir \"\\d\" 0x0\nRmdir \"\\d\" NT_STATUS_DIRECTORY_NOT_EMPTY\n", "line 2: rmdir succeeded: /"),
            ("Rename \"\\a\" \"\\b\" 0x0\n", "No such file"),
            ("Flush 9 0x0\n", "handle 9 is not open"),
            ("NTCreateX \"\\none\" 0x40 0x1 2 0x0\nClose 2 0x0\n", "handle 2 is not open; before, at line 1: open /"),
            ("NTCreateX \"\\f\" 0x40 0x2 2 0x0\nWriteX 2 -1 1 1 0x0\nClose 2 0x0\n", "line 2: write /"),
            ("NTCreateX \"\\f\" 0x40 0x2 *%1 0x0\n", "200 files are open"),
            ("RANDOMSTRING 1 \"[.].\"\nUnlink \"\\$1\\a\" *\n", "leads out"),
        ] {
            for mode in MODES {
                let dir = tempfile::tempdir().unwrap();
                // The failure ends the run long before.
                let long_run = PlayerOptions { measured: Duration::from_secs(60), ..options(mode, 2) };
                let error = play(&parse_program(text), &long_run, dir.path()).unwrap_err().to_string();
                assert!(error.contains(expected), "{mode:?}, {text}: {error}");
            }
        }
    }

    #[test]
    fn a_client_that_is_killed_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let text = "NTCreateX \"\\f\" 0x40 0x2 1 0x0\nSLEEP 1000000000\nClose 1 0x0\n";
        let long_run = PlayerOptions { measured: Duration::from_secs(60), ..options(ClientMode::Processes, 2) };
        let path = dir.path().to_path_buf();
        let player = std::thread::spawn(move || play(&parse_program(text), &long_run, &path));
        let start = std::time::Instant::now();
        let client = loop {
            if let Some(client) = find_child_with_open_file(&dir.path().join("f")) {
                break client;
            }
            let waiting = !player.is_finished() && start.elapsed() < Duration::from_secs(50);
            assert!(waiting, "no client has opened the file");
            std::thread::sleep(Duration::from_millis(5));
        };
        rustix::process::kill_process(client, rustix::process::Signal::KILL).unwrap();
        let error = player.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("signal 9"), "{error}");
    }

    /// Finds the child of this process that has a file open. Other tests have other children.
    fn find_child_with_open_file(path: &Path) -> Option<rustix::process::Pid> {
        let own_pid = std::process::id().to_string();
        std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
            let mut descriptors =
                std::fs::read_dir(entry.path().join("fd")).ok().filter(|_| parent == own_pid)?.flatten();
            descriptors.find(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| target == path))?;
            rustix::process::Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)
        })
    }

    #[test]
    fn a_closed_file_keeps_the_times_that_were_set_back() {
        let text = "NTCreateX \"\\f\" 0x40 0x2 1 0x0\nSET_FILE_INFORMATION 1 4 0x0\nClose 1 0x0\nSLEEP 100000000\n";
        let (_, dir) = play_until(text, options(ClientMode::Threads, 1), |outcome| outcome.operations == 3);
        let meta = std::fs::metadata(dir.path().join("f")).unwrap();
        assert_eq!(meta.atime() - meta.mtime(), 2);
    }
}
