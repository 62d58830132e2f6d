//! Which claims are open, and which arms the next block runs to settle them.

use crate::ledger::Ledger;
use fsarena_core::claim::{Claim, Relation};
use fsarena_core::event::Standing;
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::power;
use fsarena_stats::table::FIRST_LOOK;
use fsarena_stats::verdict::Region;
use std::collections::BTreeSet;

/// How the claims of a run stand before a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// The claims that another block can still decide.
    pub open: usize,
    /// The claims that stay undecided, because an arm of theirs has left the run or nothing is measured of it.
    pub stuck: usize,
    /// The arms that the next block runs.
    pub arms: BTreeSet<String>,
    /// Seconds that it will probably take.
    pub seconds: f64,
}

/// An open claim.
struct Candidate {
    arms: BTreeSet<String>,
    /// Blocks that will probably settle it.
    blocks: f64,
}

/// Looks at the samples so far. `live` are the arms that have not failed; `left_s` is what is left of the
/// budget, in seconds.
///
/// Before the first look of the sequential test every arm runs. From then on a block runs the arms of open
/// claims only. Where the budget will not do for all of them, the claims that cost the fewest seconds to settle
/// come first: each further claim is taken as long as all that are taken can still be settled in time.
pub fn outlook(ledger: &Ledger, live: &BTreeSet<String>, blocks: u32, left_s: Option<f64>) -> Outlook {
    let record = ledger.record();
    let cost = |arms: &BTreeSet<String>| arms.iter().map(|arm| ledger.seconds(arm)).sum::<f64>();
    let begins = (blocks as usize) < FIRST_LOOK;
    let (mut open, mut stuck) = (Vec::new(), 0);
    for judged in judge_all(record, &record.plan.claims) {
        let arms: BTreeSet<String> = judged
            .needs
            .iter()
            .map(|arm| record.arms[*arm].name.clone())
            .filter(|arm| live.contains(arm))
            .collect();
        let lost = judged.claim.arms().iter().any(|arm| !live.contains(*arm));
        match judged.open() {
            true if lost || (judged.missing.is_some() && !begins) => stuck += 1,
            true => {
                open.push(Candidate { blocks: blocks_to_settle(&judged, record.plan.stop.margin()), arms })
            }
            false => {}
        }
    }
    let arms = if begins { live.clone() } else { choose(&mut open, &cost, left_s) };
    Outlook { open: open.len(), stuck, seconds: cost(&arms), arms }
}

fn choose(
    open: &mut [Candidate],
    cost: &dyn Fn(&BTreeSet<String>) -> f64,
    left_s: Option<f64>,
) -> BTreeSet<String> {
    let price = |claim: &Candidate| claim.blocks * cost(&claim.arms);
    open.sort_by(|a, b| price(a).total_cmp(&price(b)));
    let (mut arms, mut blocks) = (BTreeSet::new(), 0.0f64);
    for claim in open.iter() {
        let together: BTreeSet<String> = arms.union(&claim.arms).cloned().collect();
        let most = blocks.max(claim.blocks);
        // A claim that runs no further arm costs nothing now.
        if arms.is_empty() || together == arms || left_s.is_none_or(|left| most * cost(&together) <= left) {
            (arms, blocks) = (together, most);
        }
    }
    arms
}

/// The further blocks that will probably settle a claim; infinite where 400 are not enough.
fn blocks_to_settle(judged: &Judged, margin: f64) -> f64 {
    let Some((verdict, spread)) = judged.verdict.zip(power::spread(&judged.d)) else {
        return 1.0;
    };
    let needed =
        |distance: f64| power::blocks_for(spread, distance.exp_m1()).map_or(f64::INFINITY, |n| n as f64);
    let least = distances(&judged.claim, verdict.effect.ln_1p(), margin)
        .into_iter()
        .map(needed)
        .fold(f64::INFINITY, f64::min);
    // The next block comes first, whatever the pilot promised.
    (least - verdict.blocks as f64).max(1.0)
}

/// How far the estimate is from each threshold that could settle the claim, on the scale of θ.
fn distances(claim: &Claim, theta: f64, margin: f64) -> Vec<f64> {
    let (region, centre) = match &claim.relation {
        Relation::Pair(pair) => (Region::of(pair, Some(margin)), pair.factor.ln()),
        Relation::Extreme(_) => (Region::around(0.0, 0.0), 0.0),
    };
    let nearest = (theta - region.low).abs().min((theta - region.high).abs());
    // Strict claims are settled too where the arms are shown to be equivalent.
    let inside = Some(margin.ln_1p() - (theta - centre).abs()).filter(|room| *room > 0.0);
    [nearest].into_iter().chain(inside).collect()
}

/// How each claim stands, for those who watch.
pub fn standing(ledger: &Ledger) -> Vec<Standing> {
    let record = ledger.record();
    judge_all(record, &record.plan.claims)
        .into_iter()
        .map(|judged| Standing {
            claim: judged.claim.text.clone(),
            outcome: judged.outcome().name().to_string(),
            open: judged.open(),
            blocks: judged.verdict.map_or(0, |verdict| verdict.blocks as u32),
            provisional: judged.verdict.is_none_or(|verdict| verdict.provisional),
            effect: judged.verdict.map(|verdict| (verdict.effect, verdict.interval.0, verdict.interval.1)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::tests::ledger;

    fn names(arms: &BTreeSet<String>) -> Vec<&str> {
        arms.iter().map(String::as_str).collect()
    }

    const THREE: [(&str, f64); 3] = [("ext2", 1.0), ("ext4", 1.0), ("xfs", 1.5)];

    #[test]
    fn every_arm_runs_until_the_first_look() {
        let (ledger, live) = ledger(&THREE, &["touch.elapsed: ext2 < xfs"], 7);
        let outlook = outlook(&ledger, &live, 7, None);
        assert_eq!((names(&outlook.arms), outlook.open), (vec!["ext2", "ext4", "xfs"], 1));
    }

    #[test]
    fn only_arms_of_open_claims_run_on() {
        let claims = ["touch.elapsed: ext2 < xfs", "touch.elapsed: ext2 < ext4"];
        let (ledger, live) = ledger(&THREE, &claims, 8);
        let outlook = outlook(&ledger, &live, 8, None);
        assert_eq!((names(&outlook.arms), outlook.open, outlook.stuck), (vec!["ext2", "ext4"], 1, 0));
    }

    #[test]
    fn nothing_is_open_when_all_is_decided() {
        let claims = ["touch.elapsed: ext2 < xfs", "touch.elapsed: worst is xfs"];
        let (ledger, live) = ledger(&THREE, &claims, 8);
        let outlook = outlook(&ledger, &live, 8, None);
        assert_eq!((outlook.open, outlook.stuck, outlook.arms.len()), (0, 0, 0));
    }

    #[test]
    fn a_claim_whose_arm_failed_is_stuck() {
        let claims = ["touch.elapsed: ext2 < ext4"];
        let (ledger, mut live) = ledger(&THREE, &claims, 8);
        live.remove("ext4");
        let outlook = outlook(&ledger, &live, 8, None);
        assert_eq!((outlook.open, outlook.stuck, outlook.arms.len()), (0, 1, 0));
    }

    fn candidate(arms: &[&str], blocks: f64) -> Candidate {
        Candidate { arms: arms.iter().map(|arm| arm.to_string()).collect(), blocks }
    }

    #[test]
    fn a_short_budget_goes_to_what_costs_least() {
        // One second an arm: 2·30 s and 2·10 s; together they need 30 blocks of 4 s.
        let cost = |arms: &BTreeSet<String>| arms.len() as f64;
        let mut open = [candidate(&["a", "b"], 30.0), candidate(&["c", "d"], 10.0)];
        assert_eq!(names(&choose(&mut open, &cost, Some(119.0))), ["c", "d"]);
        assert_eq!(names(&choose(&mut open, &cost, Some(120.0))), ["a", "b", "c", "d"]);
        assert_eq!(names(&choose(&mut open, &cost, None)), ["a", "b", "c", "d"]);
        // The budget is too short for any: the nearest gets what there is.
        assert_eq!(names(&choose(&mut open, &cost, Some(1.0))), ["c", "d"]);
        // Claims on arms that run anyway cost nothing.
        let mut shared = [candidate(&["c", "d"], f64::INFINITY), candidate(&["c", "d"], 10.0)];
        assert_eq!(names(&choose(&mut shared, &cost, Some(30.0))), ["c", "d"]);
    }

    #[test]
    fn distances_to_what_settles_a_claim() {
        let distances = |text: &str, margin| super::distances(&text.parse().unwrap(), 0.1, margin);
        assert_eq!(distances("x: a < b", 0.01), [0.1]);
        assert_eq!(distances("x: best is a", 0.01), [0.1]);
        let near = |distance: f64, expected: f64| (distance - expected).abs() < 1e-12;
        assert!(near(distances("x: a < b by 5%", 0.01)[0], 0.1 - 0.95f64.ln()));
        let equal = distances("x: a == b within 20%", 0.2);
        assert!(near(equal[0], 1.2f64.ln() - 0.1) && near(equal[1], 1.2f64.ln() - 0.1));
    }

    #[test]
    fn who_watches_sees_every_claim() {
        let (ledger, _) = ledger(&THREE, &["touch.elapsed: ext2 < xfs", "touch.durable: ext2 < xfs"], 8);
        let standing = standing(&ledger);
        assert_eq!((standing[0].outcome.as_str(), standing[0].open, standing[0].blocks), ("held", false, 8));
        assert_eq!((standing[1].outcome.as_str(), standing[1].effect), ("undecided", None));
    }
}
