//! The examples of the book's page "Extending fsarena", compiled so that the page stays true.

#![allow(dead_code)]

// ANCHOR: filesystem
mod bcachefs {
    use fsarena_fs::def::{BASE, DEFAULT, DURABLE, FAST_UNSAFE, FsDef, MIB, NOATIME, OptionSet, Overhead, ValueKind};

    /// bcachefs.
    pub const DEF: FsDef = FsDef {
        id: "bcachefs",
        title: "bcachefs",
        mkfs: "mkfs.bcachefs",
        fixed_arguments: &["--force"],
        option_sets: &[
            DEFAULT,
            NOATIME,
            OptionSet::new(DURABLE, "same as default"),
            OptionSet::new(FAST_UNSAFE, "keeps all changes in memory").mount(&["nochanges"]),
        ],
        // Every mkfs argument that a plan may set. fsarena refuses those that are not listed.
        allowed_arguments: &[(ValueKind::Plain, "--block_size --compression")],
        packages: &["bcachefs-tools"],
        min_bytes: 128 * MIB,
        overhead: Overhead { fixed_bytes: 48 * MIB, percent: 10, per_file_bytes: 1024 },
        ..BASE
    };
}
// ANCHOR_END: filesystem

// ANCHOR: workload
mod append {
    use fsarena_core::cell::{TaskId, TaskInfo};
    use fsarena_core::sample::Readings;
    use fsarena_core::setting::{SettingDef, WorkloadDef};
    use fsarena_load::task::{Action, Call, StartState, Task, TaskError};
    use fsarena_load::workload::{Job, Place, Room, Survey, Workload};
    use std::{fs::OpenOptions, io::Write};

    /// `append`: write a log line by line.
    pub struct Append;

    const LINE: &[u8] = &[b'x'; 100];
    const LINES: SettingDef = SettingDef::int("lines", 1..=10_000_000, 10_000).help("lines that are appended");
    const DEF: WorkloadDef = WorkloadDef {
        id: "append",
        help: "append lines of 100 bytes to one file",
        metrics: &["elapsed", "synced"],
        settings: &[LINES],
    };

    impl Workload for Append {
        fn def(&self) -> &'static WorkloadDef {
            &DEF
        }

        fn outline(&self, _: &Job) -> Vec<TaskInfo> {
            let title = "Append lines to a log".into();
            vec![TaskInfo { id: TaskId::new("append"), title, number: None, in_totals: true }]
        }

        // The room that the work needs. A device that is too small is an error before the run.
        fn survey(&self, job: &Job) -> Result<Survey, TaskError> {
            let bytes = LINE.len() as u64 * job.settings.int("lines") as u64;
            Ok(Survey { room: Room { bytes, inodes: 1, source_bytes: 0 }, ..Survey::default() })
        }

        fn programs(&self, _: &Job) -> Vec<&'static str> {
            vec![]
        }

        fn make_inputs(&self, _: &Job, _: &Place) -> Result<(), TaskError> {
            Ok(())
        }

        fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>, TaskError> {
            let (path, lines) = (place.root.join("log"), job.settings.int("lines"));
            let work = Call::new(["append"], move || {
                let failed = || TaskError::io(format!("append to {}", path.display()));
                let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed())?;
                (0..lines).try_for_each(|_| file.write_all(LINE)).map_err(failed())?;
                Ok(Readings::default())
            });
            let tasks = self.outline(job).into_iter();
            let work = vec![Action::Call(work)];
            Ok(tasks
                .zip([work])
                .map(|(info, work)| Task { info, start_state: StartState::Warm, preparation: vec![], work })
                .collect())
        }
    }
}
// ANCHOR_END: workload

// ANCHOR: probe
mod context_switches {
    use fsarena_core::sample::{ReadingDef, Unit};
    use fsarena_probe::{OpenedProbe, Probe, Sampling, TextGauge};

    /// Context switches of the machine.
    pub const PROBE: Probe = Probe {
        id: "context_switches",
        help: "context switches of the machine",
        readings: &[Sampling::GrowthUntilSynced.reading(
            ReadingDef::lower("context_switches", Unit::Count)
                .help("context switches of the machine until the data was on the device"),
        )],
        // An error makes the reading unavailable; the run goes on, and the report names the reason.
        open: |target| TextGauge::open(&target.kernel, "proc/stat", parse).map(OpenedProbe::new),
    };

    fn parse(text: &str, out: &mut [f64]) -> Option<()> {
        let number = text.lines().find_map(|line| line.strip_prefix("ctxt "))?;
        out[0] = number.trim().parse().ok()?;
        Some(())
    }
}
// ANCHOR_END: probe

// ANCHOR: exporter
mod variants {
    use fsarena_report::{error::Error, exporter::Exporter, report::Report};
    use std::io::Write;

    /// The names of the variants, one a line.
    pub const VARIANTS: Exporter = Exporter::new("variants", "the names of the variants, one a line", export);

    fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        for variant in &report.record.variants {
            writeln!(out, "{}", variant.name)?;
        }
        Ok(())
    }
}
// ANCHOR_END: exporter

// ANCHOR: factor
mod read_ahead {
    use fsarena_run::RunError;
    use fsarena_run::axes::{Axis, CellSetup, LevelCheck};
    use fsarena_sys::{Error, attribute};

    /// The name in plans.
    const ID: &str = "read_ahead";

    /// The read-ahead of the device.
    pub const AXIS: Axis = Axis::new(
        ID,
        "0, 128, 4096",
        "read-ahead of every device of the variant in KiB; empty leaves it as it is",
        level,
    )
    .with_check(check)
    .with_set_up(set_up);

    fn level(text: &str) -> Result<(), String> {
        if text.is_empty() || text.parse::<u32>().is_ok() {
            return Ok(());
        }
        Err(format!("`{text}`: give the read-ahead in KiB, such as 128"))
    }

    fn check(check: &LevelCheck) -> Result<(), RunError> {
        if check.level().is_empty() || check.kernel.path("sys/block").exists() {
            return Ok(());
        }
        Err(check.missing_error("this machine has no /sys/block"))
    }

    fn set_up(setup: &mut CellSetup) -> Result<(), Error> {
        for device in setup.devices {
            let path = device.queue_attribute_path("read_ahead_kb");
            let former = std::fs::read_to_string(&path).unwrap_or_default();
            // `attribute::set` writes the undo step to the journal before it changes the attribute.
            setup.conditions.add_guard(attribute::set(setup.journal, &path, setup.level(), former.trim())?);
        }
        Ok(())
    }
}
// ANCHOR_END: factor

fn main() {
    use fsarena_load::workload::Workload;

    println!("filesystem {}", bcachefs::DEF.id);
    println!("workload {}", append::Append.def().id);
    println!("probe {}", context_switches::PROBE.id);
    println!("exporter {}", variants::VARIANTS.id);
    println!("factor {}", read_ahead::AXIS.def.id);
}
