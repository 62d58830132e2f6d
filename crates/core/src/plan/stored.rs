//! Converts the complete plan of a run back to a plan file, to run it again.
//!
//! Runs, `--dry-run` and reports store complete plans ([`Plan`]); a plan file leaves most settings open. As a plan file,
//! the stored plan can be changed on the command line and passes every check again: it may come from an untrusted
//! source.

use super::Plan;
use super::error::{line_and_column, plain};
use super::file::{DeviceFile, IdleFile, Pairs, PlanFile, StopFile};
use crate::{cell::Variant, matrix, safe};
use bytesize::ByteSize;
use std::{collections::BTreeMap, time::Duration};
use toml::Spanned;

/// The longest line of a plan that an error repeats, in characters.
const LONGEST_SHOWN: usize = 120;

/// Whether this is a stored plan: only there it says where it runs, which else the command line does.
pub(super) fn is_stored(text: &str) -> bool {
    let backing = |table: toml::Table| table.get("device")?.get("backing").cloned();
    toml::from_str(text).is_ok_and(|table| backing(table).is_some())
}

impl Plan {
    /// Reads the complete plan of a run from the text that the store keeps.
    ///
    /// # Errors
    /// What is wrong, with the line in which it lies: text that is not TOML, a missing key, a number beyond its limit, too
    /// many variants or tasks.
    pub fn of_stored(text: &str) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| in_words(text, &error))?;
        matrix::fault(&plan).map_or(Ok(plan), Err)
    }
}

/// What the parser says, in one line: ``line 21, `warmup = 9000`: at most 5000 warm-up rounds``.
fn in_words(text: &str, error: &toml::de::Error) -> String {
    let what = plain(error.message().lines().next().unwrap_or("this is not TOML"));
    let Some(span) = error.span() else { return what };
    let (line, _) = line_and_column(text.as_bytes(), span.start);
    let written = text.lines().nth(line - 1).unwrap_or_default();
    format!("line {line}, `{}`: {what}", safe::shortened(written.trim(), LONGEST_SHOWN))
}

/// What a person could have written for it.
pub(super) fn as_written(plan: &Plan) -> PlanFile {
    let (stop, idle, device) = (&plan.stop, &plan.idle, &plan.device);
    let (rounds, most) = if stop.adapts() { (None, Some(stop.rounds)) } else { (Some(stop.rounds), None) };
    // Rounds off binary noise: 0.07 * 100 is 7.000000000000001.
    let percent = |fraction: f64| at_begin(format!("{}%", (fraction * 1e8).round() / 1e6));
    let variant = |variant: &Variant| {
        pairs(variant.levels.clone().into_iter().chain([("name".to_string(), variant.name.clone())]))
    };
    let workload = |workload| pairs(toml::Table::try_from(workload).expect("a workload is plain data"));
    PlanFile {
        name: at_begin(plan.name.clone()),
        title: plan.title.clone(),
        question: plan.question.clone(),
        scale: Some(plan.scale),
        seed: Some(at_begin(plan.seed)),
        claims: plan.claims.iter().map(|claim| at_begin(claim.text.clone())).collect(),
        factors: pairs(plan.factors.clone()),
        variants: plan.variants.iter().map(variant).collect(),
        device: DeviceFile {
            size: device.size.map(|size| at_begin(bytes(size))),
            direct_io: Some(device.direct_io),
            discard: Some(device.discard),
            precondition: Some(device.precondition),
            other_fs: Some(at_begin(device.other_fs.clone())),
        },
        stop: StopFile {
            rounds: rounds.map(at_begin),
            warmup: Some(at_begin(stop.warmup_here())),
            budget: stop.budget_s.map(seconds).map(at_begin),
            max_rounds: most.map(at_begin),
            margin: stop.margin.map(percent),
            best_within: stop.best_within.map(percent),
            best_metric: stop.best_metric.clone(),
            best_by: (!stop.best_by.is_typical()).then(|| at_begin(stop.best_by.name().into())),
        },
        idle: IdleFile {
            timeout: Some(at_begin(seconds(idle.timeout_s))),
            dirty: Some(at_begin(bytes(idle.dirty))),
            io_pressure_percent: Some(at_begin(idle.io_pressure_percent)),
        },
        scales: BTreeMap::new(),
        published: Default::default(),
        stages: vec![],
        conclusions: vec![],
        workloads: plan.workloads.iter().map(workload).collect(),
    }
}

/// Gives a value the position 0: values of a stored plan do not have a position in a text.
fn at_begin<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn pairs<V: Into<toml::Value>>(all: impl IntoIterator<Item = (String, V)>) -> Pairs {
    all.into_iter().map(|(id, value)| (at_begin(id), at_begin(value.into()))).collect()
}

fn bytes(size: ByteSize) -> String {
    format!("{} B", size.as_u64())
}

/// As a plan says a time; what is none stays as it is, and is refused where it is read.
fn seconds(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_or_else(|_| seconds.to_string(), |time| humantime::format_duration(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Accelerator, Backing, Emulator, GuestPlan, Written};
    use crate::{plan::resolve::Overrides, plan::tests::plan_with};

    fn parsed(plan: &Plan) -> Written {
        PlanFile::parse("saved.toml", toml::to_string(plan).unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn a_device_is_erased_only_where_the_command_line_names_it() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        plan.device.backing = Backing::Erase { path: "/dev/disk/by-id/x".into(), signature: None };
        let written = parsed(&plan);
        let told = Overrides::default().where_it_ran(&written).unwrap_err().to_string();
        assert!(told.contains("/dev/disk/by-id/x") && told.contains("--erase DEVICE"), "{told}");
        let mut over = Overrides { backing: Some(Backing::Ram), ..Overrides::default() };
        over.where_it_ran(&written).unwrap();
        assert_eq!(over.backing, Some(Backing::Ram));
    }

    #[test]
    fn a_guest_is_one_again() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        let guest = GuestPlan { fresh: true, ..GuestPlan::of(Emulator::Qemu) };
        plan.device.backing =
            Backing::Guest(GuestPlan { accelerator: Some(Accelerator::Kvm), ..guest.clone() });
        let mut over = Overrides::default();
        over.where_it_ran(&parsed(&plan)).unwrap();
        assert_eq!(over.backing, Some(Backing::Guest(guest)));
    }

    #[test]
    fn what_is_no_time_is_refused_where_it_is_read() {
        assert_eq!((seconds(0.05).as_str(), seconds(5.0).as_str()), ("50ms", "5s"));
        for none in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(humantime::parse_duration(&seconds(none)).is_err());
        }
    }
}
