//! Models of measurement noise for simulations: six that every rule is tested with, and one more.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};

/// Size of the noise of one measurement: 1% of the value, on the logarithmic scale.
pub const SD: f64 = 0.01;
/// The autocorrelation of the drift from one round to the next.
const DRIFT_AUTOCORRELATION: f64 = 0.95;
/// The probability that a measurement has a spike.
const SPIKE_PROBABILITY: f64 = 0.05;
/// The mean size of a spike.
const SPIKE_SIZE: f64 = 0.2;

fsarena_core::named_enum! {
    /// A model of the noise of the measurements in a round.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Noise {
        /// Normal, 1% each.
        Normal = "normal",
        /// Exponential, 1% each: mostly quick, sometimes slow.
        Exponential = "exponential difference",
        /// Normal, and one in twenty measurements takes some 20% longer.
        Spikes = "5% spikes",
        /// Student's t with 2 degrees of freedom: no variance at all.
        StudentT2 = "Student t, 2 d.f.",
        /// Normal with spikes, and the second place in a round drifts against the first: an AR(.95) of 1%.
        Drift = "AR(.95) drift and spikes",
        /// Normal, and ten times as large in bursts that last twenty rounds in the mean.
        Bursts = "variance bursts",
        /// Normal, and three in ten measurements take ten times the noise longer. No promise covers it, because no test with few
        /// rounds keeps its level if only one of two variants has it.
        TwoSpeeds = "two speeds",
    }
}

impl Noise {
    /// The models that every rule is tested with.
    pub const TESTED: [Noise; 6] =
        [Noise::Normal, Noise::Exponential, Noise::Spikes, Noise::StudentT2, Noise::Drift, Noise::Bursts];
}

/// The order of the two variants in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Random in each round, as in fsarena.
    Random,
    /// Always the same.
    Fixed,
}

/// Simulates the log ratios d of two identical variants in `rounds` rounds.
pub fn simulate_log_ratios(noise: Noise, order: Order, rounds: usize, rng: &mut impl Rng) -> Vec<f64> {
    let mut machine = NoisyMachine::new(rng);
    let round = |_| {
        let d = machine.log_ratio_of_round(noise, rng);
        if order == Order::Random && rng.random() { -d } else { d }
    };
    (0..rounds).map(round).collect()
}

/// Simulates the logarithms of the measurements of variants in `rounds` rounds in random order, `[variant][round]`: only noise,
/// with a model and size for each variant. Drift and bursts are common to all variants with such noise.
pub fn simulate_measurements(noises: &[(Noise, f64)], rounds: usize, rng: &mut impl Rng) -> Vec<Vec<f64>> {
    let mut machine = NoisyMachine::new(rng);
    let kinds: Vec<Noise> = noises.iter().map(|(noise, _)| *noise).collect();
    let drifts = kinds.contains(&Noise::Drift);
    let mut logs = vec![Vec::with_capacity(rounds); noises.len()];
    let mut places: Vec<usize> = (0..noises.len()).collect();
    for _ in 0..rounds {
        machine.begin_round(&kinds, rng);
        places.shuffle(rng);
        for ((variant, (noise, size)), place) in noises.iter().enumerate().zip(&places) {
            let noise_log = size * machine.measurement(*noise, rng);
            let drift = if drifts { machine.drift * *place as f64 / (noises.len() - 1) as f64 } else { 0.0 };
            logs[variant].push(noise_log + drift);
        }
    }
    logs
}

/// A machine whose noise in a round depends on earlier rounds.
struct NoisyMachine {
    /// ln(time in the last place of a round/time in the first place), apart from noise.
    drift: f64,
    is_in_burst: bool,
}

impl NoisyMachine {
    fn new(rng: &mut impl Rng) -> NoisyMachine {
        NoisyMachine { drift: SD * normal(rng), is_in_burst: rng.random_bool(0.2) }
    }

    /// Begins the next round of a machine with these kinds of noise.
    fn begin_round(&mut self, noises: &[Noise], rng: &mut impl Rng) {
        if noises.contains(&Noise::Drift) {
            self.drift = next_drift(self.drift, rng);
        }
        // Bursts last 20 rounds in the mean, with 80 rounds between them.
        if noises.contains(&Noise::Bursts) && rng.random_bool(if self.is_in_burst { 0.05 } else { 0.0125 }) {
            self.is_in_burst = !self.is_in_burst;
        }
    }

    /// The logarithm of one measurement, without drift.
    fn measurement(&self, noise: Noise, rng: &mut impl Rng) -> f64 {
        match noise {
            Noise::Normal => SD * normal(rng),
            Noise::Exponential => SD * exponential(rng),
            Noise::Spikes | Noise::Drift => spiky_measurement(rng),
            Noise::StudentT2 => SD * StudentT::new(2.0).expect("the degrees of freedom are above 0").sample(rng),
            Noise::Bursts => SD * normal(rng) * if self.is_in_burst { 10.0 } else { 1.0 },
            Noise::TwoSpeeds => SD * (normal(rng) + if rng.random_bool(0.3) { 10.0 } else { 0.0 }),
        }
    }

    /// The log ratio of the second place of a round over the first, if both have this noise.
    fn log_ratio_of_round(&mut self, noise: Noise, rng: &mut impl Rng) -> f64 {
        self.begin_round(&[noise], rng);
        let drift = if noise == Noise::Drift { self.drift } else { 0.0 };
        drift + self.measurement(noise, rng) - self.measurement(noise, rng)
    }
}

/// Simulates the logarithms of consecutive measurements without rounds: 1% noise, and an AR(.95) drift of 1% if `drifts`.
pub fn simulate_series(drifts: bool, measurements: usize, rng: &mut impl Rng) -> Vec<f64> {
    let mut drift = SD * normal(rng);
    let measurement = |_| {
        drift = next_drift(drift, rng);
        SD * normal(rng) + if drifts { drift } else { 0.0 }
    };
    (0..measurements).map(measurement).collect()
}

/// The next value of an AR(.95) whose standard deviation is 1%.
fn next_drift(drift: f64, rng: &mut impl Rng) -> f64 {
    DRIFT_AUTOCORRELATION * drift + SD * (1.0 - DRIFT_AUTOCORRELATION * DRIFT_AUTOCORRELATION).sqrt() * normal(rng)
}

/// The logarithm of a measurement with 1% of noise, and with a spike in some cases.
fn spiky_measurement(rng: &mut impl Rng) -> f64 {
    let spike = if rng.random_bool(SPIKE_PROBABILITY) { SPIKE_SIZE * exponential(rng) } else { 0.0 };
    SD * normal(rng) + spike
}

/// A standard normal number.
pub(super) fn normal(rng: &mut impl Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// A number from the exponential distribution with mean 1.
fn exponential(rng: &mut impl Rng) -> f64 {
    Exp1.sample(rng)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::run_rng;

    #[test]
    fn the_drift_has_the_stated_size_and_autocorrelation() {
        let x = simulate_series(true, 200_000, &mut run_rng(1, 0));
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let covariance =
            |lag: usize| x.iter().zip(&x[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / (n - lag as f64);
        // Var = 1%² noise + 1%² drift; at lag 1 only the drift is left, times 0.95.
        assert!((covariance(0) / 2e-4 - 1.0).abs() < 0.05, "{}", covariance(0));
        assert!((covariance(1) / 0.95e-4 - 1.0).abs() < 0.1, "{}", covariance(1));
    }

    #[test]
    fn random_order_makes_every_noise_symmetric() {
        for noise in Noise::TESTED {
            let d = simulate_log_ratios(noise, Order::Random, 20_000, &mut run_rng(2, 0));
            let above = d.iter().filter(|d| **d > 0.0).count();
            // 10,000 are expected, with a standard deviation of 70.7. The limit is five standard deviations.
            assert!(above.abs_diff(10_000) < 354, "{noise:?}: {above}");
        }
    }
}
