//! What the measurement says: false verdicts of identical variants, and what can be resolved.

use super::measured::MORE;
use super::measured::{METRICS, Measured};
use crate::failure::Failure;
use crate::flags::ListFormat;
use crate::listing::{self, Row};
use fsarena_core::exit::ExitCode;
use fsarena_core::plan::Backing;
use fsarena_core::record::RunRecord;
use fsarena_stats::identical::{chance, found_at, verdicts};
use fsarena_stats::pairs::log_ratios;
use fsarena_stats::power::{resolvable, rounds_for, spread};
use fsarena_stats::sequential::Centre;
use fsarena_stats::table::FIRST_LOOK;
use fsarena_sys::kernel::Kernel;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What this machine can resolve. It is kept in the state directory.
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
    noise: Vec<Noise>,
    /// For each variant with more work, whether it was found.
    power: Vec<Power>,
}

/// The noise of one metric of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Noise {
    task: String,
    metric: String,
    /// The spread of d between identical variants, in per cent.
    sigma_percent: f64,
    /// The effect that 8 rounds find in four of five runs, in per cent.
    resolves_8_percent: Option<f64>,
    /// The rounds needed to find 1% so; none where 400 do not do.
    rounds_for_1_percent: Option<usize>,
}

/// A variant with more files against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Power {
    more_percent: u64,
    task: String,
    metric: String,
    effect_percent: f64,
    low_percent: f64,
    high_percent: f64,
    /// The first look at which the 95% interval excluded 0.
    found_at_rounds: Option<usize>,
}

const FILE: &str = "selftest.json";
/// Below this, identical variants were called different more often than chance explains.
const SUSPICIOUS: f64 = 0.01;

impl Resolution {
    /// Judges what was measured.
    pub fn of(measured: &Measured, seed: u64) -> Resolution {
        let host = fsarena_sys::host::collect(&Kernel::host());
        let identical: Vec<Vec<f64>> =
            measured.values.values().map(|variants| d(&variants[0], &variants[1])).collect();
        let (verdicts, false_verdicts) = verdicts(&identical, measured.rounds);
        let mut noise = Vec::new();
        let mut power = Vec::new();
        for ((task, metric), variants) in &measured.values {
            noise.extend(noise_of(task, metric, &d(&variants[0], &variants[1])));
            let more = MORE.iter().zip(variants).filter(|((_, percent), _)| *percent > 0);
            power.extend(more.filter_map(|((_, percent), variant)| {
                power_of(task, metric, *percent, &d(&variants[0], variant))
            }));
        }
        Resolution {
            measured_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            hostname: host.hostname,
            kernel: host.kernel,
            rounds: measured.rounds,
            verdicts,
            false_verdicts,
            chance: chance(&identical, measured.rounds, false_verdicts, seed),
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

    /// Keeps it for reports. Renamed into place: a reader finds all of it or none.
    pub fn store(&self, state: &Path) -> Result<(), Failure> {
        let (file, new) = (state.join(FILE), state.join(format!("{FILE}.new")));
        std::fs::write(&new, format!("{:#}\n", self.json())).map_err(Failure::file(&new))?;
        std::fs::rename(&new, &file).map_err(Failure::file(&file))
    }

    /// For programs.
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("plain data")
    }

    /// For people.
    pub fn print(&self) -> Result<(), Failure> {
        listing::print(&self.noise, ListFormat::Term)?;
        listing::text("\n")?;
        listing::print(&self.power, ListFormat::Term)?;
        listing::text(&format!("\n{}\n", self.words()))
    }

    fn words(&self) -> String {
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
            Some(format!("{} of {} {}", percent(resolves), noise.task, noise.metric))
        };
        let told = [METRICS[0], "system"];
        let items: Vec<String> =
            self.noise.iter().filter(|noise| told.contains(&noise.metric.as_str())).filter_map(of).collect();
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
}

/// What a report of a run on this machine quotes: nothing where the self-test was made elsewhere, under
/// another kernel, or never, and of a run in guests, of which it says nothing.
pub fn stored_line(state: &Path, record: &RunRecord) -> Option<String> {
    let stored: Resolution = serde_json::from_slice(&std::fs::read(state.join(FILE)).ok()?).ok()?;
    let [host] = record.hosts.as_slice() else { return None };
    let same = host.hostname == stored.hostname && host.kernel == stored.kernel;
    let in_guest = matches!(record.plan.device.backing, Backing::Guest(_));
    stored.line().filter(|_| same && !in_guest && stored.verdicts > 0)
}

fn d(base: &[f64], variant: &[f64]) -> Vec<f64> {
    log_ratios(base, variant).d
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

fn percent(value: f64) -> String {
    fsarena_core::number::percent(value / 100.0)
}

impl Row for Noise {
    const HEADS: &'static [&'static str] =
        &["TASK", "METRIC", "σ OF IDENTICAL VARIANTS", "8 ROUNDS RESOLVE", "ROUNDS FOR 1%"];

    fn columns(&self) -> Vec<String> {
        let rounds = self.rounds_for_1_percent.map_or("over 400".to_string(), |rounds| rounds.to_string());
        vec![
            self.task.clone(),
            self.metric.clone(),
            percent(self.sigma_percent),
            self.resolves_8_percent.map_or("–".into(), percent),
            rounds,
        ]
    }
}

impl Row for Power {
    const HEADS: &'static [&'static str] =
        &["MORE FILES", "TASK", "METRIC", "EFFECT", "95% INTERVAL", "FOUND"];

    fn columns(&self) -> Vec<String> {
        let found = self.found_at_rounds.map_or("not found".into(), |rounds| format!("at {rounds} rounds"));
        vec![
            format!("{}%", self.more_percent),
            self.task.clone(),
            self.metric.clone(),
            percent(self.effect_percent),
            format!("{} to {}", percent(self.low_percent), percent(self.high_percent)),
            found,
        ]
    }
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
        let back: Resolution = serde_json::from_value(stored.json()).unwrap();
        assert_eq!(back.hostname, stored.hostname);
    }
}
