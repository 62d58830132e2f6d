//! Metrics that commands print: checks that their names differ from those of fsarena's own metrics.

use crate::bench::reading_defs;
use crate::error::CellError;
use fsarena_core::event::Cause;
use fsarena_core::metric::{
    DeclaredMetrics, INSTRUCTION_READINGS, LIFECYCLE_READINGS, METRICS, MetricDef, TIMER_READINGS,
};
use fsarena_core::record::RunRecord;
use fsarena_core::sample::MetricSpec;
use fsarena_core::state::RunState;
use fsarena_probe::probes;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The names that a command may not use for a metric: the ids and the CSV columns of fsarena's own metrics, each with
/// the id of its metric. Metrics that are derived from the readings of a load are left out, because only runs with that
/// load have them; see [`find_name_clash`].
static TAKEN_NAMES: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let readings_of_all_tasks = TIMER_READINGS.iter().chain(LIFECYCLE_READINGS).chain(INSTRUCTION_READINGS).copied();
    let always: Vec<&str> = readings_of_all_tasks.chain(probes::reading_defs()).map(|def| def.id).collect();
    let is_always_derived = |metric: &&MetricDef| (metric.formula)(&|id| always.contains(&id).then_some(1.0)).is_some();
    let derived = METRICS.iter().filter(is_always_derived).map(|metric| metric.spec);
    let mut taken_names = HashMap::new();
    for def in derived.chain(reading_defs()) {
        taken_names.insert(def.unit.with_suffix(def.id), def.id);
        taken_names.insert(def.id.to_string(), def.id);
    }
    taken_names
});

/// The ids of fsarena's own readings.
static OWN_READINGS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| reading_defs().map(|def| def.id).collect());

/// Builds the tables that [`declare_all`] uses. Call it before a task is timed, so that [`declare_all`] does not build
/// them then.
pub fn build_tables() {
    LazyLock::force(&TAKEN_NAMES);
    LazyLock::force(&OWN_READINGS);
}

/// Why a command may not print a metric with this name: fsarena has a metric of that name itself. None if it may. The
/// text begins with the name.
pub fn why_name_is_taken(name: &str) -> Option<String> {
    let own_metric = TAKEN_NAMES.get(name)?;
    Some(format!("{name}, which fsarena measures itself as {own_metric}: give it another name"))
}

/// The metrics that commands of a stored run printed.
pub fn metrics_printed_in(record: &RunRecord) -> DeclaredMetrics {
    let mut declared = DeclaredMetrics::default();
    for metric in record.readings.iter().filter(|info| !is_own_reading(&info.id)) {
        // This cannot fail: a record has each name once.
        let _ = declared.declare(metric, "an earlier part of this run");
    }
    declared
}

/// Declares the metrics that a command of a task printed. Returns those that are new in the run. `task_name` names the
/// task in errors.
///
/// # Errors
/// A metric contradicts an earlier declaration, or has the name of one of fsarena's own metrics.
pub fn declare_all(
    declared: &mut DeclaredMetrics,
    printed: &[MetricSpec],
    task_name: &str,
) -> Result<Vec<MetricSpec>, String> {
    let mut new_metrics = vec![];
    for metric in printed {
        if let Some(refusal) = why_name_is_taken(&metric.id) {
            return Err(format!("the command printed {refusal}"));
        }
        if declared.declare_printed(metric, task_name).map_err(|error| error.to_string())? {
            new_metrics.push(metric.clone());
        }
    }
    Ok(new_metrics)
}

/// Checks that both parts of each printed quotient are amounts: readings of fsarena itself, or printed metrics that are
/// not quotients.
///
/// # Errors
/// The first quotient that is not, with the name of its missing part.
pub fn check_quotients(declared: &DeclaredMetrics, printed: &[MetricSpec]) -> Result<(), String> {
    for metric in printed {
        for part in metric.quotient_of.iter().flatten() {
            let is_amount = match declared.get(part) {
                Some(part) => part.quotient_of.is_none(),
                None => is_own_reading(part),
            };
            if is_amount {
                continue;
            }
            let printed_ids: Vec<&str> = declared.metrics().map(|metric| metric.id.as_str()).collect();
            return Err(format!(
                "the command printed `{metric}`, and no amount `{part}`; it printed {}. Readings of fsarena's own: fsarena \
                 list metrics",
                printed_ids.join(", ")
            ));
        }
    }
    Ok(())
}

/// Whether this is the id of a reading that fsarena itself takes.
fn is_own_reading(id: &str) -> bool {
    OWN_READINGS.contains(id)
}

/// Finds two metrics of the run with the same name: a metric that a command printed, and a metric of fsarena that is
/// derived from the readings of a load. Returns the failure of the cell after which the run has both; None if all names
/// differ.
pub fn find_name_clash(state: &RunState) -> Option<CellError> {
    for info in state.record.readings.iter().filter(|info| !is_own_reading(&info.id)) {
        // The name of a printed metric can be the id of a metric, or its column in CSV.
        let has_name = |def: &&MetricDef| def.spec.id == info.id || def.spec.unit.with_suffix(def.spec.id) == info.id;
        let Some(def) = METRICS.iter().find(has_name) else { continue };
        if is_derived_in_cell(state, def) || is_derived_in_record(&state.record, def) {
            let why = format!(
                "a command of this run printed {}, and another workload of it measured {}, which has the same column: give \
                 the printed one another name",
                info.id, def.spec.id
            );
            return Some(CellError::new(Cause::Usage, why));
        }
    }
    None
}

/// Whether a sample of the current cell has the readings that a metric is derived from.
fn is_derived_in_cell(state: &RunState, def: &MetricDef) -> bool {
    let mut samples = state.cell.iter().flat_map(|cell| &cell.samples);
    samples.any(|sample| (def.formula)(&|id| sample.readings.get(id)).is_some())
}

/// Whether a stored sample of the run has a value of a derived metric.
fn is_derived_in_record(record: &RunRecord, def: &MetricDef) -> bool {
    let Some(values) = record.derived_metric(def.spec.id) else { return false };
    (0..record.samples.len()).any(|row| !values.value(row).is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::{Direction, Unit};

    #[test]
    fn names_of_readings_and_of_metrics_of_every_task_are_taken() {
        let metric_of_name = |name: &str| TAKEN_NAMES.get(name).copied();
        assert_eq!(metric_of_name("elapsed_ns"), Some("elapsed_ns"));
        assert_eq!(metric_of_name("elapsed_s"), Some("elapsed"));
        assert_eq!(metric_of_name("device_reads_count"), Some("device_reads"));
        assert_eq!(metric_of_name("write_amplification_ratio"), Some("write_amplification"));
        assert_eq!(metric_of_name("transactions_per_s"), Some("transactions_per_s"));
        assert_eq!(["tps_per_s", "iops_per_s", "commits_per_s", "lat_ns"].map(metric_of_name), [None; 4]);
    }

    #[test]
    fn a_resumed_run_refuses_a_metric_that_contradicts_its_first_part() {
        let spec = |direction| MetricSpec::new("m_s".into(), Unit::Seconds, direction, String::new());
        let mut record = RunRecord::default();
        record.define_reading((&TIMER_READINGS[0]).into());
        record.define_reading(spec(Direction::Lower));
        let mut declared = metrics_printed_in(&record);
        assert_eq!(declared.metrics().map(|metric| metric.id.as_str()).collect::<Vec<_>>(), ["m_s"]);
        assert_eq!(declare_all(&mut declared, &[spec(Direction::Lower)], "task a"), Ok(vec![]));
        let error = declare_all(&mut declared, &[spec(Direction::Higher)], "task a").unwrap_err();
        assert!(error.contains("by an earlier part of this run and as `m_s s higher` by task a"), "{error}");
    }

    #[test]
    fn the_parts_of_a_quotient_are_amounts_that_a_run_has() {
        let spec = |id: &str, quotient_of: Option<[&str; 2]>| {
            let quotient_of = quotient_of.map(|parts| parts.map(String::from));
            MetricSpec { quotient_of, ..MetricSpec::new(id.into(), Unit::Count, Direction::Lower, String::new()) }
        };
        let all = [
            spec("a_count", None),
            spec("b_count", Some(["a_count", "elapsed_ns"])),
            spec("c_count", Some(["a_count", "b_count"])),
            spec("d_count", Some(["elapsed", "a_count"])),
        ];
        let mut declared = DeclaredMetrics::default();
        declare_all(&mut declared, &all, "task a").unwrap();
        assert_eq!(check_quotients(&declared, &all[..2]), Ok(()));
        for (metric, part) in [(&all[2], "no amount `b_count`"), (&all[3], "no amount `elapsed`")] {
            let error = check_quotients(&declared, std::slice::from_ref(metric)).unwrap_err();
            assert!(error.contains(part) && error.contains("it printed a_count, b_count"), "{error}");
        }
    }
}
