//! Judges claims: computes the log ratios of the values that each claim compares, and its verdict.

use crate::gate::{judge_gate_claim, judge_gate_claim_by_means};
use crate::ratio::{LogRatios, log_ratios};
use crate::verdict::{self, ALPHA, Outcome, Region, Verdict};
use crate::{evalue::e_bh, mean_ratio::SharedCosts, sequential::Centre};
use fsarena_core::average::Average;
use fsarena_core::claim::{BestOrWorst, Claim, ExtremeRelation, PairRelation, Relation, RightSide};
use fsarena_core::observations::{ClaimSeries, ComparedSeries, Rival};
use fsarena_core::sample::Direction;

/// A claim with the verdict of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedClaim {
    /// The claim.
    pub claim: Claim,
    /// What a value of a variant stands for, in the singular: `round`, or `aged image`.
    pub column_noun: &'static str,
    /// The verdict. None if the run cannot judge the claim; `why_unjudged` then has the reason.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub why_unjudged: Option<String>,
    /// The variant on the right side; for a claim about the best or the worst, the rival that decides it or keeps it
    /// inconclusive. None for two quantities of one variant.
    pub rival: Option<String>,
    /// ln(left/right) of the decisive comparison in each round.
    pub d: Vec<f64>,
    /// The number of rounds of that comparison without a log ratio, because a value is zero or negative.
    pub excluded_rounds: usize,
    /// The variants that need further rounds to decide the claim; empty once it is decided.
    pub variants_to_measure: Vec<usize>,
    /// The outcome over all rounds, including the dropped ones; None if no round was dropped.
    pub outcome_with_all_rounds: Option<Outcome>,
}

impl JudgedClaim {
    /// The outcome; inconclusive if there is no verdict.
    pub fn outcome(&self) -> Outcome {
        self.verdict.map_or(Outcome::Inconclusive, |verdict| verdict.outcome)
    }

    /// Whether the claim is part of a gate.
    pub fn belongs_to_gate(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.gate.is_some())
    }

    /// Whether another round could still decide it.
    pub fn is_inconclusive(&self) -> bool {
        self.outcome() == Outcome::Inconclusive
    }
}

/// Judges claims from their values, which [`fsarena_core::observations::claim_series`] returns for any stored run.
///
/// # Examples
/// ```
/// use fsarena_core::{claim::Claim, observations::claim_series, record::RunRecord};
/// use fsarena_stats::{judge::judge_claims, verdict::Outcome};
///
/// fn untars_faster(record: &RunRecord) -> Result<bool, Box<dyn std::error::Error>> {
///     let claims: Vec<Claim> = vec!["untar.elapsed: xfs < ext4 by 5%".parse()?];
///     let judged = judge_claims(claim_series(record, &claims));
///     Ok(judged[0].outcome() == Outcome::Held)
/// }
/// ```
pub fn judge_claims(series: impl IntoIterator<Item = ClaimSeries>) -> Vec<JudgedClaim> {
    series.into_iter().map(judge_claim).collect()
}

/// Judges one claim.
pub fn judge_claim(claim_series: ClaimSeries) -> JudgedClaim {
    let ClaimSeries { claim, margin, gate_error_split, column_noun, variants, series, with_dropped } = claim_series;
    let mut judged = judge_series(claim, series, variants.clone(), (margin, gate_error_split));
    judged.column_noun = column_noun;
    if let Some(series) = with_dropped {
        let with_all_rounds = judge_series(judged.claim.clone(), series, variants, (margin, gate_error_split));
        judged.outcome_with_all_rounds = with_all_rounds.verdict.map(|verdict| verdict.outcome);
    }
    judged
}

/// Judges a claim from these values, or records why it cannot be judged. `named_variants` are the variants that the claim
/// names; `gate_error_split` is as in [`ClaimSeries`].
fn judge_series(
    claim: Claim,
    series: Result<ComparedSeries, String>,
    named_variants: Vec<usize>,
    (margin, gate_error_split): (f64, Option<usize>),
) -> JudgedClaim {
    let mut judged = JudgedClaim {
        claim,
        column_noun: "round",
        verdict: None,
        why_unjudged: None,
        rival: None,
        d: vec![],
        excluded_rounds: 0,
        variants_to_measure: vec![],
        outcome_with_all_rounds: None,
    };
    let result = match series {
        Ok(ComparedSeries::Pair { relation, variant, left, right }) => {
            judge_pair_series(&mut judged, &relation, (variant, &left), &right, (margin, gate_error_split))
        }
        Ok(ComparedSeries::Extreme { relation, variant, own_values, rivals, direction }) => {
            judge_extreme_series(&mut judged, &relation, (variant, &own_values), &rivals, direction, margin)
        }
        Err(why_unjudged) => Err(why_unjudged),
    };
    if let Err(why_unjudged) = result {
        judged.why_unjudged = Some(why_unjudged);
        judged.variants_to_measure = named_variants;
    }
    judged
}

/// The indices of the claims that stay decided when all claims are judged together. e-BH selects them at 5%: the expected share
/// of wrong decisions among them is at most 5%, however many claims there are.
pub fn decided_in_family(judged: &[JudgedClaim]) -> Vec<usize> {
    // A claim that is not decided gets the e-value 0, so that e-BH cannot select it, but still counts it as one of the claims.
    let is_decided = |judged: &JudgedClaim| matches!(judged.outcome(), Outcome::Held | Outcome::Refuted);
    let e_value =
        |judged: &JudgedClaim| judged.verdict.filter(|_| is_decided(judged)).map_or(0.0, |verdict| verdict.e_value);
    let mut selected = e_bh(&judged.iter().map(e_value).collect::<Vec<_>>(), ALPHA);
    selected.sort_unstable();
    selected
}

/// A sentence about the meaning of a claim: `true where untar.elapsed of xfs over ext4 is under 0.95`. `margin` is for
/// claims without their own percentage.
pub fn explain_claim(claim: &Claim, margin: f64) -> String {
    let pair = match &claim.relation {
        Relation::Extreme(ExtremeRelation { place, variant, negated }) => {
            let (others, not) =
                if *negated { ("some other variant is", "not ") } else { ("every other variant is", "") };
            let comparison = if (*place == BestOrWorst::Best) == *negated { "better" } else { "worse" };
            let average = if claim.average.is_typical() { "" } else { " by mean cost" };
            let place = place.name();
            return format!("{variant} is {not}{place}: true where {others} {comparison} than {variant}{average}");
        }
        Relation::Pair(pair) => pair,
    };
    let average = if claim.average.is_typical() { "" } else { "the mean " };
    let right = match &pair.right {
        RightSide::Variant(variant) => variant.clone(),
        RightSide::Quantity(quantity) => quantity.to_string(),
    };
    let region = Region::of_claim(pair, Some(margin));
    let end = |end: f64| format!("{:.4}", end.exp()).trim_end_matches('0').trim_end_matches('.').to_string();
    let (low, high) = (end(region.low), end(region.high));
    let condition = match (region.negated, region.low.is_finite(), region.high.is_finite()) {
        (true, true, false) => format!("under {low}"),
        (true, false, _) => format!("over {high}"),
        (true, true, true) => format!("under {low} or over {high}"),
        (false, true, false) => format!("{low} or more"),
        (false, false, _) => format!("{high} or less"),
        (false, true, true) => format!("from {low} to {high}"),
    };
    format!("true where {average}{} of {} over {right} is {condition}", claim.subject, pair.left)
}

/// Judges a claim about a pair: compares the values of the left variant with the values of the right side, and records the
/// result in `judged`.
///
/// # Errors
/// The comparison is impossible; the error is the reason.
fn judge_pair_series(
    judged: &mut JudgedClaim,
    pair: &PairRelation,
    (variant, left): (usize, &[f64]),
    right: &Rival,
    (margin, gate_error_split): (f64, Option<usize>),
) -> Result<(), String> {
    let LogRatios { d, mut excluded_rounds } = log_ratios(&right.values, left);
    let margin = Some(margin);
    let verdict = match judged.claim.average {
        Average::Typical => match gate_error_split {
            Some(split) => judge_gate_claim(pair, &d, margin, split),
            None => verdict::judge_pair(pair, &d, margin),
        },
        Average::Mean => {
            // Sums include values of zero.
            excluded_rounds = 0;
            let costs = SharedCosts::new(&right.values, left);
            costs.map(|costs| match gate_error_split {
                Some(split) => judge_gate_claim_by_means(pair, &costs, margin, split),
                None => verdict::judge_pair_by_means(pair, &costs, margin),
            })
        }
    };
    let Some(verdict) = verdict else {
        return Err(match excluded_rounds {
            0 => "no round has both sides of it".into(),
            _ => {
                format!("no round has both sides of it: {excluded_rounds} have a value of zero, which has no ratio")
            }
        });
    };
    if verdict.outcome == Outcome::Inconclusive {
        judged.variants_to_measure =
            [variant].into_iter().chain(right.variant.as_ref().map(|(index, _)| *index)).collect();
    }
    judged.verdict = Some(verdict);
    judged.rival = right.variant.as_ref().map(|(_, name)| name.clone());
    judged.d = d;
    judged.excluded_rounds = excluded_rounds;
    Ok(())
}

/// Judges a claim about the best or the worst: compares the values of a variant with the values of all rivals, and records the
/// result in `judged`.
///
/// # Errors
/// The comparison is impossible; the error is the reason.
fn judge_extreme_series(
    judged: &mut JudgedClaim,
    claim: &ExtremeRelation,
    (variant, own): (usize, &[f64]),
    rivals: &[Rival],
    direction: Direction,
    margin: f64,
) -> Result<(), String> {
    let ratios: Vec<LogRatios> = rivals.iter().map(|rival| log_ratios(&rival.values, own)).collect();
    let (verdict, centres): (Option<Verdict>, Vec<Option<Centre>>) = match judged.claim.average {
        Average::Typical => {
            let d: Vec<&Vec<f64>> = ratios.iter().map(|ratios| &ratios.d).collect();
            let verdict = verdict::judge_extreme(claim, &d, direction, Some(margin));
            (verdict, d.iter().map(|d| Centre::from_log_ratios(d)).collect())
        }
        Average::Mean => {
            let costs = rivals.iter().map(|rival| SharedCosts::new(&rival.values, own));
            let costs: Vec<Option<SharedCosts>> = costs.collect();
            let verdict = verdict::judge_extreme_by_means(claim, &costs, direction, Some(margin));
            (verdict, costs.iter().map(|costs| costs.as_ref().map(Centre::from_mean_costs)).collect())
        }
    };
    let verdict = verdict.ok_or("no round has another variant beside it")?;
    if verdict.outcome == Outcome::Inconclusive {
        let ahead_is_below = claim.is_about_smallest(direction);
        for (rival, centre) in rivals.iter().zip(&centres) {
            if !is_ahead(centre, ahead_is_below) {
                judged.variants_to_measure.extend(rival.variant.as_ref().map(|(index, _)| *index));
            }
        }
        judged.variants_to_measure.push(variant);
    }
    judged.verdict = Some(verdict);
    if let Some(decisive) = verdict.rival {
        judged.rival = rivals[decisive].variant.as_ref().map(|(_, name)| name.clone());
        judged.d.clone_from(&ratios[decisive].d);
        // Sums include values of zero.
        judged.excluded_rounds = if judged.claim.average.is_typical() { ratios[decisive].excluded_rounds } else { 0 };
    }
    Ok(())
}

/// Whether the variant of the claim is significantly ahead of this rival.
fn is_ahead(centre: &Option<Centre>, ahead_is_below: bool) -> bool {
    centre.is_some_and(|centre| {
        let (low, high) = centre.interval_95;
        !centre.provisional && if ahead_is_below { high < 0.0 } else { low > 0.0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::{TaskId, TaskInfo, Variant};
    use fsarena_core::event::{self, Note, NoteKind};
    use fsarena_core::observations::{claim_series, claim_series_among};
    use fsarena_core::record::{CellRecord, RunRecord, RunStatus, SampleTable};
    use fsarena_core::sample::{Fold, FoldRules, MetricSpec, Unit};
    use fsarena_core::series::SeriesTable;

    const VARIANTS: [&str; 3] = ["a", "b", "c"];
    /// The name of a task, its parameter `bs`, its seconds, and the factors of the variants on these seconds.
    const TASKS: [(&str, &str, f64, [f64; 3]); 3] =
        [("one", "", 1.0, [1.0, 1.1, 1.2]), ("two", "4", 3.0, [1.0, 1.0, 2.0]), ("two", "8", 6.0, [1.0, 1.0, 1.0])];

    /// A run over this number of rounds; each value moves by up to 0.7%, differently for each task, variant and round.
    fn record(rounds: u32) -> RunRecord {
        let plan = "name = 't'\ntitle = ''\nquestion = ''\nscale = 'tiny'\nseed = 1\n[factors]\n[device]\n\
                    direct_io = true\ndiscard = false\nother_fs = 'ext4'\nbacking = { kind = 'ram' }\n[stop]\n\
                    rounds = 8\n[idle]\ntimeout_s = 1.0\ndirty = '4 MiB'\nio_pressure_percent = 5.0\n\
                    [[workload]]\nuse = 'tasks'\n";
        let task = |(name, bs, ..): &(&str, &str, f64, [f64; 3])| TaskInfo {
            id: TaskId {
                name: name.to_string(),
                params: (!bs.is_empty()).then(|| ("bs".to_string(), bs.to_string())).into_iter().collect(),
            },
            title: name.to_string(),
            number: None,
            in_totals: true,
        };
        let reading = |id: &str, direction| MetricSpec {
            over: FoldRules::all(Fold::Sum),
            ..MetricSpec::new(id.into(), Unit::Nanoseconds, direction, String::new())
        };
        let mut record = RunRecord {
            id: "r".into(),
            version: String::new(),
            started: String::new(),
            ended: String::new(),
            status: RunStatus { complete: true, why: String::new() },
            plan: toml::from_str(plan).unwrap(),
            hosts: vec![],
            variants: VARIANTS
                .iter()
                .map(|name| Variant { name: name.to_string(), levels: Default::default() })
                .collect(),
            tasks: TASKS.iter().map(task).collect(),
            readings: vec![
                reading("elapsed_ns", Direction::Lower),
                reading("only_once", Direction::Higher),
                reading("neutral", Direction::Neutral),
            ],
            cells: vec![],
            samples: SampleTable { values: vec![vec![]; 3], ..Default::default() },
            series: SeriesTable::default(),
            latencies: Default::default(),
            notes: vec![],
            command_count: 0,
        };
        for round in 0..rounds {
            for variant in 0..VARIANTS.len() {
                add_cell(&mut record, round, variant);
            }
        }
        record
    }

    fn add_cell(record: &mut RunRecord, round: u32, variant: usize) {
        let cell = record.cells.len() as u32;
        record.cells.push(CellRecord::done(round, variant));
        for (task, (.., base, factors)) in TASKS.iter().enumerate() {
            let noise = fsarena_core::schedule::mix(u64::from(round) * 3 + variant as u64, task as u64) % 15;
            let seconds = base * factors[variant] * (1.0 + noise as f64 / 1000.0);
            record.samples.cell.push(cell);
            record.samples.task.push(task as u32);
            record.samples.started_at.push(0.0);
            let once = if task == 0 { 1.0 / seconds } else { f64::NAN };
            for (column, value) in record.samples.values.iter_mut().zip([seconds * 1e9, once, seconds]) {
                column.push(value);
            }
        }
    }

    fn judged(record: &RunRecord, text: &str) -> JudgedClaim {
        let claims: [Claim; 1] = [text.parse().unwrap_or_else(|error| panic!("{error}"))];
        judge_claims(claim_series(record, &claims)).remove(0)
    }

    #[test]
    fn every_form_of_claim_finds_its_rounds() {
        let record = record(15);
        for (text, outcome, theta) in [
            ("one.elapsed: a < b", Outcome::Held, -(1.1f64.ln())),
            ("one.elapsed: b < a", Outcome::Refuted, 1.1f64.ln()),
            ("one.elapsed: a < b by 5%", Outcome::Held, -(1.1f64.ln())),
            ("one.elapsed: a > 0.8 * b", Outcome::Held, -(1.1f64.ln())),
            ("two.elapsed[bs=4]: c == 2 * a within 5%", Outcome::Held, 2f64.ln()),
            ("two.elapsed[bs=8]: a == c within 2%", Outcome::Held, 0.0),
            ("two.elapsed[bs=8]: a < c by 5%", Outcome::Refuted, 0.0),
            ("one.elapsed: a < two.elapsed[bs=4]", Outcome::Held, -(3f64.ln())),
            ("total.elapsed: a < c", Outcome::Held, (10.0f64 / 13.2).ln()),
            ("geomean.elapsed: a < c", Outcome::Held, -(2.4f64.ln()) / 3.0),
            ("geomean.elapsed[bs=4]: a < c", Outcome::Held, -(2f64.ln())),
            ("only_once: a > b", Outcome::Held, 1.1f64.ln()),
            ("one.elapsed: best is a", Outcome::Held, -(1.1f64.ln())),
            ("one.elapsed: worst is c", Outcome::Held, (1.2f64 / 1.1).ln()),
            ("one.elapsed: best is not c", Outcome::Held, (1.2f64).ln()),
            ("only_once: best is a", Outcome::Held, 1.1f64.ln()),
        ] {
            let judged = judged(&record, text);
            let verdict = judged.verdict.unwrap_or_else(|| panic!("{text}: {judged:?}"));
            assert_eq!(verdict.outcome, outcome, "{text}: {verdict:?}");
            assert!((verdict.effect - theta.exp_m1()).abs() < 0.005, "{text}: {verdict:?}");
            assert_eq!((verdict.rounds, judged.d.len()), (15, 15), "{text}");
            assert!(judged.variants_to_measure.is_empty() && judged.why_unjudged.is_none(), "{text}");
        }
    }

    #[test]
    fn a_claim_without_values_has_the_reason() {
        let record = record(8);
        for (text, why) in [
            ("one.elapsed: a < z", "Unknown variant `z`. Available: a, b, c"),
            ("three.elapsed: a < b", "Unknown task `three`. Available: one, two, total, geomean"),
            (
                "one.iops_of_sorts: a < b",
                "Unknown metric `iops_of_sorts`. Did you mean `iops`? List them: fsarena list metrics",
            ),
            ("two.elapsed: a < b", "several tasks have elapsed; name one of two[bs=4], two[bs=8]"),
            ("only_once[bs=4]: a < b", "no task of the run has a value of only_once"),
            ("one.neutral: best is a", "neither more nor less of neutral is better"),
        ] {
            let judged = judged(&record, text);
            assert_eq!(judged.why_unjudged.as_deref(), Some(why), "{text}");
            assert!(judged.is_inconclusive() && judged.verdict.is_none());
        }
    }

    #[test]
    fn an_inconclusive_claim_needs_only_the_variants_that_can_decide_it() {
        let record = record(8);
        assert_eq!(judged(&record, "two.elapsed[bs=4]: a < b").variants_to_measure, [0, 1]);
        // c takes twice as long, so it cannot be the best, and needs no further rounds.
        assert_eq!(judged(&record, "two.elapsed[bs=4]: best is a").variants_to_measure, [1, 0]);
        let few = judged(&self::record(7), "one.elapsed: best is a");
        assert_eq!((few.variants_to_measure, few.verdict.unwrap().provisional), (vec![1, 2, 0], true));
    }

    #[test]
    fn only_the_given_variants_compete_in_claims_about_the_best() {
        let mut record = record(8);
        let best = "one.elapsed: best is b";
        assert_eq!(judged(&record, best).outcome(), Outcome::Refuted);
        let claims: [Claim; 1] = [best.parse().unwrap()];
        let among = judge_claims(claim_series_among(&record, &claims, vec!["b", "c"]));
        assert_eq!(among[0].outcome(), Outcome::Held);
        record.cells[0].outcome = event::Outcome::Failed { why: "mkfs".into(), cause: Default::default() };
        assert_eq!(judged(&record, best).outcome(), Outcome::Held, "a variant that failed does not compete");
    }

    #[test]
    fn the_outcome_with_dropped_rounds_is_reported() {
        let mut record = record(8);
        record.notes.push((Some(3), Note::new(NoteKind::Dropped, "throttled")));
        let judged = judged(&record, "one.elapsed: a < b");
        assert_eq!(judged.verdict.unwrap().rounds, 7);
        assert_eq!((judged.outcome(), judged.outcome_with_all_rounds), (Outcome::Inconclusive, Some(Outcome::Held)));
    }

    #[test]
    fn claims_with_enough_evidence_stay_decided_in_a_family() {
        let record = record(30);
        let claims: Vec<Claim> = ["one.elapsed: a < b", "two.elapsed[bs=8]: a < b", "one.elapsed: c < a"]
            .map(|text| text.parse().unwrap())
            .into();
        assert_eq!(decided_in_family(&judge_claims(claim_series(&record, &claims))), [0, 2]);
    }

    #[test]
    fn the_explanation_states_when_a_claim_is_true() {
        let explanation = |text: &str| explain_claim(&text.parse().unwrap(), 0.01);
        assert_eq!(explanation("x.elapsed: a < b by 5%"), "true where x.elapsed of a over b is under 0.95");
        assert_eq!(explanation("x.elapsed: a <= b"), "true where x.elapsed of a over b is 1.01 or less");
        assert_eq!(explanation("x.elapsed: a != b"), "true where x.elapsed of a over b is under 1 or over 1");
        assert_eq!(explanation("x.elapsed: a == 2 * b"), "true where x.elapsed of a over b is from 1.9802 to 2.02");
        assert_eq!(
            explanation("x.elapsed: a >= y.elapsed"),
            "true where x.elapsed of a over y.elapsed is 0.9901 or more"
        );
        assert_eq!(explanation("x.elapsed: best is a"), "a is best: true where every other variant is worse than a");
        assert_eq!(
            explanation("x.elapsed: best is not a"),
            "a is not best: true where some other variant is better than a"
        );
    }

    /// Gives every sample a p99 of its elapsed time, of this many requests in two seconds.
    fn with_tails(requests: f64) -> RunRecord {
        let mut record = record(8);
        let rows = record.samples.len();
        let mut add = |id: &str, values: Vec<f64>| {
            record.readings.push(MetricSpec { id: id.into(), ..record.readings[0].clone() });
            record.samples.values.push(values);
        };
        add("all_operations_count", vec![requests; rows]);
        add("load_elapsed_ns", vec![2e9; rows]);
        let elapsed = record.samples.values[0].clone();
        record.readings.push(MetricSpec {
            id: "all_latency_p99_ns".into(),
            over: FoldRules::of_unit(Unit::Nanoseconds),
            ..record.readings[0].clone()
        });
        record.samples.values.push(elapsed);
        record
    }

    #[test]
    fn a_percentile_is_judged_if_ten_requests_of_a_round_lie_beyond_it() {
        let claim = "one.latency_p99: a < b";
        assert_eq!(judged(&with_tails(1000.0), claim).outcome(), Outcome::Held);
        let refused = judged(&with_tails(400.0), claim);
        assert_eq!(refused.outcome(), Outcome::Inconclusive);
        assert_eq!(
            refused.why_unjudged.as_deref(),
            Some(
                "no verdict rests on this figure: a at one had 400 requests a round, and a 99th percentile requires 1000; measure \
                 for 6 s instead of 2.0 s"
            )
        );
        // A metric that is no percentile is judged with any number of requests.
        assert_eq!(judged(&with_tails(400.0), "one.elapsed: a < b").outcome(), Outcome::Held);
    }
}
