//! The smallest differences that a machine can detect, measured by the self-test: a run of two identical variants, and of
//! variants with more work. It yields the false verdicts, the noise, and the power to find real differences.

use crate::{advice::SELFTEST_COMMAND, phrases::format_rounds_needed};
use fsarena_core::{exit::ExitCode, number, observations::Grid, plan::Backing, record::RunRecord};
use fsarena_core::{row::Row, setting_text::setting};
use fsarena_stats::power::{
    count_false_verdicts, detectable_effect, p_value_of_false_verdicts, rounds_to_detect, spread,
};
use fsarena_stats::sequential::{Centre, rounds_to_find_difference};
use fsarena_stats::{critical_values::FIRST_LOOK_ROUNDS, ratio::log_ratios};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The metrics that the self-test evaluates.
const EVALUATED_METRICS: [&str; 4] = ["elapsed", "synced", "system", "total_cpu"];
/// The metrics that reports quote.
const QUOTED_METRICS: [&str; 2] = ["elapsed", "system"];
/// Below this p-value, chance does not explain the false verdicts: the machine treats identical variants differently.
const SUSPICIOUS_P_VALUE: f64 = 0.01;

/// The differences that this machine can detect, measured by its self-test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// The time of the self-test, in seconds since 1970, UTC.
    measured_at_s: u64,
    hostname: String,
    kernel: String,
    /// The number of complete rounds.
    rounds: usize,
    /// The number of verdicts on identical variants, each from a separate batch of 8 rounds.
    verdicts: usize,
    /// The number of these verdicts that called the identical variants different.
    false_verdicts: usize,
    /// The probability that chance alone gives at least this number of false verdicts: see [`p_value_of_false_verdicts`].
    #[serde(rename = "chance")]
    p_value: f64,
    /// The noise between identical variants, for each task and metric.
    pub noise: Vec<Noise>,
    /// Whether the self-test found a real difference, for each variant with more work, task and metric.
    pub power: Vec<Power>,
}

/// The noise of one metric of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    task: String,
    metric: String,
    /// The standard deviation of the log ratio of identical variants within rounds, in per cent.
    pub sigma_percent: f64,
    /// The difference that 8 rounds detect with a probability of 80%, in per cent.
    pub resolves_8_percent: Option<f64>,
    /// The number of rounds that detect a difference of 1% with the same probability; `None` if it is more than 400.
    pub rounds_for_1_percent: Option<usize>,
}

/// The comparison of a variant that has more files with the base variant, in one metric of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// How many more files the variant has, in per cent of the base.
    pub more_percent: u64,
    task: String,
    metric: String,
    /// The measured difference from the base.
    pub effect_percent: f64,
    /// The lower limit of the 95% interval.
    pub low_percent: f64,
    /// The upper limit of the 95% interval.
    pub high_percent: f64,
    /// The number of rounds after which the 95% interval excluded 0 for the first time; `None` if it never did.
    pub found_at_rounds: Option<usize>,
}

impl Row for Noise {
    const COLUMNS: &'static [&'static str] = &[
        "task",
        "metric",
        "sigma_percent: σ OF IDENTICAL VARIANTS",
        "resolves_8_percent: 8 ROUNDS RESOLVE",
        "rounds_for_1_percent: ROUNDS FOR 1%",
    ];

    fn table_text(&self, field: &str) -> Option<String> {
        Some(match field {
            "sigma_percent" => number::percent(self.sigma_percent / 100.0),
            "resolves_8_percent" => {
                self.resolves_8_percent.map_or("–".into(), |effect| number::percent(effect / 100.0))
            }
            "rounds_for_1_percent" => format_rounds_needed(self.rounds_for_1_percent),
            _ => return None,
        })
    }
}

impl Row for Power {
    const COLUMNS: &'static [&'static str] = &[
        "more_percent: MORE FILES",
        "task",
        "metric",
        "effect_percent: EFFECT",
        "low_percent: 95% INTERVAL",
        "found_at_rounds: FOUND",
    ];

    fn table_text(&self, field: &str) -> Option<String> {
        let [effect, low, high] =
            [self.effect_percent, self.low_percent, self.high_percent].map(|value| number::percent(value / 100.0));
        Some(match field {
            "more_percent" => format!("{}%", self.more_percent),
            "effect_percent" => effect,
            "low_percent" => format!("{low} to {high}"),
            "found_at_rounds" => {
                self.found_at_rounds.map_or("not found".into(), |rounds| format!("at {rounds} rounds"))
            }
            _ => return None,
        })
    }
}

impl Resolution {
    /// Evaluates a run of the self-test. `more_percent` is the number of additional files of each variant, in per cent of the
    /// base; the first two variants are identical. `seed` is for the p-value.
    pub fn evaluate(record: &RunRecord, more_percent: &[u64], seed: u64) -> Resolution {
        let mut rounds = 0;
        // By task and metric: for each variant the value of each round, NaN for a missing one.
        let mut measured: BTreeMap<(String, &str), Vec<Vec<f64>>> = BTreeMap::new();
        for metric in EVALUATED_METRICS {
            let Some(grid) = Grid::of(record, metric) else { continue };
            rounds = grid.rounds.len();
            for task in grid.comparable_tasks() {
                measured.insert((grid.tasks[task].id.to_string(), metric), grid.values[task].clone());
            }
        }
        let log_ratios_to_base = |values: &[Vec<f64>], variant: usize| log_ratios(&values[0], &values[variant]).d;
        let identical_ratios: Vec<Vec<f64>> = measured.values().map(|values| log_ratios_to_base(values, 1)).collect();
        let (verdicts, false_verdicts) = count_false_verdicts(&identical_ratios, rounds);
        let (mut noise, mut power) = (vec![], vec![]);
        for ((task, metric), values) in &measured {
            noise.extend(compute_noise(task, metric, &log_ratios_to_base(values, 1)));
            for (variant, percent) in more_percent.iter().enumerate().take(values.len()).skip(2) {
                power.extend(compute_power(task, metric, *percent, &log_ratios_to_base(values, variant)));
            }
        }
        let host = record.hosts.first();
        Resolution {
            measured_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            hostname: host.map_or(String::new(), |host| host.hostname.clone()),
            kernel: host.map_or(String::new(), |host| host.kernel.clone()),
            rounds,
            verdicts,
            false_verdicts,
            p_value: p_value_of_false_verdicts(&identical_ratios, rounds, false_verdicts, seed),
            noise,
            power,
        }
    }

    /// The exit code: refuted if chance does not explain the false verdicts, inconclusive without any verdict.
    pub fn exit_code(&self) -> ExitCode {
        if self.verdicts == 0 {
            ExitCode::Inconclusive
        } else if self.p_value < SUSPICIOUS_P_VALUE {
            ExitCode::Refuted
        } else {
            ExitCode::Done
        }
    }

    /// The result in sentences for people.
    pub fn describe(&self) -> String {
        let batches = self.rounds / FIRST_LOOK_ROUNDS;
        if self.verdicts == 0 {
            return format!(
                "{} rounds are too few for a verdict, which takes 8: allow more ({}).",
                self.rounds,
                setting("budget", "")
            );
        }
        let chance_note = if self.p_value < SUSPICIOUS_P_VALUE {
            "MORE than chance explains: this machine treats them differently, so do not trust its verdicts"
        } else {
            "no more than chance explains"
        };
        format!(
            "{} verdicts on identical variants, in {batches} batches of 8 rounds: {} said \"different\", {chance_note} ({} \
             of all ways to swap the two within rounds give as many or more). σ is the spread of the log ratio of \
             identical variants within rounds. fsarena stores this result, and the reports of this machine quote it.",
            self.verdicts,
            self.false_verdicts,
            number::percent(self.p_value)
        )
    }

    /// A sentence with the differences that 8 rounds detect (`4.1% of cp elapsed, 1.2% of cp system`), and the number of false
    /// verdicts. `None` if no detectable difference of the [`QUOTED_METRICS`] is known.
    fn detectable_differences_sentence(&self) -> Option<String> {
        let mut items = vec![];
        for noise in self.noise.iter().filter(|noise| QUOTED_METRICS.contains(&noise.metric.as_str())) {
            if let Some(percent) = noise.resolves_8_percent {
                items.push(format!("{} of {} {}", number::percent(percent / 100.0), noise.task, noise.metric));
            }
        }
        if items.is_empty() {
            return None;
        }
        Some(format!(
            "On this machine 8 rounds can resolve {}; of {} verdicts on identical variants {} said \"different\" \
             ({SELFTEST_COMMAND}: ext4 in memory, a small tree)",
            items.join(", "),
            self.verdicts,
            self.false_verdicts
        ))
    }

    /// The sentence that the report of a run quotes from this self-test. `None` if the run was on another machine or kernel, on
    /// several machines or in guests, or if the self-test gave no verdict.
    pub fn quote_for_run(&self, record: &RunRecord) -> Option<String> {
        let [host] = record.hosts.as_slice() else { return None };
        let same_machine = host.hostname == self.hostname && host.kernel == self.kernel;
        let in_guest = matches!(record.plan.device.backing, Backing::Guest(_));
        if !same_machine || in_guest || self.verdicts == 0 {
            return None;
        }
        self.detectable_differences_sentence()
    }
}

/// The noise of a metric, from the log ratios of identical variants; `None` with too few rounds.
fn compute_noise(task: &str, metric: &str, log_ratios: &[f64]) -> Option<Noise> {
    let sigma = spread(log_ratios)?;
    Some(Noise {
        task: task.into(),
        metric: metric.into(),
        sigma_percent: 100.0 * sigma,
        resolves_8_percent: detectable_effect(sigma, FIRST_LOOK_ROUNDS).map(|effect| 100.0 * effect),
        rounds_for_1_percent: rounds_to_detect(sigma, 0.01),
    })
}

/// The difference of a variant with more files, from its log ratios to the base; `None` with too few rounds.
fn compute_power(task: &str, metric: &str, more_percent: u64, log_ratios: &[f64]) -> Option<Power> {
    let centre = Centre::from_log_ratios(log_ratios)?;
    let percent = |log_ratio: f64| 100.0 * log_ratio.exp_m1();
    Some(Power {
        more_percent,
        task: task.into(),
        metric: metric.into(),
        effect_percent: percent(centre.estimate),
        low_percent: percent(centre.interval_95.0),
        high_percent: percent(centre.interval_95.1),
        found_at_rounds: rounds_to_find_difference(log_ratios),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quoted_sentence_has_differences_and_false_verdicts() {
        let noise = compute_noise("cp", "elapsed", &[0.01, -0.02, 0.015, -0.01, 0.02, -0.005, 0.01, -0.015]).unwrap();
        let resolution = Resolution {
            measured_at_s: 0,
            hostname: "bench".into(),
            kernel: "6.18".into(),
            rounds: 16,
            verdicts: 4,
            false_verdicts: 1,
            p_value: 0.5,
            noise: vec![noise],
            power: vec![],
        };
        let sentence = resolution.detectable_differences_sentence().unwrap();
        assert!(
            sentence.contains("of cp elapsed; of 4 verdicts on identical variants 1 said \"different\""),
            "{sentence}"
        );
        let suspicious = Resolution { p_value: 0.004, ..resolution.clone() };
        assert!(suspicious.describe().contains("(0.4% of all ways to swap"), "{}", suspicious.describe());
        let read_back: Resolution = serde_json::from_value(serde_json::to_value(&resolution).unwrap()).unwrap();
        assert_eq!(read_back, resolution);
    }
}
