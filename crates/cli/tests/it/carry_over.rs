//! A variant that slows down its successor, found through the real binary.

use crate::common::{Place, root};

/// Copies take longer where the cell before was that of ext4, as the events of the run tell.
const CP: &str = r#"
cells=$(grep -ho '"cell_started".*"variant":{"name":"[^"]*"' "$DIR"/runs/*/events.jsonl | tail -n 2)
case "$(echo "$cells" | head -n 1)" in *'"ext4"') sleep 0.1 ;; esac
exec "$REAL" "$@""#;

#[test]
fn a_variant_that_slows_down_the_next_is_named() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.edit_plan("tasks = [1, 2, 3]", "tasks = [9, 12]");
    place.edit_plan("driver = \"native\"", "driver = \"commands\"");
    place.edit_plan("\"ext4\"", "\"ext2\", \"ext3\", \"ext4\"");
    place.edit_plan("rounds = 1", "rounds = 8");
    place.shim("cp", CP);
    let (printed, _) = place.expect(0, &["run", "plan.toml", "-q"]);
    let flowed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains("Order effect (95% confidence)"), "{printed}");
    assert!(flowed.contains("right after ext4, elapsed of the other variants is"), "{printed}");
    place.assert_clean();
}
