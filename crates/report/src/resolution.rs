//! What a machine can resolve, by a run of identical variants and variants with more work: false verdicts, noise, power.

use fsarena_core::observations::Grid;
use fsarena_core::{exit::ExitCode, number, plan::Backing, record::RunRecord, row::Row};
use fsarena_stats::power::{chance_of_false_verdicts, identical_verdicts};
use fsarena_stats::power::{resolvable, rounds_for, spread};
use fsarena_stats::ratio::log_ratios;
use fsarena_stats::sequential::{Centre, found_at};
use fsarena_stats::table::FIRST_LOOK;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The metrics to analyse.
const METRICS: [&str; 4] = ["elapsed", "synced", "system", "total_cpu"];
/// The metrics that reports quote.
const QUOTED: [&str; 2] = ["elapsed", "system"];
/// Below this, identical variants were called different more often than chance explains.
const SUSPICIOUS: f64 = 0.01;

/// The differences that this machine can detect, measured by its self-test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// When it was measured: seconds since 1970, UTC.
    measured_at_s: u64,
    hostname: String,
    kernel: String,
    /// Whole rounds.
    rounds: usize,
    /// Number of verdicts on identical variants, each on a separate batch of 8 rounds.
    verdicts: usize,
    /// How many of them said "different".
    false_verdicts: usize,
    /// How often chance alone gives as many: see [`chance`].
    chance: f64,
    /// For each task and metric, what identical variants leave of noise.
    pub noise: Vec<Noise>,
    /// For each variant with more work, whether it was found.
    pub power: Vec<Power>,
}

/// The noise of one metric of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    task: String,
    metric: String,
    /// The spread of d between identical variants, in per cent.
    pub sigma_percent: f64,
    /// The effect that 8 rounds find in four of five runs, in per cent.
    pub resolves_8_percent: Option<f64>,
    /// The rounds needed to find 1% so; `None` if 400 do not do.
    pub rounds_for_1_percent: Option<usize>,
}

/// A variant with more files against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// How many files more it has.
    pub more_percent: u64,
    task: String,
    metric: String,
    /// The difference, and its 95% interval.
    pub effect_percent: f64,
    /// Its lower limit.
    pub low_percent: f64,
    /// Its upper limit.
    pub high_percent: f64,
    /// The first look at which the 95% interval excluded 0.
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

    fn for_people(&self, field: &str) -> Option<String> {
        match field {
            "sigma_percent" => Some(number::percent(self.sigma_percent / 100.0)),
            "resolves_8_percent" => {
                Some(self.resolves_8_percent.map_or("–".into(), |effect| number::percent(effect / 100.0)))
            }
            "rounds_for_1_percent" => self.rounds_for_1_percent.is_none().then(|| "over 400".into()),
            _ => None,
        }
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

    fn for_people(&self, field: &str) -> Option<String> {
        let [effect, low, high] = [self.effect_percent, self.low_percent, self.high_percent]
            .map(|value| number::percent(value / 100.0));
        match field {
            "more_percent" => Some(format!("{}%", self.more_percent)),
            "effect_percent" => Some(effect),
            "low_percent" => Some(format!("{low} to {high}")),
            "found_at_rounds" => {
                Some(self.found_at_rounds.map_or("not found".into(), |rounds| format!("at {rounds} rounds")))
            }
            _ => None,
        }
    }
}

impl Resolution {
    /// Judges variants by how many per cent more files each has; the first two are identical.
    pub fn of(record: &RunRecord, more: &[u64], seed: u64) -> Resolution {
        let mut rounds = 0;
        // By task and metric: for each variant the value of each round, NaN where there is none.
        let mut measured: BTreeMap<(String, &str), Vec<Vec<f64>>> = BTreeMap::new();
        for metric in METRICS {
            let Some(grid) = Grid::of(record, metric) else { continue };
            rounds = grid.rounds.len();
            for task in grid.comparable_tasks() {
                measured.insert((grid.tasks[task].id.to_string(), metric), grid.values[task].clone());
            }
        }
        let d = |variants: &[Vec<f64>], at: usize| log_ratios(&variants[0], &variants[at]).d;
        let identical: Vec<Vec<f64>> = measured.values().map(|variants| d(variants, 1)).collect();
        let (verdicts, false_verdicts) = identical_verdicts(&identical, rounds);
        let (mut noise, mut power) = (vec![], vec![]);
        for ((task, metric), variants) in &measured {
            noise.extend(noise_of(task, metric, &d(variants, 1)));
            let more = more.iter().enumerate().take(variants.len()).skip(2);
            power.extend(more.filter_map(|(at, percent)| power_of(task, metric, *percent, &d(variants, at))));
        }
        let host = record.hosts.first();
        Resolution {
            measured_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            hostname: host.map_or(String::new(), |host| host.hostname.clone()),
            kernel: host.map_or(String::new(), |host| host.kernel.clone()),
            rounds,
            verdicts,
            false_verdicts,
            chance: chance_of_false_verdicts(&identical, rounds, false_verdicts, seed),
            noise,
            power,
        }
    }

    /// Refuted where chance does not explain the false verdicts, inconclusive where there are none at all.
    pub fn exit_code(&self) -> ExitCode {
        match self.verdicts {
            0 => ExitCode::Inconclusive,
            _ if self.chance < SUSPICIOUS => ExitCode::Refuted,
            _ => ExitCode::Done,
        }
    }

    /// The result in a sentence.
    pub fn words(&self) -> String {
        let batches = self.rounds / FIRST_LOOK;
        if self.verdicts == 0 {
            return format!(
                "{} rounds allow no verdict, which takes 8: allow more with --budget.",
                self.rounds
            );
        }
        let judged = if self.chance < SUSPICIOUS {
            "MORE than chance explains: something tells the two apart, so do not trust verdicts here"
        } else {
            "no more than chance explains"
        };
        format!(
            "{} verdicts on identical variants, in {batches} batches of 8 rounds: {} said \"different\", {judged} (as \
             many or more in {:.0}% of all ways to swap the two in the same rounds). σ is the spread of the log \
             ratio of identical variants within rounds. Stored, and quoted by reports of this machine.",
            self.verdicts,
            self.false_verdicts,
            100.0 * self.chance
        )
    }

    /// What 8 rounds can resolve, `4.1% of cp elapsed, 1.2% of cp system`, and how often identical variants were called
    /// different.
    fn line(&self) -> Option<String> {
        let of = |noise: &Noise| {
            let resolves = noise.resolves_8_percent?;
            Some(format!("{} of {} {}", number::percent(resolves / 100.0), noise.task, noise.metric))
        };
        let items: Vec<String> = self
            .noise
            .iter()
            .filter(|noise| QUOTED.contains(&noise.metric.as_str()))
            .filter_map(of)
            .collect();
        (!items.is_empty()).then(|| {
            format!(
                "On this machine 8 rounds can resolve {}; of {} verdicts on identical variants {} said \"different\" \
                 (fsarena selftest --here: ext4 in memory, a small tree)",
                items.join(", "),
                self.verdicts,
                self.false_verdicts
            )
        })
    }

    /// What a report of a run on this machine quotes: nothing where the self-test was made elsewhere, under another kernel,
    /// or never, and of a run in guests, of which it says nothing.
    pub fn quoted(&self, record: &RunRecord) -> Option<String> {
        let [host] = record.hosts.as_slice() else { return None };
        let same = host.hostname == self.hostname && host.kernel == self.kernel;
        let in_guest = matches!(record.plan.device.backing, Backing::Guest(_));
        self.line().filter(|_| same && !in_guest && self.verdicts > 0)
    }
}

fn noise_of(task: &str, metric: &str, d: &[f64]) -> Option<Noise> {
    let sigma = spread(d)?;
    Some(Noise {
        task: task.into(),
        metric: metric.into(),
        sigma_percent: 100.0 * sigma,
        resolves_8_percent: resolvable(sigma, FIRST_LOOK).map(|effect| 100.0 * effect),
        rounds_for_1_percent: rounds_for(sigma, 0.01),
    })
}

fn power_of(task: &str, metric: &str, more: u64, d: &[f64]) -> Option<Power> {
    let centre = Centre::of(d)?;
    let per_cent = |theta: f64| 100.0 * theta.exp_m1();
    Some(Power {
        more_percent: more,
        task: task.into(),
        metric: metric.into(),
        effect_percent: per_cent(centre.estimate),
        low_percent: per_cent(centre.wide.0),
        high_percent: per_cent(centre.wide.1),
        found_at_rounds: found_at(d),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_quote_what_was_measured_on_the_same_machine_and_kernel() {
        let noise =
            noise_of("cp", "elapsed", &[0.01, -0.02, 0.015, -0.01, 0.02, -0.005, 0.01, -0.015]).unwrap();
        let stored = Resolution {
            measured_at_s: 0,
            hostname: "bench".into(),
            kernel: "6.18".into(),
            rounds: 16,
            verdicts: 4,
            false_verdicts: 1,
            chance: 0.5,
            noise: vec![noise],
            power: vec![],
        };
        let line = stored.line().unwrap();
        assert!(
            line.contains("of cp elapsed; of 4 verdicts on identical variants 1 said \"different\""),
            "{line}"
        );
        let back: Resolution = serde_json::from_value(serde_json::to_value(&stored).unwrap()).unwrap();
        assert_eq!(back.hostname, stored.hostname);
    }
}
