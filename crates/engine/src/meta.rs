//! Metadata: what mdtest, fs_mark and FxMark measure.
//!
//! A job is a list of phases. In each phase every thread does one kind of operation on each of its names, in
//! private directories or in shared ones, in one level or in a tree. A phase is one outcome.

mod job;
mod operation;
mod tree;

pub use job::{Job, Sharing};
pub use operation::Operation;

use super::clock::{self, Clock};
use super::collect::{Interval, Tell};
use super::drive::{Drive, Work};
use super::tally::{Kind, Recorder};
use super::{calibrate::Calibration, error::Result, histogram::histogram, outcome::Outcome};
use fsarena_sys::cancel;
use std::{path::Path, time::Instant};
use tree::{Tree, Writer};

/// Runs all phases in an empty directory; gives the outcome of each. Intervals are told while it runs.
///
/// What the phases leave behind (files that no `unlink` removes, the tree itself) is removed afterwards.
///
/// # Errors
/// Where the job contradicts itself, threads cannot be had, or an operation fails.
pub fn run(
    job: &Job,
    dir: &Path,
    on_interval: &mut dyn FnMut(Operation, &Interval),
) -> Result<Vec<(Operation, Outcome)>> {
    job.check()?;
    let tree = Tree::make(job, dir)?;
    let mut outcomes = vec![];
    for &operation in &job.phases {
        let outcome = phase(job, &tree, operation, &mut |interval| on_interval(operation, interval))?;
        outcomes.push((operation, outcome));
        // What a signal cut short did not leave what the next phase needs.
        if cancel::requested().is_some() {
            break;
        }
    }
    tree.remove()?;
    Ok(outcomes)
}

/// The names of one client among several that work in one directory at the same time.
pub struct Client {
    job: Job,
    tree: Tree,
}

impl Client {
    /// The client of this number. Private directories are its own; shared ones are those of all clients.
    ///
    /// # Errors
    /// Where the job contradicts itself.
    pub fn new(job: Job, dir: &Path, number: u32) -> Result<Client> {
        job.check()?;
        Ok(Client { tree: Tree::of_client(&job, dir, number), job })
    }

    /// Makes its directories.
    ///
    /// # Errors
    /// Where one cannot be made.
    pub fn make(&self) -> Result {
        self.tree.make_leaves()
    }

    /// Does one operation on each of its names.
    ///
    /// # Errors
    /// Where an operation fails.
    pub fn perform(&self, operation: Operation) -> Result<Outcome> {
        phase(&self.job, &self.tree, operation, &mut |_| {})
    }
}

fn phase(job: &Job, tree: &Tree, operation: Operation, tell: Tell) -> Result<Outcome> {
    let kinds = [Kind { name: operation.name(), bytes: 0, used: true }];
    let operations = u64::from(job.threads) * u64::from(job.names);
    let drive = Drive::counted(job.threads, &kinds, job.interval_ms, operations);
    let calibration = Calibration::of(generator_ns(tree));
    let outcome = Outcome::of(&drive, &Phase { tree, operation }, calibration, tell)?;
    tree.note(operation);
    Ok(outcome)
}

/// One kind of operation on all names.
struct Phase<'a> {
    /// The directories.
    tree: &'a Tree,
    /// The operation.
    operation: Operation,
}

impl<'a> Work<'a> for Phase<'_> {
    type Worker = Writer<'a>;

    fn prepare(&'a self, thread: u32) -> Result<Writer<'a>> {
        Ok(self.tree.writer(thread, self.operation))
    }

    fn work<C: Clock>(&self, writer: &mut Writer, recorder: &mut Recorder, clock: C) -> Result {
        let mut start = clock.now();
        for number in 0..self.tree.names {
            let names = writer.names(number);
            if let Err(error) = self.operation.perform(&names) {
                return Err(operation::failed(self.operation, &names, error));
            }
            let end = clock.now();
            if !recorder.count(0, start, None, end) {
                // Another worker failed.
                break;
            }
            start = end;
        }
        Ok(())
    }
}

/// Nanoseconds that the generator takes for one operation: writing its names, stamping and counting.
fn generator_ns(tree: &Tree) -> f64 {
    let mut writer = tree.writer(0, Operation::Stat);
    let mut latencies = histogram();
    let begun = Instant::now();
    clock::best_ns(3, 10_000, |number| {
        std::hint::black_box(writer.names(number).name);
        latencies.saturating_record(begun.elapsed().as_nanos() as u64);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Operation] = &[
        Operation::Create,
        Operation::Open,
        Operation::Read,
        Operation::Stat,
        Operation::Chmod,
        Operation::Setxattr,
        Operation::Getxattr,
        Operation::Link,
        Operation::Symlink,
        Operation::Readdir,
        Operation::Rename,
        Operation::Stat,
        Operation::Unlink,
        Operation::Mkdir,
        Operation::StatDir,
        Operation::Rmdir,
    ];

    #[test]
    fn every_operation_is_done_on_every_name() {
        for sharing in [Sharing::Private, Sharing::Shared] {
            for depth in [0, 2] {
                let dir = tempfile::tempdir().unwrap();
                let job = Job {
                    phases: ALL.to_vec(),
                    threads: 3,
                    names: 50,
                    sharing,
                    depth,
                    fan_out: 3,
                    bytes: 100,
                    interval_ms: 1,
                };
                let outcomes = match run(&job, dir.path(), &mut |_, _| {}) {
                    // tmpfs of old kernels does not support user xattrs.
                    Err(error) if error.to_string().contains("xattr") => {
                        return fsarena_testkit::skipped("no user xattrs for temporary files");
                    }
                    outcomes => outcomes.unwrap(),
                };
                assert_eq!(outcomes.len(), ALL.len());
                for (operation, outcome) in &outcomes {
                    assert_eq!(outcome.operations(), 150, "{operation:?}");
                    assert_eq!(outcome.kinds[0].name, operation.name());
                }
                assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
            }
        }
    }

    #[test]
    fn what_is_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let job =
            Job { phases: vec![Operation::Create, Operation::Link], threads: 2, names: 5, ..Job::default() };
        run(&job, dir.path(), &mut |_, _| {}).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine"), "precious").unwrap();
        let said = run(&Job::default(), dir.path(), &mut |_, _| {}).unwrap_err().to_string();
        assert!(said.contains("not empty"), "{said}");
        assert!(dir.path().join("mine").exists());
    }

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job { phases: vec![Operation::Create], names: 3, ..Job::default() };
        let tree = Tree::make(&job, dir.path()).unwrap();
        phase(&job, &tree, Operation::Create, &mut |_| {}).unwrap();
        let said = phase(&job, &tree, Operation::Create, &mut |_| {}).unwrap_err().to_string();
        assert!(said.contains("create") && said.contains("f.0.0") && said.contains("exists"), "{said}");
        tree.remove().unwrap();
    }

    #[test]
    fn the_bounds_are_checked() {
        let said = |job: Job| job.check().unwrap_err().to_string();
        assert!(said(Job { threads: 129, ..Job::default() }).contains("128"));
        assert!(said(Job { depth: 7, fan_out: 10, ..Job::default() }).contains("million"));
        assert!(said(Job { phases: vec![Operation::Stat], ..Job::default() }).contains("create"));
        assert!(said(Job { phases: vec![], ..Job::default() }).contains("list of phases is empty"));
    }
}
