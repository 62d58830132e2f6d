//! Prints the peak resident memory of fsarena's own work with 10,000 and with a million file names, and fails if they
//! differ by more than 20 MB: names are generated, not kept. Generates the tree of `tree_files`; and, if
//! `FSARENA_BENCH_DIR` names a directory with 10 GB of space, creates and reads the files of `many-files` there, which
//! takes minutes on most disks.

use fsarena_core::{scale::Scale, setting::Settings};
use fsarena_load::task::TaskError;
use fsarena_load::workload::{Job, Place};
use fsarena_load::{source::TreeSource, workloads};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The numbers of names that are compared.
const NAME_COUNTS: [u64; 2] = [10_000, 1_000_000];
/// The largest difference between the peaks, in MB.
const MAX_DIFFERENCE_MB: f64 = 20.0;
/// The environment variable that names the directory of the files.
const DIR_VARIABLE: &str = "FSARENA_BENCH_DIR";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [work, names] = &arguments[..]
        && let Ok(names) = names.parse()
    {
        return perform_work(work, names);
    }
    println!(
        "{:<44} {:>10} {:>10} {:>10} {:>10}",
        "peak memory by names, MB", "10,000", "1,000,000", "more", "at most"
    );
    print_row("tree");
    match std::env::var_os(DIR_VARIABLE) {
        Some(_) => print_row("many-files"),
        None => println!("many-files: skipped, name a directory with room for 10 GB in {DIR_VARIABLE}"),
    }
}

/// Measures one kind of work and prints its row. `work` is `tree` or `many-files`.
fn print_row(work: &str) {
    let start = Instant::now();
    let [few_mb, many_mb] = NAME_COUNTS.map(|names| peak_bytes(work, names) / 1e6);
    let (more_mb, elapsed_s) = (many_mb - few_mb, start.elapsed().as_secs_f64());
    println!(
        "{work:<44} {few_mb:>10.1} {many_mb:>10.1} {more_mb:>10.1} {MAX_DIFFERENCE_MB:>10.1}   in {elapsed_s:.1} s"
    );
    assert!(more_mb < MAX_DIFFERENCE_MB, "memory grows with the number of names");
}

/// The peak memory of a process that does the work, in bytes.
fn peak_bytes(work: &str, names: u64) -> f64 {
    let this_program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(this_program).args([work, &names.to_string()]).output().expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse::<f64>().expect("the process prints its peak in kB") * 1024.0
}

/// Does the work and prints the peak memory of this process in kB.
fn perform_work(work: &str, names: u64) {
    if work == "tree" {
        let tree = TreeSource::Generated { seed: 1, files: names, compressible_percent: 50, twins_per_10_000: 0 };
        let (size, _) = tree.measure().expect("a generated tree needs no input");
        assert_eq!(size.files, names);
    } else {
        create_and_read_files(names).expect("the directory has room for the files");
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel counts peaks");
    println!("{}", peak.trim().trim_end_matches("kB").trim());
}

/// Creates and reads the files of `many-files`, and removes them.
fn create_and_read_files(names: u64) -> Result<(), TaskError> {
    let dir = PathBuf::from(std::env::var_os(DIR_VARIABLE).unwrap_or_default());
    let root = dir.join(format!("fsarena-names-{}", std::process::id()));
    let workload = workloads::find_workload("many-files").expect("the workload is registered");
    let mut settings = Settings::defaults(workload.def().settings);
    settings.0.insert("files".into(), fsarena_core::setting::SettingValue::Int(names as i64));
    let place = Place { root: root.clone(), source_dir: root.clone(), server_user: None };
    for task in workload.tasks(&Job { settings, scale: Scale::Quick, seed: 1 }, &place)? {
        for action in task.work {
            action.perform(&mut |_| {})?;
        }
    }
    std::fs::remove_dir_all(&root).expect("the files can be removed");
    Ok(())
}
