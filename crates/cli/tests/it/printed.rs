//! Metrics that commands print: their declarations apply in reports, CSV, comparisons and merged shards.

use crate::common::Sandbox;
use serde_json::Value;

const PLAN_HEAD: &str = "name = \"own\"\nseed = 1\n[idle]\ntimeout = \"20ms\"\ndirty = \"1GiB\"\nio_pressure_percent = 100.0\n\
                    [[workload]]\nuse = \"command\"\n";
const RUN_ARGS: [&str; 8] = ["run", "own.toml", "--on", "dir:a", "--on", "dir:b", "--rounds", "2"];

/// Makes a sandbox with the directories `a` and `b`, and a plan with these commands as tasks `t1`, `t2`.
fn make_sandbox(commands: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(sandbox.dir.join(dir)).unwrap());
    write_plan(&sandbox, "", commands);
    sandbox
}

fn write_plan(sandbox: &Sandbox, settings: &str, commands: &[&str]) {
    let task = |(index, command): (usize, &&str)| {
        format!("[[workload.task]]\nname = \"t{}\"\ncmd = '''{command}'''\n", index + 1)
    };
    let tasks: String = commands.iter().enumerate().map(task).collect();
    std::fs::write(sandbox.dir.join("own.toml"), format!("{PLAN_HEAD}{settings}{tasks}")).unwrap();
}

/// A shell command that prints these metrics.
fn print_command(metrics: &[(&str, f64, &str)]) -> String {
    let line = |(name, value, rest): &(&str, f64, &str)| format!("echo fsarena-metric: {name} {value} {rest}\n");
    metrics.iter().map(line).collect()
}

/// The value over all tasks and the word that reports call it by; none if it has no meaning.
type Total = Option<(f64, &'static str)>;

/// Metrics: name, declaration, values of two tasks, and total.
const METRICS: [(&str, &str, [f64; 2], Total); 11] = [
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
    let command_of_task =
        |task: usize| print_command(&METRICS.map(|(name, rest, values, _)| (name, values[task], rest)));
    let sandbox = make_sandbox(&[&command_of_task(0), &command_of_task(1)]);
    for shard in ["0/2", "1/2"] {
        sandbox.expect(0, &[&RUN_ARGS[..], &["--quiet", "--shard", shard]].concat());
    }
    sandbox.expect(0, &["merge", "runs", "--runs", "merged"]);
    let merged = std::fs::read_dir(sandbox.dir.join("merged")).unwrap().next().unwrap().unwrap().path();
    let merged = merged.to_str().unwrap();
    for (name, rest, _, total) in METRICS {
        let unit = rest.split(' ').next().unwrap();
        let id = format!("{name}_{unit}");
        let (json, _) = sandbox.expect(0, &["report", merged, "--format", "json", "--metric", &id]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let overall = &json["analyses"][0]["overall"];
        let median = overall["total"]["variants"][0][format!("median_{unit}")].as_f64();
        match (median, total) {
            (None, None) => {}
            (Some(median), Some((total, _))) => assert!((median / total - 1.0).abs() < 1e-9, "{id}: {median}"),
            _ => panic!("{id}: {overall}"),
        }
        let (text, _) = sandbox.expect(0, &["report", merged, "--full", "--metric", &id]);
        for word in ["TOTAL of", "LARGEST of", "MEAN of", "SMALLEST of"] {
            let expected = total.is_some_and(|(_, name)| word == format!("{name} of"));
            // The geometric mean ends with the same word.
            assert_eq!(text.replace("GEOMETRIC MEAN of", "").contains(word), expected, "{id}: {word}: {text}");
        }
    }
    let (csv, _) = sandbox.expect(0, &["report", merged, "--format", "csv"]);
    let mut columns: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    columns.sort_unstable();
    let column_count = columns.len();
    columns.dedup();
    assert_eq!(columns.len(), column_count, "{columns:?}");
    // The name of a derived metric that the run lacks means the printed one, in flags, claims and CSV.
    let (text, _) = sandbox.expect(0, &["report", merged, "--metric", "tps"]);
    assert!(text.contains("tps_per_s"), "{text}");
    std::fs::write(sandbox.dir.join("samples.csv"), csv).unwrap();
    sandbox.expect(0, &["compare", "samples.csv", "samples.csv"]);
}

#[test]
fn a_claim_on_the_total_of_a_metric_without_total_has_no_verdict() {
    let metrics = [("lat", 5.0, "ns lower"), ("peak", 7.0, "bytes lower over_tasks=max")];
    let sandbox = make_sandbox(&[&print_command(&metrics), &print_command(&metrics)]);
    let [a, b] = ["a", "b"].map(|dir| sandbox.dir.join(dir).display().to_string());
    let run = |subject| {
        let claim = format!("{subject}: \"{a}\" < \"{b}\"");
        sandbox.expect(4, &[&RUN_ARGS[..], &["--quiet", "--claim", &claim]].concat()).0
    };
    let printed = run("total.lat_ns");
    assert!(printed.contains("lat_ns cannot be summed over tasks"), "{printed}");
    assert!(!run("total.peak_bytes").contains("cannot be summed"));
}

#[test]
fn contradicting_declarations_fail_the_cell_and_name_both() {
    let (lower, higher) = (print_command(&[("m", 1.0, "s lower")]), print_command(&[("m", 1.0, "s higher")]));
    let sandbox = make_sandbox(&[]);
    // A variant whose cell failed is not measured any more; the others are.
    let assert_failure = |commands: &[&str], words: &[&str]| {
        write_plan(&sandbox, "", commands);
        let output = sandbox.output(&[&RUN_ARGS[..], &["--quiet"]].concat());
        let texts = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
        for word in ["m_s was declared as", "s lower", "s higher"].iter().chain(words) {
            assert!(texts.contains(word), "{word}: {texts}");
        }
    };
    // In one output, between tasks, between variants, and between rounds.
    assert_failure(&[&format!("{lower}{higher}")], &["by `fsarena-metric: m 1 s lower`"]);
    assert_failure(&[&lower, &higher], &["by task t1 of ", "by task t2 of "]);
    let by_variant = format!("case $FSARENA_VARIANT in */a) {lower};; *) {higher};; esac");
    assert_failure(&[&by_variant], &[" in round 1"]);
    let by_round = format!("if [ $FSARENA_ROUND = 1 ]; then {lower} else {higher} fi");
    assert_failure(&[&by_round], &[" in round 1 and as", " in round 2;"]);
    // Two units, in one output and between tasks.
    let [count, seconds, ns] = ["count", "s", "ns"].map(|unit| print_command(&[("m", 1.0, &format!("{unit} lower"))]));
    for commands in [vec![format!("{count}{ns}")], vec![seconds, ns]] {
        write_plan(&sandbox, "", &commands.iter().map(String::as_str).collect::<Vec<_>>());
        let stderr = crate::common::text(&sandbox.output(&[&RUN_ARGS[..], &["--quiet"]].concat()).stderr);
        assert!(stderr.contains("m was declared "), "{stderr}");
    }
}

#[test]
fn shards_with_different_declarations_of_a_metric_cannot_be_merged() {
    let by_round = "if [ $FSARENA_ROUND = 1 ]; then echo fsarena-metric: m 1 s lower\n\
                    else echo fsarena-metric: m 1 s lower over=sum\nfi";
    let sandbox = make_sandbox(&[by_round]);
    for shard in ["0/2", "1/2"] {
        sandbox.expect(0, &[&RUN_ARGS[..], &["--quiet", "--shard", shard]].concat());
    }
    let (_, stderr) = sandbox.expect(2, &["merge", "runs", "--runs", "merged"]);
    assert!(stderr.contains("cannot be merged: m_s was declared as `m_s s lower"), "{stderr}");
    assert!(stderr.contains("`m_s s lower over=sum`") && stderr.matches("runs/").count() >= 2, "{stderr}");
}

#[test]
fn names_that_are_taken_are_refused() {
    let sandbox = make_sandbox(&["echo v = 1"]);
    let refusal = |rules: &[&str]| {
        let flags: Vec<&str> = rules.iter().flat_map(|rule| ["--metric-regex", rule]).collect();
        sandbox.expect(2, &[&["run", "--on", "dir:a", "--cmd", "echo v = 1"], &flags[..]].concat()).1
    };
    // A regex that declares the name is refused before the run.
    for (rule, words) in [
        ("elapsed ns lower: v = (.)", "elapsed_ns, which fsarena measures itself as elapsed_ns"),
        ("elapsed s lower: v = (.)", "elapsed_s, which fsarena measures itself as elapsed"),
        ("device_reads count lower: v = (.)", "device_reads_count, which fsarena measures itself as device_reads"),
    ] {
        let stderr = refusal(&[rule]);
        assert!(stderr.contains(words) && stderr.contains("metric_regex of task `echo`"), "{stderr}");
    }
    let stderr = refusal(&["v s lower: v = (.)", "v s higher: v = (.)"]);
    assert!(stderr.contains("v_s was declared as `v_s s lower` by metric_regex"), "{stderr}");
    let stderr = refusal(&["v s lower over=rate: v = (.)"]);
    assert!(stderr.contains("Available: sum, max, min, mean, none"), "{stderr}");
    assert!(std::fs::read_dir(sandbox.dir.join("runs")).is_err(), "no run was begun");
    // A command that prints the name fails the cell.
    write_plan(&sandbox, "", &["echo fsarena-metric: elapsed 1 s lower"]);
    let (_, stderr) = sandbox.expect(2, &[&RUN_ARGS[..], &["--quiet"]].concat());
    assert!(stderr.contains("elapsed_s, which fsarena measures itself as elapsed"), "{stderr}");
    write_plan(&sandbox, "", &["echo fsarena-metric: x 1 ratio lower of=a_s/b_s"]);
    let output = sandbox.output(&[&RUN_ARGS[..], &["--quiet"]].concat());
    let texts = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
    assert!(!output.status.success() && texts.contains("no amount `a_s`"), "{texts}");
}

#[test]
fn a_name_that_another_workload_of_the_run_measures_fails_the_cell() {
    let sandbox = make_sandbox(&["echo fsarena-metric: iops 5 per_s higher"]);
    sandbox.expect(0, &[&RUN_ARGS[..], &["--quiet"]].concat());
    let load = "[[workload]]\nuse = \"fileio\"\nmodes = [\"seqwr\"]\nevents = 20\nfiles = 1\ntotal_bytes = \"1MiB\"\n\
                direct = false\n";
    let own = std::fs::read_to_string(sandbox.dir.join("own.toml")).unwrap();
    std::fs::write(sandbox.dir.join("own.toml"), own + load).unwrap();
    let (_, stderr) = sandbox.expect(2, &[&RUN_ARGS[..], &["--quiet", "--scale", "tiny"]].concat());
    assert!(stderr.contains("printed iops_per_s") && stderr.contains("measured iops"), "{stderr}");
}
