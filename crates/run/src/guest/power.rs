//! Cells whose power is cut: a guest works while each write to its disk is recorded, and is killed; what the disk would
//! have kept is replayed on the image as mkfs left it; a second guest brings the filesystem back.

use crate::error::{CellError, Result};
use crate::executor::CellSink;
use crate::{protocol::Power, work};
use fsarena_core::event::{CellEvent, NoteKind, Outcome};
use fsarena_core::{cell::Cell, metric::reading, sample::Readings};
use fsarena_guest::writes::{self, Later};
use fsarena_guest::{config::Array, stripes};
use fsarena_load::workload::Cut;
use fsarena_sys::Error;
use std::path::{Path, PathBuf};
use std::{fs::File, time::Duration};

/// The power of one guest.
pub struct Supply {
    /// What it does.
    pub power: Power,
    /// When it is cut, counted from the beginning of the work.
    pub cut: Option<Duration>,
    /// The image that the guest has, and the file that records what it writes there. None for the image that was
    /// formatted.
    pub recorded: Option<(PathBuf, PathBuf)>,
}

impl Supply {
    fn steady(power: Power) -> Supply {
        Supply { power, cut: None, recorded: None }
    }
}

/// Boots a guest with this power to its end.
type Boot<'a> = &'a mut dyn FnMut(&Supply, CellSink) -> Result<Outcome>;

/// Boots the guest of a cell, or the two of a cell whose power is cut. `image` is as mkfs left it; `dir` takes files of
/// guests.
pub fn powered(cell: &Cell, image: &Path, dir: &Path, boot: Boot, emit: CellSink) -> Result<Outcome> {
    let cut = work::of_cell(cell).ok().and_then(|(workload, job)| workload.cut(&job));
    let Some(Cut { after, chosen }) = cut else { return boot(&Supply::steady(Power::On), emit) };
    let [recorded, log] = ["recorded.img", "writes"].map(|name| dir.join(name));
    copy(image, &recorded)?;
    writes::begin(&log)?;
    let files = Some((recorded.clone(), log.clone()));
    let outcome = boot(&Supply { power: Power::Cut, cut: Some(after), recorded: files }, emit)?;
    if outcome != Outcome::Done {
        return Ok(outcome);
    }
    emit(CellEvent::Phase { name: "power cut".into() });
    let replayed = match writes::replay(&log, image, chosen.map_or(Later::Lost, Later::Chosen)) {
        Ok(replayed) => replayed,
        Err(error) => return Ok(CellError::from(error).of("power cut").into()),
    };
    for path in [&recorded, &log] {
        std::fs::remove_file(path).map_err(Error::io("removing", path))?;
    }
    let (mut samples, mut found) = (vec![], Readings::default());
    let outcome = boot(&Supply::steady(Power::Restored), &mut |event| match event {
        // The first guest has told them.
        CellEvent::Note(note) if note.kind == NoteKind::Options => {}
        // What became of the files is a reading of the recovery.
        CellEvent::Sample(sample) if sample.task.id.name == Cut::VERIFY => {
            let counts = [reading::FILES_SYNCED, reading::FILES_LOST];
            found.0.extend(sample.readings.0.into_iter().filter(|(id, _)| counts.contains(&id.as_str())));
        }
        CellEvent::Sample(sample) => samples.push(sample),
        event => emit(event),
    })?;
    // A filesystem that came back without its files has not come back.
    if outcome == Outcome::Done {
        found.set(reading::REPLAYED, replayed.bytes as f64);
        samples.iter_mut().take(1).for_each(|recover| recover.readings.extend(found.clone()));
        samples.into_iter().for_each(|sample| emit(CellEvent::Sample(sample)));
    }
    Ok(outcome)
}

/// Copies an image with its holes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let size = super::snapshot_pool::file_size(from);
    File::create(to).and_then(|file| file.set_len(size)).map_err(Error::io("making", to))?;
    // A mirror of one.
    Ok(stripes::spread(from, &[to], Array::Raid1)?)
}
