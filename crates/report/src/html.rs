//! A report as one HTML file: nothing is fetched, and nothing that data holds can become markup or script.
//!
//! Text goes through the template engine, which escapes it; charts through the renderer, which escapes it; samples and
//! commands through a JSON block (`data`) that the page's one script reads as data. A Content-Security-Policy allows
//! that script and that style sheet by their hashes, and nothing else.

mod comparison;
mod data;
mod decide;
mod fragment;
mod policy;

pub use comparison::{NO_SAMPLES, comparison, comparison_body, script};
pub use fragment::fragment;

use crate::charts;
use crate::document::{Document, Part, Table};
use crate::error::Error;
use crate::number::plural;
use crate::plot::{Chart, Form, svg};
use crate::ranking::Ranking;
use crate::report::Report;
use crate::sections::{
    anomalies, answer, circumstances, claims, conclusions, head, normalised, notes, pair, ranking, reached,
    scaling, tasks, totals,
};
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fragment::Escaped;
use fsarena_core::record::RunRecord;
use std::thread::ScopedJoinHandle;

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");

/// The whole page.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    record: &'a RunRecord,
    policy: String,
    style: String,
    script: &'static str,
    facts: Vec<String>,
    /// The plan, in base64.
    plan: String,
    sections: Vec<Section>,
    pictures: Vec<Picture>,
    /// Whether there are charts both in per cent and in units.
    both: bool,
    /// What the table of samples holds.
    samples: String,
    data: String,
}

/// A part of the page with its place in the navigation.
struct Section {
    id: &'static str,
    title: &'static str,
    parts: Vec<Shown>,
}

/// A part of a document, and what a table in it is called.
struct Shown {
    part: Part,
    name: String,
}

/// A chart in the page.
struct Picture {
    id: String,
    title: String,
    about: String,
    form: &'static str,
    svg: String,
}

/// The page of a report.
///
/// # Errors
/// Where a chart cannot be drawn or the plan cannot be written as TOML.
pub fn page(report: &Report) -> Result<String, Error> {
    let record = &report.record;
    // What takes long in a big run, side by side.
    let (charts, sections) = std::thread::scope(|scope| {
        let ranked = scope.spawn(|| Ranking::of(report));
        let costs = scope.spawn(|| costs(report));
        let sections = scope.spawn(|| sections(report, Later { ranked, costs }));
        (charts::all(report), sections.join().expect("no run is beyond words"))
    });
    let pictures: Vec<Picture> = charts.iter().map(picture).collect::<Result<_, _>>()?;
    let data = data::round(report);
    let page = Page {
        record,
        policy: policy(),
        style: style(),
        script: SCRIPT,
        facts: facts(report),
        plan: STANDARD.encode(toml::to_string_pretty(&record.plan)?),
        both: charts.iter().any(|chart| chart.form == Form::Raw),
        sections: sections?,
        pictures,
        samples: data.words,
        data: data.json,
    };
    page.render().map_err(|error| Error::Template(error.to_string()))
}

/// The style sheet of every page.
pub fn style() -> String {
    format!("{STYLE}{}", dark())
}

/// The Content-Security-Policy of a report's page, which is in its head too.
pub fn policy() -> String {
    policy::meta(&style(), SCRIPT)
}

/// The rules of charts for dark pages, by the page's own choice or the system's.
fn dark() -> String {
    let of = |root: &str| format!("{root}{{.picture{{{}}}}}", svg::dark());
    format!(
        "@media screen and (prefers-color-scheme:dark){{{}}}@media screen{{{}}}",
        of(":root:not([data-theme=light])"),
        of(":root[data-theme=dark]")
    )
}

fn picture(chart: &Chart) -> Result<Picture, Error> {
    let form = match chart.form {
        Form::Only => "only",
        Form::Normalised => "normalised",
        Form::Raw => "raw",
    };
    Ok(Picture {
        id: chart.id.clone(),
        title: chart.title.clone(),
        about: chart.about.clone(),
        form,
        svg: svg::inline(chart)?,
    })
}

/// What stands below the question.
fn facts(report: &Report) -> Vec<String> {
    let (record, plan) = (&report.record, &report.record.plan);
    let rounds = report.analyses.first().map_or(0, |analysis| analysis.grid.rounds.len());
    let mut facts = vec![
        format!("{}: {}", plan.name, plan.title),
        plural(rounds, "round"),
        format!("scale {}", plan.scale.name()),
        format!("on {}", head::backing(&plan.device.backing)),
    ];
    facts.extend(record.hosts.iter().map(|host| format!("{}, Linux {}", host.hostname, host.kernel)));
    facts.push(format!("{} UTC", record.started.chars().take(16).collect::<String>().replace('T', " ")));
    if !record.status.complete {
        facts.push(format!("not complete: {}", record.status.why));
    }
    facts
}

/// What is worked out elsewhere, and is asked for last.
struct Later<'scope> {
    ranked: ScopedJoinHandle<'scope, Option<Ranking>>,
    costs: ScopedJoinHandle<'scope, Document>,
}

fn costs(report: &Report) -> Document {
    let mut costs = Document::default();
    totals::add(&mut costs, report);
    costs
}

/// Every section.
fn sections(report: &Report, later: Later) -> Result<Vec<Section>, Error> {
    let [mut first, mut claimed, mut figures, mut method] = std::array::from_fn(|_| Document::default());
    for (at, analysis) in report.analyses.iter().enumerate() {
        tasks::add(&mut figures, report, analysis, at == 0);
        tasks::add_medians(&mut figures, report, analysis);
    }
    normalised::add(&mut figures, report);
    let pairs = pair::rows(report);
    claims::add(&mut claimed, report);
    pair::add(&mut claimed, report, &pairs);
    conclusions::add(&mut claimed, report, true);
    decide::add(&mut method, report);
    decide::add_resolution(&mut method, report);
    reached::add(&mut method, report);
    notes::add(&mut method, report);
    notes::add_remarks(&mut method, report);
    circumstances::add(&mut method, report)?;
    pair::add_answer(&mut first, report, &pairs);
    for analysis in &report.analyses {
        answer::add(&mut first, report, analysis);
    }
    anomalies::add(&mut first, report);
    let ranked = later.ranked.join().expect("any run is ranked or is not");
    ranking::add_recommendation(&mut first, report, ranked.as_ref());
    first.text(answer::legend(report));
    scaling::add(&mut first, report);
    ranking::add(&mut figures, report, ranked.as_ref());
    figures.parts.extend(later.costs.join().expect("any run has costs or has none").parts);
    let section =
        |id, title, document: Document| Section { id, title, parts: shown(named_once(document, title)) };
    let mut sections = vec![
        section("answer", "The answer", first),
        section("claims", "Claims", claimed),
        section("pictures", "Pictures", Document::default()),
        section("data", "Data", figures),
        section("method", "How it was measured", method),
    ];
    sections.retain(|section| section.id != "claims" || !section.parts.is_empty());
    Ok(sections)
}

/// A document for a section of this title, which is a heading already: what begins with the same one goes without it,
/// and what has it further down is what is said of the run itself.
fn named_once(mut document: Document, title: &str) -> Document {
    let same = |part: &Part| matches!(part, Part::Heading(_, text) if text == title);
    if document.parts.first().is_some_and(same) {
        document.parts.remove(0);
    }
    for part in document.parts.iter_mut().filter(|part| same(part)) {
        *part = Part::Heading(2, "The run".into());
    }
    document
}

/// The parts of a document, its tables named by the heading above them.
fn shown(document: Document) -> Vec<Shown> {
    let mut name = String::new();
    let named = |part: Part| {
        if let Part::Heading(_, text) = &part {
            name = text.clone();
        }
        Shown { part, name: name.clone() }
    };
    document.parts.into_iter().map(named).collect()
}

impl Escaped for Page<'_> {}

impl Table {
    /// The class of its element.
    fn class(&self) -> &'static str {
        if self.words { "words" } else { "figures" }
    }
}

#[cfg(test)]
mod tests {
    use super::{STYLE, named_once};
    use crate::document::{Document, Part};
    use crate::plot::Colour;

    /// A colour of the style sheet, on a light page and on a dark one.
    fn colours(name: &str) -> [Colour; 2] {
        let after = STYLE.split_once(&format!("--{name}: light-dark(")).expect("it is in the sheet").1;
        let (both, _) = after.split_once(')').unwrap();
        let part = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let colour = |hex: &str| Colour(part(hex, 1), part(hex, 3), part(hex, 5));
        let (light, dark) = both.split_once(", ").unwrap();
        [colour(light), colour(dark)]
    }

    #[test]
    fn a_section_and_its_parts_have_different_headings() {
        let mut document = Document::default();
        document.heading(2, "Claims");
        document.text("one");
        document.heading(2, "Claims");
        let parts = named_once(document, "Claims").parts;
        assert_eq!(parts, [Part::Text("one".into()), Part::Heading(2, "The run".into())]);
    }

    #[test]
    fn words_and_edges_stand_out_from_what_they_are_on() {
        let words = [
            ("ink", "paper"),
            ("ink", "raised"),
            ("ink", "accent-paper"),
            ("soft", "paper"),
            ("soft", "raised"),
            ("accent", "paper"),
            ("accent", "raised"),
            ("accent", "accent-paper"),
            ("paper", "accent"),
            ("good", "paper"),
            ("good", "good-paper"),
            ("bad", "bad-paper"),
            ("open", "open-paper"),
        ];
        // WCAG 2.2, success criteria 1.4.3 and 1.4.11.
        let pairs = words.map(|pair| (pair, 4.5)).into_iter().chain([(("edge", "paper"), 3.0)]);
        for ((ink, paper), least) in pairs {
            for (ink_colour, paper_colour) in colours(ink).into_iter().zip(colours(paper)) {
                let contrast = ink_colour.contrast(paper_colour);
                assert!(contrast >= least, "{ink} on {paper}: {contrast:.2}");
            }
        }
    }
}
