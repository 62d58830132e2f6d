//! Prints how good the headline of a report is in simulated runs: how often it recommends a wrong variant, and how
//! often it recommends the best variant by a given round.

use crate::failure::Failure;
use crate::{flags::ListFormat, output};
use fsarena_core::{number::percent, row::Row};
use fsarena_stats::simulate::PromiseState;
use fsarena_stats::simulate::headline::{TimelyRecommendations, WrongRecommendations};
use fsarena_stats::{critical_values::LOOKS, simulate::selftest::SelftestReport};
use serde::Serialize;

/// Prints the tables of wrong recommendations and of recommendations in time.
pub fn print_tables(selftest: &SelftestReport) -> Result<(), Failure> {
    // 5% is `fsarena_stats::decision::MAX_REGRET`.
    output::print_text(format!(
        "\nHow often a report recommends a variant more than 5% worse than the best, at any of {} looks during the run:\n\n",
        LOOKS.len()
    ))?;
    output::print_rows(&wrong_rows(selftest), ListFormat::Term)?;
    output::print_text("\nHow often a report recommends the best variant by the given round:\n\n")?;
    output::print_rows(&timely_rows(selftest), ListFormat::Term)?;
    Ok(())
}

/// A fraction as per cent with two decimals: `12.34%` for 0.1234.
pub fn percent_with_two_decimals(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// The state of the promise about the rate in a row, such as `ok`; `no promise` for None. The limits of the rates are
/// constants of `fsarena_stats::simulate::headline`.
fn state_name(state: Option<PromiseState>) -> &'static str {
    state.map_or("no promise", PromiseState::name)
}

/// The most wrong recommendations for one noise and spread. `fsarena_stats` simulates several kinds of runs for them,
/// and each row is its worst kind.
#[derive(Serialize)]
pub struct WrongRecommendationRow {
    noise: &'static str,
    /// The standard deviation of normal noise, as a fraction of the measured value; the scale of other noises.
    spread: f64,
    /// The variants that have the noise; the others have normal noise.
    noisy_variants: &'static str,
    variants: usize,
    /// By how much the other variants are worse than the best, as a fraction.
    gap: f64,
    /// The variant that the simulated user runs before the comparison. Number 0 is the best.
    current: Option<usize>,
    /// The number of runs with a wrong recommendation.
    wrong: usize,
    runs: usize,
    rate: f64,
    /// The upper 95% confidence limit of the rate.
    upper: f64,
    state: &'static str,
}

/// The rows of the table of wrong recommendations.
pub fn wrong_rows(selftest: &SelftestReport) -> Vec<WrongRecommendationRow> {
    let row = |setting: &WrongRecommendations| WrongRecommendationRow {
        noise: setting.noise.name(),
        spread: setting.spread,
        noisy_variants: setting.shapes.name(),
        variants: setting.variants,
        gap: setting.gap,
        current: setting.current,
        wrong: setting.errors.wrong,
        runs: setting.errors.runs,
        rate: setting.errors.rate(),
        upper: setting.errors.upper_limit(),
        state: state_name(setting.state()),
    };
    selftest.wrong_recommendations.iter().map(row).collect()
}

impl Row for WrongRecommendationRow {
    const COLUMNS: &'static [&'static str] = &[
        "noise",
        "spread",
        "rate: WRONG",
        "upper: 95% UPPER LIMIT",
        "noisy_variants",
        "variants",
        "gap",
        "current",
        "state",
    ];

    fn table_text(&self, field: &str) -> Option<String> {
        match field {
            "spread" => Some(percent(self.spread)),
            "rate" => Some(percent_with_two_decimals(self.rate)),
            "upper" => Some(percent_with_two_decimals(self.upper)),
            "gap" => Some(percent(self.gap)),
            "current" => Some(match self.current {
                None => "none".into(),
                Some(0) => "the best".into(),
                Some(_) => "another".into(),
            }),
            _ => None,
        }
    }
}

/// How often the best variant is recommended in a given round or earlier.
#[derive(Serialize)]
pub struct TimelyRecommendationRow {
    noise: &'static str,
    spread: f64,
    gap: f64,
    by_round: usize,
    variants: usize,
    /// The number of runs that recommend the best variant in time.
    #[serde(rename = "answered")]
    timely: usize,
    runs: usize,
    rate: f64,
    state: &'static str,
}

/// The rows of the table of recommendations in time.
pub fn timely_rows(selftest: &SelftestReport) -> Vec<TimelyRecommendationRow> {
    let row = |setting: &TimelyRecommendations| TimelyRecommendationRow {
        noise: setting.noise.name(),
        spread: setting.spread,
        gap: setting.gap,
        by_round: setting.by_round,
        variants: setting.variants,
        timely: setting.timely,
        runs: setting.runs,
        rate: setting.rate(),
        state: state_name(setting.state()),
    };
    selftest.timely_recommendations.iter().map(row).collect()
}

impl Row for TimelyRecommendationRow {
    const COLUMNS: &'static [&'static str] =
        &["noise", "gap", "spread", "by_round", "variants", "rate: ANSWERED", "state"];

    fn table_text(&self, field: &str) -> Option<String> {
        match field {
            "gap" => Some(percent(self.gap)),
            "spread" => Some(percent(self.spread)),
            "rate" => Some(format!("{:.1}%", 100.0 * self.rate)),
            _ => None,
        }
    }
}
