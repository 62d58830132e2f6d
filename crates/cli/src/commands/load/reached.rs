//! How much of a load reached the device.

use fsarena_core::metric::{Reach, reading};
use fsarena_core::{event::Note, sample::Readings};
use fsarena_probe::{Scene, Session};
use fsarena_sys::{device, kernel::Kernel};
use std::path::Path;

/// What the probes saw.
pub struct Reached {
    /// Their readings.
    pub readings: Readings,
    /// What they could not tell.
    pub notes: Vec<Note>,
}

/// Does a load in a directory, with the probes around it.
pub fn around<T>(kernel: &Kernel, dir: &Path, load: impl FnOnce() -> T) -> (T, Reached) {
    let device = device::behind(kernel, dir).map(|device| (device.major, device.minor));
    let (mut session, mut notes) = Session::open(&Scene { kernel: kernel.clone(), device });
    let before = session.before();
    let done = load();
    let (at_return, at_durable) = (session.at_return(), session.at_durable());
    let readings = session.finish(&before, &at_return, &at_durable);
    notes.extend(session.take_notes());
    (done, Reached { readings, notes })
}

impl Reached {
    /// Device bytes over the bytes that the load moved, and who did the work; where the device is known and
    /// anything was moved. What a cache has not written back yet did not reach it.
    pub fn label(&self, moved_bytes: u64) -> Option<(f64, Reach)> {
        let device = self.readings.get(reading::DEVICE_READ)? + self.readings.get(reading::DEVICE_WRITTEN)?;
        (moved_bytes > 0).then(|| {
            let share = device / moved_bytes as f64;
            (share, Reach::of(share))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_of_what_the_load_moved() {
        let mut readings = Readings::default();
        let label = |readings: &Readings, bytes| {
            let reached = Reached { readings: readings.clone(), notes: vec![] };
            reached.label(bytes).map(|(_, reach)| reach)
        };
        assert_eq!(label(&readings, 1000), None, "no device is known");
        readings.set(reading::DEVICE_READ, 40.0);
        readings.set(reading::DEVICE_WRITTEN, 10.0);
        assert_eq!(label(&readings, 1000), Some(Reach::Cache));
        assert_eq!(label(&readings, 100), Some(Reach::Mixed));
        assert_eq!(label(&readings, 50), Some(Reach::Device));
        assert_eq!(label(&readings, 0), None);
    }
}
