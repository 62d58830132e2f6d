//! What the studies ask and what their figures say, through the real binary.

use crate::common::{Place, root};
use serde_json::Value;

fn json(place: &Place, args: &[&str]) -> Value {
    let (text, _) = place.expect(0, &[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_proxies_lead_with_what_their_table_shows() {
    let place = Place::new();
    let (text, _) = place.expect(0, &["compare", "published:wilton"]);
    let answer = text.split("Answer").nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    // The ratios are those of the table "Sample by sample", with xfs above: 1/2.23 and 1/2.60.
    let lead = "- xfs is lower than all 3 others by iowait per request: 0.419 [0.257–0.543] times reiserfs, \
                0.449 [0.232–0.632] times ext3, 0.384 [0.213–0.508] times jfs. - No two services differ \
                significantly by user per request or system per request";
    assert!(answer.starts_with(lead), "{answer}");
    let compared = json(&place, &["compare", "published:wilton"]);
    assert_eq!(compared["paired"][0]["samples"], 10, "a daily average does not count as a sample");
    let shown = json(&place, &["show", "published:wilton"]);
    assert_eq!(compared["conclusions"], shown["conclusions"]);
}

/// The options of mkfs by variant, in the dry run of a study.
fn dry(place: &Place, args: &[&str]) -> String {
    place.expect(0, &[&["run", "--dry-run"], args].concat()).0
}

#[test]
fn the_slow_cpu_is_a_variant_and_the_conclusions_are_about_the_fast_one() {
    if !root() {
        return;
    }
    let place = Place::new();
    let asked = dry(&place, &["gus3", "--fs", "ext2,ext4", "--options", "default", "--factor", "cpu_speed=,50%"]);
    // Each filesystem under each of four schedulers, at both speeds.
    assert!(asked.contains("# 16 variants: ext2/none/plain, ext2/none/50%"), "{asked}");
    // One of its stages, without the idle wait.
    let plan = "name = \"gus3\"\n[factors]\nfs = [\"ext2\", \"ext4\"]\ncpu_speed = [\"\", \"50%\"]\n[stop]\n\
                rounds = 1\n[idle]\ntimeout = \"1ms\"\n[[workload]]\nuse = \"dbench-like\"\nclients = 5\n\
                seconds = 0.1\n[[stage]]\nname = \"saturation\"\n";
    std::fs::write(place.dir.join("plan.toml"), plan).unwrap();
    place.expect(0, &["run", "plan.toml", "--quiet", "--scale", "tiny"]);
    place.assert_clean();
    let report = json(&place, &["report", "latest"]);
    let variants = report["variants"].to_string();
    assert!(["ext2/plain", "ext2/50%"].iter().all(|name| variants.contains(name)), "{variants}");
    let all = report["conclusions"].as_array().unwrap();
    let first = all.iter().find(|one| one["says"].as_str().unwrap().contains("ext2 is first")).unwrap();
    // Of the six rivals ext4 alone took part.
    assert_eq!((&first["here"]["checked"], &first["here"]["of"]), (&1.into(), &6.into()), "{first:#}");
}

#[test]
fn extents_are_peiffers_patch_and_his_roles_are_those_of_the_run() {
    if !root() {
        return;
    }
    let place = Place::new();
    for (args, variants) in [
        (&["peiffer"][..], "# 2 variants: before, after\n"),
        (&["peiffer", "--factor", "memory=,64MiB"], "before/plain, before/64MiB, after/plain, after/64MiB\n"),
        (&["peiffer", "--fs", "ext2,ext4"], "# 2 variants: ext2, ext4\n"),
    ] {
        let plan = dry(&place, args);
        assert!(plan.contains(variants), "{plan}");
    }
    assert!(dry(&place, &["peiffer", "--scale", "paper"]).contains("rounds = 100\n"));
    for dir in ["one", "two"] {
        std::fs::create_dir(place.dir.join(dir)).unwrap();
        std::fs::write(place.dir.join(dir).join(dir), dir).unwrap();
    }
    let trees = ["--tree", "one", "--tree", "two"];
    let run = ["run", "peiffer", "--quiet", "--scale", "tiny", "--rounds", "1", "--set", "driver=native"];
    place.expect(0, &[&run[..], &trees].concat());
    place.assert_clean();
    let report = json(&place, &["report", "latest"]);
    assert!(report.to_string().contains("/one and "), "{report:#}");
    let features = |name: &str| {
        let text = place.run_text("report.md");
        let line = text.lines().find(|line| line.starts_with(&format!("| {name} | mkfs | ")));
        line.unwrap_or_else(|| panic!("{text}")).contains("extent")
    };
    assert!(features("before") && features("after"));
    let compared = json(&place, &["compare", "latest", "published:peiffer-1"]);
    assert_eq!(compared["tasks"][0]["variants"], serde_json::json!(["before", "after"]));

    let shown = json(&place, &["show", "published:peiffer-2"]);
    let differences: Vec<&Value> = shown["figures"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|figure| figure.get("system_difference_percent"))
        .collect();
    assert_eq!(differences, [-0.14, 0.0]);
}

#[test]
fn two_variants_of_any_name_take_the_roles_in_order() {
    if !root() {
        return;
    }
    let place = Place::new();
    let ab = "ab peiffer --quiet --scale tiny --rounds 1 --set driver=native --a fs=ext2 --b fs=ext4";
    place.expect(4, &ab.split_whitespace().collect::<Vec<_>>());
    let (text, _) = place.expect(0, &["compare", "latest", "published:peiffer-1"]);
    assert!(text.contains("Matched to the published variants by position: ext2 as before, ext4 as after."), "{text}");
}

#[test]
fn two_published_sets_say_whether_the_order_changed() {
    let place = Place::new();
    let args = ["compare", "published:piszcz-I", "published:piszcz-II"];
    let compared = json(&place, &args);
    let answer: Vec<&str> = compared["answer"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    // Sums by awk over the file: xfs 288.87 s and then 358.31 s, jfs 322.09 s and then 288.56 s.
    let lead = "The order over all 21 tasks changed from piszcz-I to piszcz-II: xfs was first in piszcz-I, jfs in \
                piszcz-II; the best filesystem differs in 13 of the tasks.";
    assert_eq!(answer[0], lead);
    assert!(answer.iter().any(|line| line.starts_with("xfs: 1.24 times the total; lower in 4 of 21")), "{answer:#?}");
    assert_eq!(*answer.last().unwrap(), "Not compared, only in piszcz-II: reiser4.");
    assert_eq!(compared["tasks"].as_array().unwrap().len(), 21);
    let (text, _) = place.expect(0, &args);
    assert!(text.contains("Dell Optiplex GX1") && text.contains("first in piszcz-II"), "{text}");
    let (_, said) = place.expect(2, &["compare", "published:piszcz-I", "published:engel"]);
    assert!(said.contains("Unknown metric `elapsed`"), "{said}");
    let (_, said) = place.expect(2, &["compare", "published:piszcz-I", "published:peiffer-1"]);
    assert!(said.contains("no two variants in common"), "{said}");
}

#[test]
fn figures_outside_the_work_have_their_kind_and_are_in_no_total() {
    let place = Place::new();
    let shown = json(&place, &["show", "published:piszcz-II"]);
    let mkfs = shown["figures"].as_array().unwrap().iter().find(|figure| figure["task"] == "mkfs").unwrap();
    assert_eq!((&mkfs["elapsed_s"], &mkfs["kind"]), (&2.62.into(), &"stated".into()));
    assert_eq!(shown["machine"]["memory"], "768 MB");
    assert!((shown["totals"]["elapsed_s"]["ext2"].as_f64().unwrap() - 359.81).abs() < 1e-9);
    let (text, _) = place.expect(0, &["show", "published:piszcz-II"]);
    assert!(text.contains("2.62 s (stated)") && text.contains("TOTAL of 21 tasks"), "{text}");
}

#[test]
fn the_paper_scale_of_wilton_is_his() {
    let place = Place::new();
    let args = "wilton --scale paper --on dir:home --set cache_bytes=1048576";
    let plan = dry(&place, &args.split_whitespace().collect::<Vec<_>>());
    assert!(plan.contains("rates = [14, 30, 60]") && plan.contains("rounds = 10"), "{plan}");
    if !root() {
        return;
    }
    let args = ["wilton", "--fs", "ext3,ext4", "--set", "cache_bytes=1048576"];
    let paper = dry(&place, &[&args[..], &["--scale", "paper"]].concat());
    assert_eq!(paper.matches("memory = \"512MiB\"").count(), 2, "{paper}");
    let own = dry(&place, &[&args[..], &["--scale", "paper", "--factor", "memory=,1GiB"]].concat());
    assert!(own.contains("ext3/plain, ext3/1GiB, ext4/plain, ext4/1GiB"), "{own}");
    assert!(!dry(&place, &args).contains("memory = "));
    // Conclusions name the middle rate of either scale, and one of the two is enough.
    let shown = json(&place, &["show", "wilton"]);
    let claims = shown["plan"]["conclusion"][0]["claims"].to_string();
    assert!(claims.contains("iowait_per_request[rate=30|400|2000]"), "{claims}");
    let run = "run wilton --quiet --on ram --scale tiny --fs ext3,ext4 --set rates=30 --rounds 1 --claim";
    let claim = "iowait_per_request[rate=30|400|2000]: ext3 < ext4";
    place.expect(4, &[&run.split_whitespace().collect::<Vec<_>>()[..], &[claim]].concat());
    let shown = json(&place, &["show", "published:wilton"]);
    assert_eq!(shown["conclusions"][0]["then"]["outcome"], "held");
}
