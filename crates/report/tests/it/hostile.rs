//! Names, options, messages and commands come from elsewhere: whatever they hold, a page has the same elements and
//! attributes as with harmless text, and they are shown as text.

use crate::fixture;
use fsarena_core::event::{CommandEnd, CommandRecord, Note, NoteKind, Outcome};
use fsarena_core::record::{CommandLogLine, RunRecord};
use fsarena_core::{claim::Claim, plan::Stage, setting::Value};
use fsarena_report::drawing::svg;
use fsarena_report::{charts, exporters, report::Report};
use proptest::prelude::*;

/// Puts a text into every field of a run that holds one.
fn with(text: &str) -> Report {
    let mut record = fixture::run(&["ext4", "xfs", "btrfs"], 9);
    let number = std::cell::Cell::new(0);
    // Names have to differ from each other.
    let unique = || {
        number.set(number.get() + 1);
        format!("{text}{}", number.get())
    };
    for field in [&mut record.id, &mut record.version, &mut record.started, &mut record.ended, &mut record.status.why] {
        *field = text.into();
    }
    record.status.complete = false;
    let plan = &mut record.plan;
    for field in [&mut plan.name, &mut plan.title, &mut plan.question, &mut plan.device.other_fs] {
        *field = text.into();
    }
    plan.factors = [(text.to_string(), vec![text.to_string()])].into();
    plan.workloads[0].name = text.into();
    plan.workloads[0].settings.0.insert(text.into(), Value::Text(text.into()));
    plan.stage = Some(Stage {
        name: text.into(),
        earlier: [(text.to_string(), text.to_string())].into(),
        not_compared: vec![text.into()],
        error_split: None,
    });
    let mut claim: Claim = "touch.elapsed: ext4 < xfs".parse().unwrap();
    claim.text = text.into();
    plan.claims.push(claim);
    for host in &mut record.hosts {
        (host.hostname, host.kernel, host.boot_id) = (text.into(), text.into(), text.into());
        host.facts = ["cpu", "memory"]
            .into_iter()
            .map(str::to_string)
            .chain([text.into()])
            .map(|key| (key, text.into()))
            .collect();
    }
    for variant in &mut record.variants {
        variant.name = unique();
        variant.levels = [("fs".to_string(), unique()), (text.to_string(), text.to_string())].into();
    }
    for task in &mut record.tasks {
        task.id.name = unique();
        task.id.params = [(text.to_string(), text.to_string())].into();
        (task.title, task.number) = (text.into(), Some(text.into()));
    }
    for reading in &mut record.readings {
        reading.help = text.into();
    }
    record.readings[6].id = unique();
    for cell in &mut record.cells {
        cell.workload = text.into();
    }
    record.cells[0].outcome = Outcome::Failed { why: text.into(), cause: Default::default() };
    notes(&mut record, text);
    let cell = record.cells[1].id.clone();
    let mut report = fixture::report(record, &[]).unwrap();
    let argv = vec![text.to_string()];
    let command = CommandRecord {
        argv: argv.clone(),
        times: 2,
        last: Some(argv),
        cwd: Some(text.into()),
        ended: CommandEnd::Unfit(text.into()),
        ms: 1,
        output: None,
    };
    report.commands.push(&CommandLogLine { at: text.into(), cell: Some(cell), command });
    report.resolution_sentence = Some(text.into());
    report.charts_folder = Some("charts".into());
    report
}

fn notes(record: &mut RunRecord, text: &str) {
    use NoteKind::{Fairness, IdleTimeout, Options, Remark, Unavailable, VariantFailed};
    for kind in [VariantFailed, Fairness, Options, Remark, IdleTimeout, Unavailable] {
        record.notes.push((Some(1), Note::new(kind, text).variant(text).task(text).fix(text)));
    }
}

fn page(report: &Report) -> String {
    let mut out = Vec::new();
    exporters::find("html").unwrap().export(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The elements of a page and the names of their attributes, as a browser reads them; the script is left out.
fn skeleton(page: &str) -> Vec<String> {
    let (before, script) = page.rsplit_once("<script>").expect("the page's own script");
    let mut rest = [before, script.split_once("</script>").expect("its end").1].concat();
    let mut tags = vec![];
    while let Some(at) = rest.find('<') {
        let mut quote = None;
        let mut tag = String::new();
        let mut length = 0;
        for c in rest[at..].chars() {
            length += c.len_utf8();
            match quote {
                Some(open) => quote = if c == open { None } else { quote },
                None if c == '"' || c == '\'' => quote = Some(c),
                None if c == '>' => break,
                None => tag.push(c),
            }
        }
        // How many lines a title takes depends on the widths of its letters.
        if !tag.starts_with("<text ") && tag != "</text" {
            tags.push(tag);
        }
        rest = rest.split_off(at + length);
    }
    tags
}

const SPECIAL: [char; 8] = ['<', '>', '&', '"', '\'', '`', '=', '/'];

fn harmless(text: &str) -> String {
    text.chars().map(|c| if SPECIAL.contains(&c) { 'x' } else { c }).collect()
}

#[test]
fn script_in_every_field_is_text() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
    let page = page(&with(hostile));
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own script");
    assert!(!page.contains("<img"));
    assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"), "shown as text");
    assert_eq!(skeleton(&page), skeleton(&self::page(&with(&harmless(hostile)))));
}

#[test]
fn charts_and_markdown_hold_hostile_text_as_text() {
    let report = with("]()<script>alert(1)</script>\u{1b}[31m\"'");
    let charts = charts::charts_of_report(&report);
    assert!(charts.len() > 5, "{}", charts.len());
    for chart in &charts {
        let svg = svg::file_text(chart);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{}", chart.id);
    }
    let mut md = Vec::new();
    exporters::find("md").unwrap().export(&report, &mut md).unwrap();
    let md = String::from_utf8(md).unwrap();
    // The plan is code, in which nothing is markup.
    let prose = md.split("```").step_by(2).collect::<String>();
    assert!(!prose.contains("]()<") && prose.contains("](charts/"), "{prose}");
}

#[test]
fn a_page_names_nothing_elsewhere() {
    let page = page(&with("plain"));
    for scheme in ["http://", "https://", "//cdn"] {
        let links = page.matches(scheme).count();
        let namespaces = page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(links, if scheme == "http://" { namespaces } else { 0 }, "{scheme}");
    }
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever the text: the page has the elements and attributes that it has with harmless text.
    #[test]
    fn any_text_leaves_the_page_as_it_is(text in "[<>&\"'`=/a-z{}%!-]{1,40}") {
        prop_assert_eq!(skeleton(&page(&with(&text))), skeleton(&page(&with(&harmless(&text)))));
    }
}
