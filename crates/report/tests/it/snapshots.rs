//! Snapshots of the reports and comparisons of small runs, in each format.

use crate::fixture::{self, max_line_width, render_page, unwrap_lines};
use fsarena_core::cell::TaskId;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Backing, Emulator, GuestPlan};
use fsarena_core::published::{PublishedSet, parse_published};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::compare::{compare_published, compare_runs_or_watches, compare_samples};
use fsarena_report::error::Error;
use fsarena_report::{import::parse as parse_samples, page::ComparisonReport, published};

const FILESYSTEMS: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

fn compare_runs(a: &RunRecord, b: &RunRecord, metric: &str) -> Result<ComparisonReport, Error> {
    compare_runs_or_watches(&[a.clone(), b.clone()], metric)
}

/// Analyses a run by these metrics, and exports the report. The format `full` is the whole report for the terminal.
fn export_run(record: RunRecord, format: &str, metrics: &[&str]) -> String {
    let mut report = fixture::report(record, metrics).unwrap();
    report.is_full = format == "full";
    fixture::export(&report, if report.is_full { "term" } else { format })
}

fn render_comparison(comparison: &ComparisonReport, format: &str) -> String {
    render_page(&comparison.page(), format)
}

/// Published figures of the tasks in the fixture.
fn published_figures() -> Vec<PublishedSet> {
    let csv = "set,task,title,filesystem,metric,value,unit\n\
               I,001,Touch,ext2,elapsed,2,s\nI,001,Touch,xfs,elapsed,1.25,s\nI,001,Touch,jfs,elapsed,0.5,s\n\
               I,009,Untar,ext2,elapsed,10,s\nI,009,Untar,xfs,elapsed,12,s\nI,009,Untar,jfs,elapsed,11,s\n\
               I,011,Remove,ext2,elapsed,3,s\nI,011,Remove,xfs,elapsed,3,s\nI,011,Remove,jfs,elapsed,4,s\n\
               I,001,Touch,ext2,cpu_utilization,98,percent\nI,001,Touch,xfs,cpu_utilization,97,percent\n";
    let tasks = [("001", "touch"), ("009", "untar"), ("011", "rm-tree")];
    parse_published("old", csv, &tasks.map(|(number, task)| (number.to_string(), task.to_string())).into()).unwrap()
}

#[test]
fn five_filesystems_in_each_format() {
    let mut record = fixture::run(&FILESYSTEMS, 10);
    let warning =
        Note::new(NoteKind::Fairness, "writes without barriers").variant("ext2").fix("mount it with barrier=1");
    record.notes.push((None, warning.clone()));
    record.notes.push((None, Note { variant: Some("ext3".into()), ..warning }));
    for round in [2, 5] {
        let note = Note::new(NoteKind::IdleTimeout, "9 MiB dirty").variant("btrfs").task("untar");
        record.notes.push((Some(round), note));
    }
    record.notes.push((Some(4), Note::new(NoteKind::Dropped, "the CPU was throttled")));
    record.notes.push((None, Note::new(NoteKind::Remark, "cp made no reflinks")));
    let term = export_run(record.clone(), "term", &[]);
    assert!(max_line_width(&term) <= 100, "{}", max_line_width(&term));
    insta::assert_snapshot!("five_term", term);
    insta::assert_snapshot!("five_md", export_run(record, "md", &[]));
}

#[test]
fn two_filesystems_as_csv_and_json() {
    let record = fixture::run(&["ext4", "xfs"], 2);
    insta::assert_snapshot!("two_csv", export_run(record.clone(), "csv", &[]));
    insta::assert_snapshot!("two_json", export_run(record, "json", &["elapsed"]));
}

#[test]
fn a_report_of_few_rounds_is_provisional() {
    insta::assert_snapshot!("provisional_term", export_run(fixture::run(&FILESYSTEMS[..3], 3), "term", &["elapsed"]));
}

#[test]
fn a_failed_variant_is_listed_with_its_error_message() {
    insta::assert_snapshot!(
        "failed_term",
        export_run(fixture::run_with_failure(&FILESYSTEMS[2..], 9), "term", &["elapsed"])
    );
}

#[test]
fn nine_variants_fit_the_terminal() {
    let names: Vec<String> = (1..=9).map(|number| format!("ext4/option-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let term = export_run(fixture::run(&names, 8), "term", &["synced"]);
    assert!(max_line_width(&term) <= 100, "{}", max_line_width(&term));
    insta::assert_snapshot!("nine_term", term);
}

#[test]
fn runs_of_one_variant_or_without_samples_have_reports() {
    insta::assert_snapshot!("one_term", export_run(fixture::run(&["xfs"], 8), "term", &["elapsed"]));
    let empty = export_run(fixture::run(&FILESYSTEMS, 0), "md", &[]);
    assert!(empty.contains("Nothing was measured"), "{empty}");
    export_run(fixture::run(&FILESYSTEMS, 0), "json", &[]);
    export_run(fixture::run(&FILESYSTEMS, 0), "csv", &[]);
}

#[test]
fn hostile_names_are_escaped_in_a_report() {
    let hostile = "e\u{1b}[2Jvil|`x`\n\"<b>\u{202e},";
    let mut record = fixture::run(&["ext4", hostile], 8);
    record.notes.push((None, Note::new(NoteKind::Fairness, "# not a\n\theading\u{7}").variant(hostile)));
    record.plan.question = "```\n# Which?\u{9b}31m".into();
    for format in ["term", "md"] {
        let text = export_run(record.clone(), format, &["elapsed"]);
        assert!(text.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')), "{format}");
        insta::assert_snapshot!(format!("hostile_{format}"), text);
    }
    let csv = export_run(record.clone(), "csv", &[]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let variants: std::collections::BTreeSet<String> =
        reader.records().map(|row| row.unwrap()[3].to_string()).collect();
    assert_eq!(variants, [hostile.to_string(), "ext4".into()].into());
    let json: serde_json::Value = serde_json::from_str(&export_run(record, "json", &[])).unwrap();
    assert_eq!(json["variants"][1]["name"], hostile);
}

#[test]
fn a_report_has_colours_only_if_the_screen_has() {
    let mut report = fixture::report(fixture::run(&FILESYSTEMS, 8), &["elapsed"]).unwrap();
    assert!(!fixture::export(&report, "term").contains('\u{1b}'));
    report.screen.has_colour = true;
    assert!(fixture::export(&report, "term").contains('\u{1b}'));
}

#[test]
fn a_report_fits_narrow_and_wide_terminals() {
    let mut report = fixture::report(fixture::run(&FILESYSTEMS, 8), &["elapsed"]).unwrap();
    for width in [60, 80, 200] {
        report.screen.width = Some(width);
        let line_width = max_line_width(&fixture::export(&report, "term"));
        assert!(line_width <= usize::from(width), "{line_width} at {width}");
    }
}

#[test]
fn two_runs_side_by_side() {
    let (a, mut b) = (fixture::run(&FILESYSTEMS[..3], 8), fixture::run(&["ext4", "ext2", "btrfs"], 8));
    b.id = "2026-11-22-piszcz".into();
    b.hosts[0].kernel = "6.19.0".into();
    let comparison = compare_runs(&a, &b, "elapsed").unwrap();
    insta::assert_snapshot!("runs_term", render_comparison(&comparison, "term"));
    insta::assert_snapshot!("runs_json", render_comparison(&comparison, "json"));
    b.version = "0.2.0".into();
    b.variants[0].levels.insert("options".into(), "noatime".into());
    let answer = compare_runs(&a, &b, "elapsed").unwrap().json["answer"].to_string();
    assert!(answer.contains("The version of fsarena differs: 0.1.0 in "), "{answer}");
    assert!(answer.contains("The settings of 1 variant (ext4) differ"), "{answer}");
    let error = compare_runs(&a, &fixture::run(&["jfs"], 8), "elapsed").unwrap_err().to_string();
    assert!(error.contains("they have no variant in common"), "{error}");
}

#[test]
fn three_runs_in_one_table() {
    let mut records = vec![fixture::run(&FILESYSTEMS[..3], 8)];
    for (id, variants) in [("second", &["ext4", "ext2"][..]), ("third", &["ext2", "ext3", "ext4"])] {
        let record = RunRecord { id: id.into(), ..fixture::run(variants, 8) };
        records.push(record);
    }
    let comparison = compare_runs_or_watches(&records, "elapsed").unwrap();
    let text = render_comparison(&comparison, "term");
    insta::assert_snapshot!("three_runs_term", text);
    // One row for each task and variant, with the ratios of both other runs.
    let row = text.lines().find(|line| line.contains("009 Untar the tree, ext4")).unwrap();
    assert_eq!(row.matches('.').count(), 2, "{row}");
    assert_eq!(comparison.json["comparisons"].as_array().unwrap().len(), 2);
    assert_eq!(comparison.chart.unwrap().legend.len(), 2);
}

#[test]
fn runs_that_cannot_be_compared_with_the_first_are_left_out() {
    let run = |id: &str, variants: &[&str]| RunRecord { id: id.into(), ..fixture::run(variants, 8) };
    let records =
        [("first", "ext4"), ("strange", "jfs"), ("third", "ext4"), ("fourth", "ext4")].map(|(id, fs)| run(id, &[fs]));
    let comparison = compare_runs_or_watches(&records, "elapsed").unwrap();
    assert_eq!(comparison.json["comparisons"].as_array().unwrap().len(), 2);
    let answer = comparison.json["answer"].to_string();
    assert!(answer.contains("Left out: ") && answer.contains("strange") && !answer.contains("third"), "{answer}");
    let error = compare_runs_or_watches(&records[..2], "elapsed").unwrap_err().to_string();
    assert!(error.contains("strange"), "{error}");
}

#[test]
fn every_comparison_starts_with_the_answer() {
    let (a, b) = (fixture::run(&FILESYSTEMS[..3], 8), fixture::run(&FILESYSTEMS[..3], 8));
    let runs = compare_runs(&a, &b, "elapsed").unwrap();
    let published = compare_published(&fixture::run(&FILESYSTEMS, 8), &published_figures()[0], "elapsed").unwrap();
    let import = |name: &str, text: &str| parse_samples(name, text.as_bytes(), None).unwrap();
    let files = [import("a.csv", "round,x\n1,1\n2,2\n3,3\n"), import("b.csv", "round,x\n1,2\n2,3\n3,5\n")];
    let samples = compare_samples(&files[0], &files[1], None, 0.01).unwrap();
    for comparison in [runs, published, samples] {
        let html = render_comparison(&comparison, "html");
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} in {html}"));
        // The answer is first, then the chart, the tables and the method follow.
        let order = ["id=\"answer\"", "<svg", "id=\"data\"", "id=\"method\""].map(position);
        assert!(order.is_sorted(), "{html}");
        assert!(html.contains("Content-Security-Policy"));
        for format in ["term", "md", "html"] {
            let text = unwrap_lines(&render_comparison(&comparison, format));
            let answer = comparison.json["answer"][0].as_str().unwrap();
            assert!(text.contains(answer), "{answer} in {text}");
        }
    }
}

#[test]
fn hostile_names_are_escaped_in_a_comparison() {
    let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'&";
    let mut a = fixture::run(&["ext4", hostile], 8);
    (a.id, a.plan.name, a.hosts[0].hostname) = (hostile.into(), hostile.into(), hostile.into());
    a.notes.push((None, Note::new(NoteKind::Fairness, hostile).variant(hostile)));
    let b = RunRecord { id: "b".into(), ..a.clone() };
    let runs = [a.clone(), b, a];
    let csv = format!("name,round,x\n{hostile},1,1\nother,1,2\n").replace(['"', '\''], "");
    let file = parse_samples(hostile, csv.as_bytes(), None).unwrap();
    let comparisons = [
        compare_runs_or_watches(&runs[..2], "elapsed").unwrap(),
        compare_runs_or_watches(&runs, "elapsed").unwrap(),
        compare_samples(&file, &file, None, 0.01).unwrap(),
    ];
    for comparison in comparisons {
        let html = render_comparison(&comparison, "html");
        // The only `script` elements are the data and the script of the page.
        assert_eq!(html.matches("<script").count(), 2, "{html}");
        assert!(html.contains("&#60;script&#62;") && html.contains("&lt;script&gt;"), "{html}");
        assert!(html.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')));
    }
}

#[test]
fn a_task_with_another_title_is_compared() {
    let a = fixture::run(&FILESYSTEMS[..2], 8);
    let mut b = RunRecord { id: "b".into(), ..a.clone() };
    b.tasks[3].title = "Unpack the tree".into();
    let answer = compare_runs(&a, &b, "elapsed").unwrap().json["answer"].to_string();
    assert!(!answer.contains("Not compared"), "{answer}");
    b.tasks[3].id = TaskId::new("unpack");
    let answer = compare_runs(&a, &b, "elapsed").unwrap().json["answer"].to_string();
    assert!(answer.contains("only A has values: 1 task (009 Untar the tree)"), "{answer}");
    assert!(answer.contains("only B has values: 1 task (009 Unpack the tree)"), "{answer}");
}

#[test]
fn orders_over_other_tasks_are_not_compared() {
    let total_order = |a: &RunRecord, b: &RunRecord| {
        let json = compare_runs(a, b, "elapsed").unwrap().json;
        json["tasks"].as_array().unwrap().last().unwrap()["order"].clone()
    };
    let b = fixture::run(&FILESYSTEMS[..2], 8);
    let mut a = RunRecord { id: "a".into(), ..b.clone() };
    assert!(total_order(&a, &b).is_object());
    // In a, untar is bound by the load generator, so its total is over touch, rm-tree and mkfs, which b does not count.
    a.tasks[0].in_totals = true;
    a.tasks[0].id = TaskId::new("mkfs-of-a");
    a.readings.push(MetricSpec::new("client_ratio".into(), Unit::Ratio, Direction::Neutral, String::new()));
    let untar = |task: &u32| if *task == 3 { 0.5 } else { f64::NAN };
    a.samples.values.push(a.samples.task.iter().map(untar).collect());
    assert!(total_order(&a, &b).is_null());
}

#[test]
fn a_run_beside_published_figures() {
    let comparison = compare_published(&fixture::run(&FILESYSTEMS, 8), &published_figures()[0], "elapsed").unwrap();
    insta::assert_snapshot!("published_term", render_comparison(&comparison, "term"));
    insta::assert_snapshot!("published_md", render_comparison(&comparison, "md"));
    insta::assert_snapshot!("published_json", render_comparison(&comparison, "json"));
    let error =
        compare_published(&fixture::run(&FILESYSTEMS, 8), &published_figures()[0], "synced").unwrap_err().to_string();
    assert!(error.contains("`synced`") && error.contains("elapsed, cpu_utilization"), "{error}");
}

#[test]
fn published_figures_are_shown_with_their_totals() {
    let page = published::published_page(&published_figures()[0]).unwrap();
    insta::assert_snapshot!("show_term", render_page(&page, "term"));
    insta::assert_snapshot!("show_json", render_page(&page, "json"));
}

#[test]
fn the_shipped_figures_fit_the_terminal() {
    let numbered = (1..=21).map(|task| (format!("{task:03}"), format!("task-{task}")));
    let tasks = numbered.chain([("mkfs".into(), "mkfs".into())]).collect();
    for set in parse_published("piszcz", include_str!("../../../../studies/piszcz/published.csv"), &tasks).unwrap() {
        let text = render_page(&published::published_page(&set).unwrap(), "term");
        assert!(max_line_width(&text) <= 100, "{} {text}", max_line_width(&text));
        // The sum that awk makes of the 21 figures of ext2.
        assert_eq!(text.contains("359.81 s"), set.set == "II", "{text}");
    }
}

#[test]
fn claims_in_each_format() {
    let mut record = fixture::run(&FILESYSTEMS[..3], 12);
    record.plan.name = "mine".into();
    record.status.why = "every claim is decided but 1".into();
    record.plan.claims = [
        "untar.elapsed: ext2 < ext3 by 5%",
        "untar.elapsed: ext4 < ext3",
        "rm-tree.elapsed: best is ext2",
        "rm-tree.elapsed: ext2 < \"ext3\" # <&>",
        "untar.elapsed: ext2 < \"gone\\n]]>\u{1b}\"",
    ]
    .map(|text| text.parse().unwrap())
    .into();
    for format in ["full", "md"] {
        let text = export_run(record.clone(), format, &["elapsed"]);
        let claims = text.split("Claims\n").nth(1).unwrap();
        let end = claims.find("The run stopped because").unwrap();
        insta::assert_snapshot!(format!("claims_{format}"), &claims[..end]);
    }
    for format in ["junit", "github"] {
        let text = export_run(record.clone(), format, &["elapsed"]);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{format}");
        insta::assert_snapshot!(format!("claims_{format}"), text);
    }
}

#[test]
fn what_an_author_concluded_is_checked_then_and_here() {
    let mut record = fixture::run(&FILESYSTEMS, 12);
    record.plan.name = "piszcz".into();
    let section = |format: &str| {
        let text = export_run(record.clone(), format, &["elapsed"]);
        let begin = text.find("conclusions that this run can check").unwrap();
        assert!(text.find("over rounds").unwrap() < begin, "they come after the data");
        let end = text[begin..].find("\n## ").or(text[begin..].find("\nMethod")).unwrap();
        text[begin..begin + end].to_string()
    };
    insta::assert_snapshot!("conclusions_term", section("full"));
    insta::assert_snapshot!("conclusions_md", section("md"));
}

#[test]
fn figures_of_different_executors_are_not_compared() {
    let machine = fixture::run(&FILESYSTEMS, 12);
    let mut counted = machine.clone();
    counted.plan.device.backing = Backing::Guest(GuestPlan::of(Emulator::Exact));
    assert!(compare_runs(&counted, &counted, "elapsed").is_ok());
    let error = compare_runs(&counted, &machine, "elapsed").unwrap_err().to_string();
    assert!(error.contains("different executors"), "{error}");
}
