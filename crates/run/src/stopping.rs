//! When a run stops. Adaptive rules that look at the samples belong here too.

use fsarena_core::plan::StopPlan;
use std::time::Duration;

/// Decides before each block whether it is run.
#[derive(Debug, Clone)]
pub struct Stopping {
    plan: StopPlan,
    longest: Duration,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Run this block.
    Block(u32),
    /// Stop, for this reason.
    Stop {
        /// For people.
        why: String,
        /// Whether all that was planned has been done.
        complete: bool,
    },
}

impl Stopping {
    /// The rule of a plan.
    pub fn new(plan: &StopPlan) -> Stopping {
        Stopping { plan: plan.clone(), longest: Duration::ZERO }
    }

    /// Takes note of how long a whole block took.
    pub fn block_took(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
    }

    /// Whether block `number` is run, `elapsed` after the beginning.
    ///
    /// The first block always is: a run without one answers nothing. Time alone decides, so that the
    /// samples cannot bias how many of them there are.
    pub fn next(&self, number: u32, elapsed: Duration) -> Next {
        if number >= self.plan.blocks {
            let why = match self.plan.blocks {
                1 => "its one block is done".into(),
                blocks => format!("all {blocks} blocks are done"),
            };
            return Next::Stop { why, complete: true };
        }
        let Some(budget) = self.plan.budget_s else { return Next::Block(number) };
        if number > 0 && (elapsed + self.longest).as_secs_f64() > budget {
            let why = format!("a further block would not have ended within the budget of {budget:.0} s");
            return Next::Stop { why, complete: true };
        }
        Next::Block(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(blocks: u32, budget_s: Option<f64>) -> Stopping {
        Stopping::new(&StopPlan { blocks, budget_s })
    }

    #[test]
    fn the_number_of_blocks_ends_a_run() {
        assert_eq!(rule(2, None).next(1, Duration::from_secs(9999)), Next::Block(1));
        assert!(matches!(rule(2, None).next(2, Duration::ZERO), Next::Stop { complete: true, .. }));
    }

    #[test]
    fn no_block_is_started_that_would_end_too_late() {
        let mut rule = rule(8, Some(100.0));
        rule.block_took(Duration::from_secs(30));
        rule.block_took(Duration::from_secs(20));
        assert_eq!(rule.next(2, Duration::from_secs(69)), Next::Block(2));
        assert!(matches!(rule.next(2, Duration::from_secs(71)), Next::Stop { .. }));
    }

    #[test]
    fn the_first_block_is_always_run() {
        assert_eq!(rule(8, Some(1.0)).next(0, Duration::from_secs(5)), Next::Block(0));
    }
}
