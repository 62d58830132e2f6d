//! The claims for CI systems: annotations of GitHub Actions, and JUnit XML.

use crate::{error::Error, exporters::Exporter, report::Report, safe, sections::claims};
use fsarena_stats::{judge::Judged, verdict::Outcome};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io::Write;

/// Annotations of GitHub Actions.
pub const GITHUB: Exporter = Exporter::new(
    "github",
    "annotations of GitHub Actions: an error for a refuted claim, a warning for an open one",
    export_github,
);

fn export_github(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    Ok(report.claims.iter().try_for_each(|judged| writeln!(out, "{}", annotation(judged)))?)
}

fn annotation(judged: &Judged) -> String {
    let level = match judged.outcome() {
        Outcome::Refuted => "error",
        Outcome::Inconclusive => "warning",
        Outcome::Held | Outcome::Equivalent => "notice",
    };
    let title = format!("claim {}", judged.outcome().name());
    let message = format!("{}: {}", judged.claim.text, claims::claim_lines(judged).join("; "));
    format!("::{level} title={}::{}", property(&title), escaped(&message))
}

/// What the runner of GitHub Actions reads back from a message (its `command.ts`, `escapeData`).
fn escaped(text: &str) -> String {
    safe::line(text).replace('%', "%25")
}

/// The same for a property (`escapeProperty`).
fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

/// JUnit XML.
pub const JUNIT: Exporter = Exporter::new(
    "junit",
    "JUnit XML, one test case a claim: a refuted one fails, an inconclusive one is an error",
    export_junit,
);

fn export_junit(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let count = |outcome| report.claims.iter().filter(|judged| judged.outcome() == outcome).count();
    let (tests, failures) = (report.claims.len(), count(Outcome::Refuted));
    let counts = [("tests", tests), ("failures", failures), ("errors", count(Outcome::Inconclusive))]
        .map(|(name, number)| (name, number.to_string()));
    let counts = counts.each_ref().map(|(name, number)| (*name, number.as_str()));
    let mut xml = Writer::new_with_indent(&mut *out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None))).map_err(Error::Xml)?;
    // Control characters have no place in XML, escaped or not.
    let name = safe::line(&report.record.plan.name);
    let run = safe::line(&report.record.id);
    xml.create_element("testsuites")
        .with_attributes(counts)
        .write_inner_content(|xml| {
            xml.create_element("testsuite")
                .with_attribute(("name", name.as_str()))
                .with_attribute(("id", run.as_str()))
                .with_attribute(("timestamp", report.record.started.as_str()))
                .with_attributes(counts)
                .write_inner_content(|xml| {
                    report.claims.iter().try_for_each(|judged| write_case(xml, &name, judged))
                })?;
            Ok(())
        })
        .map_err(Error::Xml)?;
    drop(xml);
    Ok(writeln!(out)?)
}

fn write_case<W: Write>(xml: &mut Writer<W>, plan: &str, judged: &Judged) -> std::io::Result<()> {
    let (claim, outcome) = (safe::line(&judged.claim.text), judged.outcome().name());
    let told = safe::line(&claims::claim_lines(judged).join("; "));
    let result = match judged.outcome() {
        Outcome::Refuted => Some("failure"),
        // Neither passed nor failed: the run could not tell.
        Outcome::Inconclusive => Some("error"),
        Outcome::Held | Outcome::Equivalent => None,
    };
    let case =
        xml.create_element("testcase").with_attributes([("classname", plan), ("name", claim.as_str())]);
    case.write_inner_content(|xml| {
        if let Some(result) = result {
            xml.create_element(result)
                .with_attributes([("type", outcome), ("message", told.as_str())])
                .write_empty()?;
        }
        xml.create_element("system-out").write_text_content(BytesText::new(&format!("{outcome}: {told}")))?;
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_claim_ends_the_command() {
        assert_eq!(escaped("by 5%\n::error::x"), "by 5%25⏎::error::x");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
