//! The names of metrics that commands print, beside those of fsarena's own.

use crate::bench::readings;
use crate::executor::Failed;
use fsarena_core::event::Cause;
use fsarena_core::metric::{Declared, INSTRUCTIONS, LIFECYCLE, METRICS, MetricDef, TIMER};
use fsarena_core::record::RunRecord;
use fsarena_core::sample::{MetricSpec, ReadingDef};
use fsarena_core::state::RunState;
use fsarena_probe::probes;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The names that are taken, each with fsarena's own metric that has it: as its name, or as its column in CSV and JSON. A
/// metric derived from the readings of a load is none that a command must leave alone: only runs with that load have it, see
/// [`clash`].
static TAKEN: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let timed = TIMER.iter().chain(LIFECYCLE).chain(INSTRUCTIONS).copied();
    let always: Vec<&str> = timed.chain(probes::readings()).map(|def| def.id).collect();
    let has = |metric: &&MetricDef| (metric.from)(&|id| always.contains(&id).then_some(1.0)).is_some();
    let derived = METRICS.iter().filter(has).map(|metric| metric.spec);
    let both = |def: ReadingDef| [(def.unit.named(def.id), def.id), (def.id.to_string(), def.id)];
    derived.chain(readings()).flat_map(both).collect()
});

/// The names of all readings of fsarena's own.
static READINGS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| readings().map(|def| def.id).collect());

/// Gets everything ready that [`take`] looks up: it does so while a task is timed.
pub fn prepare() {
    LazyLock::force(&TAKEN);
    LazyLock::force(&READINGS);
}

/// The refusal of a printed metric whose name is taken.
pub fn refusal(printed: &str) -> Option<String> {
    let taken = TAKEN.get(printed)?;
    Some(format!("{printed}, which fsarena measures itself as {taken}: give it another name"))
}

/// The metrics that commands of a stored run printed.
pub fn declared(record: &RunRecord) -> Declared {
    let mut declared = Declared::default();
    for metric in record.readings.iter().filter(|info| !is_own(&info.id)) {
        // A record has each name once.
        let _ = declared.declare(metric, "an earlier part of this run");
    }
    declared
}

/// Takes over the metrics that one command of a task printed. Those that are new to the run.
///
/// # Errors
/// One that contradicts an earlier declaration, or that has the name of one of fsarena's own.
pub fn take(declared: &mut Declared, printed: &[MetricSpec], by: &str) -> Result<Vec<MetricSpec>, String> {
    let mut new = vec![];
    for metric in printed {
        if let Some(taken) = refusal(&metric.id) {
            return Err(format!("the command printed {taken}"));
        }
        if declared.declare_printed(metric, by).map_err(|error| error.to_string())? {
            new.push(metric.clone());
        }
    }
    Ok(new)
}

/// Refuses quotients of what is neither a reading nor printed.
///
/// # Errors
/// The first, with what is missing.
pub fn check_parts(declared: &Declared, printed: &[MetricSpec]) -> Result<(), String> {
    for metric in printed {
        let unknown = |part: &&String| match declared.get(part) {
            Some(part) => part.of.is_some(),
            None => !is_own(part),
        };
        if let Some(part) = metric.of.iter().flatten().find(unknown) {
            let known: Vec<&str> = declared.metrics().map(|metric| metric.id.as_str()).collect();
            return Err(format!(
                "the command printed `{metric}`, and no amount `{part}`; it printed {}. Readings of fsarena's own: fsarena \
                 list metrics",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

fn is_own(id: &str) -> bool {
    READINGS.contains(id)
}

fn shares_name(def: &ReadingDef, printed: &str) -> bool {
    def.id == printed || def.unit.named(def.id) == printed
}

/// The failure of a cell that gives the run two metrics of one name: one that a command printed, and one derived from what a
/// load measured.
pub fn clash(state: &RunState) -> Option<Failed> {
    let record = &state.record;
    let printed = record.readings.iter().filter(|info| !is_own(&info.id));
    let clashes = |info: &MetricSpec| {
        let def = METRICS.iter().find(|def| shares_name(&def.spec, &info.id))?;
        let samples = state.cell.iter().flat_map(|cell| &cell.samples);
        let here = samples.filter_map(|sample| (def.from)(&|id| sample.readings.get(id))).next().is_some();
        let derived = || record.derived(def.spec.id);
        let before =
            || derived().is_some_and(|all| (0..record.samples.len()).any(|row| !all.value(row).is_nan()));
        (here || before()).then_some(def)
    };
    let (info, def) = printed.filter_map(|info| Some((info, clashes(info)?))).next()?;
    let why = format!(
        "a command of this run printed {}, and another workload of it measured {}, which has the same column: give the \
         printed one another name",
        info.id, def.spec.id
    );
    Some(Failed::new(Cause::Usage, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::{Direction, Unit};

    #[test]
    fn names_of_readings_and_of_what_every_task_has_are_taken() {
        let taken = |printed: &str| TAKEN.get(printed).copied();
        assert_eq!(taken("elapsed_ns"), Some("elapsed_ns"));
        assert_eq!(taken("elapsed_s"), Some("elapsed"));
        assert_eq!(taken("device_reads_count"), Some("device_reads"));
        assert_eq!(taken("write_amplification_ratio"), Some("write_amplification"));
        assert_eq!(taken("transactions_per_s"), Some("transactions_per_s"));
        assert_eq!(["tps_per_s", "iops_per_s", "commits_per_s", "lat_ns"].map(taken), [None; 4]);
    }

    #[test]
    fn a_resumed_run_keeps_the_meaning_of_its_names() {
        let spec = |direction| MetricSpec::new("m_s".into(), Unit::Seconds, direction, String::new());
        let mut record = RunRecord::default();
        record.define((&TIMER[0]).into());
        record.define(spec(Direction::Lower));
        let mut all = declared(&record);
        assert_eq!(all.metrics().map(|metric| metric.id.as_str()).collect::<Vec<_>>(), ["m_s"]);
        assert_eq!(take(&mut all, &[spec(Direction::Lower)], "task a"), Ok(vec![]));
        let said = take(&mut all, &[spec(Direction::Higher)], "task a").unwrap_err();
        assert!(said.contains("by an earlier part of this run and as `m_s s higher` by task a"), "{said}");
    }

    #[test]
    fn the_parts_of_a_quotient_are_amounts_that_a_run_has() {
        let spec = |id: &str, of: Option<[&str; 2]>| {
            let of = of.map(|parts| parts.map(String::from));
            MetricSpec { of, ..MetricSpec::new(id.into(), Unit::Count, Direction::Lower, String::new()) }
        };
        let all = [
            spec("a_count", None),
            spec("b_count", Some(["a_count", "elapsed_ns"])),
            spec("c_count", Some(["a_count", "b_count"])),
            spec("d_count", Some(["elapsed", "a_count"])),
        ];
        let mut declared = Declared::default();
        take(&mut declared, &all, "task a").unwrap();
        assert_eq!(check_parts(&declared, &all[..2]), Ok(()));
        for (metric, part) in [(&all[2], "no amount `b_count`"), (&all[3], "no amount `elapsed`")] {
            let said = check_parts(&declared, std::slice::from_ref(metric)).unwrap_err();
            assert!(said.contains(part) && said.contains("it printed a_count, b_count"), "{said}");
        }
    }
}
