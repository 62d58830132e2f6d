//! Failures of ranks and of their work: the error names the rank and its host, and nothing is left behind.

use crate::common::{Workspace, processes_with, run_to_end, wait_for_job, wait_until};
use std::process::Command;

/// A plan with a command that runs `script` on client 1; the other clients sleep for 30 s.
fn plan_for_client_1(script: &str) -> String {
    format!(
        "[[workload]]\nuse = 'command'\nroom = '1MiB'\n[[workload.task]]\nname = 'work'\n\
         cmd = 'echo x > file; case $FSARENA_DIR in *client-1) {script};; *) sleep 30;; esac'\n"
    )
}

/// Sends a signal to rank 1 of a job of three once its work has begun. Returns the exit code of the job and all output.
fn run_and_signal_rank_1(workspace: &Workspace, signal: &str, args: &[&str]) -> (i32, String) {
    let job = workspace.plan_command(3, &plan_for_client_1("sleep 30"), args).spawn().unwrap();
    wait_until("no work begins", || work_has_begun(workspace, 1));
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let is_rank_1 = |pid: &u32| {
        let environment = read(*pid, "environ");
        let rank_variables = [b"OMPI_COMM_WORLD_RANK=1".as_slice(), b"PMI_RANK=1"];
        environment.split(|byte| *byte == 0).any(|variable| rank_variables.contains(&variable))
            && read(*pid, "cmdline").split(|byte| *byte == 0).nth(1) == Some(b"run")
    };
    let pid = processes_with(workspace.path("state").to_str().unwrap()).into_iter().find(is_rank_1);
    let pid = pid.expect("rank 1 runs").to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    wait_for_job(job)
}

/// Whether the work of a client has begun.
fn work_has_begun(workspace: &Workspace, client: u32) -> bool {
    let work = workspace.leftover_files().into_iter().find(|path| !path.to_string_lossy().ends_with("other"));
    work.is_some_and(|dir| dir.join(format!("work/client-{client}/file")).exists())
}

/// The host name in messages.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Asserts that no process and no file is left, once the guard has cleaned up, which may end after mpirun.
#[track_caller]
fn assert_nothing_is_left(workspace: &Workspace) {
    let state = workspace.path("state");
    wait_until("a process is left", || processes_with(state.to_str().unwrap()).is_empty());
    assert!(workspace.leftover_files().is_empty(), "{:?}", workspace.leftover_files());
}

#[test]
fn failed_work_ends_the_cell_and_the_error_has_rank_host_and_output() {
    let Some(workspace) = Workspace::new() else { return };
    let (code, printed) =
        run_to_end(&mut workspace.plan_command(3, &plan_for_client_1("echo the disk is on fire >&2; exit 7"), &[]));
    assert_eq!(code, 4, "{printed}");
    assert!(printed.contains(&format!("rank 1 on {}: work: ", host())), "{printed}");
    assert!(printed.contains("(exit 7): the disk is on fire"), "{printed}");
    assert_nothing_is_left(&workspace);
}

#[test]
fn work_that_is_killed_or_hangs_fails_the_cell_and_leaves_nothing() {
    let Some(workspace) = Workspace::new() else { return };
    // The parent of the shell is the agent that runs the work.
    let (code, printed) = run_to_end(&mut workspace.plan_command(3, &plan_for_client_1("kill -9 $PPID"), &[]));
    assert!(
        code != 0 && printed.contains(&format!("rank 1 on {}: ", host())) && printed.contains("signal: 9"),
        "{printed}"
    );
    assert_nothing_is_left(&workspace);

    let (code, printed) =
        run_to_end(&mut workspace.plan_command(3, &plan_for_client_1("kill -STOP $PPID"), &["--timeout", "2s"]));
    assert_eq!(code, 4, "{printed}");
    assert!(printed.contains("work did not end within 2s"), "{printed}");
    assert_nothing_is_left(&workspace);
}

#[test]
fn the_error_of_a_full_filesystem_names_the_rank() {
    let Some(workspace) = Workspace::new() else { return };
    if !fsarena_sys::testkit::runs_as_root() {
        return;
    }
    let shared = workspace.path("shared");
    let run_mount_tool =
        |args: &[&str]| assert!(Command::new(args[0]).args(&args[1..]).arg(&shared).status().unwrap().success());
    run_mount_tool(&["mount", "-t", "tmpfs", "-o", "size=80m", "none"]);
    let (code, printed) =
        run_to_end(&mut workspace.plan_command(2, &plan_for_client_1("head -c 100000000 /dev/zero > big"), &[]));
    let leftovers = workspace.leftover_files();
    run_mount_tool(&["umount"]);
    assert!(leftovers.is_empty(), "{leftovers:?}");
    assert!(code != 0 && printed.contains("rank 1 on") && printed.contains("No space left on device"), "{printed}");
}

#[test]
fn a_rank_that_is_killed_ends_the_job_and_leaves_nothing() {
    let Some(workspace) = Workspace::new() else { return };
    let (code, printed) = run_and_signal_rank_1(&workspace, "KILL", &[]);
    // mpirun names the rank and its machine.
    assert!(code != 0 && printed.contains(&host()), "{code} {printed}");
    assert_nothing_is_left(&workspace);
}

#[test]
fn a_rank_that_hangs_is_named_and_ends_the_job() {
    let Some(workspace) = Workspace::new() else { return };
    let (code, printed) = run_and_signal_rank_1(&workspace, "STOP", &["--timeout", "1s"]);
    assert!(code != 0 && printed.contains(&format!("rank 1 on {} did not answer", host())), "{code} {printed}");
    assert_nothing_is_left(&workspace);
}

#[test]
fn after_a_signal_to_mpirun_nothing_is_left_and_the_run_can_be_resumed() {
    let Some(workspace) = Workspace::new() else { return };
    let plan = "[[workload]]\nuse = 'command'\nroom = '1MiB'\n[[workload.task]]\nname = 'work'\n\
                cmd = 'echo x > file; test -e ../../../go || sleep 30'\n";
    let job = workspace.plan_command(3, plan, &[]).spawn().unwrap();
    wait_until("no work begins", || (0..3).all(|client| work_has_begun(&workspace, client)));
    assert!(Command::new("kill").args(["-TERM", &job.id().to_string()]).status().unwrap().success());
    assert_ne!(wait_for_job(job).0, 0);
    assert_nothing_is_left(&workspace);

    std::fs::write(workspace.path("shared/go"), "").unwrap();
    let (code, printed) = run_to_end(&mut workspace.job_command(3, &["run", "--resume", "latest"]));
    assert_eq!(code, 0, "{printed}");
    assert_eq!(workspace.leftover_files(), [workspace.path("shared/go")]);
    assert_eq!(workspace.samples(&["task", "clients_count"]), [["work", "3"]]);

    let (code, printed) = run_to_end(&mut workspace.job_command(2, &["run", "--resume", "latest"]));
    assert!(code == 2 && printed.contains("mpirun -n 3"), "{code} {printed}");
}
