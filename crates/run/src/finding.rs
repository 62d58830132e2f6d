//! Which variants can still be the best, and whether the choice among them is good enough (`--find best`).

use crate::deciding::{Names, Outlook, cost, quickest};
use crate::{stopping::rounds_among, work};
use fsarena_core::average::Average;
use fsarena_core::observations::{combine_tasks, left_out, references, rounds};
use fsarena_core::{cell::Variant, plan::Plan, record::RunRecord, sample::Direction};
use fsarena_fs::advice;
use fsarena_stats::{regret::Regrets, table};

/// Why a plan cannot look for the best variant; none where it can.
pub fn fault(plan: &Plan, variants: &[Variant]) -> Option<&'static str> {
    let looks = plan.stop.best_within.is_some();
    (looks && variants.len() < 2).then_some("finding the best requires two variants or more")
}

/// Looks at the samples so far. `live` are the variants that have not failed; a choice may cost at most `within`, a
/// fraction, more than the best.
///
/// Where a budget is set, `left_s` is what is left of it in seconds. After the first rounds, the variants leave that it
/// does not hold until a first answer: from the end of [`by_priority`], whatever their figures are.
///
/// The bounds hold together at the looks of the sequential test, so variants leave and the run ends at looks only. The
/// rounds up to the last look decide, which a resumed run has too: it goes on with the same variants.
pub fn outlook(record: &RunRecord, live: &Names, round: u32, within: f64, left_s: Option<f64>) -> Outlook {
    let seen = record.plan.stop.warmup + table::at(round as usize).map_or(0, |look| look.n as u32);
    let columns = rounds(record, &left_out(record)).partition_point(|round| *round < seen);
    let main = combine_tasks(record, &work::main_of_run(record)).ok();
    let (direction, mut values) =
        main.map_or((Direction::Neutral, vec![]), |(info, all)| (info.direction, all));
    // Variants with figures count among the rivals, also those that left.
    let with_figures: Vec<bool> = values.iter().map(|all| all.iter().any(|one| *one > 0.0)).collect();
    values.iter_mut().for_each(|rounds| rounds.truncate(columns));
    // The ceiling of all rounds, never a candidate.
    let raw = |variant: usize| record.variants[variant].is_bare_device();
    let by_mean = record.plan.stop.best_by == Average::Mean;
    let regrets_of = if by_mean { Regrets::compute_by_mean } else { Regrets::compute };
    let regrets = regrets_of(&values, &references(record), direction, record.plan.error_split());
    let name = |variant: usize| record.variants[variant].name.as_str();
    // A variant that gives up safety removes no safe variant, and is chosen only if no safe one is left.
    let safe =
        record.with_full_guarantees(&(0..record.variants.len()).filter(|at| !raw(*at)).collect::<Vec<_>>());
    let of_safe = regrets.among(&safe);
    let able = |variant: &usize| {
        let beaten = if safe.contains(variant) { &of_safe } else { &regrets }.is_dominated(*variant);
        let lost = !regrets.provisional && beaten;
        live.contains(name(*variant)) && !lost && !raw(*variant)
    };
    let able: Vec<usize> = (0..record.variants.len()).filter(able).collect();
    let is_rival = |variant: &usize, able: &[usize]| {
        !raw(*variant) && (able.contains(variant) || with_figures.get(*variant) == Some(&true))
    };
    let rivals = |able: &[usize]| (0..record.variants.len()).filter(|one| is_rival(one, able)).count();
    let needed = |able: &[usize]| rounds_among(rivals(able), record.plan.error_split());
    let early = round < CHOOSING && !record.cells.is_empty();
    let held = match left_s.filter(|_| early) {
        Some(left_s) => held(record, &able, left_s, |able| needed(able).saturating_sub(round)),
        None => able.clone(),
    };
    let no_room = able.iter().filter(|one| !held.contains(one)).map(|one| name(*one).to_string()).collect();
    let (able, needed) = (held.clone(), needed(&held));
    let eligible: Vec<usize> = able.iter().copied().filter(|variant| safe.contains(variant)).collect();
    let found =
        of_safe.choose(&eligible).and_then(|choice| Some((name(choice), of_safe.of(choice)?.exp_m1())));
    let answered = match found.filter(|_| !regrets.provisional) {
        Some((choice, regret)) if regret <= within => {
            let average = if by_mean { " by mean cost" } else { "" };
            Some(format!("{choice} costs at most {:.2}% more than the best{average}", 100.0 * regret))
        }
        _ if able.len() < 2 && round > 0 => Some("fewer than two variants are left to compare".into()),
        _ => None,
    };
    let open = format!("; {} variants can still be the best", able.len());
    let stay = (0..record.variants.len()).filter(|at| able.contains(at) || raw(*at));
    let variants: Names = stay.map(|at| name(at).to_string()).filter(|name| live.contains(name)).collect();
    Outlook { answered, open, seconds: cost(record, &variants), needed, no_room, variants }
}

/// The rounds after which no variant leaves for lack of time: by then each has been repeated.
const CHOOSING: u32 = 3;

/// Those of these variants that `left_s` seconds hold for the rounds that they require, in order; two at least.
fn held(record: &RunRecord, able: &[usize], left_s: f64, rounds: impl Fn(&[usize]) -> u32) -> Vec<usize> {
    let first = by_priority(&record.plan, &record.variants);
    let mut kept: Vec<usize> = first.into_iter().filter(|variant| able.contains(variant)).collect();
    let references = record.variants.iter().filter(|variant| variant.is_bare_device());
    let fixed: f64 = references.filter_map(|variant| quickest(record, &variant.name)).sum();
    let cost = |variant: &usize| quickest(record, record.name(*variant)).unwrap_or(0.0);
    while kept.len() > 2 {
        let round: f64 = fixed + kept.iter().map(cost).sum::<f64>();
        if f64::from(rounds(&kept)) * round <= left_s {
            break;
        }
        kept.pop();
    }
    kept.sort_unstable();
    kept
}

/// The variants in the order in which a short budget keeps them: as the plan names them one by one, else those of the
/// usual filesystems first.
pub fn by_priority(plan: &Plan, variants: &[Variant]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..variants.len()).collect();
    if plan.variants.is_empty() {
        order.sort_by_key(|at| advice::rank(&variants[*at]));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;
    use fsarena_core::event::SpentOn;

    fn left(seconds: &[(&str, f64)], rounds: u32, round: u32, within: f64) -> (Vec<String>, Option<String>) {
        let (record, live) = record(seconds, &[], rounds);
        let outlook = outlook(&record, &live, round, within, None);
        (outlook.variants.into_iter().collect(), outlook.answered)
    }

    const THREE: [(&str, f64); 3] = [("ext2", 1.0), ("ext4", 1.0), ("xfs", 1.5)];

    #[test]
    fn a_variant_leaves_at_the_look_at_which_it_cannot_be_the_best() {
        assert_eq!(left(&THREE, 7, 7, 0.001), (["ext2", "ext4", "xfs"].map(String::from).to_vec(), None));
        for round in [8, 9] {
            assert_eq!(
                left(&THREE, round, round, 0.001),
                (["ext2", "ext4"].map(String::from).to_vec(), None)
            );
        }
    }

    #[test]
    fn a_choice_that_is_good_enough_ends_the_run_at_a_look() {
        assert!(left(&THREE, 8, 8, 0.05).1.unwrap().contains(" costs at most "));
        let two = [("ext2", 1.0), ("xfs", 1.5)];
        assert_eq!(left(&two, 8, 8, 0.001).1.unwrap(), "ext2 costs at most 0.00% more than the best");
    }

    #[test]
    fn by_mean_cost_the_first_look_that_decides_is_at_24_rounds() {
        let outlook = |rounds: u32| {
            let (mut record, live) = record(&[("ext2", 1.0), ("xfs", 1.5)], &[], rounds);
            record.plan.stop.best_by = Average::Mean;
            outlook(&record, &live, rounds, 0.05, None).answered
        };
        assert_eq!(outlook(23), None);
        assert_eq!(outlook(24).unwrap(), "ext2 costs at most 0.00% more than the best by mean cost");
    }

    #[test]
    fn warm_up_rounds_have_no_say() {
        let (mut record, live) = record(&THREE, &[], 9);
        record.plan.stop.warmup = 2;
        assert_eq!(outlook(&record, &live, 8, 0.001, None).variants.len(), 3, "seven rounds are too few");
        record.plan.stop.warmup = 1;
        let left = outlook(&record, &live, 8, 0.001, None).variants;
        assert_eq!(left.into_iter().collect::<Vec<_>>(), ["ext2", "ext4"]);
    }

    #[test]
    fn a_short_budget_keeps_the_usual_filesystems_whatever_their_pilot_took() {
        let names = ["btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs"];
        let (mut record, live) = record(&names.map(|name| (name, 1.0)), &[], 1);
        // Each cell takes two seconds. The first one of all found cold caches: ext4 took 19 s.
        let kept = |record: &RunRecord, left_s| {
            let outlook = outlook(record, &live, 1, 0.01, Some(left_s));
            (outlook.variants.into_iter().collect::<Vec<_>>(), outlook.no_room.len(), outlook.needed)
        };
        let ext4 = record.cells.iter_mut().find(|cell| record.variants[cell.variant].name == "ext4").unwrap();
        ext4.spent = vec![(SpentOn::Total, 19_000_000_000)];
        // Six variants are 5 rivals: 10 rounds, of which 9 are left, of 5·2 s and at most 6 s.
        assert_eq!(kept(&record, 150.0), (names.map(String::from).to_vec(), 0, 10));
        let three = ["btrfs", "ext4", "xfs"].map(String::from).to_vec();
        assert_eq!(kept(&record, 95.0), (three, 3, 10));
        assert_eq!(kept(&record, 1.0), (["ext4", "xfs"].map(String::from).to_vec(), 4, 10));
    }

    #[test]
    fn a_part_of_a_round_changes_nothing() {
        // What a resumed run finds of round 9 and later does not count before the look at ten rounds.
        assert_eq!(left(&THREE, 10, 9, 0.001), left(&THREE, 8, 8, 0.001));
    }
}
