//! Statistics of paired measurements: pure functions of slices.
//!
//! A round measures every variant once, so two variants are compared by the ratios within rounds: what a round does to both
//! cancels out. NaN marks a round that lacks a variant. Nothing here depends on how a run is stored;
//! [`fsarena_core::observations`] turns a stored run into the values that these functions take.
//!
//! What the modules hold:
//! - all analyses of one metric of a run: [`analyse`]
//! - differences within rounds: [`ratio`], [`sequential`], [`critical_values`], [`evalue`], [`hodges_lehmann`], [`mean_ratio`]
//! - several variants: [`comparison`], [`ranks`], [`ranking`] (over all tasks), [`compact_letter_display`], [`regret`],
//!   [`decision`]
//! - disturbances: [`carryover`], [`modes`], [`slow_rounds`], [`hosts`]
//! - claims: [`judge`], [`verdict`], [`gate`], [`conclusion`], [`published_values`]
//! - several runs: [`change_point`], [`bisect`]
//! - models of storage and services: [`matrix`] (block size × threads), [`scaling`] (number of clients), [`cost`] (of a request)
//! - checks of the method: [`power`] (the smallest detectable difference), [`simulate`]
//!
//! # Symbols
//! - d: the log ratio ln(B/A) of variants A and B in one round. θ: the true centre of d.
//! - n, m: numbers of values or rounds. k, K: a number of variants.
//! - V: the signed-rank statistic of Wilcoxon. c: its critical value at a look ([`critical_values`]).
//! - α: the probability of an error over all looks of a run. A look is a number of rounds after which a run may stop.
//!
//! # Examples
//! Compare two paired series: how many times as long `new` takes as `old`, with a 95% interval.
//! ```
//! use fsarena_stats::ratio::{Ratio, log_ratios};
//!
//! let old = [10.0, 11.0, 9.5, 10.2, 14.0, 10.4, 9.9, 10.1];
//! let new = [9.1, 10.1, 8.6, 9.4, 12.5, 9.4, 9.0, 9.2];
//! let ratio = Ratio::from_log_ratios(log_ratios(&old, &new).d).expect("they share rounds");
//! assert!(ratio.is_significant() && ratio.value > 0.90 && ratio.value < 0.92);
//! ```
//!
//! Look again and again while rounds come in, and stop once the interval excludes 0. If there is no difference, the intervals of
//! all looks include 0 in at least 95% of runs. Exact intervals exist from [`critical_values::FIRST_LOOK_ROUNDS`] rounds on.
//! ```
//! use fsarena_stats::sequential::Centre;
//!
//! let mut d: Vec<f64> = vec![];
//! let stopped = (0..400).find(|round| {
//!     // ln(new/old) of one round: 1% less, with some noise.
//!     d.push(-0.01 + f64::from(round * 7 % 24) / 2000.0 - 0.00575);
//!     let centre = Centre::from_log_ratios(&d).expect("every value is finite");
//!     let (low, high) = centre.interval_95;
//!     !centre.provisional && (low > 0.0 || high < 0.0)
//! });
//! assert!(stopped.is_some_and(|round| round < 24));
//! ```
//!
//! Bound the regret of choosing a variant: how much more it can cost than the best variant. The bounds of all variants hold
//! together with 95% confidence.
//! ```
//! use fsarena_core::sample::Direction;
//! use fsarena_stats::regret::Regrets;
//!
//! let seconds = [vec![1.0; 12], vec![1.02; 12], vec![1.5; 12]];
//! // Compare all variants, and let this run use the whole error probability of 5%.
//! let regrets = Regrets::compute(&seconds, &[], Direction::Lower, 1);
//! assert_eq!(regrets.choose(&[0, 1, 2]), Some(0));
//! let second = regrets.regret_of(1).expect("it shares rounds with the others").exp_m1();
//! assert!((second - 0.02).abs() < 1e-9 && regrets.is_dominated(2));
//! ```

pub mod analyse;
pub mod bisect;
pub mod carryover;
pub mod change_point;
pub mod compact_letter_display;
pub mod comparison;
pub mod conclusion;
pub mod cost;
pub mod critical_values;
pub mod decision;
pub mod evalue;
pub mod gate;
pub mod hodges_lehmann;
pub mod hosts;
pub mod judge;
pub mod matrix;
pub mod mean_ratio;
pub mod modes;
pub mod power;
pub mod published_values;
pub mod ranking;
pub mod ranks;
pub mod ratio;
pub mod regret;
pub mod scaling;
pub mod sequential;
pub mod simulate;
pub mod slow_rounds;
pub mod verdict;

pub use fsarena_core::average;
