//! Shared code for the tests of probes.

use crate::probe::Gauge;
use fsarena_sys::kernel::SysRoot;
use fsarena_sys::testkit::FakeRoot;

/// A fake `/proc` and `/sys` with these files.
pub(crate) fn kernel_with(files: &[(&str, &str)]) -> (FakeRoot, SysRoot) {
    let root = FakeRoot::with(files);
    let kernel = SysRoot::at(root.path());
    (root, kernel)
}

/// The present values of a gauge.
pub(crate) fn read_once(gauge: &mut dyn Gauge, readings: usize) -> Vec<f64> {
    let mut out = vec![f64::NAN; readings];
    gauge.read(&mut out).unwrap();
    out
}
