//! Data path: whether the page cache or the device did the I/O.

/// The data path of the I/O that a task requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataPath {
    /// A cache: under a tenth of the bytes reached the device.
    Cache,
    /// Both.
    Mixed,
    /// The device: at least nine tenths of the bytes. Can exceed 100% where the filesystem writes further data.
    Device,
}

impl DataPath {
    /// The data path for a value of `device_share`.
    pub fn of(device_share: f64) -> DataPath {
        match device_share {
            share if share < 0.1 => DataPath::Cache,
            share if share < 0.9 => DataPath::Mixed,
            _ => DataPath::Device,
        }
    }

    /// The label of reports.
    pub const fn label(self) -> &'static str {
        match self {
            DataPath::Cache => "cache",
            DataPath::Mixed => "mixed",
            DataPath::Device => "device",
        }
    }
}
