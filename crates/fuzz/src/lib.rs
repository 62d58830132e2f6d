//! Fuzz targets for every parser of input from outside. `make fuzz` runs them with libFuzzer. The test of this file runs them
//! with every file of `corpus/`, which also has the inputs that failed in the past.
//!
//! A target has one line in [`TARGETS`], and a folder of its name in `corpus/` with small real inputs. It fails if the
//! parser panics or takes too long, or if it accepts a value that a simple check refuses.

mod formats;
mod guest;
pub mod mutation;
mod plan;
mod stored_runs;
mod support;
mod web;

use rustix::time::{ClockId, clock_gettime};

/// CPU time in seconds from which an input counts as a hang, because all inputs are small.
const MAX_CPU_S: i64 = 1;

/// The name of a target, and its function, which tests a parser with an input and panics on a fault.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("plan", plan::fuzz_plan),
    ("claim", plan::fuzz_claim),
    ("options", plan::fuzz_filesystem_options),
    ("import-csv", |bytes| formats::fuzz_import(bytes, Some("csv"))),
    ("import-dbench", |bytes| formats::fuzz_import(bytes, Some("dbench"))),
    ("import-fio", |bytes| formats::fuzz_import(bytes, Some("fio"))),
    ("import-gobench", |bytes| formats::fuzz_import(bytes, Some("gobench"))),
    ("import-hyperfine", |bytes| formats::fuzz_import(bytes, Some("hyperfine"))),
    ("import-ior", |bytes| formats::fuzz_import(bytes, Some("ior"))),
    ("import-mdtest", |bytes| formats::fuzz_import(bytes, Some("mdtest"))),
    ("import-sysbench", |bytes| formats::fuzz_import(bytes, Some("sysbench"))),
    ("import-any", |bytes| formats::fuzz_import(bytes, None)),
    ("curves", formats::fuzz_curves),
    ("published", formats::fuzz_published),
    ("fio-job-file", formats::fuzz_fio_job_file),
    ("loadfile", formats::fuzz_loadfile),
    ("tools", formats::fuzz_tool_output),
    ("events", stored_runs::fuzz_event_log),
    ("store", stored_runs::fuzz_database),
    ("bundle", stored_runs::fuzz_bundle),
    ("stored-plan", stored_runs::fuzz_stored_plan),
    ("stored-values", stored_runs::fuzz_stored_values),
    ("serve", web::fuzz_serve),
    ("counters", web::fuzz_service_counters),
    ("squid", web::fuzz_message_heads),
    ("agent-request", guest::fuzz_agent_request),
    ("agent-lines", guest::fuzz_agent_lines),
    ("console", guest::fuzz_console_log),
    ("kernel", guest::fuzz_kernel_image),
    ("modules", guest::fuzz_kernel_module),
    ("releases", guest::fuzz_kernel_releases),
    ("writes", guest::fuzz_recorded_writes),
];

/// Runs a target with an input.
///
/// # Panics
/// If the target finds a fault, or takes too long.
pub fn run((name, target): &Target, bytes: &[u8]) {
    let start = clock_gettime(ClockId::ProcessCPUTime);
    target(bytes);
    let cpu_time = clock_gettime(ClockId::ProcessCPUTime) - start;
    assert!(cpu_time.tv_sec < MAX_CPU_S, "{name}: {cpu_time:?} of CPU time for {} bytes", bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::Path};

    /// Largest size of the whole corpus in bytes. It is low, so that nobody adds the inputs that libFuzzer generates.
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
