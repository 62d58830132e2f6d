//! `--save-baseline` and `--baseline` through the real binary.

use crate::common::Sandbox;
use serde_json::Value;

/// Makes a sandbox with the directories `a` and `b`, and a plan of one command that takes five times as long in `b`.
fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        std::fs::create_dir_all(sandbox.dir.join(name)).unwrap();
    }
    let plan = "name = 'base'\ntitle = 'A base'\nquestion = 'Slower?'\nseed = 7\n[idle]\ntimeout = '50ms'\ndirty = '1GiB'\n\
                io_pressure_percent = 100.0\n[[workload]]\nuse = 'command'\n[[workload.task]]\nname = 'work'\n\
                cmd = 'case $FSARENA_VARIANT in */b) sleep 0.05;; *) sleep 0.01;; esac'\n";
    std::fs::write(sandbox.dir.join("plan.toml"), plan).unwrap();
    sandbox
}

#[test]
fn a_baseline_is_measured_again_beside_the_candidate() {
    let sandbox = make_sandbox();
    let save = ["run", "plan.toml", "--on", "dir:a", "--rounds", "2", "-q"];
    sandbox.expect(0, &[&save[..], &["--save-baseline", "main"]].concat());
    let stored = std::fs::read_to_string(sandbox.runs_dir().join("baselines/main/baseline.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["figures"][0]["values"].as_array().unwrap().len(), 2, "{stored}");
    assert!(stored["state"]["the kernel"].is_string() && stored["state"]["fsarena"].is_string());

    // The plan and the variant come from the baseline.
    let candidate = ["ab", "--baseline", "main", "--b", "dir=b", "-q", "--max-slowdown", "100%"];
    let (json, _) = sandbox.expect(3, &[&candidate[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> =
        report["variants"].as_array().unwrap().iter().map(|variant| variant["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"].map(|name| sandbox.dir.join(name).display().to_string()));
    assert_eq!(report["plan"]["seed"], 7);
    // Both variants have figures of every round of this run; the stored figures are only shown.
    let baseline = &report["baseline"];
    assert_eq!((&baseline["name"], &baseline["judged"]), (&"main".into(), &false.into()));
    assert!(baseline["figures"][0]["stored_median"].as_f64().unwrap() > 0.0);
    assert!(baseline["figures"][0]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(baseline["figures"][0]["ratio"], Value::Null);
    assert_eq!(baseline["changed"], Value::Array(vec![]));
    let (full, _) = sandbox.expect(3, &["report", "--full"]);
    assert!(full.contains("The baseline main, measured on ") && full.contains("are shown and not judged"), "{full}");

    // Another seed makes other work, which the report names as a change.
    let (json, _) = sandbox.expect(
        4,
        &["ab", "--baseline", "main", "--b", "dir=b", "-q", "--rounds", "1", "--seed", "8", "--format", "json"],
    );
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["baseline"]["changed"], serde_json::json!(["the work"]));
}

#[test]
fn the_candidate_becomes_the_next_baseline() {
    let sandbox = make_sandbox();
    let ab = ["ab", "plan.toml", "--a", "dir=a", "--b", "dir=b", "--rounds", "1", "-q", "--save-baseline"];
    let saved_variant = |name: &str| -> String {
        let file = sandbox.runs_dir().join("baselines").join(name).join("baseline.json");
        let stored: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        stored["variant"]["levels"]["dir"].as_str().unwrap().rsplit('/').next().unwrap().to_string()
    };
    sandbox.expect(4, &[&ab[..], &["next"]].concat());
    assert_eq!(saved_variant("next"), "b");
    let (listed, _) = sandbox.expect(0, &["list", "baselines", "--format", "json"]);
    let listing: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listing[0]["baseline"], listing.as_array().unwrap().len()), (&"next".into(), 1));
    let a = format!("next={}", sandbox.dir.join("a").display());
    sandbox.expect(4, &[&ab[..], &[&a]].concat());
    assert_eq!(saved_variant("next"), "a");
}

#[test]
fn baselines_that_cannot_be_named_or_found_are_usage_errors() {
    let sandbox = make_sandbox();
    let refusal = |args: &str| sandbox.expect(2, &args.split(' ').collect::<Vec<_>>()).1;
    assert!(refusal("ab --baseline none --b dir=b").contains("Unknown baseline `none`"));
    assert!(refusal("ab --baseline ../x --b dir=b").contains("cannot name a baseline"));
    assert!(refusal("run plan.toml --on dir:a --save-baseline .x").contains("cannot name a baseline"));
    let two = refusal("run plan.toml --on dir:a --on dir:b --save-baseline x");
    assert!(two.contains("name the variant to save: x=VARIANT"), "{two}");
    assert!(refusal("run plan.toml --on dir:a --save-baseline x=y").contains("Unknown variant `y`"));
    assert!(refusal("ab plan.toml --baseline x --b dir=b").contains("cannot be used with"));
    assert!(refusal("ab plan.toml --b dir=b").contains("--a"));
}
