//! The operations of the watched device itself: for services that cannot be asked.

use crate::counter::{Counter, Trouble};
use crate::error::Error;
use fsarena_sys::kernel::SysRoot;

/// Reads and writes that a device completed (Documentation/block/stat.rst, fields 1 and 5).
pub struct Operations {
    kernel: SysRoot,
    rel: String,
}

impl Operations {
    /// Of the device with these numbers.
    ///
    /// # Errors
    /// Where no device is watched.
    pub fn new(kernel: &SysRoot, device: Option<(u32, u32)>) -> Result<Operations, Error> {
        let (major, minor) = device.ok_or_else(|| {
            Error::Usage("to count the device's operations, say which: --path DIR or --device DEVICE".into())
        })?;
        Ok(Operations { kernel: kernel.clone(), rel: format!("sys/dev/block/{major}:{minor}/stat") })
    }
}

impl Counter for Operations {
    fn read(&mut self) -> Result<f64, Trouble> {
        let trouble = |what: String| Trouble::new(format!("/{}: {what}", self.rel));
        let text = self.kernel.read(&self.rel).map_err(|error| trouble(error.to_string()))?;
        let fields: Vec<f64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        match (fields.first(), fields.get(4)) {
            (Some(reads), Some(writes)) => Ok(reads + writes),
            _ => Err(trouble("has a form that is not known".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_added() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = SysRoot::at(dir.path());
        let mut counter = Operations::new(&kernel, Some((7, 1))).unwrap();
        assert!(counter.read().unwrap_err().0.contains("7:1/stat"));
        std::fs::create_dir_all(dir.path().join("sys/dev/block/7:1")).unwrap();
        std::fs::write(dir.path().join("sys/dev/block/7:1/stat"), "  10 1 80 2   7 0 56 3  0 5 5\n").unwrap();
        assert_eq!(counter.read(), Ok(17.0));
        assert!(Operations::new(&kernel, None).is_err());
    }
}
