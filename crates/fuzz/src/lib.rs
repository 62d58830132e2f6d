//! Fuzz targets for every parser of input from outside. `make fuzz` runs them with libFuzzer. The test below runs them with
//! every file of `corpus/`, which also has the inputs that once failed.
//!
//! A target has one line in [`TARGETS`], and a folder of its name in `corpus/` with small real inputs. It fails if the
//! parser panics or takes too long, or if it accepts a value that a simple check refuses.

mod formats;
mod guest;
mod plan;
mod store;
mod stored;
mod support;
mod web;
pub mod words;

use rustix::time::{ClockId, clock_gettime};

/// CPU time in seconds from which an input counts as a hang, because all inputs are small.
const MAX_CPU_S: i64 = 1;

/// The name of a target, and its function, which takes an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("plan", plan::plan),
    ("claim", plan::claim),
    ("options", plan::options),
    ("import-csv", |bytes| formats::samples(bytes, Some("csv"))),
    ("import-dbench", |bytes| formats::samples(bytes, Some("dbench"))),
    ("import-fio", |bytes| formats::samples(bytes, Some("fio"))),
    ("import-gobench", |bytes| formats::samples(bytes, Some("gobench"))),
    ("import-hyperfine", |bytes| formats::samples(bytes, Some("hyperfine"))),
    ("import-ior", |bytes| formats::samples(bytes, Some("ior"))),
    ("import-mdtest", |bytes| formats::samples(bytes, Some("mdtest"))),
    ("import-sysbench", |bytes| formats::samples(bytes, Some("sysbench"))),
    ("import-any", |bytes| formats::samples(bytes, None)),
    ("curves", formats::curves),
    ("published", formats::published),
    ("fio-job-file", formats::job_file),
    ("loadfile", formats::loadfile),
    ("tools", formats::tools),
    ("events", store::events),
    ("store", store::database),
    ("bundle", store::bundle),
    ("stored-plan", stored::plan),
    ("stored-values", stored::values),
    ("serve", web::serve),
    ("counters", web::counters),
    ("squid", web::squid),
    ("agent-request", guest::request),
    ("agent-lines", guest::agent_lines),
    ("console", guest::console),
    ("kernel", guest::kernel),
    ("modules", guest::modules),
    ("releases", guest::releases),
    ("writes", guest::writes),
];

/// Runs a target with an input.
///
/// # Panics
/// If the target finds a fault, or takes too long.
pub fn run((name, target): &Target, bytes: &[u8]) {
    let before = clock_gettime(ClockId::ProcessCPUTime);
    target(bytes);
    let took = clock_gettime(ClockId::ProcessCPUTime) - before;
    assert!(took.tv_sec < MAX_CPU_S, "{name}: {took:?} of CPU time for {} bytes", bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::Path};

    /// Largest size of all folders together, in bytes. Inputs that libFuzzer generates do not belong in the corpus.
    const MAX_CORPUS_BYTES: u64 = 400_000;

    #[test]
    fn every_target_has_a_corpus_and_passes_it() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let folders = std::fs::read_dir(&corpus).unwrap();
        let folders: BTreeSet<String> =
            folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(folders, TARGETS.iter().map(|(name, _)| name.to_string()).collect());
        let mut size = 0;
        for target in TARGETS {
            for entry in std::fs::read_dir(corpus.join(target.0)).unwrap() {
                let path = entry.unwrap().path();
                println!("{}", path.display());
                let bytes = std::fs::read(path).unwrap();
                size += bytes.len() as u64;
                run(target, &bytes);
            }
        }
        assert!(size < MAX_CORPUS_BYTES, "{size} bytes");
    }
}
