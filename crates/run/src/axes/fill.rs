//! The axis of full filesystems: fills the mounted filesystem before the work of a cell.

use super::age::age_of;
use super::axis::Axis;
use crate::bench::Bench;
use crate::error::{CellError, CellResult};
use crate::target::sync_all;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Activity, CellEvent, Note, NoteKind, Phase};
use fsarena_core::factor::{self, age::Age};
use fsarena_load::payload::Noise;
use fsarena_sys::{Error, dirs::FilesystemSpace};
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

/// The share of the space that files take in a filesystem aged by churn, if the variant has no fill level. Ageing fills
/// the filesystem to this share; [`fill`] does not.
const CHURN_FULLNESS: f64 = 0.5;

/// The share of the space that files take before the work begins: files of [`fill`], or of an ageing by churn.
pub fn fullness(variant: &Variant) -> f64 {
    let fill = parse_fill(variant.level(factor::FILL)).unwrap_or(0.0);
    let churns = matches!(age_of(variant), Some(Age::Churn { .. }));
    if churns && fill == 0.0 { CHURN_FULLNESS } else { fill }
}

/// The size that all variants need for work of `bytes`, so that the work fits into the free part of the fullest
/// variant.
pub fn bytes_with_fill(variants: &[Variant], bytes: u64) -> u64 {
    let fullest = variants.iter().map(fullness).fold(0.0, f64::max);
    (bytes as f64 / (1.0 - fullest)).ceil() as u64
}

/// The directory of the files that fill a filesystem, beside the directory that the workload works in.
pub(crate) const FILL_DIR: &str = "fill";
/// The smallest size of a file in bytes.
const MIN_FILE_BYTES: u64 = 256 << 10;
/// The largest number of files.
const MAX_FILES: u64 = 8192;
/// The largest number of bytes of one write.
const WRITE_BYTES: u64 = 256 << 10;
/// The number of files in each subdirectory.
const FILES_PER_DIR: u64 = 256;
/// The largest number of passes that read the used space and fill the rest. One pass may not suffice: a filesystem with
/// delayed allocation counts space as used only after it has written the data back.
const MAX_PASSES: u64 = 3;

/// Fills the filesystem that is mounted at `target` to the level of the cell, with files that cannot be compressed.
/// Does nothing without a level.
///
/// # Errors
/// The files cannot be written, or the filesystem reports no usable size.
pub fn fill(cell: &Cell, target: &Path, bench: &mut Bench) -> CellResult {
    let level = cell.variant.level(factor::FILL);
    let share = parse_fill(level).map_err(CellError::missing)?;
    if share == 0.0 {
        return Ok(());
    }
    bench.emit(CellEvent::Phase { name: Phase::Task("fill".into()) });
    let started = Instant::now();
    let noise = Noise::new(cell.seed, WRITE_BYTES as usize);
    for pass in 0..MAX_PASSES {
        let missing = missing_bytes(used_and_total_bytes(target)?, share);
        if missing == 0 {
            break;
        }
        let dir = target.join(FILL_DIR).join(pass.to_string());
        write_files(&dir, missing, &noise).map_err(Error::io("filling", &dir))?;
        sync_all(&[target]).map_err(Error::io("syncing", target))?;
    }
    bench.record_time(Activity::Lifecycle, started.elapsed());
    let (used, total) = used_and_total_bytes(target)?;
    let text = fill_note(level, share, used as f64 / total as f64);
    bench.note(Note::new(NoteKind::Options, text).task(factor::FILL));
    Ok(())
}

/// The used bytes of a filesystem, and the sum of these and the bytes that ordinary users can still fill.
///
/// # Errors
/// The filesystem reports no usable size.
fn used_and_total_bytes(target: &Path) -> Result<(u64, u64), Error> {
    let space = FilesystemSpace::at_path(target)?;
    let sizes = space.used_bytes().zip(space.free_bytes());
    let sizes = sizes.and_then(|(used, free)| Some((used, used.checked_add(free).filter(|total| *total > 0)?)));
    sizes.ok_or_else(|| Error::Unusable {
        object: target.into(),
        why: "the filesystem reports no usable size, so it cannot be filled to a share; leave out `fill`".into(),
    })
}

/// The bytes to write until this share of the space of a filesystem is in use; 0 if fewer than the bytes of a file.
fn missing_bytes((used, total): (u64, u64), share: f64) -> u64 {
    let missing = ((share * total as f64) as u64).saturating_sub(used);
    if missing < MIN_FILE_BYTES { 0 } else { missing }
}

/// The note on a filesystem that was filled to the share `share` of its space. `reached` is the share that is in fact
/// in use; the note names it if it differs from `share` by more than 1% of the space.
fn fill_note(level: &str, share: f64, reached: f64) -> String {
    let differs = (reached - share).abs() > 0.01;
    let actual = if differs { format!(" (in fact {:.1}% is in use)", 100.0 * reached) } else { String::new() };
    format!(
        "the filesystem was filled to {level}{actual} before the work with files of equal size, so its free space is in few \
         pieces"
    )
}

/// Writes files of equal size, `bytes` in all, in directories below `dir`.
fn write_files(dir: &Path, bytes: u64, noise: &Noise) -> std::io::Result<()> {
    let size = (bytes / MAX_FILES).max(MIN_FILE_BYTES);
    let mut piece = 0;
    for number in 0..bytes / size {
        let subdir = dir.join((number / FILES_PER_DIR).to_string());
        if number % FILES_PER_DIR == 0 {
            std::fs::create_dir_all(&subdir)?;
        }
        let mut file = File::create(subdir.join(number.to_string()))?;
        let mut bytes_left = size;
        while bytes_left > 0 {
            let length = bytes_left.min(WRITE_BYTES);
            file.write_all(noise.contents(piece, length as usize))?;
            bytes_left -= length;
            piece += 1;
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
    fn missing_bytes_are_those_up_to_the_share_and_the_note_names_another_share() {
        assert_eq!(missing_bytes((100 << 20, 400 << 20), 0.5), 100 << 20);
        assert_eq!(missing_bytes((200 << 20, 400 << 20), 0.5), 0);
        assert_eq!(missing_bytes(((200 << 20) - 5, 400 << 20), 0.5), 0);
        assert!(fill_note("90%", 0.9, 0.895).starts_with("the filesystem was filled to 90% before the work"));
        assert!(fill_note("90%", 0.9, 0.72).contains("to 90% (in fact 72.0% is in use) before"));
    }

    #[test]
    fn files_have_equal_sizes_and_fill_the_requested_bytes() {
        let dir = tempfile::tempdir().unwrap();
        write_files(dir.path(), 3 * MIN_FILE_BYTES + 5, &Noise::new(1, WRITE_BYTES as usize)).unwrap();
        let files: Vec<u64> = std::fs::read_dir(dir.path().join("0"))
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(files, [MIN_FILE_BYTES; 3]);
    }
}
