//! Every workload, one file each.

use crate::workload::Workload;

/// Every workload fsarena knows.
pub const WORKLOADS: &[&dyn Workload] = &[];

/// Finds a workload by its name.
pub fn find(id: &str) -> Option<&'static dyn Workload> {
    WORKLOADS.iter().copied().find(|workload| workload.def().id == id)
}
