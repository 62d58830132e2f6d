//! What each exporter makes of small fixed runs.

use crate::fixture;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Backing, Emulator, GuestPlan};
use fsarena_core::published::{PublishedSet, parse};
use fsarena_core::record::RunRecord;
use fsarena_report::compare::{compare_all, compare_published, compare_samples};
use fsarena_report::error::Error;
use fsarena_report::report::Report;
use fsarena_report::{
    document::terminal::Screen, exporters, import::parse as parse_samples, page::ComparisonReport, page::Page,
    published,
};

const FIVE: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

fn compare_runs(a: &RunRecord, b: &RunRecord, metric: &str) -> Result<ComparisonReport, Error> {
    compare_all(&[a.clone(), b.clone()], metric)
}

/// What a format prints; `full` is the terminal's whole report.
fn export(record: RunRecord, format: &str, metrics: &[&str]) -> String {
    let mut report = fixture::report(record, metrics).unwrap();
    report.full = format == "full";
    let format = if report.full { "term" } else { format };
    let mut out = Vec::new();
    exporters::find(format).unwrap().export(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn shown(page: &Page, format: &str) -> String {
    let mut out = Vec::new();
    page.write(format, Screen::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn said(compared: &ComparisonReport, format: &str) -> String {
    let mut out = Vec::new();
    compared.page().write(format, Screen::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Display columns: all characters of the fixtures' tables are one column wide.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Two sets of figures over the fixture's tasks.
fn figures() -> Vec<PublishedSet> {
    let csv = "set,task,title,filesystem,metric,value,unit\n\
               I,001,Touch,ext2,elapsed,2,s\nI,001,Touch,xfs,elapsed,1.25,s\nI,001,Touch,jfs,elapsed,0.5,s\n\
               I,009,Untar,ext2,elapsed,10,s\nI,009,Untar,xfs,elapsed,12,s\nI,009,Untar,jfs,elapsed,11,s\n\
               I,011,Remove,ext2,elapsed,3,s\nI,011,Remove,xfs,elapsed,3,s\nI,011,Remove,jfs,elapsed,4,s\n\
               I,001,Touch,ext2,cpu_utilization,98,percent\nI,001,Touch,xfs,cpu_utilization,97,percent\n";
    let tasks = [("001", "touch"), ("009", "untar"), ("011", "rm-tree")];
    parse("old", csv, &tasks.map(|(number, task)| (number.to_string(), task.to_string())).into()).unwrap()
}

#[test]
fn five_filesystems_in_each_format() {
    let mut record = fixture::run(&FIVE, 10);
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
    let term = export(record.clone(), "term", &[]);
    assert!(widest(&term) <= 100, "{}", widest(&term));
    insta::assert_snapshot!("five_term", term);
    insta::assert_snapshot!("five_md", export(record, "md", &[]));
}

#[test]
fn two_filesystems_as_data() {
    let record = fixture::run(&["ext4", "xfs"], 2);
    insta::assert_snapshot!("two_csv", export(record.clone(), "csv", &[]));
    insta::assert_snapshot!("two_json", export(record, "json", &["elapsed"]));
}

#[test]
fn few_rounds_are_loudly_provisional() {
    insta::assert_snapshot!("provisional_term", export(fixture::run(&FIVE[..3], 3), "term", &["elapsed"]));
}

#[test]
fn a_failed_variant_is_told_with_its_words() {
    insta::assert_snapshot!("failed_term", export(fixture::with_failure(&FIVE[2..], 9), "term", &["elapsed"]));
}

#[test]
fn nine_variants_are_split() {
    let names: Vec<String> = (1..=9).map(|i| format!("ext4/option-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let term = export(fixture::run(&names, 8), "term", &["synced"]);
    assert!(widest(&term) <= 100, "{}", widest(&term));
    insta::assert_snapshot!("nine_term", term);
}

#[test]
fn one_variant_and_no_samples_are_no_error() {
    insta::assert_snapshot!("one_term", export(fixture::run(&["xfs"], 8), "term", &["elapsed"]));
    let empty = export(fixture::run(&FIVE, 0), "md", &[]);
    assert!(empty.contains("Nothing was measured"), "{empty}");
    export(fixture::run(&FIVE, 0), "json", &[]);
    export(fixture::run(&FIVE, 0), "csv", &[]);
}

#[test]
fn hostile_names_do_no_harm() {
    let evil = "e\u{1b}[2Jvil|`x`\n\"<b>\u{202e},";
    let mut record = fixture::run(&["ext4", evil], 8);
    record.notes.push((None, Note::new(NoteKind::Fairness, "# not a\n\theading\u{7}").variant(evil)));
    record.plan.question = "```\n# Which?\u{9b}31m".into();
    for format in ["term", "md"] {
        let text = export(record.clone(), format, &["elapsed"]);
        assert!(text.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')), "{format}");
        insta::assert_snapshot!(format!("hostile_{format}"), text);
    }
    let csv = export(record.clone(), "csv", &[]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let variants: std::collections::BTreeSet<String> =
        reader.records().map(|row| row.unwrap()[3].to_string()).collect();
    assert_eq!(variants, [evil.to_string(), "ext4".into()].into());
    let json: serde_json::Value = serde_json::from_str(&export(record, "json", &[])).unwrap();
    assert_eq!(json["variants"][1]["name"], evil);
}

#[test]
fn colours_only_where_asked_for() {
    let mut report = fixture::report(fixture::run(&FIVE, 8), &["elapsed"]).unwrap();
    let text = |report: &Report| {
        let mut out = Vec::new();
        exporters::find("term").unwrap().export(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(!text(&report).contains('\u{1b}'));
    report.screen.colour = true;
    assert!(text(&report).contains('\u{1b}'));
}

#[test]
fn narrow_and_wide_terminals() {
    let mut report = fixture::report(fixture::run(&FIVE, 8), &["elapsed"]).unwrap();
    for width in [60, 80, 200] {
        report.screen.width = Some(width);
        let mut out = Vec::new();
        exporters::find("term").unwrap().export(&report, &mut out).unwrap();
        let widest = widest(&String::from_utf8(out).unwrap());
        assert!(widest <= usize::from(width), "{widest} at {width}");
    }
}

#[test]
fn two_runs_side_by_side() {
    let (a, mut b) = (fixture::run(&FIVE[..3], 8), fixture::run(&["ext4", "ext2", "btrfs"], 8));
    b.id = "2026-11-22-piszcz".into();
    b.hosts[0].kernel = "6.19.0".into();
    let page = compare_runs(&a, &b, "elapsed").unwrap();
    insta::assert_snapshot!("runs_term", said(&page, "term"));
    insta::assert_snapshot!("runs_json", said(&page, "json"));
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
    let mut records = vec![fixture::run(&FIVE[..3], 8)];
    for (id, variants) in [("second", &["ext4", "ext2"][..]), ("third", &["ext2", "ext3", "ext4"])] {
        let record = RunRecord { id: id.into(), ..fixture::run(variants, 8) };
        records.push(record);
    }
    let compared = compare_all(&records, "elapsed").unwrap();
    let text = said(&compared, "term");
    insta::assert_snapshot!("three_runs_term", text);
    // One row for each task and variant, with both of the others in it.
    let row = text.lines().find(|line| line.contains("009 Untar the tree, ext4")).unwrap();
    assert_eq!(row.matches('.').count(), 2, "{row}");
    assert_eq!(compared.json["comparisons"].as_array().unwrap().len(), 2);
    assert_eq!(compared.chart.unwrap().legend.len(), 2);
}

#[test]
fn of_several_runs_those_that_cannot_be_compared_are_left_out() {
    let run = |id: &str, variants: &[&str]| RunRecord { id: id.into(), ..fixture::run(variants, 8) };
    let records =
        [("first", "ext4"), ("strange", "jfs"), ("third", "ext4"), ("fourth", "ext4")].map(|(id, fs)| run(id, &[fs]));
    let compared = compare_all(&records, "elapsed").unwrap();
    assert_eq!(compared.json["comparisons"].as_array().unwrap().len(), 2);
    let answer = compared.json["answer"].to_string();
    assert!(answer.contains("Left out: ") && answer.contains("strange") && !answer.contains("third"), "{answer}");
    let error = compare_all(&records[..2], "elapsed").unwrap_err().to_string();
    assert!(error.contains("strange"), "{error}");
}

#[test]
fn comparisons_as_pages() {
    let (a, b) = (fixture::run(&FIVE[..3], 8), fixture::run(&FIVE[..3], 8));
    let runs = compare_runs(&a, &b, "elapsed").unwrap();
    let published = compare_published(&fixture::run(&FIVE, 8), &figures()[0], "elapsed").unwrap();
    let read = |name: &str, text: &str| parse_samples(name, text.as_bytes(), None).unwrap();
    let files = [read("a.csv", "round,x\n1,1\n2,2\n3,3\n"), read("b.csv", "round,x\n1,2\n2,3\n3,5\n")];
    let samples = compare_samples(&files[0], &files[1], None, 0.01).unwrap();
    for compared in [runs, published, samples] {
        let html = said(&compared, "html");
        let at = |words: &str| html.find(words).unwrap_or_else(|| panic!("{words} in {html}"));
        // The answer first, then the picture, the tables, and how it was done.
        assert!(at("id=\"answer\"") < at("<svg") && at("<svg") < at("id=\"data\""), "{html}");
        assert!(at("id=\"data\"") < at("id=\"method\"") && html.contains("Content-Security-Policy"));
        for format in ["term", "md", "html"] {
            let words = said(&compared, format).split_whitespace().collect::<Vec<_>>().join(" ");
            let first = compared.json["answer"][0].as_str().unwrap();
            assert!(words.contains(first), "{first} in {words}");
        }
    }
}

#[test]
fn hostile_names_do_no_harm_in_a_comparison() {
    let evil = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'&";
    let mut a = fixture::run(&["ext4", evil], 8);
    (a.id, a.plan.name, a.hosts[0].hostname) = (evil.into(), evil.into(), evil.into());
    a.notes.push((None, Note::new(NoteKind::Fairness, evil).variant(evil)));
    let b = RunRecord { id: "b".into(), ..a.clone() };
    let runs = [a.clone(), b, a];
    let csv = format!("name,round,x\n{evil},1,1\nother,1,2\n").replace(['"', '\''], "");
    let file = parse_samples(evil, csv.as_bytes(), None).unwrap();
    let pages = [
        compare_all(&runs[..2], "elapsed").unwrap(),
        compare_all(&runs, "elapsed").unwrap(),
        compare_samples(&file, &file, None, 0.01).unwrap(),
    ];
    for compared in pages {
        let html = said(&compared, "html");
        // The page's own data and script are all the script there is.
        assert_eq!(html.matches("<script").count(), 2, "{html}");
        assert!(html.contains("&#60;script&#62;") && html.contains("&lt;script&gt;"), "{html}");
        assert!(html.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')));
    }
}

#[test]
fn a_run_beside_published_figures() {
    let page = compare_published(&fixture::run(&FIVE, 8), &figures()[0], "elapsed").unwrap();
    insta::assert_snapshot!("published_term", said(&page, "term"));
    insta::assert_snapshot!("published_md", said(&page, "md"));
    insta::assert_snapshot!("published_json", said(&page, "json"));
    let error = compare_published(&fixture::run(&FIVE, 8), &figures()[0], "synced").unwrap_err().to_string();
    assert!(error.contains("`synced`") && error.contains("elapsed, cpu_utilization"), "{error}");
}

#[test]
fn published_figures_are_shown_with_their_own_totals() {
    let page = published::published_page(&figures()[0]).unwrap();
    insta::assert_snapshot!("show_term", shown(&page, "term"));
    insta::assert_snapshot!("show_json", shown(&page, "json"));
}

#[test]
fn the_shipped_figures_fit_the_terminal() {
    let numbered = (1..=21).map(|task| (format!("{task:03}"), format!("task-{task}")));
    let tasks = numbered.chain([("mkfs".into(), "mkfs".into())]).collect();
    for set in parse("piszcz", include_str!("../../../../studies/piszcz/published.csv"), &tasks).unwrap() {
        let text = shown(&published::published_page(&set).unwrap(), "term");
        assert!(widest(&text) <= 100, "{} {text}", widest(&text));
        // The sum that awk makes of the 21 figures of ext2.
        assert_eq!(text.contains("359.81 s"), set.set == "II", "{text}");
    }
}

#[test]
fn claims_in_each_format() {
    let mut record = fixture::run(&FIVE[..3], 12);
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
        let text = export(record.clone(), format, &["elapsed"]);
        let claims = text.split("Claims\n").nth(1).unwrap();
        let end = claims.find("The run stopped because").unwrap();
        insta::assert_snapshot!(format!("claims_{format}"), &claims[..end]);
    }
    for format in ["junit", "github"] {
        let text = export(record.clone(), format, &["elapsed"]);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{format}");
        insta::assert_snapshot!(format!("claims_{format}"), text);
    }
}

#[test]
fn what_an_author_concluded_is_checked_then_and_here() {
    let mut record = fixture::run(&FIVE, 12);
    record.plan.name = "piszcz".into();
    let section = |format: &str| {
        let text = export(record.clone(), format, &["elapsed"]);
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
    let machine = fixture::run(&FIVE, 12);
    let mut counted = machine.clone();
    counted.plan.device.backing = Backing::Guest(GuestPlan::of(Emulator::Exact));
    assert!(compare_runs(&counted, &counted, "elapsed").is_ok());
    let error = compare_runs(&counted, &machine, "elapsed").unwrap_err().to_string();
    assert!(error.contains("different executors"), "{error}");
}
