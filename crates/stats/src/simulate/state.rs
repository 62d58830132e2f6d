//! What simulated runs say of a promise.

use super::selftest::{Check, Report};
use super::{lower_limit, noise::Order};
use fsarena_core::exit::ExitCode;

/// Whether a promise is kept, inconclusive after these few runs, or broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is kept.
    Kept,
    /// The runs are too few.
    Open,
    /// It is broken.
    Broken,
}

impl State {
    /// What people and programs read.
    pub fn name(self) -> &'static str {
        match self {
            State::Kept => "ok",
            State::Open => "too few runs",
            State::Broken => "BROKEN",
        }
    }
}

impl Check {
    /// How the promise stands.
    pub fn state(&self) -> State {
        let above = lower_limit(self.wrong, self.runs) > self.limit();
        match (self.passed(), self.order) {
            (true, _) => State::Kept,
            (false, Order::Random) if above || self.slow() && self.runs >= 100 => State::Broken,
            // Fixed order is to err; that it surely does not is what breaks the promise.
            (false, Order::Fixed) if self.upper() <= self.limit() => State::Broken,
            (false, _) => State::Open,
        }
    }
}

impl Report {
    /// Broken is refuted, too few runs leave it inconclusive.
    pub fn exit_code(&self) -> ExitCode {
        match self.states().max() {
            Some(State::Broken) => ExitCode::Refuted,
            Some(State::Open) => ExitCode::Inconclusive,
            _ => ExitCode::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{simulate::noise::Noise, simulate::selftest::Rule};

    fn check(order: Order, wrong: usize, runs: usize) -> Check {
        Check { noise: Noise::Normal, rule: Rule::Sequential, order, wrong, runs, time: None }
    }

    #[test]
    fn a_rate_over_its_bound_is_broken_and_too_few_runs_leave_it_open() {
        let of = |wrong, runs| check(Order::Random, wrong, runs).state();
        assert_eq!(
            [of(1_000, 20_000), of(1_400, 20_000), of(5, 100)],
            [State::Kept, State::Broken, State::Open]
        );
        let negative = check(Order::Fixed, 80, 100);
        let report = |checks: Vec<Check>| Report { checks, negative, wrong: vec![], answered: vec![] };
        let codes = [vec![(1_000, 20_000)], vec![(1_400, 20_000), (5, 100)], vec![(5, 100)]].map(|checks| {
            report(checks.into_iter().map(|(w, n)| check(Order::Random, w, n)).collect()).exit_code()
        });
        assert_eq!(codes, [ExitCode::Done, ExitCode::Refuted, ExitCode::Inconclusive]);
    }

    #[test]
    fn a_negative_test_that_does_not_err_is_broken() {
        assert_eq!(check(Order::Fixed, 80, 100).state(), State::Kept);
        assert_eq!(check(Order::Fixed, 900, 20_000).state(), State::Broken);
    }
}
