use super::*;
use fsarena_core::cell::{TaskId, TaskInfo, Variant};
use fsarena_core::event::{self, Note, NoteKind};
use fsarena_core::observations::{claim_series, claim_series_among};
use fsarena_core::record::{CellRecord, RunRecord, RunStatus, SampleTable};
use fsarena_core::sample::{Fold, MetricSpec, Over, Unit};
use fsarena_core::series::SeriesTable;

const VARIANTS: [&str; 3] = ["a", "b", "c"];
/// Task, parameter, seconds of `a`, and how many times as much `b` and `c` take.
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
        over: Over::all(Fold::Sum),
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
        variants: VARIANTS.iter().map(|name| Variant { name: name.to_string(), levels: Default::default() }).collect(),
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
        commands: 0,
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
    record.cells.push(CellRecord {
        id: cell.to_string(),
        round,
        position: variant as u32,
        variant,
        workload: "tasks".into(),
        outcome: event::Outcome::Done,
        host: 0,
        started_at: 0.0,
        spent: vec![],
    });
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
    judge_all(claim_series(record, &claims)).remove(0)
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
        assert!(judged.needs.is_empty() && judged.why_unjudged.is_none(), "{text}");
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
    assert_eq!(judged(&record, "two.elapsed[bs=4]: a < b").needs, [0, 1]);
    // c takes twice as long: it is out of the race.
    assert_eq!(judged(&record, "two.elapsed[bs=4]: best is a").needs, [1, 0]);
    let few = judged(&self::record(7), "one.elapsed: best is a");
    assert_eq!((few.needs, few.verdict.unwrap().provisional), (vec![1, 2, 0], true));
}

#[test]
fn only_the_given_variants_compete_in_claims_about_the_best() {
    let mut record = record(8);
    let best = "one.elapsed: best is b";
    assert_eq!(judged(&record, best).outcome(), Outcome::Refuted);
    let claims: [Claim; 1] = [best.parse().unwrap()];
    let among = judge_all(claim_series_among(&record, &claims, vec!["b", "c"]));
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
    assert_eq!(decided_in_family(&judge_all(claim_series(&record, &claims))), [0, 2]);
}

#[test]
fn the_explanation_states_when_a_claim_is_true() {
    let explanation = |text: &str| explain_claim(&text.parse().unwrap(), 0.01);
    assert_eq!(explanation("x.elapsed: a < b by 5%"), "true where x.elapsed of a over b is under 0.95");
    assert_eq!(explanation("x.elapsed: a <= b"), "true where x.elapsed of a over b is 1.01 or less");
    assert_eq!(explanation("x.elapsed: a != b"), "true where x.elapsed of a over b is under 1 or over 1");
    assert_eq!(explanation("x.elapsed: a == 2 * b"), "true where x.elapsed of a over b is from 1.9802 to 2.02");
    assert_eq!(explanation("x.elapsed: a >= y.elapsed"), "true where x.elapsed of a over y.elapsed is 0.9901 or more");
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
        over: Over::of_unit(Unit::Nanoseconds),
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
    // What the requests do not limit is judged.
    assert_eq!(judged(&with_tails(400.0), "one.elapsed: a < b").outcome(), Outcome::Held);
}
