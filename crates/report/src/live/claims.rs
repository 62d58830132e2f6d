//! How a claim stands.

use super::intervals::sparkline;
use fsarena_core::event::Standing;
use fsarena_core::state::ClaimState;
use serde::Serialize;

/// One claim of a run in progress.
#[derive(Debug, Serialize)]
pub struct Claim<'a> {
    /// The claim and what is known of it.
    #[serde(flatten)]
    pub standing: &'a Standing,
    /// Its effect and interval in words: `−1.2% [−2.9%, +0.4%]`.
    pub known: String,
    /// How the interval narrowed, as bars.
    pub narrowing: String,
}

impl Claim<'_> {
    /// The claim as people see it.
    pub fn of(claim: &ClaimState) -> Claim<'_> {
        let known = match claim.standing.effect {
            None => "nothing known yet".to_string(),
            Some((effect, low, high)) => {
                let few = if claim.standing.provisional { " so far" } else { "" };
                format!("{} [{}, {}]{few}", change(effect), change(low), change(high))
            }
        };
        Claim { standing: &claim.standing, known, narrowing: sparkline(&claim.widths) }
    }
}

/// Per cent; from twice as much on the ratio itself.
fn change(fraction: f64) -> String {
    if fraction >= 1.0 {
        return format!("{:.1}×", 1.0 + fraction);
    }
    let percent = 100.0 * fraction;
    let digits = if percent.abs() < 9.95 { 2 } else { usize::from(percent.abs() < 99.5) };
    format!("{percent:+.digits$}%").replace('-', "−")
}
