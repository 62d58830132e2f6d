//! The axis of full filesystems: fills the mounted filesystem before the work of a cell.

use super::age::age_of;
use super::axis::Axis;
use crate::bench::Bench;
use crate::error::{CellError, CellResult};
use crate::target::sync_all;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Note, NoteKind, Phase, SpentOn};
use fsarena_core::factor::{self, age::Age};
use fsarena_load::payload::Noise;
use fsarena_sys::{Error, dirs::Space};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The share of the space that files take before the work begins.
pub const AXIS: Axis = Axis::new(
    factor::FILL,
    "50%, 90%",
    "share of the space that other files take before the work: `90%`; empty or `0%` for an empty filesystem. All variants get an image that is large enough for the fullest one",
    |level| parse_fill(level).map(drop),
);

/// The largest share, in per cent: with less free space filesystems may refuse writes.
const MAX_PERCENT: f64 = 95.0;

/// Parses a level: the share of the space that is filled, from 0 to 0.95.
///
/// # Errors
/// Another level; the message shows how to write one.
pub fn parse_fill(level: &str) -> Result<f64, String> {
    if level.is_empty() {
        return Ok(0.0);
    }
    let number = level.strip_suffix('%').unwrap_or(level).parse::<f64>();
    match number {
        Ok(percent) if (0.0..=MAX_PERCENT).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!(
            "invalid fill level `{level}`; write a share of the space from 0% to {MAX_PERCENT}%, such as 90%"
        )),
    }
}

/// The share of the space that the files of an ageing churn take if the variant has no fill level. The ager fills to it, not
/// [`fill`].
const CHURN_FULLNESS: f64 = 0.5;

/// The share of the space that other files than those of the work take.
pub fn fullness(variant: &Variant) -> f64 {
    let fill = parse_fill(variant.level(factor::FILL)).unwrap_or(0.0);
    let churns = matches!(age_of(variant), Some(Age::Churn { .. }));
    if churns && fill == 0.0 { CHURN_FULLNESS } else { fill }
}

/// The size that all variants need for work of `bytes`, so that the work fits into the free part of the fullest variant.
pub fn bytes_with_fill(variants: &[Variant], bytes: u64) -> u64 {
    let fullest = variants.iter().map(fullness).fold(0.0, f64::max);
    (bytes as f64 / (1.0 - fullest)).ceil() as u64
}

/// The directory of the filling files, beside that of the work.
const DIR: &str = "fill";
/// The smallest size of a file in bytes.
const LEAST_FILE: u64 = 256 << 10;
/// The largest number of files.
const MAX_FILES: u64 = 8192;
/// The largest number of bytes of one write.
const WRITE_BYTES: u64 = 256 << 10;
const FILES_PER_DIR: u64 = 256;
/// How often fsarena reads the used space and fills again, because a filesystem with delayed allocation
/// counts space as used only after it has written the data back.
const PASSES: u64 = 3;

/// Fills the filesystem that is mounted at `target` to the level of the cell, with files that cannot be compressed. Does nothing
/// without a level.
///
/// # Errors
/// The files cannot be written.
pub fn fill(cell: &Cell, target: &Path, bench: &mut Bench) -> CellResult {
    let level = cell.variant.level(factor::FILL);
    let share = parse_fill(level).map_err(CellError::missing)?;
    if share == 0.0 {
        return Ok(());
    }
    bench.emit(CellEvent::Phase { name: Phase::Task("fill".into()) });
    let begun = Instant::now();
    let noise = Noise::new(cell.seed, WRITE_BYTES as usize);
    for pass in 0..PASSES {
        let missing = missing_bytes(target, share)?;
        if missing == 0 {
            break;
        }
        let dir = target.join(DIR).join(pass.to_string());
        write_files(&dir, missing, &noise).map_err(Error::io("filling", &dir))?;
        sync_all(&[target]).map_err(Error::io("syncing", target))?;
    }
    bench.spent(SpentOn::Lifecycle, begun.elapsed());
    let text = format!(
        "filled to {level} before the work, with files of equal size: its free space is in few pieces"
    );
    bench.note(Note::new(NoteKind::Options, text).task(factor::FILL));
    Ok(())
}

/// The bytes that a filesystem lacks until this share of its space is in use; 0 if less than a file is missing.
fn missing_bytes(target: &Path, share: f64) -> Result<u64, Error> {
    let space = Space::at_path(target)?;
    let (Some(used), Some(free)) = (space.used_bytes(), space.free_bytes()) else { return Ok(0) };
    let wanted = (share * (used as f64 + free as f64)) as u64;
    Ok(Some(wanted.saturating_sub(used)).filter(|missing| *missing >= LEAST_FILE).unwrap_or(0))
}

/// Writes files of equal size, `bytes` in all, in directories below `dir`.
fn write_files(dir: &Path, bytes: u64, noise: &Noise) -> std::io::Result<()> {
    let size = (bytes / MAX_FILES).max(LEAST_FILE);
    let mut pieces = 0;
    for number in 0..bytes / size {
        let below = dir.join((number / FILES_PER_DIR).to_string());
        if number % FILES_PER_DIR == 0 {
            std::fs::create_dir_all(&below)?;
        }
        let mut file = File::create(below.join(number.to_string()))?;
        let mut left = size;
        while left > 0 {
            let length = left.min(WRITE_BYTES);
            file.write_all(noise.contents(pieces, length as usize))?;
            left -= length;
            pieces += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(fill: &str) -> Variant {
        Variant { name: fill.into(), levels: [(factor::FILL.to_string(), fill.to_string())].into() }
    }

    #[test]
    fn a_level_is_a_share_of_the_space() {
        let shares = ["", "0%", "50%", "90", "12.5%"].map(|level| parse_fill(level).unwrap());
        assert_eq!(shares, [0.0, 0.0, 0.5, 0.9, 0.125]);
        assert!(["96%", "-1%", "full", "NaN%"].iter().all(|level| parse_fill(level).is_err()));
    }

    #[test]
    fn the_fullest_variant_has_room_for_the_work() {
        let variants = [variant(""), variant("75%")];
        assert_eq!(bytes_with_fill(&variants, 100), 400);
        assert_eq!(bytes_with_fill(&variants[..1], 100), 100);
    }

    #[test]
    fn files_have_as_many_bytes_in_all_as_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        write_files(dir.path(), 3 * LEAST_FILE + 5, &Noise::new(1, LEAST_FILE as usize)).unwrap();
        let files: Vec<u64> = std::fs::read_dir(dir.path().join("0"))
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(files, [LEAST_FILE; 3]);
    }
}
