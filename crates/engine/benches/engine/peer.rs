//! Runs other load generators, unmodified.

use crate::scratch::{Failure, LOOP_BYTES};
use crate::{bare::cpu_ns, table::Run};
use std::{path::Path, process::Command};

/// Runs a program and returns its output and its CPU time; None if it is not installed.
fn run(command: &mut Command) -> Result<Option<(String, f64, f64)>, Failure> {
    let (user, all) = cpu_ns(libc::RUSAGE_CHILDREN);
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let (user_after, all_after) = cpu_ns(libc::RUSAGE_CHILDREN);
    Ok(Some((String::from_utf8(output.stdout)?, user_after - user, all_after - all)))
}

/// fio's random 4 KiB reads of a file, with more options.
pub fn fio(path: &Path, seconds: f64, more: &[&str]) -> Result<Option<Run>, Failure> {
    let mut fio = Command::new("fio");
    // By default fio drops a file from the page cache first; all contenders are to find it there.
    fio.args(["--name=peer", "--rw=randread", "--bs=4k", "--time_based", "--output-format=json"])
        .arg("--invalidate=0")
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--runtime={}ms", (seconds * 1e3) as u64))
        .args(more);
    let Some((said, user, all)) = run(&mut fio)? else { return Ok(None) };
    // fio may say a line before its JSON.
    let json = said.find('{').map_or("", |at| &said[at..]);
    let read = &serde_json::from_str::<serde_json::Value>(json)?["jobs"][0]["read"];
    let number = |name: &str| read[name].as_f64().ok_or_else(|| format!("fio says no {name}"));
    let operations = number("total_ios")?;
    Ok(Some(Run { per_s: number("iops")?, cpu_ns: all / operations, user_ns: user / operations }))
}

/// sysbench's random direct 4 KiB reads of `test_file.0`.
pub fn sysbench(dir: &Path, seconds: f64, threads: u32) -> Result<Option<Run>, Failure> {
    let mut sysbench = Command::new("sysbench");
    sysbench
        .current_dir(dir)
        .args(["fileio", "--file-num=1", "--file-block-size=4096", "--file-test-mode=rndrd"])
        .args(["--file-extra-flags=direct", "--events=0"])
        .arg(format!("--file-total-size={LOOP_BYTES}"))
        .arg(format!("--time={}", seconds.ceil()))
        .arg(format!("--threads={threads}"))
        .arg("run");
    let Some((said, user, all)) = run(&mut sysbench)? else { return Ok(None) };
    let after = |label: &str| -> Result<f64, Failure> {
        let rest = said.split(label).nth(1).ok_or_else(|| format!("sysbench says no {label}"))?;
        Ok(rest.split_whitespace().next().unwrap_or("").parse()?)
    };
    let operations = after("total number of events:")?;
    Ok(Some(Run { per_s: after("reads/s:")?, cpu_ns: all / operations, user_ns: user / operations }))
}
