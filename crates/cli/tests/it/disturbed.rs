//! A machine that somebody else keeps busy.

use crate::common::{Place, root};
use std::process::{Command, Stdio};

#[test]
fn who_disturbed_is_named() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.edit_plan("timeout = \"50ms\"", "timeout = \"800ms\"");
    // Never idle: there is always a dirty page somewhere, and the test makes sure of it.
    place.edit_plan("dirty = \"1GiB\"", "dirty = \"0B\"");
    std::fs::write(place.dir.join("dirty"), "page").unwrap();
    let mut disturber = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
    let (printed, _) = place.expect(0, &["run", "plan.toml", "-q"]);
    disturber.kill().unwrap();
    disturber.wait().unwrap();
    let events = place.run_text("events.jsonl");
    let named = events.lines().filter(|line| line.contains("; meanwhile ") && line.contains("yes ("));
    assert!(named.count() > 0, "{events}");
    assert!(printed.contains("Busy meanwhile: ") && printed.contains("yes "), "{printed}");
    place.assert_clean();
}
