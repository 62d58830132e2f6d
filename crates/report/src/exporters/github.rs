//! Annotations of GitHub Actions: one workflow command a claim.

use crate::{error::Error, exporter::Exporter, report::Report, safe, sections::claims};
use fsarena_stats::{judge::Judged, verdict::Outcome};
use std::io::Write;

/// Annotations of GitHub Actions.
pub const GITHUB: Exporter = Exporter::new(
    "github",
    "annotations of GitHub Actions: an error for a refuted claim, a warning for an open one",
    export,
);

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    Ok(report.claims.iter().try_for_each(|judged| writeln!(out, "{}", annotation(judged)))?)
}

fn annotation(judged: &Judged) -> String {
    let level = match judged.outcome() {
        Outcome::Refuted => "error",
        Outcome::Inconclusive => "warning",
        Outcome::Held | Outcome::Equivalent => "notice",
    };
    let title = format!("claim {}", judged.outcome().name());
    let message = format!("{}: {}", judged.claim.text, claims::told(judged).join("; "));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_claim_ends_the_command() {
        assert_eq!(escaped("by 5%\n::error::x"), "by 5%25⏎::error::x");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
