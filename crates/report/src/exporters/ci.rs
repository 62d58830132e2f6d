//! The exports of judged claims for CI systems: annotations of GitHub Actions, and JUnit XML.

use crate::{error::Error, escape, exporter::Exporter, report::Report, sections::claims};
use fsarena_stats::{judge::JudgedClaim, verdict::Outcome};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io::Write;

/// The exporter of annotations for GitHub Actions.
pub const GITHUB: Exporter = Exporter::new(
    "github",
    "annotations of GitHub Actions: an error for a refuted claim, a warning for an inconclusive one",
    export_github,
);

fn export_github(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    Ok(report.claims.iter().try_for_each(|judged| writeln!(out, "{}", annotation(judged)))?)
}

/// The workflow command that makes GitHub Actions show a claim.
fn annotation(judged: &JudgedClaim) -> String {
    let level = match judged.outcome() {
        Outcome::Refuted => "error",
        Outcome::Inconclusive => "warning",
        Outcome::Held | Outcome::Equivalent => "notice",
    };
    let title = format!("claim {}", judged.outcome().name());
    let message = format!("{}: {}", judged.claim.text, claims::claim_lines(judged).join("; "));
    format!("::{level} title={}::{}", escape_property(&title), escape_message(&message))
}

/// Escapes a message for the runner of GitHub Actions (its `command.ts`, `escapeData`).
fn escape_message(text: &str) -> String {
    escape::line(text).replace('%', "%25")
}

/// Escapes a property of a workflow command (`escapeProperty` in the same file).
fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

/// The exporter of JUnit XML.
pub const JUNIT: Exporter = Exporter::new(
    "junit",
    "JUnit XML, one test case a claim: a refuted one fails, an inconclusive one is an error",
    export_junit,
);

fn export_junit(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let count = |outcome| report.claims.iter().filter(|judged| judged.outcome() == outcome).count();
    let tests = report.claims.len().to_string();
    let failures = count(Outcome::Refuted).to_string();
    let errors = count(Outcome::Inconclusive).to_string();
    let counts = [("tests", tests.as_str()), ("failures", &failures), ("errors", &errors)];
    let mut xml = Writer::new_with_indent(&mut *out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None))).map_err(Error::Xml)?;
    // XML forbids control characters, even escaped.
    let record = &report.record;
    let [name, run, started] = [&record.plan.name, &record.id, &record.started].map(|text| escape::line(text));
    xml.create_element("testsuites")
        .with_attributes(counts)
        .write_inner_content(|xml| {
            xml.create_element("testsuite")
                .with_attribute(("name", name.as_str()))
                .with_attribute(("id", run.as_str()))
                .with_attribute(("timestamp", started.as_str()))
                .with_attributes(counts)
                .write_inner_content(|xml| {
                    report.claims.iter().try_for_each(|judged| write_test_case(xml, &name, judged))
                })?;
            Ok(())
        })
        .map_err(Error::Xml)?;
    drop(xml);
    Ok(writeln!(out)?)
}

/// Writes the test case of a claim.
fn write_test_case<W: Write>(xml: &mut Writer<W>, plan: &str, judged: &JudgedClaim) -> std::io::Result<()> {
    let (claim_text, outcome) = (escape::line(&judged.claim.text), judged.outcome().name());
    let message = escape::line(&claims::claim_lines(judged).join("; "));
    let element = match judged.outcome() {
        Outcome::Refuted => Some("failure"),
        // The run could not decide: the case neither passes nor fails.
        Outcome::Inconclusive => Some("error"),
        Outcome::Held | Outcome::Equivalent => None,
    };
    let test_case =
        xml.create_element("testcase").with_attributes([("classname", plan), ("name", claim_text.as_str())]);
    test_case.write_inner_content(|xml| {
        if let Some(element) = element {
            xml.create_element(element)
                .with_attributes([("type", outcome), ("message", message.as_str())])
                .write_empty()?;
        }
        xml.create_element("system-out").write_text_content(BytesText::new(&format!("{outcome}: {message}")))?;
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_properties_are_escaped() {
        assert_eq!(escape_message("by 5%\n::error::x"), "by 5%25⏎::error::x");
        assert_eq!(escape_property("a:b,c"), "a%3Ab%2Cc");
    }
}
