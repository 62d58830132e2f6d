//! The cells searched, the findings in them, and the evidence they stand on.

use super::words::Speaker;
use crate::number::{percent, plural};
use fsarena_stats::matrix::finding::{Finding, Standing};
use fsarena_stats::{matrix::Analysis, matrix::cells::Matrix, matrix::limits::ALPHA, table::FIRST_LOOK};

/// Each finding: what and where, and its sentences.
pub fn told(matrix: &Matrix, analysis: &Analysis) -> Vec<(String, Vec<String>)> {
    let speaker = Speaker { matrix };
    let title = |finding: &Finding| format!("{}{}", speaker.title(finding), tag(finding));
    analysis.findings.iter().map(|finding| (title(finding), speaker.sentences(finding))).collect()
}

/// How many findings there are, in how many cells.
pub fn summary(matrix: &Matrix, analysis: &Analysis) -> String {
    let cells = matrix.places().filter(|at| !matrix.variants[at.variant].raw).count();
    let searched = format!(
        "{} of {}: {}, {}, {}",
        plural(cells, "cell"),
        matrix
            .variants
            .iter()
            .filter(|variant| !variant.raw)
            .map(|variant| variant.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
        plural(matrix.modes.len(), "mode"),
        plural(matrix.sizes.len(), "block size"),
        plural(matrix.threads.len(), "thread count"),
    );
    match analysis.findings.len() {
        0 => format!("No anomaly in {searched}."),
        found => format!(
            "{} in {searched}. The largest over the most cells comes first.",
            plural(found, "finding")
        ),
    }
}

/// What the findings stand on.
pub fn grounds(analysis: &Analysis) -> String {
    match analysis.rounds {
        0 | 1 => "There is one value a cell, so nothing is known of chance: values are held against fixed \
                  tolerances, and a break that no neighbouring cell shares is left out unless it is over 20%."
            .into(),
        rounds if rounds < FIRST_LOOK => format!(
            "Up to {rounds} rounds a cell. Every flag is a range of the rounds' extremes that lies beyond its tolerance: \
             under {FIRST_LOOK} rounds none is an interval, and nothing is decided."
        ),
        rounds => format!(
            "Up to {rounds} rounds a cell. Every flag is a 95% interval within rounds that lies beyond its \
             tolerance, not corrected for the {} comparisons made; e-BH at {} selects {} of them. A finding \
             is unconfirmed until fresh rounds show it again.",
            analysis.trials,
            percent(ALPHA),
            analysis.selected
        ),
    }
}

fn tag(finding: &Finding) -> &'static str {
    match finding.standing {
        Standing::Table => "",
        Standing::Provisional => " (provisional)",
        Standing::Unconfirmed => " (unconfirmed)",
        Standing::Confirmed => " (confirmed on fresh rounds)",
        Standing::NotConfirmed => " (NOT confirmed on fresh rounds)",
    }
}
