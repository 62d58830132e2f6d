//! Ranks and their work fail: the cell ends with host and words, and nothing is left.

use crate::common::{Place, end_of, output, processes, until};
use std::process::Command;

/// A command that only one client fails at; the others would take long.
fn only_client_1(does: &str) -> String {
    format!(
        "[[workload]]\nuse = 'command'\nroom = '1MiB'\n[[workload.task]]\nname = 'work'\n\
         cmd = 'echo x > file; case $FSARENA_DIR in *client-1) {does};; *) sleep 30;; esac'\n"
    )
}

/// Sends a signal to rank 1 of a job of three once its work has begun: the exit code of the job and all that it said.
fn run_and_signal_rank_1(place: &Place, signal: &str, args: &[&str]) -> (i32, String) {
    let job = place.run(3, &only_client_1("sleep 30"), args).spawn().unwrap();
    until("no work begins", || has_begun(place, 1));
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let is_rank_1 = |pid: &u32| {
        let own = read(*pid, "environ");
        let ranks = [b"OMPI_COMM_WORLD_RANK=1".as_slice(), b"PMI_RANK=1"];
        own.split(|byte| *byte == 0).any(|variable| ranks.contains(&variable))
            && read(*pid, "cmdline").split(|byte| *byte == 0).nth(1) == Some(b"run")
    };
    let found = processes(place.path("state").to_str().unwrap()).into_iter().find(is_rank_1);
    let rank = found.expect("rank 1 runs").to_string();
    assert!(Command::new("kill").args(["-s", signal, &rank]).status().unwrap().success());
    end_of(job)
}

/// Whether the work of a client has begun.
fn has_begun(place: &Place, client: u32) -> bool {
    let work = place.left().into_iter().find(|path| !path.to_string_lossy().ends_with("other"));
    work.is_some_and(|dir| dir.join(format!("work/client-{client}/file")).exists())
}

/// The host's name, as messages say it.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// After a kill the guard cleans up, which ends later than mpirun.
#[track_caller]
fn nothing_is_left(place: &Place) {
    let state = place.path("state");
    until("a process is left", || processes(state.to_str().unwrap()).is_empty());
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn work_that_fails_ends_the_cell_with_host_and_words() {
    let Some(place) = Place::new() else { return };
    let (code, said) = output(&mut place.run(3, &only_client_1("echo the disk is on fire >&2; exit 7"), &[]));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains(&format!("rank 1 on {}: work: ", host())), "{said}");
    assert!(said.contains("(exit 7): the disk is on fire"), "{said}");
    nothing_is_left(&place);
}

#[test]
fn work_that_dies_or_hangs_ends_the_cell_and_no_rank() {
    let Some(place) = Place::new() else { return };
    // The parent of the shell is the agent that runs the work.
    let (code, said) = output(&mut place.run(3, &only_client_1("kill -9 $PPID"), &[]));
    assert!(
        code != 0 && said.contains(&format!("rank 1 on {}: ", host())) && said.contains("signal: 9"),
        "{said}"
    );
    nothing_is_left(&place);

    let (code, said) = output(&mut place.run(3, &only_client_1("kill -STOP $PPID"), &["--timeout", "2s"]));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("work did not end within 2s"), "{said}");
    nothing_is_left(&place);
}

#[test]
fn a_full_filesystem_is_said() {
    let Some(place) = Place::new() else { return };
    if !fsarena_testkit::root() {
        return;
    }
    let shared = place.path("shared");
    let mount = |args: &[&str]| {
        assert!(Command::new(args[0]).args(&args[1..]).arg(&shared).status().unwrap().success())
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=80m", "none"]);
    let (code, said) = output(&mut place.run(2, &only_client_1("head -c 100000000 /dev/zero > big"), &[]));
    let left = place.left();
    mount(&["umount"]);
    assert!(left.is_empty(), "{left:?}");
    assert!(code != 0 && said.contains("rank 1 on") && said.contains("No space left on device"), "{said}");
}

#[test]
fn a_rank_that_is_killed_ends_the_job_and_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    let (code, said) = run_and_signal_rank_1(&place, "KILL", &[]);
    // mpirun names the rank and its machine.
    assert!(code != 0 && said.contains(&host()), "{code} {said}");
    nothing_is_left(&place);
}

#[test]
fn a_rank_that_hangs_is_named_and_ends_the_job() {
    let Some(place) = Place::new() else { return };
    let (code, said) = run_and_signal_rank_1(&place, "STOP", &["--timeout", "1s"]);
    assert!(code != 0 && said.contains(&format!("rank 1 on {} did not answer", host())), "{code} {said}");
    nothing_is_left(&place);
}

#[test]
fn a_signal_to_mpirun_cleans_up_and_the_run_goes_on_later() {
    let Some(place) = Place::new() else { return };
    let plan = "[[workload]]\nuse = 'command'\nroom = '1MiB'\n[[workload.task]]\nname = 'work'\n\
                cmd = 'echo x > file; test -e ../../../go || sleep 30'\n";
    let job = place.run(3, plan, &[]).spawn().unwrap();
    until("no work begins", || (0..3).all(|client| has_begun(&place, client)));
    assert!(Command::new("kill").args(["-TERM", &job.id().to_string()]).status().unwrap().success());
    assert_ne!(end_of(job).0, 0);
    nothing_is_left(&place);

    std::fs::write(place.path("shared/go"), "").unwrap();
    let (code, said) = output(&mut place.mpirun(3, &["run", "--resume", "latest"]));
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.left(), [place.path("shared/go")]);
    assert_eq!(place.samples(&["task", "clients_count"]), [["work", "3"]]);

    let (code, said) = output(&mut place.mpirun(2, &["run", "--resume", "latest"]));
    assert!(code == 2 && said.contains("mpirun -n 3"), "{code} {said}");
}
