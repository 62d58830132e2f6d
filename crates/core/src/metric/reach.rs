//! Data path: whether the page cache or the device did the I/O.

/// The data path of the I/O that a task requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// A cache: under a tenth of the bytes reached the device.
    Cache,
    /// Both.
    Mixed,
    /// The device: at least nine tenths of the bytes. Can exceed 100% where the filesystem writes further data.
    Device,
}

impl Reach {
    /// The data path for a value of `device_share`.
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
