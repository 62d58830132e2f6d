//! Hostile text in names, options, messages and commands: a page shows it as text, and has the same elements and attributes as
//! with harmless text.

use crate::fixture;
use fsarena_core::event::{CommandEnd, CommandRecord, Note, NoteKind, Outcome};
use fsarena_core::record::{CommandLogLine, RunRecord};
use fsarena_core::{claim::Claim, plan::Stage, setting::SettingValue};
use fsarena_report::{charts, drawing::svg, report::Report};
use proptest::prelude::*;

/// The report of a run in which every field that can contain text contains this one.
fn report_with_text(text: &str) -> Report {
    let mut record = fixture::run(&["ext4", "xfs", "btrfs"], 9);
    // Names must differ from each other.
    let mut name_count = 0;
    let mut unique_name = || {
        name_count += 1;
        format!("{text}{name_count}")
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
    plan.workloads[0].settings.0.insert(text.into(), SettingValue::Text(text.into()));
    plan.stage = Some(Stage {
        name: text.into(),
        earlier_runs: [(text.to_string(), text.to_string())].into(),
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
        variant.name = unique_name();
        variant.levels = [("fs".to_string(), unique_name()), (text.to_string(), text.to_string())].into();
    }
    for task in &mut record.tasks {
        task.id.name = unique_name();
        task.id.params = [(text.to_string(), text.to_string())].into();
        (task.title, task.number) = (text.into(), Some(text.into()));
    }
    for reading in &mut record.readings {
        reading.help = text.into();
    }
    record.readings[6].id = unique_name();
    for cell in &mut record.cells {
        cell.workload = text.into();
    }
    record.cells[0].outcome = Outcome::Failed { why: text.into(), cause: Default::default() };
    add_notes(&mut record, text);
    let cell = record.cells[1].id.clone();
    let mut report = fixture::report(record, &[]).unwrap();
    let argv = vec![text.to_string()];
    let command = CommandRecord {
        argv: argv.clone(),
        times: 2,
        last: Some(argv),
        cwd: Some(text.into()),
        ended: CommandEnd::Rejected(text.into()),
        ms: 1,
        output: None,
    };
    report.commands.push(&CommandLogLine { ended_at: text.into(), cell: Some(cell), command });
    report.resolution_sentence = Some(text.into());
    report.charts_folder = Some("charts".into());
    report
}

fn add_notes(record: &mut RunRecord, text: &str) {
    use NoteKind::{Fairness, IdleTimeout, Options, Remark, Unavailable, VariantFailed};
    for kind in [VariantFailed, Fairness, Options, Remark, IdleTimeout, Unavailable] {
        record.notes.push((Some(1), Note::new(kind, text).variant(text).task(text).fix(text)));
    }
}

fn page_with_text(text: &str) -> String {
    fixture::export(&report_with_text(text), "html")
}

/// The tags of a page without the values of attributes, as a browser reads them; leaves out the script.
fn tags_of_page(page: &str) -> Vec<String> {
    let (before, script) = page.rsplit_once("<script>").expect("the page's own script");
    let mut rest = [before, script.split_once("</script>").expect("its end").1].concat();
    let mut tags = vec![];
    while let Some(start) = rest.find('<') {
        let mut quote = None;
        let mut tag = String::new();
        let mut length = 0;
        for c in rest[start..].chars() {
            length += c.len_utf8();
            match quote {
                Some(open) => quote = if c == open { None } else { quote },
                None if c == '"' || c == '\'' => quote = Some(c),
                None if c == '>' => break,
                None => tag.push(c),
            }
        }
        // The number of lines of a title depends on the widths of its letters.
        if !tag.starts_with("<text ") && tag != "</text" {
            tags.push(tag);
        }
        rest = rest.split_off(start + length);
    }
    tags
}

/// The characters that have a meaning in HTML.
const SPECIAL_CHARS: [char; 8] = ['<', '>', '&', '"', '\'', '`', '=', '/'];

/// The text with `x` instead of special characters.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if SPECIAL_CHARS.contains(&c) { 'x' } else { c }).collect()
}

#[test]
fn a_script_in_every_field_is_shown_as_text() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
    let page = page_with_text(hostile);
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own script");
    assert!(!page.contains("<img"));
    assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"), "shown as text");
    assert_eq!(tags_of_page(&page), tags_of_page(&page_with_text(&harmless(hostile))));
}

#[test]
fn charts_and_markdown_show_hostile_text_as_text() {
    let report = report_with_text("]()<script>alert(1)</script>\u{1b}[31m\"'");
    let charts = charts::charts_of_report(&report);
    assert!(charts.len() > 5, "{}", charts.len());
    for chart in &charts {
        let svg = svg::svg_file_text(chart);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{}", chart.id);
    }
    let markdown = fixture::export(&report, "md");
    // The plan is code, in which nothing is markup.
    let without_code = markdown.split("```").step_by(2).collect::<String>();
    assert!(!without_code.contains("]()<") && without_code.contains("](charts/"), "{without_code}");
}

#[test]
fn xml_has_no_control_characters() {
    let xml = fixture::export(&report_with_text("<\u{1b}[31m&\"'"), "junit");
    assert!(xml.contains("timestamp=") && !xml.contains('\u{1b}'), "{xml}");
}

#[test]
fn a_page_loads_nothing_from_other_places() {
    let page = page_with_text("plain");
    for scheme in ["http://", "https://", "//cdn"] {
        let links = page.matches(scheme).count();
        let namespaces = page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(links, if scheme == "http://" { namespaces } else { 0 }, "{scheme}");
    }
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_text_changes_the_elements_of_a_page(text in "[<>&\"'`=/a-z{}%!-]{1,40}") {
        prop_assert_eq!(tags_of_page(&page_with_text(&text)), tags_of_page(&page_with_text(&harmless(&text))));
    }
}
