//! The children of a process that runs a command. This test runs in a separate process, because children that other tests
//! start would count as survivors of the command.

use fsarena_load::invocation::Invocation;
use std::process::Command;
use std::time::Duration;

#[test]
fn only_the_processes_that_the_command_left_are_killed_and_reaped() {
    let mut earlier_child = Command::new("sleep").arg("60").spawn().unwrap();
    let mut ended_child = Command::new("false").spawn().unwrap();
    let invocation = Invocation {
        argv: ["sh", "-c", "setsid sleep 60 &"].map(String::from).to_vec(),
        dir: std::env::temp_dir(),
        env: vec![],
        time_limit: Duration::from_secs(20),
        metric_rules: vec![],
    };
    let error = invocation.run_and_log(&mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("(sleep)"), "{error}");
    assert!(earlier_child.try_wait().unwrap().is_none());
    earlier_child.kill().unwrap();
    earlier_child.wait().unwrap();
    assert_eq!(ended_child.wait().unwrap().code(), Some(1), "the command reaped it");
}
