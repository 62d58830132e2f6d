//! Reads a log as a database does after a crash.

use super::log::{self, HEADER, Shape};
use crate::error::{Error, Result, at};
use std::path::Path;

/// Checks that the kept segments hold all records up to the last committed one, each with its number and contents.
///
/// # Errors
/// [`Error::Violation`] with the first record that is missing or damaged.
pub fn verify(dir: &Path, shape: &Shape, committed: u64) -> Result<()> {
    let noise = shape.noise();
    let mut last = None;
    for number in numbers(dir, shape)? {
        let path = log::path(dir, number);
        let bytes = std::fs::read(&path).map_err(at("read", &path))?;
        for (index, record) in bytes.chunks(shape.record).enumerate() {
            let Some((found, contents, crc)) = parse(record) else { break };
            // Older segments are gone; those that are kept go on where they end.
            let expected = last.map_or(if number == shape.keep { 1 } else { found }, |last| last + 1);
            if found != expected {
                // Zeros of a preallocated segment, or the former contents of a recycled one.
                break;
            }
            if crc != crc32fast::hash(contents) || contents != noise.of(found, shape.record - HEADER) {
                let from = index * shape.record;
                let text =
                    format!("DATA LOSS: record {found} at byte {from} of {} is damaged", path.display());
                return Err(Error::Violation(text));
            }
            last = Some(found);
        }
        // A first segment without records is not one that the log went on from.
        last = last.or(Some(0));
    }
    match last.unwrap_or(0) {
        last if last < committed => Err(Error::Violation(format!(
            "DATA LOSS: {} of {committed} committed records are missing: the log ends after record {last}",
            committed - last
        ))),
        _ => Ok(()),
    }
}

/// The numbers of the segments that records were committed to, ascending.
fn numbers(dir: &Path, shape: &Shape) -> Result<Vec<u64>> {
    let mut numbers = vec![];
    for entry in std::fs::read_dir(dir).map_err(at("list", dir))? {
        let name = entry.map_err(at("list", dir))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".log")?.parse::<u64>().ok()));
    }
    numbers.retain(|number| *number >= shape.keep);
    numbers.sort_unstable();
    Ok(numbers)
}

/// A whole record: its number, contents and checksum.
fn parse(record: &[u8]) -> Option<(u64, &[u8], u32)> {
    let (number, rest) = record.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (crc, contents) = rest.split_first_chunk::<4>()?;
    let whole = u32::from_le_bytes(*length) as usize == contents.len() && record.len() > HEADER;
    whole.then(|| (u64::from_le_bytes(*number), contents, u32::from_le_bytes(*crc)))
}
