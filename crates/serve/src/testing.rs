//! Helpers for the tests of this crate: a new run in a temporary folder, and a function that runs futures.

use fsarena_core::{host::Host, metric::TIMER_READINGS, plan::Plan};
use fsarena_store::{RunDir, Writer};

const PLAN: &str = "name = 'tasks'\ntitle = 'Tasks'\nquestion = 'Which?'\nscale = 'tiny'\nseed = 7\n\
    [factors]\nfs = ['ext4', 'xfs']\n\
    [device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\nbacking = { kind = 'ram' }\n\
    [stop]\nrounds = 8\n\
    [idle]\ntimeout_s = 1.0\ndirty = '4 MiB'\nio_pressure_percent = 5.0\n\
    [[workload]]\nuse = 'tasks'\n";

/// A new run in its own temporary folder, which is removed when this value is dropped.
pub struct TestRun {
    pub dir: RunDir,
    _root: tempfile::TempDir,
}

impl TestRun {
    pub fn new() -> TestRun {
        let root = tempfile::tempdir().unwrap();
        let plan: Plan = toml::from_str(PLAN).unwrap();
        let dir = RunDir::create(root.path(), &plan, "0.1.0").unwrap();
        TestRun { dir, _root: root }
    }

    /// A writer of the run.
    pub fn writer(&self) -> Writer {
        let host = Host { hostname: "bench".into(), kernel: "6.18".into(), ..Host::default() };
        Writer::open(&self.dir, &host, TIMER_READINGS).unwrap()
    }
}

/// Runs a future to its end.
pub fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(future);
}
