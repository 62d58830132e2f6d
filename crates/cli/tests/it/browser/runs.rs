//! Small real runs of every study, and their pages.

use crate::common::{Sandbox, runs_as_root};
use fsarena_store::RunDir;
use std::path::{Path, PathBuf};

/// A study, and the flags that make a run of it short.
struct Study {
    name: &'static str,
    args: &'static [&'static str],
    /// The charts that the page of each stage must have; one entry if the study has no stages.
    charts: &'static [&'static [&'static str]],
}

const STUDIES: [Study; 5] = [
    Study {
        name: "piszcz",
        args: &["--rounds", "2", "--fs", "ext4,xfs,btrfs", "--set", "driver=native"],
        charts: &[&["ratios-elapsed", "raw-elapsed", "cpu", "spent", "timeline", "differences"]],
    },
    Study {
        name: "peiffer",
        args: &["--rounds", "3", "--fs", "ext4,xfs", "--set", "driver=native"],
        charts: &[&["differences", "narrowing", "ratios-elapsed", "raw-elapsed", "cpu", "spent"]],
    },
    Study {
        name: "engel",
        args: &["--rounds", "2", "--fs", "ext4,raw", "--bs", "512,4096", "--threads", "1,2", "--modes", "rndrd,seqwr"],
        charts: &[&["heat-rndrd", "heat-seqwr", "iops-rndrd", "latency-read", "timeline", "spent"]],
    },
    Study {
        name: "gus3",
        args: &["--rounds", "2", "--fs", "ext4,xfs", "--set", "seconds=0.1"],
        charts: &[
            &["filesystems-throughput-dbench-like-clients-5", "schedulers-throughput-dbench-like-clients-20", "spent"],
            &["clients", "clients-fit", "timeline"],
            &["raw-throughput"],
        ],
    },
    Study {
        name: "wilton",
        args: &["--rounds", "2", "--fs", "ext4,xfs"],
        charts: &[&["requests", "requests-load", "latency-corrected", "spent"]],
    },
];

/// The runs of one study.
pub struct StudyRuns {
    study: &'static Study,
    /// The sandbox with the runs.
    pub sandbox: Sandbox,
}

/// Runs all studies at the same time, because a small run mostly waits. Returns an empty list without root.
pub fn run_studies() -> Vec<StudyRuns> {
    if !runs_as_root() {
        return vec![];
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = STUDIES.iter().map(|study| scope.spawn(|| run_study(study))).collect();
        running.into_iter().map(|thread| thread.join().expect("a study")).collect()
    })
}

/// Runs a study.
fn run_study(study: &'static Study) -> StudyRuns {
    let sandbox = Sandbox::new();
    let (plan, _) = sandbox.expect(0, &["show", study.name]);
    // The runs of other studies keep the machine busy, so the plan hardly waits until it is idle.
    let (head, idle) = ("[idle]\n", "timeout = \"20ms\"\ndirty = \"1GiB\"\nio_pressure_percent = 100.0\n");
    let plan = match plan.contains(head) {
        true => plan.replace("[idle]\ntimeout = \"1s\"\n", &format!("{head}{idle}")),
        false => format!("{plan}\n{head}{idle}"),
    };
    std::fs::write(sandbox.dir.join("study.toml"), plan).unwrap();
    let fixed = ["run", "study.toml", "--scale", "tiny", "--on", "ram", "--quiet"];
    let output = sandbox.output(&[&fixed, study.args].concat());
    // Claims can be inconclusive after two rounds.
    let code = output.status.code();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(code, Some(0 | 3 | 4)), "{}: {code:?} {stderr}", study.name);
    StudyRuns { study, sandbox }
}

impl StudyRuns {
    /// The pages, in the order of the stages, each with the charts that it must have.
    pub fn pages(&self) -> Vec<(PathBuf, Vec<&'static str>)> {
        let mut runs: Vec<PathBuf> =
            std::fs::read_dir(self.sandbox.runs_dir()).unwrap().map(|run| run.unwrap().path()).collect();
        runs.sort_by_key(|run| run.join("run.db").metadata().unwrap().modified().unwrap());
        assert_eq!(runs.len(), self.study.charts.len(), "{}: {runs:?}", self.study.name);
        let page = |run: &PathBuf| run.join("report.html");
        runs.iter().map(page).zip(self.study.charts.iter().map(|charts| charts.to_vec())).collect()
    }
}

/// The page of a stored run.
pub fn page_of(sandbox: &Sandbox, run: &RunDir) -> PathBuf {
    let page: &Path = &run.path().join("report.html");
    let export = format!("html={}", page.display());
    sandbox.expect(0, &["report", &run.id(), "--format", "csv", "--export", &export]);
    page.into()
}
