//! What the measurement says: false verdicts of identical arms, and what can be resolved.

use super::MORE;
use super::measure::{METRICS, Measured};
use crate::args::ListFormat;
use crate::failure::{Failure, printing};
use crate::listing::{self, Row};
use fsarena_core::exit::ExitCode;
use fsarena_core::plan::Backing;
use fsarena_core::record::RunRecord;
use fsarena_core::schedule::mix;
use fsarena_stats::pairs::log_ratios;
use fsarena_stats::power::{blocks_for, resolvable, spread};
use fsarena_stats::sequential::Centre;
use fsarena_stats::table::{FIRST_LOOK, LOOKS};
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
    /// Whole blocks.
    blocks: usize,
    /// Verdicts on identical arms, each on a round of 8 blocks of its own.
    verdicts: usize,
    /// How many of them said "different".
    false_verdicts: usize,
    /// How often chance alone gives as many: see [`chance`].
    chance: f64,
    /// For each step and metric, what identical arms leave of noise.
    noise: Vec<Noise>,
    /// For each arm with more work, whether it was found.
    power: Vec<Power>,
}

/// The noise of one metric of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Noise {
    step: String,
    metric: String,
    /// The spread of d between identical arms, in per cent.
    sigma_percent: f64,
    /// The effect that 8 blocks find in four of five runs, in per cent.
    resolves_8_percent: Option<f64>,
    /// The blocks needed to find 1% so; none where 400 do not do.
    blocks_for_1_percent: Option<usize>,
}

/// An arm with more files against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Power {
    more_percent: u64,
    step: String,
    metric: String,
    effect_percent: f64,
    low_percent: f64,
    high_percent: f64,
    /// The first look at which the 95% interval excluded 0.
    found_at_blocks: Option<usize>,
}

const FILE: &str = "selftest.json";
/// Below this, identical arms were called different more often than chance explains.
const SUSPICIOUS: f64 = 0.01;
const FLIPS: u64 = 2_000;

impl Resolution {
    /// Judges what was measured.
    pub fn of(measured: &Measured, kernel: &Kernel, seed: u64) -> Resolution {
        let host = fsarena_sys::host::collect(kernel);
        let identical: Vec<Vec<f64>> = measured.values.values().map(|arms| d(&arms[0], &arms[1])).collect();
        let (verdicts, false_verdicts) = verdicts(&identical, measured.blocks);
        let mut noise = Vec::new();
        let mut power = Vec::new();
        for ((step, metric), arms) in &measured.values {
            noise.extend(noise_of(step, metric, &d(&arms[0], &arms[1])));
            let more = MORE.iter().zip(arms).filter(|((_, percent), _)| *percent > 0);
            power.extend(
                more.filter_map(|((_, percent), arm)| power_of(step, metric, *percent, &d(&arms[0], arm))),
            );
        }
        Resolution {
            measured_at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            hostname: host.hostname,
            kernel: host.kernel,
            blocks: measured.blocks,
            verdicts,
            false_verdicts,
            chance: chance(&identical, measured.blocks, false_verdicts, seed),
            noise,
            power,
        }
    }

    /// Refuted where chance does not explain the false verdicts, undecided where there are none at all.
    pub fn exit_code(&self) -> ExitCode {
        match self.verdicts {
            0 => ExitCode::Undecided,
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
        println(String::new())?;
        listing::print(&self.power, ListFormat::Term)?;
        println(format!("\n{}", self.words()))
    }

    fn words(&self) -> String {
        let rounds = self.blocks / FIRST_LOOK;
        if self.verdicts == 0 {
            return format!(
                "{} blocks allow no verdict, which takes 8: allow more with --budget.",
                self.blocks
            );
        }
        let judged = if self.chance < SUSPICIOUS {
            "MORE than chance explains: something tells the two apart, so do not trust verdicts here"
        } else {
            "no more than chance explains"
        };
        format!(
            "{} verdicts on identical arms, in {rounds} rounds of 8 blocks: {} said \"different\", {judged} (as \
             many or more in {:.0}% of all ways to swap the two in the same blocks). σ is the spread of the log \
             ratio of identical arms within blocks. Stored, and quoted by reports of this machine.",
            self.verdicts,
            self.false_verdicts,
            100.0 * self.chance
        )
    }

    /// What 8 blocks can resolve, `4.1% of cp elapsed, 1.2% of cp system`, and how often identical arms were called
    /// different.
    fn line(&self) -> Option<String> {
        let of = |noise: &Noise| {
            let resolves = noise.resolves_8_percent?;
            Some(format!("{} of {} {}", percent(resolves), noise.step, noise.metric))
        };
        let told = [METRICS[0], "system"];
        let items: Vec<String> =
            self.noise.iter().filter(|noise| told.contains(&noise.metric.as_str())).filter_map(of).collect();
        (!items.is_empty()).then(|| {
            format!(
                "On this machine 8 blocks can resolve {}; of {} verdicts on identical arms {} said \"different\" \
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

fn d(base: &[f64], arm: &[f64]) -> Vec<f64> {
    log_ratios(base, arm).d
}

fn differs(d: &[f64]) -> bool {
    Centre::of(d).is_some_and(|centre| !centre.provisional && (centre.wide.0 > 0.0 || centre.wide.1 < 0.0))
}

/// Verdicts, and how many said "different": one for each series and round of 8 blocks.
fn verdicts(identical: &[Vec<f64>], blocks: usize) -> (usize, usize) {
    let rounds = identical.iter().flat_map(|d| d[..d.len().min(blocks)].chunks_exact(FIRST_LOOK));
    rounds.fold((0, 0), |(all, wrong), round| (all + 1, wrong + usize::from(differs(round))))
}

/// The probability of as many false verdicts or more, if the label of an arm means nothing: then the two
/// could as well be swapped in any block, in all series at once, and that was done by a coin. The series are
/// far from independent, and this takes account of it. By [`FLIPS`] random swaps, the observed one included
/// (Phipson and Smyth 2010).
fn chance(identical: &[Vec<f64>], blocks: usize, seen: usize, seed: u64) -> f64 {
    let as_many = (0..FLIPS).filter(|flip| {
        let swapped = |block: usize| mix(mix(seed, *flip), block as u64) & 1 == 1;
        let sign = |(block, d): (usize, &f64)| if swapped(block) { -d } else { *d };
        let flipped: Vec<Vec<f64>> =
            identical.iter().map(|d| d.iter().enumerate().map(sign).collect()).collect();
        verdicts(&flipped, blocks).1 >= seen
    });
    (as_many.count() + 1) as f64 / (FLIPS + 1) as f64
}

fn noise_of(step: &str, metric: &str, d: &[f64]) -> Option<Noise> {
    let sigma = spread(d)?;
    Some(Noise {
        step: step.into(),
        metric: metric.into(),
        sigma_percent: 100.0 * sigma,
        resolves_8_percent: resolvable(sigma, FIRST_LOOK).map(|effect| 100.0 * effect),
        blocks_for_1_percent: blocks_for(sigma, 0.01),
    })
}

fn power_of(step: &str, metric: &str, more: u64, d: &[f64]) -> Option<Power> {
    let centre = Centre::of(d)?;
    let per_cent = |theta: f64| 100.0 * theta.exp_m1();
    let looks = LOOKS.iter().map(|look| look.n).filter(|n| *n <= d.len());
    Some(Power {
        more_percent: more,
        step: step.into(),
        metric: metric.into(),
        effect_percent: per_cent(centre.estimate),
        low_percent: per_cent(centre.wide.0),
        high_percent: per_cent(centre.wide.1),
        found_at_blocks: looks.into_iter().find(|n| differs(&d[..*n])),
    })
}

fn println(text: String) -> Result<(), Failure> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{text}").map_err(printing)
}

fn percent(value: f64) -> String {
    format!("{}%", fsarena_report::number::three(value))
}

impl Row for Noise {
    const HEADS: &'static [&'static str] =
        &["STEP", "METRIC", "σ OF IDENTICAL ARMS", "8 BLOCKS RESOLVE", "BLOCKS FOR 1%"];

    fn columns(&self) -> Vec<String> {
        let blocks = self.blocks_for_1_percent.map_or("over 400".to_string(), |blocks| blocks.to_string());
        vec![
            self.step.clone(),
            self.metric.clone(),
            percent(self.sigma_percent),
            self.resolves_8_percent.map_or("–".into(), percent),
            blocks,
        ]
    }
}

impl Row for Power {
    const HEADS: &'static [&'static str] =
        &["MORE FILES", "STEP", "METRIC", "EFFECT", "95% INTERVAL", "FOUND"];

    fn columns(&self) -> Vec<String> {
        let found = self.found_at_blocks.map_or("not found".into(), |blocks| format!("at {blocks} blocks"));
        vec![
            format!("{}%", self.more_percent),
            self.step.clone(),
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

    /// d of two series over 16 blocks, of which the first round of the first is all of one sign.
    fn series() -> Vec<Vec<f64>> {
        let noise = |at: u64| (mix(3, at) % 1000) as f64 / 1000.0 - 0.5;
        let mut first: Vec<f64> = (0..16).map(noise).collect();
        first[..8].iter_mut().for_each(|d| *d = d.abs() + 0.01);
        vec![first, (16..32).map(noise).collect()]
    }

    #[test]
    fn a_verdict_for_each_series_and_round() {
        assert_eq!(verdicts(&series(), 16), (4, 1));
        // A round that is not whole has none.
        assert_eq!(verdicts(&series(), 15).0, 2);
    }

    #[test]
    fn chance_explains_one_and_not_all() {
        assert!(chance(&series(), 16, 1, 7) > SUSPICIOUS);
        let biased = vec![vec![0.01; 16]; 2];
        assert_eq!(verdicts(&biased, 16), (4, 4));
        // All of one sign in two rounds: 4 of 2^16 ways.
        assert!(chance(&biased, 16, 4, 7) < SUSPICIOUS);
    }

    #[test]
    fn reports_quote_what_was_measured_on_the_same_machine_and_kernel() {
        let noise = noise_of("cp", "elapsed", &series()[1]).unwrap();
        let stored = Resolution {
            measured_at_s: 0,
            hostname: "bench".into(),
            kernel: "6.18".into(),
            blocks: 16,
            verdicts: 4,
            false_verdicts: 1,
            chance: 0.5,
            noise: vec![noise],
            power: vec![],
        };
        let line = stored.line().unwrap();
        assert!(
            line.contains("of cp elapsed; of 4 verdicts on identical arms 1 said \"different\""),
            "{line}"
        );
        let back: Resolution = serde_json::from_value(stored.json()).unwrap();
        assert_eq!(back.hostname, stored.hostname);
    }
}
