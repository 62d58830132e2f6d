//! JUnit XML: one test case a claim, as CI systems read it.

use crate::{error::Error, exporter::Exporter, report::Report, safe, sections::claims};
use fsarena_stats::{judge::Judged, verdict::Outcome};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io::Write;

/// JUnit XML.
pub const JUNIT: Exporter = Exporter::new(
    "junit",
    "JUnit XML, one test case a claim: a refuted one fails, an inconclusive one is an error",
    export,
);

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
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
                    report.claims.iter().try_for_each(|judged| case(xml, &name, judged))
                })?;
            Ok(())
        })
        .map_err(Error::Xml)?;
    drop(xml);
    Ok(writeln!(out)?)
}

fn case<W: Write>(xml: &mut Writer<W>, plan: &str, judged: &Judged) -> std::io::Result<()> {
    let (claim, outcome) = (safe::line(&judged.claim.text), judged.outcome().name());
    let told = safe::line(&claims::told(judged).join("; "));
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
