//! A machine that another process keeps busy.

use crate::common::{Place, root};
use std::process::Command;

#[test]
fn who_disturbed_is_named() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.edit_plan("timeout = \"50ms\"", "timeout = \"800ms\"");
    // Never idle: the disturber makes a page dirty again and again, on a disk.
    place.edit_plan("dirty = \"1GiB\"", "dirty = \"0B\"");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("disturber");
    let script = format!("while :; do echo page > '{}'; done", file.display());
    let mut disturber = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let (printed, _) = place.expect(0, &["run", "plan.toml", "-q"]);
    disturber.kill().unwrap();
    disturber.wait().unwrap();
    std::fs::remove_file(file).unwrap();
    let events = place.run_text("events.jsonl");
    // Other tests may be busier than this disturber.
    assert!(events.contains("; meanwhile ") && events.contains("% of a CPU"), "{events}");
    assert!(printed.contains("Busy meanwhile: "), "{printed}");
    place.assert_clean();
}
