//! Loads of several ranks, and their merged samples in the report.

use crate::common::{Workspace, run_to_end};

const FILEIO: &str = "[[workload]]\nuse = 'fileio'\nmodes = ['seqwr', 'rndrd']\nevents = 50\nfiles = 2\n\
                      total_bytes = '1MiB'\ndirect = false\n";

#[test]
fn a_merged_sample_has_the_operations_of_all_clients_and_their_common_time() {
    let Some(workspace) = Workspace::new() else { return };
    let (code, printed) = run_to_end(&mut workspace.plan_command(3, FILEIO, &[]));
    assert_eq!(code, 0, "{printed}");
    assert!(workspace.leftover_files().is_empty(), "{:?}", workspace.leftover_files());
    let columns = ["task", "clients_count", "read_operations_count", "common_ns", "start_spread_ns", "elapsed_ns"];
    let mut samples = workspace.samples(&columns);
    samples.sort();
    assert_eq!(samples.len(), 2, "{samples:?}");
    let read = &samples[0];
    assert!(read[0].starts_with("rndrd"));
    // 50 reads of each of 3 clients.
    assert_eq!((read[1].as_str(), read[2].as_str()), ("3", "150"));
    let number = |column: usize| read[column].parse::<f64>().unwrap();
    assert!(number(3) + number(4) <= number(5), "{read:?}");
}

#[test]
fn dbench_and_commands_run_on_all_ranks() {
    let Some(workspace) = Workspace::new() else { return };
    let plan = "[[workload]]\nuse = 'dbench-like'\nclients = [2]\nseconds = 0.2\nwarm_up = 0.0\n\
                [[workload]]\nuse = 'command'\n[[workload.task]]\nname = 'own'\n\
                cmd = 'echo fsarena-metric: tps 5 per_s higher'\n";
    let (code, printed) = run_to_end(&mut workspace.plan_command(2, plan, &[]));
    assert_eq!(code, 0, "{printed}");
    let samples = workspace.samples(&["task", "clients_count", "served_bytes_per_s", "tps_per_s"]);
    assert_eq!((samples[0][0].as_str(), samples[0][1].as_str()), ("dbench-like[clients=2]", "2"), "{samples:?}");
    assert!(samples[0][2].parse::<f64>().unwrap() > 0.0);
    // At most twice 5 a second: less if the ranks do not start and end at the same time.
    let tps: f64 = samples[1][3].parse().unwrap();
    assert!(tps > 0.0 && tps <= 10.0 + 1e-6, "{samples:?}");
}

#[test]
fn a_plan_that_sets_the_machine_of_one_rank_is_refused() {
    let Some(workspace) = Workspace::new() else { return };
    let (code, printed) =
        run_to_end(&mut workspace.plan_command(2, &format!("[factors]\ncpus = ['1']\n{FILEIO}"), &[]));
    assert!(code == 2 && printed.contains("`cpus` would be set on the machine of rank 0 alone"), "{printed}");
    assert!(workspace.leftover_files().is_empty());
}

#[test]
fn measure_prints_constants_and_finds_no_clock_offset_on_one_machine() {
    let Some(workspace) = Workspace::new() else { return };
    let (code, printed) = run_to_end(&mut workspace.job_command(3, &["measure"]));
    assert_eq!(code, 0, "{printed}");
    // The ranks have one clock, so every measured offset lies within its error.
    assert!(printed.contains(" 0 offsets larger than their error"), "{printed}");
    assert!(printed.contains("barrier, asleep: ") && printed.contains("barrier, awake: "), "{printed}");
}

#[test]
fn the_study_of_shared_directories_runs_and_reports_reads_from_a_cache() {
    let Some(workspace) = Workspace::new() else { return };
    let on = format!("dir:{}", workspace.path("shared").display());
    let (code, printed) = run_to_end(&mut workspace.job_command(2, &["run", "--on", &on, "--scale", "tiny"]));
    assert_eq!(code, 0, "{printed}");
    assert!(workspace.leftover_files().is_empty(), "{:?}", workspace.leftover_files());
    let samples = workspace.samples(&["task", "clients_count", "write_bandwidth_bytes_per_s", "all_operations_count"]);
    assert_eq!(samples.len(), 4 + 2 * 8, "{samples:?}");
    let row_of =
        |task: &str| samples.iter().find(|row| row[0] == task).unwrap_or_else(|| panic!("{task}: {samples:?}"));
    assert!(row_of("write-strided")[2].parse::<f64>().unwrap() > 0.0);
    // 20 names of each of two clients, in one directory.
    assert_eq!((row_of("create[dirs=shared]")[1].as_str(), row_of("create[dirs=shared]")[3].as_str()), ("2", "40"));
    let report = std::fs::read_to_string(workspace.run_file("report.md")).unwrap();
    assert!(report.contains("a cache of") && report.contains("did not come from the device"), "{report}");
}

#[test]
fn the_config_file_or_the_environment_sets_the_directory_of_runs() {
    let Some(workspace) = Workspace::new() else { return };
    let file = workspace.path("home/.config/fsarena/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let count_runs = |dir: &str| std::fs::read_dir(workspace.path(dir)).map_or(0, Iterator::count);
    let run_with_config = |config: &str, runs_variable: Option<&str>| {
        std::fs::write(&file, config).unwrap();
        let mut command = workspace.plan_command(1, FILEIO, &[]);
        command.env("HOME", workspace.path("home")).env_remove("XDG_CONFIG_HOME").env_remove("FSARENA_RUNS");
        command.envs(runs_variable.map(|dir| ("FSARENA_RUNS", dir)));
        run_to_end(&mut command)
    };
    // The settings of other commands are valid here, too.
    let config = "runs = '~/bench'\ncolor = 'never'\nserve.port = 8080\nrun.budget = '10m'\n";
    for (variable, dir) in [(None, "home/bench"), (Some("elsewhere"), "elsewhere")] {
        let (code, printed) = run_with_config(config, variable);
        assert!(code == 0 && count_runs(dir) == 1 && count_runs("runs") == 0, "{printed}");
    }
    let (code, printed) = run_with_config("[run]\nrounds = 'x'\n", None);
    assert!(code == 2 && printed.contains("config.toml, line 2, column 10: invalid value 'x'"), "{printed}");
}

#[test]
fn printed_metrics_of_every_unit_combine_over_ranks_as_declared() {
    let Some(workspace) = Workspace::new() else { return };
    // The name of the metric, the rest of the line that both ranks print, and the merged value.
    let metrics = [
        ("spent", "6 s lower", 6.0),
        ("work", "6 s lower over=sum", 12.0),
        ("lat", "7 ns lower", 7.0),
        ("peak", "8 bytes lower", 16.0),
        ("largest", "8 bytes lower over_ranks=max over_hosts=max", 8.0),
        ("ops", "3 count higher", 6.0),
        ("hit", "40 percent higher", 40.0),
        ("share", "0.5 ratio higher over=sum", 1.0),
        ("cost", "99 s lower of=work_s/ops_count", 2.0),
        ("rate", "5 per_s higher over_ranks=max over_hosts=max", 5.0),
        ("bw", "5 bytes_per_s higher over=sum", 10.0),
    ];
    let line = |(name, rest, _): &(&str, &str, f64)| format!("echo fsarena-metric: {name} {rest}\n");
    let mut script: String = metrics.iter().map(line).collect();
    // Only client 1 prints this metric.
    script += "case $FSARENA_DIR in *client-1) echo fsarena-metric: alone 4 count lower;; esac\n";
    let plan = format!("[[workload]]\nuse = 'command'\n[[workload.task]]\nname = 'own'\ncmd = \"\"\"{script}\"\"\"\n");
    let (code, printed) = run_to_end(&mut workspace.plan_command(2, &plan, &[]));
    assert_eq!(code, 0, "{printed}");
    let names = metrics.map(|(name, rest, _)| format!("{name}_{}", rest.split(' ').nth(1).unwrap()));
    let columns: Vec<&str> = names.iter().map(String::as_str).chain(["alone_count"]).collect();
    let samples = workspace.samples(&columns);
    let values: Vec<f64> = samples[0].iter().map(|value| value.parse().unwrap()).collect();
    let expected: Vec<f64> = metrics.iter().map(|(_, _, merged)| *merged).chain([4.0]).collect();
    assert_eq!(values, expected, "{columns:?}");
}

#[test]
fn ranks_that_declare_a_metric_differently_fail_the_cell() {
    let Some(workspace) = Workspace::new() else { return };
    let plan = "[[workload]]\nuse = 'command'\n[[workload.task]]\nname = 'own'\ncmd = '''case $FSARENA_DIR in\n\
                *client-1) echo fsarena-metric: m 1 s lower;;\n*) echo fsarena-metric: m 1 s higher;;\nesac'''\n";
    let (code, printed) = run_to_end(&mut workspace.plan_command(2, plan, &[]));
    assert_ne!(code, 0, "{printed}");
    assert!(printed.contains("m_s was declared as `m_s s") && printed.contains("by rank 0 on"), "{printed}");
    assert!(printed.contains("by rank 1 on"), "{printed}");
    assert!(workspace.leftover_files().is_empty(), "{:?}", workspace.leftover_files());
}
