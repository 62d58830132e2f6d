//! `fsarena compare` of files of other programs and of exports of fsarena.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;
use std::process::Stdio;

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    std::fs::write(sandbox.dir.join(name), text).unwrap();
}

fn compare(sandbox: &Sandbox, a: &str, b: &str, extra_args: &[&str]) -> Value {
    let args: Vec<&str> = ["compare", a, b, "--format", "json"].iter().chain(extra_args).copied().collect();
    serde_json::from_str(&sandbox.expect(0, &args).0).unwrap()
}

/// Ten rounds of a machine that becomes slower up to a factor of ten. All times are multiplied by `factor`.
fn csv(factor: f64) -> String {
    let line = |round: u32| {
        let noise = 1.0 + 0.001 * f64::from(round * 7 % 5);
        format!("{round},cp,{}\n", factor * f64::from(round) * noise)
    };
    "round,task,elapsed_s\n".to_string() + &(1..=10).map(line).collect::<String>()
}

#[test]
fn csv_is_paired_by_round() {
    let sandbox = Sandbox::new();
    write(&sandbox, "a.csv", &csv(1.0));
    write(&sandbox, "b.csv", &csv(1.05));
    let comparison = compare(&sandbox, "a.csv", "b.csv", &[]);
    let row = &comparison["rows"][0];
    assert_eq!((&row["paired"], &row["verdict"]), (&true.into(), &"different".into()));
    assert!((row["ratio_b_to_a"]["value"].as_f64().unwrap() - 1.05).abs() < 1e-9);
    let wide = compare(&sandbox, "a.csv", "b.csv", &["--margin", "6%"]);
    assert_eq!(wide["rows"][0]["verdict"], "negligible");
    let (text, _) = sandbox.expect(0, &["compare", "a.csv", "b.csv"]);
    assert!(text.contains("10 pairs") && !text.contains("UNPAIRED"), "{text}");
}

#[test]
fn samples_without_rounds_are_reported_as_unpaired() {
    let sandbox = Sandbox::new();
    let gobench_lines = |ns: u32| (0..8).map(|i| format!("BenchmarkX-2\t1\t{} ns/op\n", ns + i)).collect::<String>();
    write(&sandbox, "a.txt", &gobench_lines(1000));
    write(&sandbox, "b.txt", &gobench_lines(2000));
    let (text, _) = sandbox.expect(0, &["compare", "a.txt", "b.txt"]);
    assert!(text.contains("UNPAIRED") && text.contains("different: A better"), "{text}");
}

#[test]
fn refusals_name_the_file_and_the_line() {
    let sandbox = Sandbox::new();
    write(&sandbox, "a.csv", "x,y\n1,2\n3\n");
    write(&sandbox, "b.csv", "x,y\n1,2\n");
    let (_, stderr) = sandbox.expect(2, &["compare", "b.csv", "a.csv"]);
    assert!(stderr.contains("a.csv, line 3: 1 fields where the lines before have 2"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["compare", "b.csv", "b.csv", "--metric", "z"]);
    assert!(stderr.contains("no benchmark and metric in common"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["compare", "b.csv", "some-run"]);
    assert!(stderr.contains("fsarena report some-run --export csv=FILE"), "{stderr}");
}

/// Output of IOR with a row for each bandwidth.
fn ior_output(bandwidths: impl Iterator<Item = f64>) -> String {
    let header = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\naccess : file-per-process\n\naccess bw(MiB/s) IOPS \
                Latency(s) block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter\n";
    let row = |(iteration, bandwidth): (usize, f64)| {
        format!("write {bandwidth:.2} 10 0.1 2048.00 256.00 0.1 0.1 0.1 {:.2} {iteration}\n", 2000.0 / bandwidth)
    };
    header.to_string() + &bandwidths.enumerate().map(row).collect::<String>()
}

#[test]
fn the_order_of_rows_changes_no_verdict_and_bandwidth_leads() {
    let sandbox = Sandbox::new();
    let rising = || (0..10).map(|index| 100.0 + 20.0 * f64::from(index));
    write(&sandbox, "a.txt", &ior_output(rising()));
    write(&sandbox, "b.txt", &ior_output(rising().map(|bandwidth| 1.05 * bandwidth)));
    write(&sandbox, "reversed.txt", &ior_output(rising().rev().map(|bandwidth| 1.05 * bandwidth)));
    let (same, reversed) = (compare(&sandbox, "a.txt", "b.txt", &[]), compare(&sandbox, "a.txt", "reversed.txt", &[]));
    assert_eq!(same["rows"], reversed["rows"]);
    let row = &same["rows"][0];
    assert_eq!((&row["metric"], &row["paired"]), (&"bandwidth".into(), &false.into()));
    let (text, _) = sandbox.expect(0, &["compare", "a.txt", "reversed.txt"]);
    assert!(text.contains("UNPAIRED") && !text.contains("10 pairs"), "{text}");
}

#[test]
fn runs_that_failed_are_left_out_and_counted() {
    let sandbox = Sandbox::new();
    let json = |codes: &str| {
        format!("{{\"results\": [{{\"command\": \"cp\", \"times\": [0.1, 0.2, 0.3], \"exit_codes\": {codes}}}]}}")
    };
    write(&sandbox, "a.json", &json("[0, 1, 0]"));
    write(&sandbox, "b.json", &json("[0, 0, 0]"));
    let comparison = compare(&sandbox, "a.json", "b.json", &[]);
    assert_eq!((&comparison["rows"][0]["values_a"], &comparison["rows"][0]["values_b"]), (&2.into(), &3.into()));
    let (text, _) = sandbox.expect(0, &["compare", "a.json", "b.json"]);
    assert!(text.contains("Left out of A: 1 run of cp: exit code 1."), "{text}");
    write(&sandbox, "c.json", &json("[1, 1, 1]"));
    let (_, stderr) = sandbox.expect(2, &["compare", "a.json", "c.json"]);
    assert!(stderr.contains("no sample in it, read as hyperfine; left out: 3 runs of cp: exit code 1"), "{stderr}");
}

#[test]
fn standard_input_and_pipes_of_the_shell_are_read_once() {
    let sandbox = Sandbox::new();
    write(&sandbox, "a.csv", &csv(1.0));
    write(&sandbox, "b.csv", &csv(1.05));
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        // The command that writes has ended before fsarena reads.
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, csv(1.05).as_bytes()).unwrap();
        drop(writer);
        let mut command = sandbox.fsarena(&["compare", "a.csv", name, "--format", "json"]);
        let output = command.stdin(Stdio::from(reader)).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(comparison["rows"], compare(&sandbox, "a.csv", "b.csv", &[])["rows"], "{name}");
        let (_, stderr) = sandbox.expect(2, &["compare", name, name]);
        assert!(stderr.contains("it can be read only once"), "{stderr}");
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"threads,iops\n1,100\n2,190\n4,300\n").unwrap();
    drop(writer);
    let output = sandbox.fsarena(&["analyse", "-"]).stdin(Stdio::from(reader)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_of_other_kinds_are_refused_by_their_kind() {
    let sandbox = Sandbox::new();
    write(&sandbox, "a.csv", &csv(1.0));
    let utf16: Vec<u8> = format!("\u{feff}{}", csv(1.05)).encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(sandbox.dir.join("b.csv"), utf16).unwrap();
    assert_eq!(compare(&sandbox, "a.csv", "b.csv", &[])["rows"][0]["verdict"], "different");
    for (bytes, words) in [
        (b"\x1f\x8b\x08\0".as_slice(), "c: this is a gzip file: unpack it first"),
        (b"3;fio-3.33;job;0;0;1;2\n", "c: fsarena does not read fio's terse output"),
        (b"tps = 85.1 (without initial connection time)\n", "c: fsarena does not read pgbench"),
        (b"", "c: it is empty"),
    ] {
        std::fs::write(sandbox.dir.join("c"), bytes).unwrap();
        let (_, stderr) = sandbox.expect(2, &["compare", "a.csv", "c"]);
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn each_setting_has_a_curve_of_its_own_and_latencies_have_none() {
    let sandbox = Sandbox::new();
    write(&sandbox, "curve.csv", "threads,block_size,iops\n1,4096,100\n2,4096,190\n1,1048576,10\n2,1048576,11\n");
    let (text, _) = sandbox.expect(0, &["analyse", "curve.csv"]);
    assert!(text.contains("block_size=4096") && text.contains("block_size=1048576"), "{text}");
    write(&sandbox, "latency.csv", "threads,latency_ms\n1,1\n2,1.5\n4,2.5\n8,5\n");
    let (_, stderr) = sandbox.expect(2, &["analyse", "latency.csv"]);
    assert!(stderr.contains("latency.csv, line 1: column `latency_ms` is a latency"), "{stderr}");
    std::fs::write(sandbox.dir.join("curve.csv.gz"), b"\x1f\x8b\x08\0").unwrap();
    let (_, stderr) = sandbox.expect(2, &["analyse", "curve.csv.gz"]);
    assert!(stderr.contains("curve.csv.gz: this is a gzip file"), "{stderr}");
    write(&sandbox, "failed.csv", "n,x,rc\n1,10,0\n2,19,0\n2,1,137\n");
    let (_, stderr) = sandbox.expect(0, &["analyse", "failed.csv"]);
    assert!(stderr.contains("Left out: 1 run: rc is 137."), "{stderr}");
}

#[test]
fn exported_metrics_of_every_unit_are_imported() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let units = ["ns", "s", "bytes", "count", "percent", "ratio", "per_s", "bytes_per_s"];
    let mut commands: Vec<String> =
        units.iter().map(|unit| format!("echo fsarena-metric: {unit}_of 12.5 {unit} higher")).collect();
    commands.push("echo fsarena-metric: tps 1234.5 per_s higher".into());
    let command = commands.join("; ");
    sandbox.expect(0, &["run", "--fs", "ext4", "--rounds", "2", "--on", "ram", "-q", "--cmd", &command]);
    sandbox.expect(0, &["report", "--export", "csv=out.csv"]);
    for unit in units {
        let comparison = compare(&sandbox, "out.csv", "out.csv", &["--metric", &format!("{unit}_of_{unit}")]);
        assert_eq!(
            (&comparison["rows"][0]["median_a"], &comparison["rows"][0]["paired"]),
            (&12.5.into(), &true.into())
        );
    }
    let comparison = compare(&sandbox, "out.csv", "out.csv", &["--metric", "tps_per_s"]);
    assert_eq!(comparison["rows"][0]["median_a"], 1234.5);
    sandbox.assert_clean();
}

#[test]
fn exports_of_fsarena_can_be_imported() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "plan.toml", "--rounds", "2", "--on", "ram", "-q"]);
    for (format, metric, paired) in [("csv", "elapsed", true), ("gobench", "ns/op", true), ("hyperfine", "time", false)]
    {
        let file = format!("out.{format}");
        sandbox.expect(0, &["report", "--export", &format!("{format}={file}")]);
        let comparison = compare(&sandbox, &file, &file, &["--metric", metric]);
        assert_eq!(comparison["a"]["format"], format);
        let rows = comparison["rows"].as_array().unwrap();
        // Three tasks, and mkfs, mount and unmount.
        assert_eq!(rows.len(), 6, "{comparison:#}");
        for row in rows {
            assert_eq!(row["paired"], paired, "{row}");
            assert_eq!(row["ratio_b_to_a"]["value"], 1.0, "{row}");
            assert_eq!(row["values_a"], 2, "{row}");
        }
    }
    sandbox.assert_clean();
}
