//! Runs beside a first one.

mod circumstances;
mod shown;

use super::Compared;
use super::order::{Order, Orders};
use crate::error::Error;
use crate::sections::label;
use fsarena_core::record::RunRecord;
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::composite;
use fsarena_stats::grid::has_data;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::shift;

/// The comparison of one task: b over a for each common variant, and the two orders.
struct Task<'a> {
    title: String,
    ratios: Vec<Option<Ratio>>,
    orders: Option<Orders<'a>>,
    /// Whether it sums up others.
    over_all: bool,
}

/// One run with its analysis and its values.
struct Side<'a> {
    record: &'a RunRecord,
    analysis: Analysis,
}

/// A run beside the first.
struct Pair<'a> {
    a: &'a Side<'a>,
    b: &'a Side<'a>,
    /// The variants that are in both.
    variants: Vec<(usize, usize)>,
    tasks: Vec<Task<'a>>,
}

/// Compares run `b` with run `a`.
///
/// # Errors
/// Those of a comparison of several runs.
pub fn compare_runs(a: &RunRecord, b: &RunRecord, metric: &str) -> Result<Compared, Error> {
    compare_several(&[a, b], metric)
}

/// Compares runs with the first of them, variant by variant and task by task: the ratios to it, estimated from two
/// independent samples (see [`fsarena_stats::shift`]), and where the order of the variants changed. Of several, those that
/// cannot be compared with the first are left out, with the reason.
///
/// # Errors
/// Where the first does not know the metric, or every other does not either, or has no variant or no task in common with it.
pub(super) fn compare_several<'r>(records: &[&'r RunRecord], metric: &str) -> Result<Compared, Error> {
    let [first, others @ ..] = records else { return Ok(Compared::default()) };
    let a = side(first, metric)?;
    let mut refused = vec![];
    let beside = |other: &&'r RunRecord| comparable(first, other).and_then(|()| side(other, metric));
    let sides = kept(others.iter().map(beside), &mut refused);
    let pairs = kept(sides.iter().map(|other| pair(&a, other)), &mut refused);
    if pairs.is_empty() {
        return refused.into_iter().next().map_or(Ok(Compared::default()), Err);
    }
    Ok(shown::compared(&pairs, &refused))
}

/// What went well; what did not is added to a list.
fn kept<T>(results: impl Iterator<Item = Result<T, Error>>, refused: &mut Vec<Error>) -> Vec<T> {
    results.filter_map(|result| result.map_err(|error| refused.push(error)).ok()).collect()
}

fn pair<'a>(a: &'a Side, b: &'a Side) -> Result<Pair<'a>, Error> {
    let nothing = |what| Error::NothingInCommon { a: a.record.id.clone(), b: b.record.id.clone(), what };
    let variants: Vec<(usize, usize)> =
        common(&a.record.variants, &b.record.variants, |variant| &variant.name);
    if variants.is_empty() {
        return Err(nothing("variant"));
    }
    let shared: Vec<(usize, usize)> = common(&a.record.tasks, &b.record.tasks, |task| &task.id);
    let mut tasks: Vec<Task> = shared.iter().filter_map(|(i, j)| task(a, b, &variants, *i, *j)).collect();
    if tasks.is_empty() {
        return Err(nothing("task"));
    }
    tasks.extend(total(a, b, &variants, &shared));
    Ok(Pair { a, b, variants, tasks })
}

/// Figures of one executor only, and of one that can rank.
fn comparable(a: &RunRecord, b: &RunRecord) -> Result<(), Error> {
    let [in_a, in_b] = [a, b].map(|record| record.plan.device.backing.executor());
    if in_a != in_b {
        return Err(Error::Executors { a: a.id.clone(), in_a, b: b.id.clone(), in_b });
    }
    super::ranks(a)
}

fn side<'a>(record: &'a RunRecord, metric: &str) -> Result<Side<'a>, Error> {
    Ok(Side { record, analysis: analyse(record, metric)? })
}

/// Where the same key is in both lists.
fn common<T, K: PartialEq>(a: &[T], b: &[T], key: impl Fn(&T) -> &K) -> Vec<(usize, usize)> {
    a.iter().enumerate().filter_map(|(i, x)| Some((i, b.iter().position(|y| key(y) == key(x))?))).collect()
}

fn task<'a>(a: &'a Side, b: &'a Side, variants: &[(usize, usize)], i: usize, j: usize) -> Option<Task<'a>> {
    let ratios = ratios(&a.analysis.grid.values[i], &b.analysis.grid.values[j], variants);
    let info = &a.record.tasks[i];
    let of = |side: &'a Side| {
        side.analysis.tasks.iter().find(|task| task.task.id == info.id).map(|task| &task.comparison)
    };
    let orders = orders(a.record, of(a)?, of(b)?, variants);
    ratios.iter().any(Option::is_some).then(|| Task { title: label(info), ratios, orders, over_all: false })
}

/// The sum over the composite's tasks that are in both.
fn total<'a>(
    a: &'a Side,
    b: &'a Side,
    variants: &[(usize, usize)],
    tasks: &[(usize, usize)],
) -> Option<Task<'a>> {
    let tasks: Vec<_> = tasks
        .iter()
        .filter(|(i, j)| {
            a.record.tasks[*i].in_composite
                && has_data(&a.analysis.grid.values[*i])
                && has_data(&b.analysis.grid.values[*j])
        })
        .collect();
    let (overall_a, overall_b) = (a.analysis.overall.as_ref()?, b.analysis.overall.as_ref()?);
    overall_a.total.as_ref()?;
    let sum = |values: Vec<&Vec<Vec<f64>>>| composite::sums(&values);
    let first = sum(tasks.iter().map(|(i, _)| &a.analysis.grid.values[*i]).collect());
    let second = sum(tasks.iter().map(|(_, j)| &b.analysis.grid.values[*j]).collect());
    if first.is_empty() {
        return None;
    }
    // The orders are those of each run's own total; they speak of the same work only if it has the same tasks.
    let same = overall_a.tasks == tasks.len() && overall_b.tasks == tasks.len();
    let orders = orders(a.record, &overall_a.main().comparison, &overall_b.main().comparison, variants)
        .filter(|_| same);
    Some(Task {
        title: format!("TOTAL of {} tasks", tasks.len()),
        ratios: ratios(&first, &second, variants),
        orders,
        over_all: true,
    })
}

fn ratios(a: &[Vec<f64>], b: &[Vec<f64>], variants: &[(usize, usize)]) -> Vec<Option<Ratio>> {
    variants.iter().map(|(i, j)| shift::ratio(&a[*i], &b[*j])).collect()
}

fn orders<'a>(
    record: &'a RunRecord,
    a: &'a Comparison,
    b: &'a Comparison,
    variants: &[(usize, usize)],
) -> Option<Orders<'a>> {
    let variants: Vec<(usize, usize)> =
        variants.iter().copied().filter(|(i, j)| a.order.contains(i) && b.order.contains(j)).collect();
    let (first, second): (Vec<usize>, Vec<usize>) = variants.iter().copied().unzip();
    (variants.len() > 1).then_some(())?;
    Some(Orders {
        names: first.iter().map(|variant| record.variants[*variant].name.as_str()).collect(),
        then: Order::of_variants(a, &first)?,
        here: Order::of_variants(b, &second)?,
    })
}
