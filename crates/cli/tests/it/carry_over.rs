//! A variant that slows down its successor, found through the real binary.

use crate::common::{Sandbox, runs_as_root};

/// A shim of `cp` that is slower if the cell before was that of ext4, according to the event log of the run.
const SLOW_CP_SCRIPT: &str = r#"
cells=$(grep -ho '"cell_started".*"variant":{"name":"[^"]*"' "$DIR"/runs/*/events.jsonl | tail -n 2)
case "$(echo "$cells" | head -n 1)" in *'"ext4"') sleep 0.1 ;; esac
exec "$REAL" "$@""#;

#[test]
fn a_variant_that_slows_down_the_next_is_named() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan("tasks = [1, 2, 3]", "tasks = [9, 12]");
    sandbox.edit_plan("driver = \"native\"", "driver = \"commands\"");
    sandbox.edit_plan("\"ext4\"", "\"ext2\", \"ext3\", \"ext4\"");
    sandbox.edit_plan("rounds = 1", "rounds = 8");
    sandbox.shim("cp", SLOW_CP_SCRIPT);
    let (printed, _) = sandbox.expect(0, &["run", "plan.toml", "-q"]);
    let flowed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains("Order effect (95% confidence)"), "{printed}");
    assert!(flowed.contains("right after ext4, elapsed of the other variants is"), "{printed}");
    sandbox.assert_clean();
}
