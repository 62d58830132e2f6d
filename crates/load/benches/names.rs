//! Prints the peak resident memory of fsarena's own work with 10,000 and with a million file names, and fails if they differ by more
//! than 20 MB: names are generated, not kept. Generates the tree of `tree_files`; and, if `FSARENA_BENCH_DIR` names a directory with
//! 10 GB of space, creates and reads the files of `many-files` there, which takes minutes on most disks.

use fsarena_core::{scale::Scale, setting::Settings};
use fsarena_load::task::TaskError;
use fsarena_load::workload::{Job, Place};
use fsarena_load::{source::TreeSource, workloads};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The numbers of names.
const NAMES: [u64; 2] = [10_000, 1_000_000];
/// The most that the peaks may differ, in MB.
const MOST: f64 = 20.0;
/// The variable of the environment that names the directory of the files.
const DIR: &str = "FSARENA_BENCH_DIR";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, names] = &arguments[..]
        && let Ok(names) = names.parse()
    {
        return work(what, names);
    }
    println!(
        "{:<44} {:>10} {:>10} {:>10} {:>10}",
        "peak memory by names, MB", "10,000", "1,000,000", "more", "at most"
    );
    print_row("tree");
    match std::env::var_os(DIR) {
        Some(_) => print_row("many-files"),
        None => println!("many-files: skipped, name a directory with room for 10 GB in {DIR}"),
    }
}

/// Measures one kind of work and prints its row.
fn print_row(what: &str) {
    let begun = Instant::now();
    let [few, many] = NAMES.map(|names| peak_bytes(what, names) / 1e6);
    let (more, took) = (many - few, begun.elapsed().as_secs_f64());
    println!("{what:<44} {few:>10.1} {many:>10.1} {more:>10.1} {MOST:>10.1}   in {took:.1} s");
    assert!(more < MOST, "memory grows with the number of names");
}

/// The peak memory of a process that does the work, in bytes.
fn peak_bytes(what: &str, names: u64) -> f64 {
    let own = std::env::current_exe().expect("this program has a path");
    let output = Command::new(own).args([what, &names.to_string()]).output().expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse::<f64>().expect("the process prints its peak in kB") * 1024.0
}

/// Does the work and prints the peak memory of this process in kB.
fn work(what: &str, names: u64) {
    if what == "tree" {
        let tree = TreeSource::Generated { seed: 1, files: names, compressible: 50, twins: 0 };
        let (size, _) = tree.measure().expect("a generated tree needs no input");
        assert_eq!(size.files, names);
    } else {
        create(names).expect("the directory has room for the files");
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel counts peaks");
    println!("{}", peak.trim().trim_end_matches("kB").trim());
}

/// Creates and reads the files of `many-files`, and removes them.
fn create(names: u64) -> Result<(), TaskError> {
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap_or_default());
    let root = dir.join(format!("fsarena-names-{}", std::process::id()));
    let workload = workloads::find_workload("many-files").expect("the workload is registered");
    let mut settings = Settings::defaults(workload.def().settings);
    settings.0.insert("files".into(), fsarena_core::setting::Value::Int(names as i64));
    let place = Place { root: root.clone(), source_dir: root.clone(), server_user: None };
    for task in workload.tasks(&Job { settings, scale: Scale::Quick, seed: 1 }, &place)? {
        for action in task.work {
            action.perform(&mut |_| {})?;
        }
    }
    std::fs::remove_dir_all(&root).expect("the files can be removed");
    Ok(())
}
