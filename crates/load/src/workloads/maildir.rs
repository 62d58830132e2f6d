//! `maildir`: mail as servers keep it in Maildirs. Each message is written to `tmp/`, synced, renamed (or linked) to
//! `new/`, and the directory is synced; it is read and moved to `cur/`; it expires.

mod boxes;

use crate::demands::Demands;
use crate::pace::{self, Load};
use crate::task::{Action, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, remark};
use boxes::{Boxes, Shape, Stage};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::Note;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_engine::{Bound, custom_load};

/// The workload.
pub struct Maildir;

/// Messages at scale paper, and the fewest.
const MESSAGES: (u64, u64) = (50_000, 60);

const DEF: WorkloadDef = WorkloadDef {
    id: "maildir",
    help: "deliver mail to Maildirs, each message on the device before the next (fsync), read it, and remove it",
    metrics: &["commits_per_s", "latency_p50", "latency_p99", "latency_max", "synced"],
    settings: &[
        SettingDef::ints("clients", 1..=1024, &[4])
            .help("processes of a mail server at work at once, each number a set of tasks"),
        SettingDef::int("messages", 0..=100_000_000, 0)
            .help("messages that are delivered, read and removed; 0 for 50,000 shrunk by the scale"),
        SettingDef::size("message", 64..=64 << 20, 8 << 10).help("bytes of a message"),
        SettingDef::int("mailboxes", 1..=100_000, 16).help("Maildirs that messages go to in turn"),
        SettingDef::choice("method", &["rename", "link"], "rename")
            .help("how a message gets from tmp/ to new/: rename as in Dovecot, or link and unlink as in qmail and Postfix"),
        pace::RATES,
        pace::ARRIVALS,
    ],
};

fn shape(job: &Job) -> Shape {
    let settings = &job.settings;
    Shape {
        messages: job.count("messages", MESSAGES),
        bytes: settings.int("message") as usize,
        mailboxes: settings.int("mailboxes") as u64,
        links: settings.text("method") == "link",
        seed: job.seed,
    }
}

fn info(load: Load, stage: Stage) -> TaskInfo {
    let [_, name, title] = stage.words();
    load.info(name, title)
}

/// Every task: all stages of one load, then those of the next.
fn tasks(job: &Job) -> Vec<(Load, Stage)> {
    let stages = |load| Stage::ALL.map(|stage| (load, stage));
    Load::all(&job.settings).into_iter().flat_map(stages).collect()
}

impl Workload for Maildir {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        tasks(job).into_iter().map(|(load, stage)| info(load, stage)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let shape = shape(job);
        let each = (shape.bytes as u64).next_multiple_of(4096);
        let inodes = shape.messages + 4 * shape.mailboxes;
        let room = Room { bytes: shape.messages * each + 4096 * inodes, inodes, other_bytes: 0 };
        // Flags follow a colon.
        let reserved = Some(shape.name(Stage::Read, 0));
        let demands = Demands { reserved, ..Demands::default() };
        Ok(Survey { room, demands, remarks: remarks(&shape), ..Survey::default() })
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (root, shape) = (place.root.join("maildir"), shape(job));
        let task = |(load, stage): (Load, Stage)| {
            let (job, kind) = (job.clone(), stage.words()[0]);
            let empty = Action::on("empty", &root, move |root| boxes::prepare(root, &shape));
            let work = Action::on(kind, &root, move |root| {
                let (boxes, kinds) = (Boxes::open(root, shape, stage)?, [kind]);
                let config = load.config(&job, &kinds, Bound::Operations(shape.messages));
                Ok(custom_load::run(&config, &boxes)?.found())
            });
            Task::new(info(load, stage), work).after((stage == Stage::Deliver).then_some(empty))
        };
        Ok(tasks(job).into_iter().map(task).collect())
    }

    /// Every message is where its last task left it, whole, and nothing else is there.
    fn checks(&self, job: &Job, place: &Place, task: &TaskId) -> Vec<Action> {
        let (root, shape) = (place.root.join("maildir"), shape(job));
        let named = |stage: &Stage| stage.words()[1] == task.name;
        let check = |stage| Action::on("compare", &root, move |root| boxes::verify(root, &shape, stage));
        Stage::ALL.into_iter().find(named).map(check).into_iter().collect()
    }
}

/// What every report must say.
fn remarks(shape: &Shape) -> Vec<Note> {
    let how = if shape.links { "linked to new/ and unlinked" } else { "renamed to new/" };
    let text = format!(
        "maildir: {} messages of {} bytes in {} Maildirs, each written to tmp/, synced, {how}, and its directory synced \
         before the next; reading and removing are not synced, as in mail servers; all messages are compared after each \
         task",
        shape.messages, shape.bytes, shape.mailboxes
    );
    vec![remark(text)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::scale::Scale;
    use fsarena_core::setting::{Settings, Value};

    #[test]
    fn messages_come_are_read_and_leave_and_each_stage_is_compared() {
        for method in ["rename", "link"] {
            let mut settings = Settings::defaults(DEF.settings);
            settings.0.insert("method".into(), Value::Text(method.into()));
            settings.0.insert("messages".into(), Value::Int(20));
            let job = Job { settings, scale: Scale::Tiny, seed: 3 };
            let dir = tempfile::tempdir().unwrap();
            let place = Place { root: dir.path().into(), other: dir.path().into(), server_user: None };
            for task in Maildir.steps(&job, &place).unwrap() {
                let id = task.info.id;
                let actions = task.prepare.into_iter().chain(task.work);
                let found = actions.map(|action| action.perform(&mut |_| {}).unwrap()).last().unwrap();
                assert_eq!(found.readings.get("all_operations_count"), Some(20.0), "{id:?}");
                let commits = found.readings.get("commit_operations_count");
                assert_eq!(commits, (id.name == "deliver").then_some(20.0));
                let check = || Maildir.checks(&job, &place, &id).remove(0).perform(&mut |_| {}).map(drop);
                check().unwrap();
                // One file that should not be there, wherever it is.
                let stray = dir.path().join("maildir/user00003/tmp/stray");
                std::fs::write(&stray, "").unwrap();
                assert!(check().unwrap_err().to_string().contains("files instead of"));
                std::fs::remove_file(stray).unwrap();
                if id.name == "deliver" {
                    let damaged = dir.path().join("maildir/user00003/new/0000000019.fsarena");
                    let whole = std::fs::read(&damaged).unwrap();
                    std::fs::write(&damaged, &whole[1..]).unwrap();
                    let said = check().unwrap_err().to_string();
                    assert!(said.starts_with("DATA LOSS") && said.contains("0000000019"), "{said}");
                    std::fs::write(&damaged, whole).unwrap();
                }
            }
        }
    }
}
