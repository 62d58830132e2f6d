//! The output of every command: its streams, its formats and its exit codes.

use crate::common::{Sandbox, program, stored, text};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Makes a sandbox with one stored run. Returns the id of the run too.
fn make_sandbox() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let id = stored::store_run(&sandbox.runs_dir()).id();
    (sandbox, id)
}

/// The standard output of a command with `COLUMNS` set to `columns`.
#[track_caller]
fn output_in_columns(sandbox: &Sandbox, columns: u16, args: &[&str]) -> String {
    let output = sandbox.fsarena(args).env("COLUMNS", columns.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn help_of_commands_is_as_recorded() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!("help", output_in_columns(&sandbox, 100, &["--help"]));
    for command in ["run", "report", "compare", "list", "show", "doctor", "recover", "exit-codes"] {
        let long = output_in_columns(&sandbox, 100, &[command, "--help"]);
        insta::assert_snapshot!(format!("help_{command}"), long);
        assert_eq!(output_in_columns(&sandbox, 100, &["help", command]), long);
        assert!(output_in_columns(&sandbox, 100, &[command, "-h"]).len() <= long.len());
    }
    let (version, _) = sandbox.expect(0, &["--version"]);
    assert_eq!(version, format!("fsarena {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_exit_code_is_documented() {
    let sandbox = Sandbox::new();
    let (codes, _) = sandbox.expect(0, &["help", "exit-codes"]);
    for code in 0..=6 {
        assert!(codes.lines().any(|line| line.starts_with(&format!("{code}  "))), "{codes}");
    }
    let (plain, _) = sandbox.expect(0, &["exit-codes"]);
    assert!(codes.starts_with(plain.trim_end()), "{codes}");
}

#[test]
fn the_report_of_a_stored_run_is_as_recorded() {
    let (sandbox, id) = make_sandbox();
    let record = fsarena_store::read(&fsarena_store::RunDir::find(&sandbox.runs_dir(), &id).unwrap()).unwrap();
    // The replacements are as long as the originals, so that the columns stay aligned.
    let with_fixed_values = |printed: String| {
        let printed = printed.replace(&id, "20261121-123456-example-abcd");
        let printed = printed.replace(&record.started, "2026-11-21T12:34:56.789Z");
        printed.replace(&record.started[..19].replace('T', " "), "2026-11-21 12:34:56")
    };
    insta::assert_snapshot!("report_term", with_fixed_values(output_in_columns(&sandbox, 100, &["report"])));
    insta::assert_snapshot!("report_narrow", with_fixed_values(output_in_columns(&sandbox, 60, &["report"])));
    insta::assert_snapshot!(
        "compare_published",
        with_fixed_values(output_in_columns(&sandbox, 100, &["compare", "latest", "published:piszcz-II"]))
    );
    insta::assert_snapshot!("list_runs", with_fixed_values(output_in_columns(&sandbox, 100, &["list", "runs"])));
}

#[test]
fn every_list_and_result_is_available_as_json() {
    let (sandbox, id) = make_sandbox();
    let json = |args: &[&str]| -> Value {
        let (printed, stderr) = sandbox.expect(0, &[args, &["--format", "json"]].concat());
        assert_eq!(stderr, "", "{args:?}");
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{args:?}: {error}\n{printed}"))
    };
    for kind in ["studies", "apps", "filesystems", "workloads", "metrics", "factors", "exporters", "runs"] {
        let rows = json(&["list", kind]);
        assert!(!rows.as_array().unwrap().is_empty(), "{kind}");
        let (table, _) = sandbox.expect(0, &["list", kind]);
        // A header, and at least one line for each row.
        assert!(table.lines().count() > rows.as_array().unwrap().len(), "{table}");
    }
    assert_eq!(json(&["list", "runs"])[0]["run"], *id);
    assert!(json(&["doctor"]).as_array().unwrap().iter().all(|finding| finding["state"].is_string()));
    assert_eq!(json(&["report"])["run"]["id"], *id);
    assert_eq!(json(&["show", &id])["commands"][0]["command"]["argv"][2], "a file\nname");
    assert_eq!(json(&["show", "piszcz"])["plan"]["name"], "piszcz");
    assert!(json(&["compare", &id, "latest"]).is_object());
    assert!(json(&["compare", &id, "published:piszcz-II"]).is_object());
    // The sum of the author's times, which the publication has too.
    let published = json(&["show", "published:piszcz-I"]);
    assert!(published.to_string().contains("288.87"), "{published}");
}

#[test]
fn totals_of_published_figures_are_summed_from_them() {
    let sandbox = Sandbox::new();
    let (shown, _) = sandbox.expect(0, &["show", "published:piszcz-I"]);
    let column = |line: &str| line.split_whitespace().rev().nth(1).unwrap().parse::<f64>().unwrap();
    let tasks = shown.lines().skip_while(|line| !line.starts_with(" 001")).take(21);
    let sum: f64 = tasks.map(column).sum();
    let total = shown.lines().find(|line| line.contains("TOTAL of 21")).map(column).unwrap();
    assert!((sum - total).abs() < 0.005, "{sum} instead of {total}\n{shown}");
}

#[test]
fn an_export_equals_the_printed_report() {
    let (sandbox, _) = make_sandbox();
    let formats = ["term", "md", "html", "csv", "json"];
    let exports = formats.map(|format| format!("{format}=out.{format}"));
    let args: Vec<&str> = exports.iter().flat_map(|export| ["--export", export]).collect();
    sandbox.expect(0, &[&["report", "latest"][..], &args].concat());
    for format in formats {
        let (printed, _) = sandbox.expect(0, &["report", "latest", "--format", format]);
        let file = std::fs::read_to_string(sandbox.dir.join(format!("out.{format}"))).unwrap();
        if format == "md" {
            // A report in a file links to the charts beside it; on standard output it has the command that draws them.
            let (before, after) = file.split_once("## Charts\n").expect("charts");
            let links = after.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
            let chart_count = links.map(|link| assert!(sandbox.dir.join(link).is_file(), "{link}")).count();
            let after = &after[after.find("\n## ").unwrap() + 1..];
            assert!(chart_count > 3, "{chart_count} charts");
            let (printed_before, rest) = printed.split_once("## Charts\n").expect("how to get charts");
            let (advice, printed_after) = rest.split_at(rest.find("\n## ").unwrap() + 1);
            assert!(advice.contains("--export svg=charts\\`") && !advice.contains("]("), "{advice}");
            let charts = before.split("\n\n").skip_while(|part| !part.starts_with("![")).take(2);
            let charts: Vec<&str> = charts.collect();
            let before = before.replace(&format!("{}\n\n", charts.join("\n\n")), "");
            assert_eq!((before.as_str(), after), (printed_before, printed_after));
        } else {
            assert_eq!(file, printed, "{format}");
        }
    }
    let csv = std::fs::read_to_string(sandbox.dir.join("out.csv")).unwrap();
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() == 1 + 8 * 3 * 4 && columns.iter().all(|count| *count == columns[0]), "{columns:?}");
}

#[test]
fn runs_are_found_by_id_beginning_directory_and_latest() {
    let (sandbox, first) = make_sandbox();
    let second = stored::store_run(&sandbox.runs_dir()).id();
    let shown_id = |name: &str| {
        let (json, _) = sandbox.expect(0, &["report", name, "--format", "json"]);
        serde_json::from_str::<Value>(&json).unwrap()["run"]["id"].as_str().unwrap().to_string()
    };
    assert_eq!(shown_id(&first), first);
    assert_eq!(shown_id(&first[..first.len() - 1]), first);
    assert_eq!(shown_id(&format!("runs/{first}")), first);
    assert_eq!(shown_id("latest"), second);
    let (_, stderr) = sandbox.expect(2, &["report", &first[..4]]);
    assert!(stderr.contains(&first) && stderr.contains(&second) && stderr.contains("several"), "{stderr}");
}

#[test]
fn unknown_names_are_usage_errors_with_proposals() {
    let (sandbox, id) = make_sandbox();
    for (args, words) in [
        (&["reprot"][..], &["report"][..]),
        (&["list", "filesystem"], &["filesystems"]),
        (&["report", "nosuch"], &["nosuch", &id]),
        (&["report", "--format", "xml"], &["xml", "term, html, md, csv, json"]),
        (&["report", "--metric", "elapsd"], &["elapsd", "fsarena list metrics"]),
        (&["report", "--export", "pdf=x"], &["format `pdf`", "term, html, md, csv, json"]),
        (&["report", "--export", "md=no/such/dir"], &["no/such/dir"]),
        (&["compare", "latest", "published:piszcz-IX"], &["published:piszcz-II", "published:piszcz-I"]),
        (&["compare", "latest", "nosuch"], &["nosuch", &id]),
        (&["show", "published:x"], &["published:piszcz-II"]),
        (&["show", "nosuch"], &["nosuch", &id]),
        (&["show", "latest", "--format", "md"], &["term or json"]),
        (&["run", "--fs", "etx4"], &["Did you mean `ext4`?"]),
        (&["run", "--options", "noatme"], &["Did you mean `noatime`?"]),
        (&["run", "--set", "drvier=native"], &["Did you mean `driver`?"]),
        (&["run", "--set", "driver=magic"], &["one of commands, native"]),
        (&["run", "--metric", "elapsd"], &["elapsd", "fsarena list metrics"]),
        (&["run", "--export", "md=no/such/dir"], &["no/such/dir"]),
        (&["run", "--on", "floppy"], &["loop, loop:DIR, ram, zram, dir:PATH, qemu, exact"]),
        (&["run", "--on", "ram", "--on", "loop"], &["repeated for `dir:PATH` only"]),
        (&["run", "--resume", "nosuch"], &["nosuch", &id]),
        (&["run", "--rounds", "0"], &["at least one round"]),
    ] {
        let (printed, stderr) = sandbox.expect(2, args);
        assert_eq!(printed, "", "{args:?}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{args:?}: {stderr:?} lacks one of {words:?}");
    }
    assert_eq!(std::fs::read_dir(sandbox.runs_dir()).unwrap().count(), 1, "a run was begun");
}

#[test]
fn a_dry_run_prints_the_resolved_plan_and_runs_nothing() {
    let sandbox = Sandbox::new();
    let args = ["run", "--dry-run", "--on", "dir:home", "--scale", "tiny", "--seed", "3", "--set", "tasks=1,2"];
    let (printed, stderr) = sandbox.expect(0, &args);
    assert_eq!(stderr, "");
    let plan: fsarena_core::plan::Plan = toml::from_str(&printed).unwrap();
    assert_eq!((plan.seed, plan.scale.name()), (3, "tiny"));
    assert!(printed.starts_with("# 1 variant: "), "{printed}");
    assert!(!sandbox.runs_dir().exists());
}

/// Results go to standard output and progress to standard error, without colour in a pipe.
#[test]
fn a_run_prints_results_to_stdout_and_progress_to_stderr() {
    let sandbox = Sandbox::new();
    let args = ["run", "plan.toml", "--on", "dir:home", "--export", "csv=out.csv"];
    let (printed, stderr) = sandbox.expect(0, &args);
    assert!(printed.starts_with("test: A test\n") && printed.contains("\nReport: "), "{printed}");
    assert!(!printed.contains("round 1/1 done") && !printed.contains('\x1b'), "{printed}");
    assert!(stderr.starts_with("A test: Does it work?\nrun ") && stderr.contains("round 1/1 done"), "{stderr}");
    assert!(!stderr.contains("Touch") && !stderr.contains('\x1b') && !stderr.contains('\r'), "{stderr}");
    assert_eq!(std::fs::read_to_string(sandbox.dir.join("out.csv")).unwrap(), sandbox.run_text("samples.csv"));
    let (_, stderr) = sandbox.expect(0, &["run", "plan.toml", "--on", "dir:home", "--quiet"]);
    assert_eq!(stderr, "");
}

/// Runs `fsarena report` at a terminal, which script(1) makes. Returns its output.
fn report_at_a_terminal(sandbox: &Sandbox, variable: (&str, &str), args: &str) -> String {
    let report = format!("{} report {args}", program().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &report, "/dev/null"]);
    // Clear the environment, because CI, CLICOLOR and SHELL have an effect on colors.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("FSARENA_RUNS", sandbox.runs_dir()).env("TERM", "xterm");
    let output = command.env(variable.0, variable.1).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn colors_are_for_terminals_unless_flags_or_variables_decide() {
    let (sandbox, _) = make_sandbox();
    let colored = |variable, args| report_at_a_terminal(&sandbox, variable, args).contains('\x1b');
    assert!(colored(("NO_COLOR", ""), "") && colored(("NO_COLOR", "1"), "--color always"));
    assert!(!colored(("NO_COLOR", "1"), "") && !colored(("NO_COLOR", ""), "--color never"));
    assert!(!colored(("TERM", "dumb"), "") && !colored(("TERM", "dumb"), "--color=auto"));
    let piped = |args: &[&str]| sandbox.expect(0, args).0.contains('\x1b');
    assert!(!piped(&["report"]) && piped(&["report", "--color", "always"]) && piped(&["--color=always", "help"]));
    let (_, stderr) = sandbox.expect(2, &["--color", "always", "report", "--nothing"]);
    assert!(stderr.contains("\x1b["), "{stderr}");
}

#[test]
fn output_fits_a_narrow_terminal() {
    let (sandbox, _) = make_sandbox();
    for args in [&["report"][..], &["compare", "latest", "latest"], &["show", "published:piszcz-I"]] {
        let printed = output_in_columns(&sandbox, 60, args);
        let widest = printed.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 60), "{widest:?}\n{printed}");
    }
    let wide = output_in_columns(&sandbox, 200, &["list", "metrics"]);
    let narrow = output_in_columns(&sandbox, 80, &["list", "metrics"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.lines().count() > wide.lines().count());
}

/// A closed pipe is not an error, because its reader needs no more. A full disk is an error.
#[test]
fn a_closed_or_full_output_ends_a_report_with_the_right_code() {
    let (sandbox, _) = make_sandbox();
    for format in ["term", "md", "csv", "json"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.fsarena(&["report", "--format", format]);
        let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{format}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.fsarena(&["report", "--format", format]);
        let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(6) && stderr.contains("No space left"), "{format}: {stderr}");
    }
}

/// A history leaves out a run that cannot be read, and says so on standard error, which may be closed.
#[test]
fn a_closed_standard_error_does_not_end_a_history() {
    let (sandbox, _) = make_sandbox();
    let damaged = sandbox.runs_dir().join("20260101-000000-bad-2222");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("run.db"), "").unwrap();
    let (_, stderr) = sandbox.expect(0, &["history"]);
    assert!(stderr.contains("run 20260101-000000-bad-2222 is left out"), "{stderr}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = sandbox.fsarena(&["history"]).stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}
