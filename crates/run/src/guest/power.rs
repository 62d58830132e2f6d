//! Cells whose power is cut: a guest works while each write to its disk is recorded, and is killed; what the disk would
//! have kept is replayed on the image as mkfs left it; a second guest brings the filesystem back.

use super::{Formatted, Guests};
use crate::executor::{Emit, Failed, Fatal};
use crate::protocol::Power;
use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, NoteKind, Outcome};
use fsarena_core::metric::reading;
use fsarena_core::sample::Readings;
use fsarena_guest::config::Array;
use fsarena_guest::stripes;
use fsarena_guest::writes::{self, Later};
use fsarena_load::workload::{Cut, Job};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

impl Guests {
    /// Boots the guest of a cell, or the two of a cell whose power is cut.
    pub(super) fn powered(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        emit: Emit,
    ) -> Result<Outcome, Fatal> {
        let Some(Cut { after, chosen }) = cut(cell) else {
            return self.boot(cell, formatted, &Supply::steady(Power::On), emit);
        };
        let [image, log] = ["recorded.img", "writes"].map(|name| self.images.guests().join(name));
        copy(&formatted.image, &image)?;
        writes::begin(&log)?;
        let recorded = Some((image.clone(), log.clone()));
        let supply = Supply { power: Power::Cut, cut: Some(after), recorded };
        let outcome = self.boot(cell, formatted, &supply, emit)?;
        if outcome != Outcome::Done {
            return Ok(outcome);
        }
        emit(CellEvent::Phase { name: "power cut".into() });
        let later = chosen.map_or(Later::Lost, Later::Chosen);
        let replayed = match writes::replay(&log, &formatted.image, later) {
            Ok(replayed) => replayed,
            Err(error) => return Ok(self.with_room(Failed::from(error).of("power cut").into())),
        };
        for path in [&image, &log] {
            std::fs::remove_file(path).map_err(fsarena_sys::Error::io("removing", path))?;
        }
        let (mut samples, mut found) = (vec![], Readings::default());
        let outcome = self.boot(cell, formatted, &Supply::steady(Power::Back), &mut |event| match event {
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
}

fn cut(cell: &Cell) -> Option<Cut> {
    let job = Job { settings: cell.workload.settings.clone(), scale: cell.scale, seed: cell.seed };
    fsarena_load::workloads::find(&cell.workload.name)?.cut(&job)
}

/// Copies an image with its holes.
fn copy(from: &Path, to: &Path) -> Result<(), Fatal> {
    let size = super::booted::file_size(from);
    File::create(to).and_then(|file| file.set_len(size)).map_err(fsarena_sys::Error::io("making", to))?;
    // A mirror of one.
    Ok(stripes::spread(from, &[to], Array::Raid1)?)
}
