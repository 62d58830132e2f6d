//! Every command as scripts and people see it: what it prints where, in which format, with which exit code.

use crate::common::{Place, program, stored, text};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A place with one stored run, and its id.
fn place() -> (Place, String) {
    let place = Place::new();
    let id = stored::run(&place.runs()).id();
    (place, id)
}

/// The standard output of a command with `COLUMNS` set to `columns`.
#[track_caller]
fn in_columns(place: &Place, columns: u16, args: &[&str]) -> String {
    let output = place.fsarena(args).env("COLUMNS", columns.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn help_of_commands_is_as_recorded() {
    let place = Place::new();
    insta::assert_snapshot!("help", in_columns(&place, 100, &["--help"]));
    for command in ["run", "report", "compare", "list", "show", "doctor", "recover", "exit-codes"] {
        let long = in_columns(&place, 100, &[command, "--help"]);
        insta::assert_snapshot!(format!("help_{command}"), long);
        assert_eq!(in_columns(&place, 100, &["help", command]), long);
        assert!(in_columns(&place, 100, &[command, "-h"]).len() <= long.len());
    }
    let (version, _) = place.expect(0, &["--version"]);
    assert_eq!(version, format!("fsarena {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_exit_code_is_documented() {
    let place = Place::new();
    let (codes, _) = place.expect(0, &["help", "exit-codes"]);
    for code in 0..=6 {
        assert!(codes.lines().any(|line| line.starts_with(&format!("{code}  "))), "{codes}");
    }
    let (plain, _) = place.expect(0, &["exit-codes"]);
    assert!(codes.starts_with(plain.trim_end()), "{codes}");
}

#[test]
fn the_report_of_a_stored_run_is_as_recorded() {
    let (place, id) = place();
    let record = fsarena_store::read(&fsarena_store::RunDir::find(&place.runs(), &id).unwrap()).unwrap();
    // As long as what they stand for, so that everything stays in its column.
    let known = |printed: String| {
        let printed = printed.replace(&id, "20261121-123456-example-abcd");
        let printed = printed.replace(&record.started, "2026-11-21T12:34:56.789Z");
        printed.replace(&record.started[..19].replace('T', " "), "2026-11-21 12:34:56")
    };
    insta::assert_snapshot!("report_term", known(in_columns(&place, 100, &["report"])));
    insta::assert_snapshot!("report_narrow", known(in_columns(&place, 60, &["report"])));
    insta::assert_snapshot!(
        "compare_published",
        known(in_columns(&place, 100, &["compare", "latest", "published:piszcz-II"]))
    );
    insta::assert_snapshot!("list_runs", known(in_columns(&place, 100, &["list", "runs"])));
}

#[test]
fn json_of_everything_that_lists_or_results() {
    let (place, id) = place();
    let json = |args: &[&str]| -> Value {
        let (printed, said) = place.expect(0, &[args, &["--format", "json"]].concat());
        assert_eq!(said, "", "{args:?}");
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{args:?}: {error}\n{printed}"))
    };
    for what in ["studies", "apps", "filesystems", "workloads", "metrics", "factors", "exporters", "runs"] {
        let rows = json(&["list", what]);
        assert!(!rows.as_array().unwrap().is_empty(), "{what}");
        let (table, _) = place.expect(0, &["list", what]);
        // A head and, where nothing is wrapped, a line a row.
        assert!(table.lines().count() > rows.as_array().unwrap().len(), "{table}");
    }
    assert_eq!(json(&["list", "runs"])[0]["run"], *id);
    assert!(json(&["doctor"]).as_array().unwrap().iter().all(|finding| finding["state"].is_string()));
    assert_eq!(json(&["report"])["run"]["id"], *id);
    assert_eq!(json(&["show", &id])["commands"][0]["command"]["argv"][2], "a file\nname");
    assert_eq!(json(&["show", "piszcz"])["plan"]["name"], "piszcz");
    assert!(json(&["compare", &id, "latest"]).is_object());
    assert!(json(&["compare", &id, "published:piszcz-II"]).is_object());
    // The author's own sum of his times, which he printed too.
    let published = json(&["show", "published:piszcz-I"]);
    assert!(published.to_string().contains("288.87"), "{published}");
}

#[test]
fn totals_of_published_figures_are_summed_from_them() {
    let place = Place::new();
    let (shown, _) = place.expect(0, &["show", "published:piszcz-I"]);
    let column = |line: &str| line.split_whitespace().rev().nth(1).unwrap().parse::<f64>().unwrap();
    let tasks = shown.lines().skip_while(|line| !line.starts_with(" 001")).take(21);
    let sum: f64 = tasks.map(column).sum();
    let total = shown.lines().find(|line| line.contains("TOTAL of 21")).map(column).unwrap();
    assert!((sum - total).abs() < 0.005, "{sum} instead of {total}\n{shown}");
}

#[test]
fn exports_are_what_report_prints() {
    let (place, _) = place();
    let formats = ["term", "md", "html", "csv", "json"];
    let exports = formats.map(|format| format!("{format}=out.{format}"));
    let args: Vec<&str> = exports.iter().flat_map(|export| ["--export", export]).collect();
    place.expect(0, &[&["report", "latest"][..], &args].concat());
    for format in formats {
        let (printed, _) = place.expect(0, &["report", "latest", "--format", format]);
        let file = std::fs::read_to_string(place.dir.join(format!("out.{format}"))).unwrap();
        if format == "md" {
            // A file has its charts beside it, standard output has no beside.
            let (before, after) = file.split_once("## Charts\n").expect("charts");
            let links = after.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
            let all = links.map(|link| assert!(place.dir.join(link).is_file(), "{link}")).count();
            let after = &after[after.find("\n## ").unwrap() + 1..];
            assert!(all > 3, "{all} charts");
            let (printed_before, said) = printed.split_once("## Charts\n").expect("how to get charts");
            let (said, printed_after) = said.split_at(said.find("\n## ").unwrap() + 1);
            assert!(said.contains("--export svg=charts\\`") && !said.contains("]("), "{said}");
            let charts = before.split("\n\n").skip_while(|part| !part.starts_with("![")).take(2);
            let charts: Vec<&str> = charts.collect();
            let before = before.replace(&format!("{}\n\n", charts.join("\n\n")), "");
            assert_eq!((before.as_str(), after), (printed_before, printed_after));
        } else {
            assert_eq!(file, printed, "{format}");
        }
    }
    let csv = std::fs::read_to_string(place.dir.join("out.csv")).unwrap();
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() == 1 + 8 * 3 * 4 && columns.iter().all(|count| *count == columns[0]), "{columns:?}");
}

#[test]
fn runs_are_found_by_id_beginning_directory_and_latest() {
    let (place, first) = place();
    let second = stored::run(&place.runs()).id();
    let shown = |name: &str| {
        let (json, _) = place.expect(0, &["report", name, "--format", "json"]);
        serde_json::from_str::<Value>(&json).unwrap()["run"]["id"].as_str().unwrap().to_string()
    };
    assert_eq!(shown(&first), first);
    assert_eq!(shown(&first[..first.len() - 1]), first);
    assert_eq!(shown(&format!("runs/{first}")), first);
    assert_eq!(shown("latest"), second);
    let (_, said) = place.expect(2, &["report", &first[..4]]);
    assert!(said.contains(&first) && said.contains(&second) && said.contains("several"), "{said}");
}

#[test]
fn unknown_names_are_usage_errors_with_proposals() {
    let (place, id) = place();
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
        let (printed, said) = place.expect(2, args);
        assert_eq!(printed, "", "{args:?}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?} says {said:?}, not {words:?}");
    }
    assert_eq!(std::fs::read_dir(place.runs()).unwrap().count(), 1, "a run was begun");
}

/// What would be run, and nothing is.
#[test]
fn a_dry_run_prints_the_plan_as_resolved() {
    let place = Place::new();
    let args = ["run", "--dry-run", "--on", "dir:home", "--scale", "tiny", "--seed", "3", "--set", "tasks=1,2"];
    let (printed, said) = place.expect(0, &args);
    assert_eq!(said, "");
    let plan: fsarena_core::plan::Plan = toml::from_str(&printed).unwrap();
    assert_eq!((plan.seed, plan.scale.name()), (3, "tiny"));
    assert!(printed.starts_with("# 1 variant: "), "{printed}");
    assert!(!place.runs().exists());
}

/// Results go to standard output and progress to standard error, without colour in a pipe.
#[test]
fn a_run_into_pipes() {
    let place = Place::new();
    let args = ["run", "plan.toml", "--on", "dir:home", "--export", "csv=out.csv"];
    let (printed, said) = place.expect(0, &args);
    assert!(printed.starts_with("test: A test\n") && printed.contains("\nReport: "), "{printed}");
    assert!(!printed.contains("round 1/1 done") && !printed.contains('\x1b'), "{printed}");
    assert!(said.starts_with("A test: Does it work?\nrun ") && said.contains("round 1/1 done"), "{said}");
    assert!(!said.contains("Touch") && !said.contains('\x1b') && !said.contains('\r'), "{said}");
    assert_eq!(std::fs::read_to_string(place.dir.join("out.csv")).unwrap(), place.run_text("samples.csv"));
    let (_, said) = place.expect(0, &["run", "plan.toml", "--on", "dir:home", "--quiet"]);
    assert_eq!(said, "");
}

/// Runs it on a terminal, as script(1) makes one.
fn on_a_terminal(place: &Place, variable: (&str, &str), args: &str) -> String {
    let report = format!("{} report {args}", program().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &report, "/dev/null"]);
    // Nothing else of the environment, where CI, CLICOLOR or SHELL would decide.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("FSARENA_RUNS", place.runs()).env("TERM", "xterm");
    let output = command.env(variable.0, variable.1).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn colour_only_on_a_terminal_and_only_where_wanted() {
    let (place, _) = place();
    let colored = |variable, args| on_a_terminal(&place, variable, args).contains('\x1b');
    assert!(colored(("NO_COLOR", ""), "") && colored(("NO_COLOR", "1"), "--color always"));
    assert!(!colored(("NO_COLOR", "1"), "") && !colored(("NO_COLOR", ""), "--color never"));
    assert!(!colored(("TERM", "dumb"), "") && !colored(("TERM", "dumb"), "--color=auto"));
    let piped = |args: &[&str]| place.expect(0, args).0.contains('\x1b');
    assert!(!piped(&["report"]) && piped(&["report", "--color", "always"]) && piped(&["--color=always", "help"]));
    let (_, said) = place.expect(2, &["--color", "always", "report", "--nothing"]);
    assert!(said.contains("\x1b["), "{said}");
}

#[test]
fn a_narrow_terminal_is_kept_to() {
    let (place, _) = place();
    for args in [&["report"][..], &["compare", "latest", "latest"], &["show", "published:piszcz-I"]] {
        let printed = in_columns(&place, 60, args);
        let widest = printed.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 60), "{widest:?}\n{printed}");
    }
    let wide = in_columns(&place, 200, &["list", "metrics"]);
    let narrow = in_columns(&place, 80, &["list", "metrics"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.lines().count() > wide.lines().count());
}

/// A reader that has gone has seen enough; a disk that is full is an error.
#[test]
fn a_closed_or_full_output_ends_a_report_with_the_right_code() {
    let (place, _) = place();
    for format in ["term", "md", "csv", "json"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = place.fsarena(&["report", "--format", format]);
        let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{format}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = place.fsarena(&["report", "--format", format]);
        let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(6) && said.contains("No space left"), "{format}: {said}");
    }
}
