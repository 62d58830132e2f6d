//! Shared code for the tests of probes.

use crate::gauge::Gauge;
use fsarena_sys::kernel::SysRoot;

/// A kernel that has these files.
pub(crate) fn kernel_with(files: &[(&str, &str)]) -> (tempfile::TempDir, SysRoot) {
    let dir = tempfile::tempdir().unwrap();
    for (rel, text) in files {
        let path = dir.path().join(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let kernel = SysRoot::at(dir.path());
    (dir, kernel)
}

/// The present values of a gauge.
pub(crate) fn read_once(gauge: &mut dyn Gauge, readings: usize) -> Vec<f64> {
    let mut out = vec![f64::NAN; readings];
    gauge.read(&mut out).unwrap();
    out
}
