//! Two variants, B against A: by each metric the difference, and which metric answers cheapest.

use super::claims::lines;
use super::{Detail, Section};
use crate::difference::Finding;
use crate::document::source::{self, Source};
use crate::document::{Cell, Chapter, Document, Table, row};
use crate::number::percent;
use crate::number::plural;
use crate::report::Report;
use crate::scaling::curves::Curves;
use fsarena_core::metric::label;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Direction;
use fsarena_stats::analyse::analyse;
use fsarena_stats::comparison::median;
use fsarena_stats::grid::Grid;
use fsarena_stats::pairs::{Pairs, log_ratios};
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::ratio::Ratio;
use fsarena_stats::sequential::Centre;
use fsarena_stats::weights;
use serde_json::{Value, json};

/// Metrics compared besides the requested ones. CPU time often varies least.
const COSTS: [&str; 2] = ["system", "total_cpu"];
/// Tasks that are listed one by one; of more, only all together.
const FEW: usize = 4;

/// One metric of one task, or of all.
#[derive(Debug)]
pub struct Row {
    task: String,
    /// Whether that is all the work.
    whole: bool,
    metric: MetricInfo,
    ratio: Ratio,
    finding: Finding,
    /// The spread of d. None under three rounds.
    sigma: Option<f64>,
    /// Rounds that find the margin in four of five runs. None where 400 do not.
    rounds: Option<usize>,
    /// Rounds without a ratio, because a value is zero.
    excluded: usize,
}

impl Row {
    /// `; 2 of 10 rounds left out: a value is zero`.
    fn left_out(&self) -> String {
        match self.excluded {
            0 => String::new(),
            some => {
                let all = plural(some + self.ratio.rounds, "round");
                format!("; {some} of {all} left out: a value is zero")
            }
        }
    }
}

/// The difference of B over A, and its interval.
fn difference(row: &Row, margin: f64) -> (String, String) {
    let edges = [margin, -margin / (1.0 + margin)];
    lines(row.ratio.value - 1.0, (row.ratio.low - 1.0, row.ratio.high - 1.0), &edges)
}

/// Two variants.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// What B costs or saves over A, in words and as a table; nothing where the run has not two variants.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    let rows = report.pair();
    let [a, b] = report.record.variants.as_slice() else { return document };
    // Where clients vary, a screen has room for how the two scale and no more.
    if rows.is_empty() || (detail < Detail::Full && Curves::shown(&report.record).is_some()) {
        return document;
    }
    document.heading(3, format!("B ({}) compared with A ({})", b.name, a.name));
    let whole = rows.iter().filter(|row| row.whole);
    document.list(whole.map(|row| in_words(row, report.margin)).collect());
    if detail < Detail::Full {
        return document;
    }
    let margin = percent(report.margin);
    let rounds = format!("rounds for {margin}");
    let header = ["task and metric", "B − A", "verdict", "σ", &rounds];
    let mut table = Table::figures(header);
    let cheapest = cheapest(rows);
    let cells = |(at, row): (usize, &Row)| {
        source::row(made_of(&report.record, row).as_ref(), cells(row, report.margin, cheapest == Some(at)))
    };
    table.rows = rows.iter().enumerate().map(cells).collect();
    document.table(table);
    let intervals = match rows.iter().any(|row| row.ratio.provisional) {
        true => "the range of the rounds if fewer than 8, else 95% intervals",
        false => "95% intervals",
    };
    document.text(format!(
        "Differences are those of B over A, within rounds, with {intervals}. σ is the spread of the log ratio within \
         rounds; the last column is the number of rounds that finds a difference of {margin} in four of five runs. {}",
        cheapest.map_or(String::new(), |at| answer(&rows[at]))
    ));
    document
}

fn in_words(row: &Row, margin: f64) -> String {
    let (value, interval) = difference(row, margin);
    let interval = if row.ratio.rounds < 2 { String::new() } else { format!(" [{interval}]") };
    let told = format!("{value}{interval}{}", row.left_out());
    let up = row.ratio.value > 1.0;
    let costs = match row.metric.direction {
        Direction::Lower if up => "B costs more",
        Direction::Lower => "B costs less",
        Direction::Higher if up => "B does more",
        Direction::Higher => "B does less",
        Direction::Neutral if up => "B has more",
        Direction::Neutral => "B has less",
    };
    let margin = percent(margin);
    let found = match row.finding {
        Finding::Different => format!("{costs}: {told}"),
        Finding::Negligible => format!("{costs}, but by less than the margin of {margin}: {told}"),
        Finding::Equivalent => format!("equivalent within {margin}: {told}"),
        Finding::Inconclusive => {
            let rounds = row.rounds.map_or("over 400 rounds".into(), |rounds| plural(rounds, "round"));
            format!("inconclusive: {told}; with this spread, {margin} requires {rounds}")
        }
        Finding::Provisional => format!("provisional, fewer than 8 rounds: {told}"),
    };
    format!("By {}: {found}.", label(&row.metric.id))
}

/// Both variants, B first, in the task of the row or in all of them.
fn made_of(record: &RunRecord, row: &Row) -> Option<Source> {
    Source::of(record.tasks.iter().position(|task| task.id.to_string() == row.task), [1, 0])
}

fn answer(row: &Row) -> String {
    let rounds = row.rounds.map_or(String::new(), |rounds| format!(": {}", plural(rounds, "round")));
    format!("Least noisy: {} of {}{rounds}.", label(&row.metric.id), row.task)
}

/// The row with the least spread that is not nothing: a spread of 0 is the resolution of a clock.
fn cheapest(rows: &[Row]) -> Option<usize> {
    let spreads = rows.iter().enumerate().filter_map(|(at, row)| Some((row.sigma.filter(|s| *s > 0.0)?, at)));
    spreads.min_by(|x, y| x.0.total_cmp(&y.0)).map(|(_, at)| at).filter(|_| rows.len() > 1)
}

fn cells(row: &Row, margin: f64, cheapest: bool) -> Vec<Cell> {
    let rounds = match (row.sigma, row.rounds) {
        (None, _) => "–".to_string(),
        (_, None) => "over 400".to_string(),
        (_, Some(rounds)) => rounds.to_string(),
    };
    let sigma = Cell::from(row.sigma.map_or("–".to_string(), percent));
    let (difference, interval) = difference(row, margin);
    row![
        format!("{} {}", row.task, label(&row.metric.id)),
        Cell::two(difference, format!("{interval}{}", row.left_out())),
        row.finding.words(Some(row.ratio), row.metric.direction, margin),
        if cheapest { sigma.strong() } else { sigma },
        rounds,
    ]
}

/// The same for programs; null where there are not two variants.
pub fn json(report: &Report) -> Value {
    let [a, b] = report.record.variants.as_slice() else { return Value::Null };
    let row = |row: &Row| {
        json!({
            "task": row.task,
            "metric": row.metric.id,
            "ratio_b_to_a": row.ratio,
            "verdict": row.finding.id(),
            "sigma_of_log_ratio": row.sigma,
            "rounds_for_margin": row.rounds,
        })
    };
    json!({
        "a": a.name,
        "b": b.name,
        "margin": report.margin,
        "rows": report.pair().iter().map(row).collect::<Vec<_>>(),
    })
}

/// The comparison of the two variants by each metric. Empty unless the run has exactly two.
pub fn rows(report: &Report) -> Vec<Row> {
    if report.record.variants.len() != 2 || !report.ranks() {
        return vec![];
    }
    let asked = report.analyses.iter().map(|analysis| analysis.metric.id.as_str());
    let mut ids: Vec<&str> = asked.collect();
    let costs = COSTS.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>();
    ids.extend(costs);
    let by_metric: Vec<Vec<Row>> =
        ids.into_iter().map(|id| of_metric(&report.record, id, report.margin)).collect();
    // Order rows by task, then by metric, because readers ask about tasks.
    let most = by_metric.iter().map(Vec::len).max().unwrap_or(0);
    let mut columns: Vec<_> = by_metric.into_iter().map(Vec::into_iter).collect();
    (0..most).flat_map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

fn of_metric(record: &RunRecord, id: &str, margin: f64) -> Vec<Row> {
    let Some((metric, grid)) = Grid::of(record, id) else { return vec![] };
    let tasks: Vec<(String, &Vec<Vec<f64>>)> = record
        .tasks
        .iter()
        .zip(&grid.values)
        .enumerate()
        .filter(|(at, _)| !grid.set_aside.contains_key(at))
        .map(|(_, of)| of)
        .filter(|(task, values)| {
            task.in_composite && values.iter().all(|variant| variant.iter().any(|v| !v.is_nan()))
        })
        .map(|(task, values)| (task.id.to_string(), values))
        .collect();
    let one = |task: String, pairs: Pairs, whole: bool| row((task, whole), &metric, pairs, margin);
    let mut rows = Vec::new();
    if tasks.len() > 1 {
        let overall_of = analyse(record, id).ok().and_then(|analysis| analysis.overall);
        let adds_up = overall_of.is_some_and(|overall| overall.total.is_some());
        rows.extend(one(format!("ALL {} tasks", tasks.len()), overall(&tasks, adds_up), true));
    }
    if tasks.len() <= FEW {
        let alone = tasks.len() == 1;
        rows.extend(
            tasks
                .iter()
                .filter_map(|(task, values)| one(task.clone(), log_ratios(&values[0], &values[1]), alone)),
        );
    }
    rows
}

/// The log ratio of all tasks together: of their sum where that means anything, else their mean log ratio.
fn overall(tasks: &[(String, &Vec<Vec<f64>>)], adds_up: bool) -> Pairs {
    let values: Vec<&Vec<Vec<f64>>> = tasks.iter().map(|(_, values)| *values).collect();
    if adds_up {
        let sums = fsarena_stats::composite::sums(&values);
        return log_ratios(&sums[0], &sums[1]);
    }
    let log = |values: &&Vec<Vec<f64>>| -> Vec<f64> {
        values[0].iter().zip(&values[1]).map(|(a, b)| (b / a).ln()).collect()
    };
    let d: Vec<Vec<f64>> = values.iter().map(log).collect();
    // A round that ran has a number in every task, be it an infinite one.
    let ran =
        (0..d.first().map_or(0, Vec::len)).filter(|round| d.iter().all(|d| !d[*round].is_nan())).count();
    let mean = weights::composite(&d, &vec![1.0; d.len()]);
    let d: Vec<f64> = mean.into_iter().filter(|d| d.is_finite()).collect();
    Pairs { excluded: ran.saturating_sub(d.len()), d }
}

fn row((task, whole): (String, bool), metric: &MetricInfo, pairs: Pairs, margin: f64) -> Option<Row> {
    let Pairs { d, excluded } = pairs;
    let narrow = Centre::of(&d)?.narrow;
    // A clock that mostly sees no difference at all has no spread to plan with.
    let sigma = spread(&d).filter(|_| median(&d.iter().map(|d| d.abs()).collect::<Vec<_>>()) != Some(0.0));
    let ratio = Ratio::of(d)?;
    Some(Row {
        task,
        metric: metric.clone(),
        ratio,
        finding: Finding::of(Some(ratio), Some(narrow), margin),
        sigma,
        rounds: sigma.and_then(|sigma| rounds_for(sigma, margin)),
        excluded,
        whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::metric;

    fn told(metric: &str, d: Vec<f64>, excluded: usize) -> String {
        let def = metric::find(metric).unwrap();
        let info =
            MetricInfo { id: metric.into(), unit: def.unit, direction: def.direction, help: def.help.into() };
        in_words(&row(("ALL".into(), true), &info, Pairs { d, excluded }, 0.01).unwrap(), 0.01)
    }

    #[test]
    fn what_b_costs_is_said_in_words() {
        let around = |middle: f64, task: f64| -> Vec<f64> {
            (-4..5).map(|at| (middle + task * f64::from(at)).ln()).collect()
        };
        let more = told("elapsed", around(1.1, 0.001), 0);
        assert!(more.starts_with("By elapsed: B costs more: +10% [+9."), "{more}");
        let less = told("elapsed", around(0.9, 0.001), 1);
        assert!(less.starts_with("By elapsed: B costs less: −10%"), "{less}");
        assert!(less.ends_with("; 1 of 10 rounds left out: a value is zero."), "{less}");
        assert!(told("elapsed", around(1.0, 0.0001), 0).starts_with("By elapsed: equivalent within 1%: "));
        let open = told("elapsed", around(1.0, 0.05), 0);
        assert!(open.starts_with("By elapsed: inconclusive: ") && open.contains("1% requires "), "{open}");
        assert!(
            told("elapsed", vec![0.1; 3], 0).starts_with("By elapsed: provisional, fewer than 8 rounds: ")
        );
        // Nobody reads +900%.
        let tenfold = told("elapsed", around(10.0, 0.1), 0);
        assert!(tenfold.contains("B costs more: 10.0× [9.") && !tenfold.contains('%'), "{tenfold}");
    }
}
