//! The axis of aged filesystems. Their images are made before the first round ([`crate::aged`]).

use super::axis::{Axis, LevelCheck, lacking, wrong};
use crate::error::{Result, require};
use fsarena_core::cell::Variant;
use fsarena_core::factor::{self, age, age::Age};
use fsarena_fs::filesystems;
use fsarena_sys::program;

/// How the filesystem was used before the work begins.
pub const AXIS: Axis = Axis::new(
    factor::AGE,
    "none, churn:3x, git:1000, command:10:'PROGRAM ARGUMENTS'",
    "how the filesystem was used before the work: `churn:3x` creates, deletes, overwrites and appends to files until three times its size was written, `git:1000` pulls 1000 commits, `command:10:'…'` runs your own program ten times; `none` holds the same files, copied to a new filesystem",
    |level| age::parse(level).map(drop),
)
.checked(check);

/// The age of a variant; None if it is not aged.
pub fn age_of(variant: &Variant) -> Option<Age> {
    age::parse(variant.level(factor::AGE)).ok().flatten()
}

fn check(check: &LevelCheck) -> Result<()> {
    let variant = check.variant;
    let Some(age) = age_of(variant) else { return Ok(()) };
    let fs = variant.level(factor::FS);
    require(fs != factor::RAW, || wrong(check, factor::AGE, "a bare device has no files; leave it out"))?;
    let def = filesystems::find(fs)?;
    let general = def.is_general();
    require(general, || {
        wrong(check, factor::AGE, format!("{} does not keep files that are written to it", def.title))
    })?;
    let missing = |program: &str| lacking(check, factor::AGE, format!("program {program} is not installed"));
    match age {
        Age::Churn { .. } => Ok(()),
        Age::Git { .. } => require(program::find("git").is_some(), || missing("git")),
        Age::Command { words, .. } => {
            let found = words[0].contains('/') || program::find(&words[0]).is_some();
            require(found, || missing(&words[0]))
        }
    }
}
