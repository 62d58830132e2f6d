//! `maildir`: mail in Maildirs, as mail servers store it. Delivery writes each message to `tmp/`, syncs it, renames (or
//! links) it to `new/`, and syncs that directory. Then each message is read and moved to `cur/`, and at last removed.

use crate::pace::{self, PacedLoad};
use crate::payload::{Noise, describe_difference, make_empty_dir};
use crate::task::{Action, Result, Task, TaskError};
use crate::workload::{Demands, Job, Place, Room, Survey, Workload, remark_note};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_engine::custom_load::{self, CustomLoad};
use fsarena_engine::{Bound, EngineError};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The workload.
pub struct Maildir;

/// Number of messages at scale paper, and the smallest number.
const MESSAGE_COUNTS: (u64, u64) = (50_000, 60);

const DEF: WorkloadDef = WorkloadDef {
    id: "maildir",
    help: "deliver mail to Maildirs, each message on the device before the next (fsync), read it, and remove it",
    metrics: &["commits_per_s", "latency_p50", "latency_p99", "latency_max", "synced"],
    settings: &[
        SettingDef::ints("clients", 1..=1024, &[4])
            .help("processes of a mail server at work at once, each number a set of tasks"),
        SettingDef::int("messages", 0..=100_000_000, 0).help(
            "messages that are delivered, read and removed; 0 for 50,000 at scale paper, and fewer at quick and tiny",
        ),
        SettingDef::size("message", 64..=64 << 20, 8 << 10).help("bytes of a message"),
        SettingDef::int("mailboxes", 1..=100_000, 16).help("Maildirs that messages go to in turn"),
        SettingDef::choice("method", &["rename", "link"], "rename").help(
            "how a message gets from tmp/ to new/: rename as in Dovecot, or link and unlink as in qmail and Postfix",
        ),
        pace::RATES,
        pace::ARRIVALS,
    ],
};

fn resolve_settings(job: &Job) -> MaildirSettings {
    let settings = &job.settings;
    MaildirSettings {
        messages: job.count_or_published("messages", MESSAGE_COUNTS),
        message_bytes: settings.int("message") as usize,
        mailboxes: settings.int("mailboxes") as u64,
        uses_links: settings.text("method") == "link",
        seed: job.seed,
    }
}

/// Every task in order: all stages of one load, then those of the next.
fn loads_and_stages(job: &Job) -> Vec<(PacedLoad, MailStage)> {
    let stages = |load| STAGES.map(|stage| (load, stage));
    PacedLoad::combinations(&job.settings).into_iter().flat_map(stages).collect()
}

impl Workload for Maildir {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        loads_and_stages(job).into_iter().map(|(load, stage)| load.task_info(stage.name, stage.title)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = resolve_settings(job);
        let bytes_each = (settings.message_bytes as u64).next_multiple_of(4096);
        let inodes = settings.messages + 4 * settings.mailboxes;
        let room = Room { bytes: settings.messages * bytes_each + 4096 * inodes, inodes, source_bytes: 0 };
        // The names of read messages have a colon before the flags.
        let reserved_name = Some(settings.path_after(READ, 0));
        let demands = Demands { reserved_name, ..Demands::default() };
        let method = if settings.uses_links { "linked to new/ and unlinked" } else { "renamed to new/" };
        let text = format!(
            "maildir: {} messages of {} bytes in {} Maildirs, each written to tmp/, synced, {method}, and its directory synced \
             before the next; reading and removing are not synced, as in mail servers; all messages are compared after each \
             task",
            settings.messages, settings.message_bytes, settings.mailboxes
        );
        Ok(Survey { room, demands, remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (root, settings) = (place.root.join("maildir"), resolve_settings(job));
        let mut tasks = vec![];
        for (load, stage) in loads_and_stages(job) {
            let (job, kind) = (job.clone(), stage.operation_kind);
            let make_maildirs = Action::call_on("empty", &root, move |root| make_maildirs(root, &settings));
            let work = Action::call_on(kind, &root, move |root| {
                let (maildirs, kinds) = (Maildirs::open(root, settings, stage)?, [kind]);
                let config = load.config(&job, &kinds, Bound::Operations(settings.messages));
                Ok(custom_load::run(&config, &maildirs)?.task_output())
            });
            let preparation = (stage == DELIVER).then_some(make_maildirs);
            tasks.push(Task::new(load.task_info(stage.name, stage.title), work).with_preparation(preparation));
        }
        Ok(tasks)
    }

    /// Checks that every message is intact where the task left it, and that no other files exist.
    fn check_actions(&self, job: &Job, place: &Place, task: &TaskId) -> Vec<Action> {
        let (root, settings) = (place.root.join("maildir"), resolve_settings(job));
        let stage = STAGES.into_iter().find(|stage| stage.name == task.name);
        let check =
            stage.map(|stage| Action::call_on("compare", &root, move |root| verify_messages(root, &settings, stage)));
        check.into_iter().collect()
    }
}

/// A stage in the life of a message, which all messages go through in one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MailStage {
    /// The name of the task.
    name: &'static str,
    /// The title of the task.
    title: &'static str,
    /// The kind of operation in readings.
    operation_kind: &'static str,
}

/// The message is delivered to `new/`. A delivery is a commit.
const DELIVER: MailStage = MailStage { name: "deliver", title: "Deliver messages", operation_kind: "commit" };
/// The message is read and moved to `cur/` with the flag for seen messages.
const READ: MailStage =
    MailStage { name: "read", title: "Read messages and move them to cur/", operation_kind: "read" };
/// The message is removed.
const EXPIRE: MailStage = MailStage { name: "expire", title: "Remove messages", operation_kind: "expire" };
/// All stages in order.
const STAGES: [MailStage; 3] = [DELIVER, READ, EXPIRE];

/// The resolved settings of a job.
#[derive(Debug, Clone, Copy)]
struct MaildirSettings {
    /// Number of messages.
    messages: u64,
    /// Bytes of a message.
    message_bytes: usize,
    /// Number of Maildirs, to which messages go in turn.
    mailboxes: u64,
    /// Whether a message gets its final name by link and unlink instead of rename.
    uses_links: bool,
    /// The seed of contents.
    seed: u64,
}

impl MaildirSettings {
    /// The directory of the mailbox of a message.
    fn mailbox_name(&self, message: u64) -> String {
        format!("user{:05}", message % self.mailboxes)
    }

    /// The path of a message after a stage, below the root of the Maildirs.
    fn path_after(&self, stage: MailStage, number: u64) -> PathBuf {
        let mailbox = self.mailbox_name(number);
        PathBuf::from(match stage {
            DELIVER => format!("{mailbox}/new/{number:010}.fsarena"),
            _ => format!("{mailbox}/cur/{number:010}.fsarena:2,S"),
        })
    }

    fn temporary_path(&self, number: u64) -> PathBuf {
        PathBuf::from(format!("{}/tmp/{number:010}.fsarena", self.mailbox_name(number)))
    }
}

/// Creates empty Maildirs.
fn make_maildirs(root: &Path, settings: &MaildirSettings) -> Result<(), TaskError> {
    make_empty_dir(root)?;
    for number in 0..settings.mailboxes {
        for subdirectory in ["tmp", "new", "cur"] {
            let dir = root.join(settings.mailbox_name(number)).join(subdirectory);
            std::fs::create_dir_all(&dir).map_err(EngineError::io("making", &dir))?;
        }
    }
    Ok(())
}

/// Maildirs in one stage, as a load of the engine.
struct Maildirs {
    root: PathBuf,
    settings: MaildirSettings,
    stage: MailStage,
    noise: Noise,
    /// The open directory `new/` of each Maildir, which every delivery syncs.
    new_dirs: Vec<File>,
    /// The number of the next message.
    next_message: AtomicU64,
}

impl Maildirs {
    /// Opens the Maildirs that [`make_maildirs`] made.
    ///
    /// # Errors
    /// If a Maildir is missing.
    fn open(root: &Path, settings: MaildirSettings, stage: MailStage) -> Result<Maildirs, EngineError> {
        let mut new_dirs = vec![];
        for number in 0..settings.mailboxes {
            let dir = root.join(settings.mailbox_name(number)).join("new");
            new_dirs.push(File::open(&dir).map_err(EngineError::io("opening", &dir))?);
        }
        let (root, noise) = (root.into(), Noise::new(settings.seed, settings.message_bytes));
        Ok(Maildirs { root, settings, stage, noise, new_dirs, next_message: AtomicU64::new(0) })
    }

    fn deliver(&self, number: u64) -> Result<(), EngineError> {
        let temporary_path = self.root.join(self.settings.temporary_path(number));
        let path = self.path_after(DELIVER, number);
        let to_error = || EngineError::io("delivering", &path);
        let mut file = File::create_new(&temporary_path).map_err(to_error())?;
        file.write_all(self.noise.contents(number, self.settings.message_bytes)).map_err(to_error())?;
        file.sync_all().map_err(to_error())?;
        drop(file);
        if self.settings.uses_links {
            std::fs::hard_link(&temporary_path, &path).map_err(to_error())?;
            std::fs::remove_file(&temporary_path).map_err(to_error())?;
        } else {
            std::fs::rename(&temporary_path, &path).map_err(to_error())?;
        }
        self.new_dirs[(number % self.settings.mailboxes) as usize].sync_all().map_err(to_error())
    }

    fn read_and_move(&self, buffer: &mut [u8], number: u64) -> Result<(), EngineError> {
        let [new_path, cur_path] = [DELIVER, READ].map(|stage| self.path_after(stage, number));
        let mut file = File::open(&new_path).map_err(EngineError::io("opening", &new_path))?;
        while file.read(buffer).map_err(EngineError::io("reading", &new_path))? > 0 {}
        std::fs::rename(&new_path, &cur_path).map_err(EngineError::io("renaming", &new_path))
    }

    fn expire(&self, number: u64) -> Result<(), EngineError> {
        let path = self.path_after(READ, number);
        std::fs::remove_file(&path).map_err(EngineError::io("removing", &path))
    }

    /// The absolute path of a message after a stage.
    fn path_after(&self, stage: MailStage, number: u64) -> PathBuf {
        self.root.join(self.settings.path_after(stage, number))
    }
}

impl CustomLoad for Maildirs {
    /// The buffer of reads.
    type ThreadState = Vec<u8>;
    type Request = ();

    fn thread_state(&self, _: u32) -> Result<Vec<u8>, EngineError> {
        Ok(vec![0; 64 << 10])
    }

    fn draw(&self, _: &mut Vec<u8>) {}

    fn perform(&self, buffer: &mut Vec<u8>, (): ()) -> Result<usize, EngineError> {
        let number = self.next_message.fetch_add(1, Ordering::Relaxed);
        match self.stage {
            DELIVER => self.deliver(number),
            READ => self.read_and_move(buffer, number),
            _ => self.expire(number),
        }
        .map(|()| 0)
    }
}

/// Checks that every message is intact where a stage left it, and that there are no other files.
fn verify_messages(root: &Path, settings: &MaildirSettings, stage: MailStage) -> Result<(), TaskError> {
    let noise = Noise::new(settings.seed, settings.message_bytes);
    let expected_count = if stage == EXPIRE { 0 } else { settings.messages };
    for number in 0..expected_count {
        let path = root.join(settings.path_after(stage, number));
        if let Some(difference) = describe_difference(&path, noise.contents(number, settings.message_bytes)) {
            return Err(TaskError::Violation(format!("DATA LOSS: message {} ({difference})", path.display())));
        }
    }
    let files = walkdir::WalkDir::new(root).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let file_count = files.count() as u64;
    if file_count == expected_count {
        return Ok(());
    }
    let text = format!("{} holds {file_count} files instead of {expected_count} messages", root.display());
    Err(TaskError::Violation(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place};

    #[test]
    fn each_stage_handles_all_messages_and_its_check_finds_stray_and_damaged_files() {
        for method in ["rename", "link"] {
            let job = job(&DEF, 3, &[("method", method), ("messages", "20")]);
            let dir = tempfile::tempdir().unwrap();
            let place = place(dir.path());
            for task in Maildir.tasks(&job, &place).unwrap() {
                let id = task.info.id;
                let output = perform_all(task.preparation.into_iter().chain(task.work));
                assert_eq!(output.readings.get("all_operations_count"), Some(20.0), "{id:?}");
                let commits = output.readings.get("commit_operations_count");
                assert_eq!(commits, (id.name == "deliver").then_some(20.0));
                let check = || Maildir.check_actions(&job, &place, &id).remove(0).perform(&mut |_| {}).map(drop);
                check().unwrap();
                // A stray file in any directory fails the check.
                let stray_path = dir.path().join("maildir/user00003/tmp/stray");
                std::fs::write(&stray_path, "").unwrap();
                assert!(check().unwrap_err().to_string().contains("files instead of"));
                std::fs::remove_file(stray_path).unwrap();
                if id.name == "deliver" {
                    let damaged_path = dir.path().join("maildir/user00003/new/0000000019.fsarena");
                    let contents = std::fs::read(&damaged_path).unwrap();
                    std::fs::write(&damaged_path, &contents[1..]).unwrap();
                    let error = check().unwrap_err().to_string();
                    assert!(error.starts_with("DATA LOSS") && error.contains("0000000019"), "{error}");
                    std::fs::write(&damaged_path, contents).unwrap();
                }
            }
        }
    }
}
