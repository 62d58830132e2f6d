//! `--max-slowdown`: limits of what the candidate may cost, which become the claims of a gate.

use crate::failure::{Failure, usage_error};
use crate::flags::parse_percent_as_fraction;
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::{plan::Plan, sample::Direction};
use fsarena_run::work;

/// How much worse than the baseline the candidate may be.
#[derive(Debug, Clone, PartialEq)]
pub struct MaxSlowdown {
    /// The quantity that is limited; None for the main metric over all tasks.
    quantity: Option<Quantity>,
    /// The margin, in percent.
    percent: f64,
}

/// Parses `PERCENT` or `TASK.METRIC=PERCENT`. A task may have parameters: `rndwr.iops[bs=4096]=5%`.
pub fn parse_max_slowdown(text: &str) -> Result<MaxSlowdown, String> {
    let (quantity, percent) = match text.rsplit_once('=') {
        Some((quantity, percent)) => (Some(parse_quantity(quantity)?), percent),
        None => (None, text),
    };
    // 0.07 * 100 is not exactly 7 in binary floating point, hence the rounding.
    let percent = (parse_percent_as_fraction(percent)? * 1e10).round() / 1e8;
    Ok(MaxSlowdown { quantity, percent })
}

/// Parses `TASK.METRIC`, by the parser of claims.
fn parse_quantity(text: &str) -> Result<Quantity, String> {
    match format!("{text}: candidate <= baseline").parse::<Claim>() {
        Ok(claim) if claim.variants() == ["candidate", "baseline"] => Ok(claim.subject),
        _ => Err(format!("write it TASK.METRIC=PERCENT, such as commit.latency_p99=5%, instead of `{text}`")),
    }
}

/// The claims of a gate with these limits: that the candidate is at most that much slower than the baseline.
///
/// # Errors
/// Neither less nor more of a metric is better, or fsarena does not know the metric before the run.
pub fn gate_claims(limits: &[MaxSlowdown], main_metric: Option<&str>, plan: &Plan) -> Result<Vec<String>, Failure> {
    let mut claims = vec![];
    for limit in limits {
        let main_quantity = || Quantity::of_all(main_metric.unwrap_or(work::main_metric_of_plan(plan)));
        let quantity = limit.quantity.clone().unwrap_or_else(main_quantity);
        let relation = match work::metric_direction(plan, &quantity.metric)? {
            Some(Direction::Lower) => "<=",
            Some(Direction::Higher) => ">=",
            Some(Direction::Neutral) => {
                let metric = &quantity.metric;
                return usage_error(format!("--max-slowdown: neither more nor less of {metric} is better"));
            }
            None => {
                let metric = &quantity.metric;
                return usage_error(format!(
                    "--max-slowdown: no metric `{metric}` is known before the run (fsarena list metrics); if a command \
                     prints it, declare it: --metric-regex 'NAME UNIT lower: REGEX'"
                ));
            }
        };
        claims.push(format!("{quantity}: candidate {relation} baseline within {}%", limit.percent));
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_percentage_of_all_tasks_or_of_one() {
        let parsed =
            |text: &str| parse_max_slowdown(text).map(|limit| (limit.quantity.map(|q| q.to_string()), limit.percent));
        assert_eq!(parsed("0.5%"), Ok((None, 0.5)));
        assert_eq!(parsed("7"), Ok((None, 7.0)));
        assert_eq!(parsed("commit.latency_p99=5%"), Ok((Some("commit.latency_p99".into()), 5.0)));
        assert_eq!(parsed("rndwr.iops[bs=4096]=0.07%"), Ok((Some("rndwr.iops[bs=4096]".into()), 0.07)));
        for wrong in ["", "x", "=5%", "a b=5%", "rm.elapsed=", "rm.elapsed=0%", "x: a < b by 5%", "rm.elapsed: x=5%"] {
            assert!(parse_max_slowdown(wrong).is_err(), "{wrong}");
        }
    }
}
