//! What every probe defines.

use crate::gauge::{Gauge, Unavailable};
use fsarena_core::{event::Note, sample::ReadingDef};
use fsarena_sys::kernel::SysRoot;

/// Something that can be read around a task.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Its name, which is that of its file.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// The readings of its gauge, in that order.
    pub readings: &'static [ProbeReading],
    /// Opens the gauge, once for all tasks of a cell. An error says why this machine cannot tell.
    pub open: fn(&Scene) -> Result<Opened, Unavailable>,
}

/// A reading, and how to compute it from the gauge's values before and after the task.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReading {
    /// Its definition.
    pub def: ReadingDef,
    /// Which values of the gauge it uses.
    pub takes: Takes,
}

/// Which of the gauge's values make a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The growth from before the task until its work had returned.
    DeltaToReturn,
    /// The growth from before the task until its data was on the device.
    DeltaToSynced,
    /// The value when the work had returned.
    AtReturn,
}

impl Takes {
    /// A reading that is computed so.
    pub const fn of(self, def: ReadingDef) -> ProbeReading {
        ProbeReading { def, takes: self }
    }
}

/// The kernel and device that the probes read.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The kernel's files.
    pub kernel: SysRoot,
    /// Major and minor number of the device under test, where there is one.
    pub device: Option<(u32, u32)>,
}

/// A probe that is ready to be read.
pub struct Opened {
    /// The source of its values.
    pub gauge: Box<dyn Gauge>,
    /// What a reader of the readings should know.
    pub notes: Vec<Note>,
}

impl Opened {
    /// A gauge that needs no explanation.
    pub fn new(gauge: impl Gauge + 'static) -> Opened {
        Opened { gauge: Box::new(gauge), notes: vec![] }
    }
}
