use super::*;
use crate::mean_ratio::{SharedCosts, WithheldReason};
use fsarena_core::claim::{Claim, Extreme, Relation};
use fsarena_core::{exit::ExitCode, sample::Direction};

fn pair(text: &str) -> Pair {
    match text.parse::<Claim>().unwrap().relation {
        Relation::Pair(pair) => pair,
        other => panic!("{other:?}"),
    }
}

fn extreme(text: &str) -> Extreme {
    match text.parse::<Claim>().unwrap().relation {
        Relation::Extreme(extreme) => extreme,
        other => panic!("{other:?}"),
    }
}

/// 24 rounds around `centre`, evenly spread by ±0.0115: c(.05) = 55 of 300 averages.
fn around(centre: f64) -> Vec<f64> {
    (0..24).map(|i| centre + f64::from(i * 7 % 24) / 1000.0 - 0.0115).collect()
}

fn outcome(text: &str, d: &[f64]) -> Outcome {
    judge(&pair(text), d, None).unwrap().outcome
}

#[test]
fn a_verdict_has_effect_intervals_and_e_value() {
    let verdict = judge(&pair("x: a < b"), &around(-0.05), None).unwrap();
    // Walsh averages of 0…23 are 0, .5, 1, 1, 1.5, 1.5, …: the number of them ≤ s/2 is counted by
    // numpy.sort([(i+j)/2 for i in range(24) for j in range(i, 24)])[[55, 244]] = 6.5 and 16.5.
    let ends = [-0.05 + 0.0065 - 0.0115, -0.05 + 0.0165 - 0.0115].map(f64::exp_m1);
    assert_eq!(verdict.outcome, Outcome::Held);
    assert!((verdict.effect - (-0.05f64).exp_m1()).abs() < 1e-12);
    assert!((verdict.interval.0 - ends[0]).abs() < 1e-12 && (verdict.interval.1 - ends[1]).abs() < 1e-12);
    assert!((verdict.largest_possible_difference() + ends[0]).abs() < 1e-12);
    assert!(!verdict.provisional && !verdict.shapes_differ && !verdict.negligible);
    assert_eq!((verdict.rounds, verdict.rival), (24, None));
    assert!(verdict.e_value > 20.0);
}

#[test]
fn strict_claims_are_held_or_refuted_by_the_95_per_cent_interval() {
    assert_eq!(outcome("x: a < b", &around(-0.05)), Outcome::Held);
    assert_eq!(outcome("x: a > b", &around(-0.05)), Outcome::Refuted);
    assert_eq!(outcome("x: a < b", &around(0.05)), Outcome::Refuted);
    assert_eq!(outcome("x: a > b", &around(0.05)), Outcome::Held);
    assert_eq!(outcome("x: a != b", &around(0.05)), Outcome::Held);
    for text in ["x: a < b", "x: a > b", "x: a != b"] {
        assert_eq!(outcome(text, &around(0.001)), Outcome::Inconclusive);
    }
}

#[test]
fn by_demands_a_minimal_difference() {
    // −0.05 is 4.9% below; the interval ends at −0.0550 and −0.0450: 5.35% and 4.40% below.
    assert_eq!(outcome("x: a < b by 4%", &around(-0.05)), Outcome::Held);
    assert_eq!(outcome("x: a < b by 5%", &around(-0.05)), Outcome::Inconclusive);
    assert_eq!(outcome("x: a < b by 6%", &around(-0.05)), Outcome::Refuted);
    assert_eq!(outcome("x: a > b by 4%", &around(0.05)), Outcome::Held);
    assert_eq!(outcome("x: a != b by 4%", &around(0.05)), Outcome::Held);
    assert_eq!(outcome("x: a != b by 7%", &around(0.05)), Outcome::Refuted);
}

#[test]
fn within_allows_a_difference() {
    assert_eq!(outcome("x: a == b within 1%", &around(0.001)), Outcome::Held);
    assert_eq!(outcome("x: a == b within 0.4%", &around(0.001)), Outcome::Inconclusive);
    assert_eq!(outcome("x: a == b within 1%", &around(0.05)), Outcome::Refuted);
    assert_eq!(outcome("x: a <= b within 1%", &around(0.001)), Outcome::Held);
    assert_eq!(outcome("x: a <= b within 1%", &around(-0.05)), Outcome::Held);
    assert_eq!(outcome("x: a <= b within 1%", &around(0.05)), Outcome::Refuted);
    assert_eq!(outcome("x: a >= b within 1%", &around(-0.05)), Outcome::Refuted);
    // ln 0.97 = −0.0305; 3% less of that is −0.0600.
    assert_eq!(outcome("x: a >= 0.97 * b within 3%", &around(-0.05)), Outcome::Held);
    assert_eq!(outcome("x: a >= 0.97 * b within 1%", &around(-0.05)), Outcome::Refuted);
}

#[test]
fn a_claim_without_a_percentage_uses_the_margin_of_the_run() {
    let judged = |text, centre, margin| judge(&pair(text), &around(centre), Some(margin)).unwrap();
    assert_eq!(judged("x: a < b", 0.001, 0.01).outcome, Outcome::Equivalent);
    assert_eq!(judged("x: a == b", 0.001, 0.01).outcome, Outcome::Held);
    assert_eq!(judged("x: a == b within 0.4%", 0.001, 0.01).outcome, Outcome::Inconclusive);
    let small = judged("x: a > b", 0.01, 0.02);
    assert!(small.outcome == Outcome::Held && small.negligible, "real, but smaller than what matters");
    let small = judged("x: a == b", 0.01, 0.02);
    assert!(small.outcome == Outcome::Held && small.negligible, "equivalent, and yet different");
}

#[test]
fn with_few_rounds_a_claim_is_inconclusive() {
    let verdict = judge(&pair("x: a < b"), &[-1.0; 7], None).unwrap();
    assert_eq!((verdict.outcome, verdict.provisional, verdict.rounds), (Outcome::Inconclusive, true, 7));
    assert_eq!(outcome("x: a < b", &[-1.0; 8]), Outcome::Held);
    assert_eq!(judge(&pair("x: a < b"), &[], None), None);
}

#[test]
fn equal_values_decide_claims_without_spread() {
    assert_eq!(outcome("x: a == b", &[0.0; 8]), Outcome::Held);
    assert_eq!(outcome("x: a <= b", &[0.0; 8]), Outcome::Held);
    assert_eq!(outcome("x: a < b", &[0.0; 8]), Outcome::Refuted);
    assert_eq!(outcome("x: a != b", &[0.0; 8]), Outcome::Refuted);
}

fn outcome_and_rival(
    text: &str,
    rivals: &[&[f64]],
    direction: Direction,
    margin: Option<f64>,
) -> Option<(Outcome, usize)> {
    judge_extreme(&extreme(text), rivals, direction, margin).map(|v| (v.outcome, v.rival.unwrap()))
}

#[test]
fn best_is_held_only_if_ahead_of_every_rival() {
    let (ahead, far_ahead, equal, behind) = (around(-0.05), around(-0.2), around(0.001), around(0.05));
    let judged = |rivals: &[&[f64]]| outcome_and_rival("x: best is a", rivals, Direction::Lower, None).unwrap();
    assert_eq!(judged(&[&far_ahead, &ahead]), (Outcome::Held, 1));
    assert_eq!(judged(&[&far_ahead, &equal]), (Outcome::Inconclusive, 1));
    assert_eq!(judged(&[&far_ahead, &behind, &equal]), (Outcome::Refuted, 1));
    assert_eq!(judged(&[&behind]), (Outcome::Refuted, 0));
    assert_eq!(outcome_and_rival("x: best is a", &[&far_ahead], Direction::Neutral, None), None);
}

#[test]
fn best_and_worst_follow_the_metric() {
    let (below, above) = (around(-0.05), around(0.05));
    for (text, d, direction, expected) in [
        ("x: best is a", &below, Direction::Higher, Outcome::Refuted),
        ("x: best is a", &above, Direction::Higher, Outcome::Held),
        ("x: worst is a", &above, Direction::Lower, Outcome::Held),
        ("x: worst is a", &below, Direction::Higher, Outcome::Held),
        ("x: best is not a", &below, Direction::Lower, Outcome::Refuted),
        ("x: worst is not a", &below, Direction::Lower, Outcome::Held),
    ] {
        assert_eq!(outcome_and_rival(text, &[d], direction, None).unwrap().0, expected, "{text} {direction:?}");
    }
}

#[test]
fn best_is_equivalent_if_within_the_margin_of_each_rival() {
    let (ahead, equal) = (around(-0.05), around(0.001));
    let judged = |margin| outcome_and_rival("x: best is a", &[&ahead, &equal], Direction::Lower, Some(margin)).unwrap();
    assert_eq!(judged(0.01), (Outcome::Equivalent, 1));
    assert_eq!(judged(0.004), (Outcome::Inconclusive, 1));
}

#[test]
fn a_rival_that_left_early_keeps_the_claim_inconclusive() {
    let (ahead, early) = (around(-0.05), vec![-0.2; 3]);
    let rivals = [&ahead[..], &early[..]];
    let verdict = judge_extreme(&extreme("x: best is a"), &rivals, Direction::Lower, None).unwrap();
    assert_eq!((verdict.outcome, verdict.provisional, verdict.rival), (Outcome::Inconclusive, true, Some(1)));
}

#[test]
fn one_of_many_rivals_ahead_by_luck_is_not_enough() {
    // n = 8 and every round ahead: 95% for one rival, not for the best of six.
    let (behind, equal) = (vec![0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08], around(0.0)[..8].to_vec());
    let six: Vec<&[f64]> = vec![&behind, &equal, &equal, &equal, &equal, &equal];
    assert_eq!(outcome_and_rival("x: best is a", &[&behind], Direction::Lower, None).unwrap().0, Outcome::Refuted);
    assert_eq!(outcome_and_rival("x: best is a", &six, Direction::Lower, None).unwrap().0, Outcome::Inconclusive);
}

#[test]
fn a_refuted_claim_determines_the_exit_code() {
    use Outcome::{Equivalent, Held, Inconclusive, Refuted};
    assert_eq!(exit_code(&[Inconclusive, Refuted, Held]), ExitCode::Refuted);
    assert_eq!(exit_code(&[Held, Inconclusive, Equivalent]), ExitCode::Inconclusive);
    assert_eq!(exit_code(&[Held, Equivalent]), ExitCode::Done);
    assert_eq!(exit_code(&[]), ExitCode::Done);
}

/// Costs over 48 rounds, left/right, of a variant that is 3% faster and stalls in some rounds of eight.
fn costs_with_stalls(stalls: usize, cost: f64) -> SharedCosts {
    let right: Vec<f64> = (0..48).map(|i| 1.0 + f64::from(i * 7 % 48) / 4800.0).collect();
    let left = (0..48).map(|i| if i % 8 < stalls { cost } else { 0.97 }).collect::<Vec<f64>>();
    SharedCosts::of(&right, &left).unwrap()
}

#[test]
fn claims_by_mean_hold_by_the_interval_of_the_means() {
    let outcome = |text: &str, costs: &SharedCosts| judge_means(&pair(text), costs, Some(0.01)).outcome;
    assert_eq!(outcome("x: a < b", &costs_with_stalls(0, 0.0)), Outcome::Held);
    assert_eq!(outcome("x: a > b by 2%", &costs_with_stalls(4, 3.0)), Outcome::Held);
    assert_eq!(outcome("x: a < b by 1%", &costs_with_stalls(4, 3.0)), Outcome::Refuted);
    assert_eq!(outcome("x: a < b", &costs_with_stalls(1, 1.3)), Outcome::Inconclusive);
    assert_eq!(outcome("x: a == b within 20%", &costs_with_stalls(1, 1.3)), Outcome::Held);
    let verdict = judge_means(&pair("x: a < b"), &costs_with_stalls(0, 0.0), None);
    assert_eq!((verdict.rounds, verdict.e_value, verdict.withheld), (48, 1.0, None));
}

#[test]
fn a_verdict_by_mean_is_withheld_with_its_interval() {
    let one_round: Vec<f64> = (0..48).map(|i| if i == 9 { 30.0 } else { 0.97 }).collect();
    let costs = SharedCosts::of(&[1.0; 48], &one_round).unwrap();
    let verdict = judge_means(&pair("x: a > b"), &costs, None);
    assert_eq!((verdict.outcome, verdict.withheld), (Outcome::Inconclusive, Some(WithheldReason::OneRoundDominates)));
    // The ratio of the means lies between those of the rounds.
    assert!((verdict.interval.0 + 0.03).abs() < 1e-9 && (verdict.interval.1 - 29.0).abs() < 1e-9);
}

#[test]
fn the_best_by_mean_is_ahead_of_every_rival() {
    let judged = |text: &str, rivals: Vec<Option<SharedCosts>>| {
        let verdict = judge_extreme_means(&extreme(text), &rivals, Direction::Lower, Some(0.01)).unwrap();
        (verdict.outcome, verdict.rival)
    };
    let (ahead, behind) = (|| Some(costs_with_stalls(0, 0.0)), || Some(costs_with_stalls(4, 3.0)));
    assert_eq!(judged("x: best is a", vec![ahead(), ahead()]).0, Outcome::Held);
    assert_eq!(judged("x: best is a", vec![ahead(), behind()]), (Outcome::Refuted, Some(1)));
    assert_eq!(judged("x: best is not a", vec![ahead(), behind()]).0, Outcome::Held);
    assert_eq!(judged("x: worst is a", vec![behind(), behind()]).0, Outcome::Held);
    assert_eq!(judged("x: best is a", vec![ahead(), None]).0, Outcome::Inconclusive);
    assert_eq!(judge_extreme_means(&extreme("x: best is a"), &[ahead()], Direction::Neutral, None), None);
}
