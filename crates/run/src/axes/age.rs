//! The axis of aged filesystems. Their images are made before the first round ([`crate::aged_images`]).

use super::axis::{Axis, LevelCheck};
use crate::device_layout::{DeviceRole, DeviceSpec};
use crate::error::{Result, RunError, require};
use fsarena_core::cell::{Variant, WorkloadPlan};
use fsarena_core::factor::{self, age, age::Age};
use fsarena_core::{plan::Plan, setting::SettingValue};
use fsarena_fs::filesystems;
use fsarena_load::{ageing::GitPulls, workload::Room, workloads::SETUP_ONCE};
use fsarena_sys::{Error, dirs, program};
use std::{collections::BTreeSet, path::Path};

/// The axis: how the filesystem was used before the work begins.
pub const AXIS: Axis = Axis::new(
    factor::AGE,
    "none, churn:3x, git:1000, command:10:'PROGRAM ARGUMENTS'",
    "how the filesystem was used before the work: `churn:3x` creates, deletes, overwrites and appends to files until three times its size was written, `git:1000` pulls 1000 commits, `command:10:'…'` runs your own program ten times; `none` holds the same files, copied to a new filesystem",
    |level| age::parse_age(level).map(drop),
)
.with_check(check);

/// The age of a variant; None if it is not aged.
pub fn age_of(variant: &Variant) -> Option<Age> {
    age::parse_age(variant.level(factor::AGE)).ok().flatten()
}

/// Whether programs of this machine age a variant.
pub fn is_aged_by_program(variant: &Variant) -> bool {
    matches!(age_of(variant), Some(Age::Git { .. } | Age::Command { .. }))
}

/// The setup script of a workload that runs once and whose result is kept in an image; None if the workload has none.
pub fn setup_once_script(workload: &WorkloadPlan) -> Option<&str> {
    match workload.settings.0.get(SETUP_ONCE)? {
        SettingValue::Text(script) if !script.is_empty() => Some(script),
        _ => None,
    }
}

/// Whether the cells of a run begin with images of filesystems: of aged ones, or of some after a setup.
pub fn keeps_images(plan: &Plan, variants: &[Variant]) -> bool {
    let has_age = variants.iter().any(|variant| age_of(variant).is_some());
    has_age || plan.workloads.iter().any(|workload| setup_once_script(workload).is_some())
}

/// Refuses aged variants on several devices: copies of an image have the same UUID, so only one may be attached.
///
/// # Errors
/// The variants lie on several devices; the message names their images.
pub fn check_on_one_device(plan: &Plan, variants: &[Variant], devices: &BTreeSet<DeviceSpec>) -> Result<()> {
    let holds_copy = |device: &&DeviceSpec| !matches!(device.role, DeviceRole::Journal | DeviceRole::Member(2..));
    let images: Vec<String> = devices.iter().filter(holds_copy).map(DeviceSpec::image_name).collect();
    require(images.len() < 2 || !keeps_images(plan, variants), || {
        let images = images.join(", ");
        RunError::Plan(format!(
            "the variants lie on several devices ({images}), and copies of an aged image have the same UUID; give all \
             variants the same `device`, `raid` and `stack`"
        ))
    })
}

/// The space that the files of variants aged by git take. The other ages take a share of the filesystem, whatever its
/// size.
pub fn room_of_ages(plan: &Plan, variants: &[Variant]) -> Result<Room> {
    let mut room = Room::default();
    for variant in variants {
        let Some(Age::Git { pulls }) = age_of(variant) else { continue };
        let repository = plan.age.repository.as_ref().map(|path| repository_bytes(path)).transpose()?;
        room.bytes = room.bytes.max(GitPulls::space_bytes(pulls, repository));
        room.inodes = room.inodes.max(room.bytes >> 13);
    }
    Ok(room)
}

/// The size of everything in a repository, in bytes.
fn repository_bytes(repository: &Path) -> Result<u64, Error> {
    // The repository may be named by a link, which `tree_bytes` does not follow.
    let dir = repository.canonicalize().map_err(Error::io("reading the repository", repository))?;
    dirs::tree_bytes(&dir, 0)
}

fn check(check: &LevelCheck) -> Result<()> {
    let variant = check.variant;
    let Some(age) = age_of(variant) else { return Ok(()) };
    let fs = variant.level(factor::FS);
    require(fs != factor::RAW, || check.plan_error("a bare device has no files; leave it out"))?;
    let def = filesystems::find(fs)?;
    require(def.is_general(), || {
        check.plan_error(format!("{} does not keep files that are written to it", def.title))
    })?;
    let missing = |program: &str| check.missing_error(format!("program {program} is not installed"));
    match age {
        Age::Churn { .. } => Ok(()),
        Age::Git { .. } => require(program::find("git").is_some(), || missing("git")),
        Age::Command { argv, .. } => require(program::find_by_name_or_path(&argv[0]).is_some(), || missing(&argv[0])),
    }
}
