//! Checks variants whose filesystem is read-only or lies in memory.

use super::room::{available_memory_or_missing, check_free_space, images_dir, nearest_existing};
use crate::axes::load::parse_memory;
use crate::error::{Result, RunError, require};
use crate::work::find_workload;
use bytesize::ByteSize;
use fsarena_core::cell::{Variant, WorkloadPlan};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, matrix};
use fsarena_fs::{def::FsDef, filesystems};
use fsarena_load::workload::{Room, Workload};
use fsarena_load::workloads::WORKLOADS;
use fsarena_sys::kernel::SysRoot;
use std::collections::BTreeSet;
use std::path::Path;

/// The factors of the device below a filesystem, and of the disk that guests use for it.
const DEVICE_FACTORS: [&str; 7] =
    [factor::DEVICE, factor::STACK, factor::JOURNAL, factor::RAID, factor::FAULTS, factor::LIMIT, factor::SCHEDULER];

/// Refuses variants whose read-only filesystem meets a workload that writes, and variants in memory with a device.
pub fn check(plan: &Plan, variants: &[Variant]) -> Result<()> {
    if plan.device.backing == Backing::Dir {
        return Ok(());
    }
    let source_fs = filesystems::find(&plan.device.other_fs)?;
    require(source_fs.is_general(), || {
        let id = source_fs.id;
        RunError::Plan(format!(
            "other_fs = {id}: the source disk is written to and keeps its files; take ext4 or another"
        ))
    })?;
    for variant in variants.iter().filter(|variant| !variant.is_bare_device()) {
        let def = filesystems::find(variant.level(factor::FS))?;
        if def.traits.read_only {
            check_read_only(plan, variant, def)?;
        }
        if def.traits.volatile {
            check_in_memory(plan, variant, def)?;
        }
    }
    Ok(())
}

/// Refuses a workload that writes.
fn check_read_only(plan: &Plan, variant: &Variant, def: &FsDef) -> Result<()> {
    for planned in &plan.workloads {
        let (workload, job) = find_workload(plan, &matrix::workload_of_variant(variant, planned))?;
        require(workload.only_reads(&job), || {
            let (title, name, readers) = (def.title, &planned.name, list_reading_workloads().join("; "));
            RunError::in_variant(
                variant,
                format!(
                    "{title} is read-only, and the workload {name} writes here. Workloads that only read: {readers}"
                ),
            )
        })?;
    }
    let is_stacked_guest = !variant.level(factor::STACK).is_empty() && matches!(plan.device.backing, Backing::Guest(_));
    require(!is_stacked_guest, || {
        let why = format!(
            "the image of {} is written to its disk before the guest has a stack; leave out `stack`, or take {}",
            def.id,
            setting("on", "loop")
        );
        RunError::in_variant(variant, why)
    })
}

/// The workloads that can run on a read-only filesystem, each with the settings that it needs for that.
fn list_reading_workloads() -> Vec<String> {
    let reader = |workload: &&dyn Workload| {
        let settings = workload.describe_read_only_settings()?;
        Some(format!("{} {settings}", workload.def().id).trim_end().to_string())
    };
    WORKLOADS.iter().filter_map(reader).collect()
}

/// Refuses factors of the device for a filesystem without one, and work that cuts the power.
fn check_in_memory(plan: &Plan, variant: &Variant, def: &FsDef) -> Result<()> {
    let id = def.id;
    if let Some(device_factor) = DEVICE_FACTORS.iter().find(|factor| !variant.level(factor).is_empty()) {
        let why = format!("{id} lies in memory, on no device; leave out `{device_factor}` or {id}");
        return Err(RunError::in_variant(variant, why));
    }
    for planned in &plan.workloads {
        let (workload, job) = find_workload(plan, planned)?;
        require(workload.power_cut(&job).is_none(), || {
            let name = &planned.name;
            RunError::in_variant(
                variant,
                format!("{id} lies in memory, and {name} cuts the power: nothing would be left to check"),
            )
        })?;
    }
    Ok(())
}

/// Checks that memory has room for the files of filesystems in memory, and the disk for the files and the images of
/// read-only ones.
pub fn check_room(kernel: &SysRoot, plan: &Plan, variants: &[Variant], runs_dir: &Path, room: Room) -> Result<()> {
    let mut images = BTreeSet::new();
    for variant in variants.iter().filter(|variant| !variant.is_bare_device()) {
        let def = filesystems::find(variant.level(factor::FS))?;
        if def.traits.volatile {
            check_memory(kernel, plan, variant, def, room)?;
        }
        if def.traits.read_only {
            images.insert([factor::FS, factor::OPTIONS, factor::MKFS].map(|factor| variant.level(factor)));
        }
    }
    if images.is_empty() {
        return Ok(());
    }
    let work_dir_names: BTreeSet<String> = variants.iter().flat_map(|variant| work_dir_names(plan, variant)).collect();
    // Each of these directories has its files once, and once more in an image for each filesystem and its options.
    let needed_bytes = room.bytes.saturating_mul((work_dir_names.len() * (1 + images.len())) as u64);
    let dir = match plan.device.backing {
        Backing::Guest(_) => images_dir(&plan.device, runs_dir),
        _ => nearest_existing(runs_dir),
    };
    check_free_space(dir, needed_bytes, &setting("on", "loop:DIR"))
}

/// The names of the directories of the workloads of a plan for a variant. Versions of a workload with different
/// settings have different directories.
fn work_dir_names(plan: &Plan, variant: &Variant) -> Vec<String> {
    let directory = |planned: &WorkloadPlan| matrix::workload_of_variant(variant, planned).directory_name();
    plan.workloads.iter().map(directory).collect()
}

/// Checks that the memory which a cell may use has room for its files.
fn check_memory(kernel: &SysRoot, plan: &Plan, variant: &Variant, def: &FsDef, room: Room) -> Result<()> {
    let limit = parse_memory(variant.level(factor::MEMORY)).map_err(RunError::Plan)?;
    let (available_bytes, fix) = match (&plan.device.backing, limit) {
        (_, Some(limit)) => (limit, format!("raise the level of `{}`", factor::MEMORY)),
        (Backing::Guest(guest), None) => (guest.memory.as_u64(), format!("more {}", setting("guest_memory", ""))),
        _ => (available_memory_or_missing(kernel)?, "free some memory".into()),
    };
    let needed_bytes = def.size_for(room.bytes, room.inodes);
    require(needed_bytes <= available_bytes, || {
        let (id, needed, available) = (def.id, ByteSize(needed_bytes), ByteSize(available_bytes));
        let scale = setting("scale", "");
        RunError::Missing(format!(
            "variant {}: {id} keeps its files in memory: {needed} needed, {available} available; {fix}, or take a smaller \
             {scale}",
            variant.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_workloads_are_listed_with_the_settings_that_they_need() {
        let readers = list_reading_workloads();
        assert!(readers.contains(&"read-tree".to_string()), "{readers:?}");
        assert!(readers.iter().any(|reader| reader.starts_with("fileio with modes=seqrd,rndrd")), "{readers:?}");
        assert!(!readers.iter().any(|reader| reader.starts_with("coreutils")), "{readers:?}");
    }
}
