//! The plan of fresh rounds for the worst cells.

use super::cells::Matrix;
use super::finding::{Finding, rerun};
use fsarena_core::cell::{Variant, WorkloadPlan};
use fsarena_core::{matrix::expand, plan::Plan, schedule::mix, setting::Value};
use std::collections::{BTreeMap, BTreeSet};

/// What the seed of a run is mixed with for its fresh rounds.
const FRESH: u64 = 0xF2E5;

/// The same plan with the cells only that decide about these findings: one workload for each mode and block size, because the cells are
/// rarely all combinations.
pub fn plan(plan: &Plan, matrix: &Matrix, findings: &[Finding], rounds: u32) -> Plan {
    let cells = rerun(findings);
    let names: BTreeSet<&str> = cells.iter().map(|at| matrix.variants[at.variant].name.as_str()).collect();
    let of_cells =
        |variant: &Variant| names.iter().any(|name| *name == variant.name || is_by_tool(name, &variant.name));
    let mut rows: BTreeMap<(&str, u64), BTreeSet<u32>> = BTreeMap::new();
    for at in &cells {
        let row = (matrix.modes[at.mode].name.as_str(), matrix.sizes[at.size]);
        rows.entry(row).or_default().insert(matrix.threads[at.threads]);
    }
    let mut fresh = plan.clone();
    fresh.title = format!("{}: the worst cells again", plan.title);
    fresh.variants = expand(plan).into_iter().filter(of_cells).collect();
    fresh.workloads = plan
        .workloads
        .iter()
        .flat_map(|workload| {
            rows.iter().map(|((mode, size), threads)| restricted(workload, mode, *size, threads))
        })
        .collect();
    fresh.stop.rounds = rounds;
    fresh.stop.budget_s = None;
    // TOML's whole numbers end at 2^63 - 1.
    fresh.seed = mix(plan.seed, FRESH) & (u64::MAX >> 1);
    fresh
}

/// Whether a name of the matrix is a variant's with the tool behind it.
fn is_by_tool(name: &str, variant: &str) -> bool {
    name.strip_prefix(variant).is_some_and(|rest| rest.starts_with(" by "))
}

/// A workload that does one mode and block size only.
pub fn restricted(workload: &WorkloadPlan, mode: &str, size: u64, threads: &BTreeSet<u32>) -> WorkloadPlan {
    let mut workload = workload.clone();
    let threads = threads.iter().map(|threads| Value::Int(i64::from(*threads))).collect();
    let settings = [
        ("modes", Value::List(vec![Value::Text(mode.into())])),
        ("bs", Value::List(vec![Value::Int(size as i64)])),
        ("threads", Value::List(threads)),
    ];
    workload.settings.0.extend(settings.map(|(id, value)| (id.to_string(), value)));
    workload
}
