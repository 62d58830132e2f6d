//! A machine that another process keeps busy.

use crate::common::{Sandbox, gate::BackgroundRun, runs_as_root};
use std::process::Command;

#[test]
fn the_process_that_disturbed_a_run_is_named() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan("timeout = \"50ms\"", "timeout = \"800ms\"");
    // The machine is never idle, because the disturber makes a page on a disk dirty again and again.
    sandbox.edit_plan("dirty = \"1GiB\"", "dirty = \"0B\"");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("disturber");
    let script = format!("while :; do echo page > '{}'; done", file.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    // It ends also if the run fails.
    let disturber = BackgroundRun::start(&sandbox, command);
    let (printed, _) = sandbox.expect(0, &["run", "plan.toml", "-q"]);
    drop(disturber);
    std::fs::remove_file(file).unwrap();
    let events = sandbox.run_text("events.jsonl");
    // Other tests may be busier than this disturber.
    assert!(events.contains("; meanwhile ") && events.contains("% of a CPU"), "{events}");
    assert!(printed.contains("Busy meanwhile: "), "{printed}");
    sandbox.assert_clean();
}
