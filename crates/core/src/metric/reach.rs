//! Whether a cache or the device did the I/O.

/// Who did the I/O that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// A cache: under a tenth of the bytes reached the device.
    Cache,
    /// Both.
    Mixed,
    /// The device: at least nine tenths of the bytes, or more where the filesystem wrote of its own.
    Device,
}

impl Reach {
    /// What a value of `device_share` says.
    pub fn of(device_share: f64) -> Reach {
        match device_share {
            share if share < 0.1 => Reach::Cache,
            share if share < 0.9 => Reach::Mixed,
            _ => Reach::Device,
        }
    }

    /// The label of reports.
    pub const fn label(self) -> &'static str {
        match self {
            Reach::Cache => "cache",
            Reach::Mixed => "mixed",
            Reach::Device => "device",
        }
    }
}
