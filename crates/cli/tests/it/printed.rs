//! Metrics that commands print: what they declare holds in reports, CSV, comparisons and merged shards.

use crate::common::Place;
use serde_json::Value;

const HEAD: &str = "name = \"own\"\nseed = 1\n[idle]\ntimeout = \"20ms\"\ndirty = \"1GiB\"\nio_pressure_percent = 100.0\n\
                    [[workload]]\nuse = \"command\"\n";
const RUN: [&str; 8] = ["run", "own.toml", "--on", "dir:a", "--on", "dir:b", "--rounds", "2"];

/// Two directories and a plan with these commands as tasks `t1`, `t2`.
fn place(commands: &[&str]) -> Place {
    let place = Place::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(place.dir.join(dir)).unwrap());
    plan(&place, "", commands);
    place
}

fn plan(place: &Place, settings: &str, commands: &[&str]) {
    let task =
        |(at, command): (usize, &&str)| format!("[[workload.task]]\nname = \"t{}\"\ncmd = '''{command}'''\n", at + 1);
    let tasks: String = commands.iter().enumerate().map(task).collect();
    std::fs::write(place.dir.join("own.toml"), format!("{HEAD}{settings}{tasks}")).unwrap();
}

/// A command that prints these metrics.
fn printing(metrics: &[(&str, f64, &str)]) -> String {
    let line = |(name, value, rest): &(&str, f64, &str)| format!("echo fsarena-metric: {name} {value} {rest}\n");
    metrics.iter().map(line).collect()
}

/// What all tasks make together, and what that is called.
type Total = Option<(f64, &'static str)>;

/// Each with its values of two tasks, and its total.
const ALL: [(&str, &str, [f64; 2], Total); 11] = [
    ("spent", "s lower over=sum", [1.0, 3.0], Some((4.0, "TOTAL"))),
    ("lat", "ns lower", [5.0, 7.0], None),
    ("peak", "bytes lower over_tasks=max", [10.0, 30.0], Some((30.0, "LARGEST"))),
    ("ops", "count higher", [100.0, 300.0], Some((400.0, "TOTAL"))),
    ("hits", "count higher", [50.0, 50.0], Some((100.0, "TOTAL"))),
    ("hit", "percent higher of=hits_count/ops_count", [50.0, 16.67], Some((25.0, "TOTAL"))),
    ("cost", "ns lower of=spent_s/ops_count", [1e7, 1e7], Some((1e7, "TOTAL"))),
    ("share", "ratio neutral over=mean", [0.5, 1.5], Some((1.0, "MEAN"))),
    ("bare", "ratio neutral", [0.5, 1.5], None),
    ("tps", "per_s higher", [1234.5, 2.0], None),
    ("least", "bytes_per_s higher over_tasks=min", [7.0, 5.0], Some((5.0, "SMALLEST"))),
];

#[test]
fn metrics_of_every_unit_combine_as_they_declare() {
    let of_task = |task: usize| printing(&ALL.map(|(name, rest, values, _)| (name, values[task], rest)));
    let place = place(&[&of_task(0), &of_task(1)]);
    for shard in ["0/2", "1/2"] {
        place.expect(0, &[&RUN[..], &["--quiet", "--shard", shard]].concat());
    }
    place.expect(0, &["merge", "runs", "--runs", "merged"]);
    let merged = std::fs::read_dir(place.dir.join("merged")).unwrap().next().unwrap().unwrap().path();
    let merged = merged.to_str().unwrap();
    for (name, rest, _, total) in ALL {
        let unit = rest.split(' ').next().unwrap();
        let id = format!("{name}_{unit}");
        let (json, _) = place.expect(0, &["report", merged, "--format", "json", "--metric", &id]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let overall = &json["analyses"][0]["overall"];
        let found = overall["total"]["variants"][0][format!("median_{unit}")].as_f64();
        match (found, total) {
            (None, None) => {}
            (Some(found), Some((total, _))) => assert!((found / total - 1.0).abs() < 1e-9, "{id}: {found}"),
            _ => panic!("{id}: {overall}"),
        }
        let (text, _) = place.expect(0, &["report", merged, "--full", "--metric", &id]);
        for word in ["TOTAL of", "LARGEST of", "MEAN of", "SMALLEST of"] {
            let expected = total.is_some_and(|(_, name)| word == format!("{name} of"));
            // The geometric mean ends with the same word.
            assert_eq!(text.replace("GEOMETRIC MEAN of", "").contains(word), expected, "{id}: {word}: {text}");
        }
    }
    let (csv, _) = place.expect(0, &["report", merged, "--format", "csv"]);
    let mut columns: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    columns.sort_unstable();
    let all = columns.len();
    columns.dedup();
    assert_eq!(columns.len(), all, "{columns:?}");
    // The name of a derived metric that the run lacks means the printed one, in flags, claims and CSV.
    let (text, _) = place.expect(0, &["report", merged, "--metric", "tps"]);
    assert!(text.contains("tps_per_s"), "{text}");
    std::fs::write(place.dir.join("samples.csv"), csv).unwrap();
    place.expect(0, &["compare", "samples.csv", "samples.csv"]);
}

#[test]
fn a_total_that_a_metric_has_not_cannot_be_claimed() {
    let metrics = [("lat", 5.0, "ns lower"), ("peak", 7.0, "bytes lower over_tasks=max")];
    let place = place(&[&printing(&metrics), &printing(&metrics)]);
    let [a, b] = ["a", "b"].map(|dir| place.dir.join(dir).display().to_string());
    let run = |subject| {
        let claim = format!("{subject}: \"{a}\" < \"{b}\"");
        place.expect(4, &[&RUN[..], &["--quiet", "--claim", &claim]].concat()).0
    };
    let printed = run("total.lat_ns");
    assert!(printed.contains("lat_ns cannot be summed over tasks"), "{printed}");
    assert!(!run("total.peak_bytes").contains("cannot be summed"));
}

#[test]
fn contradicting_declarations_fail_the_cell_and_name_both() {
    let (lower, higher) = (printing(&[("m", 1.0, "s lower")]), printing(&[("m", 1.0, "s higher")]));
    let place = place(&[]);
    // A variant whose cell failed leaves the run; the others go on.
    let says = |commands: &[&str], words: &[&str]| {
        plan(&place, "", commands);
        let output = place.output(&[&RUN[..], &["--quiet"]].concat());
        let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
        for word in ["m_s was declared as", "s lower", "s higher"].iter().chain(words) {
            assert!(said.contains(word), "{word}: {said}");
        }
    };
    // In one output, between tasks, between variants, and between rounds.
    says(&[&format!("{lower}{higher}")], &["by `fsarena-metric: m 1 s lower`"]);
    says(&[&lower, &higher], &["by task t1 of ", "by task t2 of "]);
    let by_variant = format!("case $FSARENA_VARIANT in */a) {lower};; *) {higher};; esac");
    says(&[&by_variant], &[" in round 1"]);
    let by_round = format!("if [ $FSARENA_ROUND = 1 ]; then {lower} else {higher} fi");
    says(&[&by_round], &[" in round 1 and as", " in round 2;"]);
    // Two units, in one output and between tasks.
    let [count, seconds, ns] = ["count", "s", "ns"].map(|unit| printing(&[("m", 1.0, &format!("{unit} lower"))]));
    for commands in [vec![format!("{count}{ns}")], vec![seconds, ns]] {
        plan(&place, "", &commands.iter().map(String::as_str).collect::<Vec<_>>());
        let said = crate::common::text(&place.output(&[&RUN[..], &["--quiet"]].concat()).stderr);
        assert!(said.contains("m was declared "), "{said}");
    }
}

#[test]
fn a_resumed_run_and_merged_shards_have_one_meaning_for_a_name() {
    let by_round = "if [ $FSARENA_ROUND = 1 ]; then echo fsarena-metric: m 1 s lower\n\
                    else echo fsarena-metric: m 1 s lower over=sum\nfi";
    let place = place(&[by_round]);
    for shard in ["0/2", "1/2"] {
        place.expect(0, &[&RUN[..], &["--quiet", "--shard", shard]].concat());
    }
    let (_, said) = place.expect(2, &["merge", "runs", "--runs", "merged"]);
    assert!(said.contains("cannot be merged: m_s was declared as `m_s s lower"), "{said}");
    assert!(said.contains("`m_s s lower over=sum`") && said.matches("runs/").count() >= 2, "{said}");
}

#[test]
fn names_that_are_taken_are_refused() {
    let place = place(&["echo v = 1"]);
    let refused = |rules: &[&str]| {
        let flags: Vec<&str> = rules.iter().flat_map(|rule| ["--metric-regex", rule]).collect();
        place.expect(2, &[&["run", "--on", "dir:a", "--cmd", "echo v = 1"], &flags[..]].concat()).1
    };
    // Before the run, where a rule says so.
    for (rule, own) in [
        ("elapsed ns lower: v = (.)", "elapsed_ns, which fsarena measures itself as elapsed_ns"),
        ("elapsed s lower: v = (.)", "elapsed_s, which fsarena measures itself as elapsed"),
        ("device_reads count lower: v = (.)", "device_reads_count, which fsarena measures itself as device_reads"),
    ] {
        let said = refused(&[rule]);
        assert!(said.contains(own) && said.contains("metric_regex of task `echo`"), "{said}");
    }
    let said = refused(&["v s lower: v = (.)", "v s higher: v = (.)"]);
    assert!(said.contains("v_s was declared as `v_s s lower` by metric_regex"), "{said}");
    let said = refused(&["v s lower over=rate: v = (.)"]);
    assert!(said.contains("Available: sum, max, min, mean, none"), "{said}");
    assert!(std::fs::read_dir(place.dir.join("runs")).is_err(), "no run was begun");
    // Else the cell fails.
    plan(&place, "", &["echo fsarena-metric: elapsed 1 s lower"]);
    let (_, said) = place.expect(2, &[&RUN[..], &["--quiet"]].concat());
    assert!(said.contains("elapsed_s, which fsarena measures itself as elapsed"), "{said}");
    plan(&place, "", &["echo fsarena-metric: x 1 ratio lower of=a_s/b_s"]);
    let output = place.output(&[&RUN[..], &["--quiet"]].concat());
    let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
    assert!(!output.status.success() && said.contains("no amount `a_s`"), "{said}");
}

#[test]
fn a_name_that_another_workload_of_the_run_measures_fails_the_cell() {
    let place = place(&["echo fsarena-metric: iops 5 per_s higher"]);
    place.expect(0, &[&RUN[..], &["--quiet"]].concat());
    let load = "[[workload]]\nuse = \"fileio\"\nmodes = [\"seqwr\"]\nevents = 20\nfiles = 1\ntotal_bytes = \"1MiB\"\n\
                direct = false\n";
    let own = std::fs::read_to_string(place.dir.join("own.toml")).unwrap();
    std::fs::write(place.dir.join("own.toml"), own + load).unwrap();
    let (_, said) = place.expect(2, &[&RUN[..], &["--quiet", "--scale", "tiny"]].concat());
    assert!(said.contains("printed iops_per_s") && said.contains("measured iops"), "{said}");
}
