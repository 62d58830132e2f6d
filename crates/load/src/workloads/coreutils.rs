//! `coreutils`: the 21 tasks that Justin Piszcz timed in 2004 and 2006, with touch, find, rm, mkdir, cp,
//! tar, split, dd and cat.

use crate::payload::Payload;
use crate::program::{self, DRIVER, Driver, Op, REFLINK, prepare_destination_action};
use crate::source::{COMPRESSIBLE, TREE, TREE_FILES, TreeSize, TreeSource, compressible_percent, generated_file_count};
use crate::task::{self, Action, Call, Result, StartState, Task, TaskError, failed_to};
use crate::tree::TOP_DIR;
use crate::workload::{Demands, Job, Place, Room, Survey, Workload, fairness_note, remark_note};
use FileGroup::{Big, Dirs, Files, Input, Nothing, Tarball, Tree};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, event::Note};
use std::{collections::BTreeSet, ops::Add};

/// The workload.
pub struct Coreutils;

impl Workload for Coreutils {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        let sizes = Sizes::from_job(job);
        CoreutilsSettings::resolve(job).tasks.iter().map(|task| task_info(task, &sizes)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = CoreutilsSettings::resolve(job);
        let (tree_size, demands) = settings.source.measure()?;
        let room = space_needed(&settings.tasks, &Sizes::from_job(job), &tree_size);
        let unpacks_tree = with_suppliers(&settings.tasks).iter().any(|task| task.makes == FileGroup::Tree);
        let demands = if unpacks_tree { demands } else { Demands::default() };
        Ok(Survey { room, demands, remarks: settings.remarks(&tree_size, room.bytes), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        let settings = CoreutilsSettings::resolve(job);
        if settings.driver.is_native {
            return vec![];
        }
        // The paths are placeholders; only the names of the programs are used.
        let (place, sizes) =
            (Place { root: "/".into(), source_dir: "/".into(), server_user: None }, Sizes::from_job(job));
        let all = with_suppliers(&settings.tasks);
        let programs: BTreeSet<_> = all.iter().map(|task| (task.op)(&place, &sizes).program()).collect();
        programs.into_iter().collect()
    }

    fn make_inputs(&self, job: &Job, place: &Place) -> Result<()> {
        let settings = CoreutilsSettings::resolve(job);
        let archive = place.source_dir.join(TARBALL);
        // A file beside the archive records the archive's source. It is written last, so if it exists, the archive is
        // complete.
        let (description_path, description) =
            (archive.with_extension("tar.made-of"), format!("{:?}\n", settings.source));
        if std::fs::read_to_string(&description_path).is_ok_and(|stored| stored == description) && archive.exists() {
            return Ok(());
        }
        // Remove an old description first, because it would describe the new archive if this process were killed.
        if description_path.exists() {
            std::fs::remove_file(&description_path).map_err(failed_to("remove", &description_path))?;
        }
        let unfinished = archive.with_extension("unfinished");
        let written = settings.source.write_archive_file(&unfinished)?;
        written.sync_all().map_err(failed_to("write", &unfinished))?;
        std::fs::rename(&unfinished, archive).map_err(failed_to("rename", &unfinished))?;
        std::fs::write(&description_path, description).map_err(failed_to("write", &description_path))
    }

    fn draws_inputs(&self, job: &Job) -> bool {
        TreeSource::from_job(job).is_generated()
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let settings = CoreutilsSettings::resolve(job);
        let builder = TaskBuilder { place, sizes: Sizes::from_job(job), settings: &settings, job };
        let (archive, all) = (place.source_dir.join(TARBALL), with_suppliers(&settings.tasks));
        if all.iter().any(|task| task.needs == FileGroup::Input) && !archive.exists() {
            let why = format!("the archive {} is missing; fsarena makes it at the start of a run", archive.display());
            return Err(TaskError::Unfit(why));
        }
        let mut present = BTreeSet::from([FileGroup::Nothing, FileGroup::Input]);
        Ok(settings.tasks.iter().map(|task| builder.build_task(task, &mut present)).collect())
    }

    fn may_clone(&self, job: &Job) -> bool {
        CoreutilsSettings::resolve(job).driver.may_clone
    }
}

fn task_info(task: &TaskDef, sizes: &Sizes) -> TaskInfo {
    TaskInfo { number: Some(format!("{:03}", task.number)), ..task::info(task.id, task.title(sizes), []) }
}

/// Builds the tasks of a cell from their definitions.
struct TaskBuilder<'a> {
    place: &'a Place,
    sizes: Sizes,
    settings: &'a CoreutilsSettings,
    job: &'a Job,
}

impl TaskBuilder<'_> {
    fn build_task(&self, task: &TaskDef, present: &mut BTreeSet<FileGroup>) -> Task {
        let mut prepare = Vec::new();
        self.supply_files(task.needs, present, &mut prepare);
        let work = self.work_and_preparation(task, &mut prepare);
        if task.uses_up {
            present.remove(&task.needs);
        }
        present.insert(task.makes);
        let cold = self.settings.drops_caches && task.needs != FileGroup::Nothing;
        let start_state = if cold { StartState::ColdCache } else { StartState::Warm };
        Task { start_state, prepare, ..Task::new(task_info(task, &self.sizes), work) }
    }

    /// Adds the untimed work that makes these files, unless they are present already.
    fn supply_files(&self, group: FileGroup, present: &mut BTreeSet<FileGroup>, prepare: &mut Vec<Action>) {
        if !present.insert(group) {
            return;
        }
        match maker_of(group) {
            Some(task) => {
                self.supply_files(task.needs, present, prepare);
                let work = self.work_and_preparation(task, prepare);
                prepare.push(work);
            }
            None => prepare.push(self.write_split_file_action()),
        }
    }

    /// Returns the work of a task, and adds the untimed work that prepares its destination.
    fn work_and_preparation(&self, task: &TaskDef, prepare: &mut Vec<Action>) -> Action {
        let op = (task.op)(self.place, &self.sizes);
        prepare.extend(prepare_destination_action(&op));
        program::make_action(&op, self.settings.driver)
    }

    /// Makes the action that writes the file that is split.
    fn write_split_file_action(&self) -> Action {
        let (path, bytes) = (self.place.root.join(SMALL_FILE), self.sizes.small_bytes);
        let (seed, compressible) = (self.job.seed, compressible_percent(self.job));
        Action::Call(Call::new([format!("write {bytes} bytes to {}", path.display())], move || {
            let mut contents = vec![0; bytes as usize];
            Payload::new(seed, compressible).fill(&mut contents);
            std::fs::write(&path, &contents).map_err(failed_to("write", &path))
        }))
    }
}

/// The workload's definition.
const DEF: WorkloadDef = WorkloadDef {
    id: "coreutils",
    help: "the 21 tasks of Piszcz (2004, 2006): touch, find, rm, mkdir, cp, tar, split, dd and cat",
    metrics: &["elapsed", "synced"],
    settings: &[
        DRIVER,
        TREE,
        TREE_FILES,
        COMPRESSIBLE,
        REFLINK,
        SettingDef::choice("cache", &["warm", "cold"], "warm")
            .help("warm leaves caches as the task before left them; cold drops them before every task that starts from existing files"),
        SettingDef::ints("tasks", 1..=21, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21])
            .help("numbers of the tasks to time; fsarena makes the files that they need from other tasks, untimed"),
    ],
};

/// The resolved settings of a job.
struct CoreutilsSettings {
    driver: Driver,
    drops_caches: bool,
    source: TreeSource,
    /// The chosen tasks in the order in which they run.
    tasks: Vec<&'static TaskDef>,
}

impl CoreutilsSettings {
    /// Reads the settings, which are complete and checked.
    fn resolve(job: &Job) -> CoreutilsSettings {
        let settings = &job.settings;
        let numbers = settings.ints("tasks");
        CoreutilsSettings {
            driver: Driver::from_settings(settings),
            drops_caches: settings.text("cache") == "cold",
            source: TreeSource::from_job(job),
            tasks: TASKS.iter().filter(|task| numbers.contains(&task.number)).collect(),
        }
    }

    /// The notes in every report. `bytes` is the largest size of all files at one time.
    fn remarks(&self, tree_size: &TreeSize, bytes: u64) -> Vec<Note> {
        let mut notes = Vec::from(self.driver.remarks());
        notes.push(self.source.note());
        if tree_size.special_files > 0 {
            let text = format!(
                "{} sockets, pipes and devices of the tree were left out of the archive",
                tree_size.special_files
            );
            notes.push(remark_note(text));
        }
        let (zero_tasks, other_tasks): (Vec<&TaskDef>, Vec<&TaskDef>) =
            self.tasks.iter().copied().partition(|task| task.needs == FileGroup::Big || task.makes == FileGroup::Big);
        if !zero_tasks.is_empty() {
            let text = "the large file comes from /dev/zero: a filesystem that compresses stores next to nothing of it";
            notes.push(remark_note(text).fix(fix_for_zeros(&zero_tasks, &other_tasks)));
        }
        notes.extend(page_cache_remark(self.drops_caches, bytes, rustix::system::sysinfo().totalram as u64));
        notes
    }
}

/// How to compare fairly although the large file consists of zeros: without compression, or without the tasks that use it.
fn fix_for_zeros(zero_tasks: &[&TaskDef], other_tasks: &[&TaskDef]) -> String {
    let fix = "compare with compression off";
    if other_tasks.is_empty() {
        return fix.into();
    }
    let names: Vec<&str> = zero_tasks.iter().map(|task| task.id).collect();
    let mut other_numbers: Vec<i64> = other_tasks.iter().map(|task| task.number).collect();
    other_numbers.sort_unstable();
    let other_numbers: Vec<String> = other_numbers.iter().map(i64::to_string).collect();
    let tasks = setting("set", &format!("tasks={}", other_numbers.join(",")));
    format!("{fix}, or leave out {}: {tasks}", names.join(", "))
}

/// Warns that tasks read from the page cache instead of the device, if all files fit into memory and the cache is warm.
fn page_cache_remark(drops_caches: bool, working_set: u64, ram: u64) -> Option<Note> {
    if drops_caches || working_set > ram {
        return None;
    }
    let text = format!(
        "all files ({} MiB at most) fit into memory ({} MiB): with cache=warm find, tar, cp and cat read from the page cache, not from the device",
        working_set >> 20,
        ram >> 20
    );
    Some(fairness_note(text).fix(format!(
        "{}, or {} where memory is small",
        setting("set", "cache=cold"),
        setting("scale", "paper")
    )))
}

/// Name of the archive that all cells share on the source disk, and of its copy on the filesystem under test.
const TARBALL: &str = "tree.tar";
/// Name of the large file, which has 1 GiB at scale paper.
const BIG_FILE: &str = "big";
/// Name of the file that is split.
const SMALL_FILE: &str = "small";

/// The counts and sizes at the scale of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes {
    /// Files that are touched.
    files: u64,
    /// Directories that are made.
    directories: u64,
    /// Files of the generated tree, or `None` for a real tree.
    tree_files: Option<u64>,
    /// Copies of the archive.
    copies: u64,
    /// Mebibytes of the large file.
    big_mebibytes: u64,
    /// Bytes of the file that is split.
    small_bytes: u64,
}

impl Sizes {
    /// The sizes at the scale of a job.
    fn from_job(job: &Job) -> Sizes {
        let scale = job.scale;
        Sizes {
            files: scale.count(10_000, 20),
            directories: scale.count(10_000, 20),
            tree_files: job.settings.text("tree").is_empty().then(|| generated_file_count(job)),
            copies: 10,
            big_mebibytes: scale.count(1024, 1),
            small_bytes: scale.count(10 << 20, 32 << 10),
        }
    }
}

/// Files that a task needs or makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FileGroup {
    /// No files that another task needs.
    Nothing,
    /// The archive on the source disk, which exists from the start.
    Input,
    /// The touched files.
    Files,
    /// The empty directories.
    Dirs,
    /// The archive on the filesystem under test.
    Tarball,
    /// The unpacked tree.
    Tree,
    /// The large file.
    Big,
    /// The file that is split. No task makes it; fsarena writes it untimed.
    Small,
}

/// One of the 21 tasks.
struct TaskDef {
    /// Its published number.
    number: i64,
    /// Its name.
    id: &'static str,
    /// The files it requires.
    needs: FileGroup,
    /// Whether the task removes the files that it requires.
    uses_up: bool,
    /// The files it makes.
    makes: FileGroup,
    /// Its title in reports; a word in braces stands for one of the [`Sizes`].
    title: &'static str,
    /// Its operation.
    op: fn(&Place, &Sizes) -> Op,
}

const fn task_def(
    number: i64,
    id: &'static str,
    needs: FileGroup,
    makes: FileGroup,
    title: &'static str,
    op: fn(&Place, &Sizes) -> Op,
) -> TaskDef {
    TaskDef { number, id, needs, uses_up: false, makes, title, op }
}

/// Marks a task that removes the files that it requires.
const fn using_up(task: TaskDef) -> TaskDef {
    TaskDef { uses_up: true, ..task }
}

/// All tasks in the order in which they run. The order is by number, except that the tree is copied (020) before it is
/// removed (011). The author ran 020 later and unpacked the tree a second time for it, untimed.
const TASKS: &[TaskDef] = &[
    task_def(1, "touch", Nothing, Files, "Touch {files} files", |place, sizes| {
        Op::Touch(place.root.join("files"), sizes.files)
    }),
    task_def(2, "find-files", Files, Nothing, "Find {files} files", |place, _| Op::Find(place.root.join("files"))),
    using_up(task_def(3, "rm-files", Files, Nothing, "Remove {files} files", |place, _| {
        Op::Remove(place.root.join("files"))
    })),
    task_def(4, "mkdir", Nothing, Dirs, "Make {directories} directories", |place, sizes| {
        Op::MakeDirectories(place.root.join("dirs"), sizes.directories)
    }),
    task_def(5, "find-dirs", Dirs, Nothing, "Find {directories} directories", |place, _| {
        Op::Find(place.root.join("dirs"))
    }),
    using_up(task_def(6, "rm-dirs", Dirs, Nothing, "Remove {directories} directories", |place, _| {
        Op::Remove(place.root.join("dirs"))
    })),
    task_def(7, "copy-in", Input, Tarball, "Copy tarball from other to current disk", |place, _| {
        Op::Copy(place.source_dir.join(TARBALL), place.root.join(TARBALL))
    }),
    task_def(8, "copy-out", Tarball, Nothing, "Copy tarball from current to other disk", |place, _| {
        Op::Copy(place.root.join(TARBALL), place.source_dir.join("tree-copied-out.tar"))
    }),
    task_def(9, "untar", Tarball, Tree, "Untar the tree{tree}", |place, _| {
        Op::Untar(place.root.join(TARBALL), place.root.clone())
    }),
    task_def(10, "tar", Tree, Nothing, "Tar the tree{tree}", |place, _| {
        Op::Tar(place.root.join("tree-again.tar"), place.root.clone(), TOP_DIR)
    }),
    task_def(20, "copy-tree", Tree, Nothing, "Copy the tree{tree}", |place, _| {
        Op::CopyTree(place.root.join(TOP_DIR), place.root.join("tree-copy"))
    }),
    using_up(task_def(11, "rm-tree", Tree, Nothing, "Remove the tree{tree}", |place, _| {
        Op::Remove(place.root.join(TOP_DIR))
    })),
    task_def(12, "copy-10", Tarball, Nothing, "Copy the tarball {copies} times", |place, sizes| {
        Op::CopyInto(place.root.join(TARBALL), place.root.join("copies"), sizes.copies)
    }),
    task_def(13, "create", Nothing, Big, "Create a {big} file", |place, sizes| {
        Op::WriteZeros(place.root.join(BIG_FILE), sizes.big_mebibytes)
    }),
    task_def(14, "copy-file", Big, Nothing, "Copy a {big} file", |place, _| {
        Op::Copy(place.root.join(BIG_FILE), place.root.join("big-copy"))
    }),
    split_task::<1000>(15, "split-1000", "Split a {small} file into 1000-byte pieces"),
    split_task::<1024>(16, "split-1024", "Split a {small} file into 1024-byte pieces"),
    split_task::<2048>(17, "split-2048", "Split a {small} file into 2048-byte pieces"),
    split_task::<4096>(18, "split-4096", "Split a {small} file into 4096-byte pieces"),
    split_task::<8192>(19, "split-8192", "Split a {small} file into 8192-byte pieces"),
    task_def(21, "cat", Big, Nothing, "Cat a {big} file to /dev/null", |place, _| Op::Cat(place.root.join(BIG_FILE))),
];

/// Splits the small file into pieces of `PIECE` bytes.
const fn split_task<const PIECE: u64>(number: i64, id: &'static str, title: &'static str) -> TaskDef {
    task_def(number, id, FileGroup::Small, Nothing, title, |place, _| {
        Op::Split(place.root.join(SMALL_FILE), PIECE, place.root.join(format!("split-{PIECE}")))
    })
}

impl TaskDef {
    /// Its title in reports.
    fn title(&self, sizes: &Sizes) -> String {
        let tree = sizes.tree_files.map_or(String::new(), |files| format!(" of {} files", format_count(files)));
        let words = [
            ("{files}", format_count(sizes.files)),
            ("{directories}", format_count(sizes.directories)),
            ("{tree}", tree),
            ("{copies}", sizes.copies.to_string()),
            ("{big}", format_bytes(sizes.big_mebibytes << 20)),
            ("{small}", format_bytes(sizes.small_bytes)),
        ];
        words.iter().fold(self.title.into(), |title, (word, size)| title.replace(word, size))
    }
}

/// The task that makes these files, or `None` if they exist from the start or no task makes them.
fn maker_of(group: FileGroup) -> Option<&'static TaskDef> {
    TASKS.iter().find(|task| task.makes == group && group != FileGroup::Nothing)
}

/// The given tasks, followed by the tasks that make the files that they need.
fn with_suppliers(tasks: &[&'static TaskDef]) -> Vec<&'static TaskDef> {
    let mut all = tasks.to_vec();
    let mut next = 0;
    while let Some(task) = all.get(next) {
        if let Some(maker) = maker_of(task.needs)
            && all.iter().all(|task| task.number != maker.number)
        {
            all.push(maker);
        }
        next += 1;
    }
    all
}

/// Formats a number with thousands separators, such as `10,000`.
fn format_count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", format_count(number / 1000), number % 1000),
    }
}

/// Formats a size in the largest unit without a fraction, such as `1 GiB` or `320 KiB`.
fn format_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{} B", format_count(bytes)),
    }
}

/// The space of files on a filesystem: bytes of whole blocks, and number of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SpaceUsage {
    bytes: u64,
    inodes: u64,
}

impl Add for SpaceUsage {
    type Output = SpaceUsage;
    fn add(self, other: SpaceUsage) -> SpaceUsage {
        SpaceUsage { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }
}

/// The largest space that the tasks take at one time, with the files that untimed work makes for them.
fn space_needed(tasks: &[&'static TaskDef], sizes: &Sizes, tree_size: &TreeSize) -> Room {
    let space = |task: &TaskDef| space_taken_by(task, sizes, tree_size);
    let mut present = BTreeSet::from([FileGroup::Nothing, FileGroup::Input]);
    // At first only the root directory exists.
    let mut usage = directory_usage(30);
    let mut peak = usage;
    for task in tasks {
        let mut missing = task.needs;
        while present.insert(missing) {
            let maker = maker_of(missing);
            // No task makes the file that is split.
            usage = usage + maker.map_or(file_usage(sizes.small_bytes), space);
            missing = maker.map_or(FileGroup::Nothing, |maker| maker.needs);
        }
        present.insert(task.makes);
        usage = usage + space(task);
        peak = SpaceUsage { bytes: peak.bytes.max(usage.bytes), inodes: peak.inodes.max(usage.inodes) };
        if task.uses_up {
            present.remove(&task.needs);
            let freed = maker_of(task.needs).map_or(SpaceUsage::default(), space);
            usage = SpaceUsage { bytes: usage.bytes - freed.bytes, inodes: usage.inodes - freed.inodes };
        }
    }
    // On the source disk are the archive, the copy of it that copy-out makes, and the note of the archive's source.
    Room {
        bytes: peak.bytes,
        inodes: peak.inodes,
        source_bytes: 2 * round_up_to_blocks(tree_size.archive_bytes) + 4096,
    }
}

/// The space of the files that a task leaves on the filesystem under test.
fn space_taken_by(task: &TaskDef, sizes: &Sizes, tree_size: &TreeSize) -> SpaceUsage {
    let archive = file_usage(tree_size.archive_bytes);
    let inodes = tree_size.files + tree_size.directories + tree_size.links;
    // The paths are placeholders; the space depends only on the kind of operation.
    let place = Place { root: "/root".into(), source_dir: "/other".into(), server_user: None };
    match (task.op)(&place, sizes) {
        Op::Touch(_, count) => directory_usage(count) + usage_times(file_usage(0), count),
        Op::MakeDirectories(_, count) => directory_usage(count) + usage_times(file_usage(4096), count),
        Op::Copy(_, to) if to.starts_with(&place.source_dir) => SpaceUsage::default(),
        Op::Copy(..) if task.needs == FileGroup::Big => file_usage(sizes.big_mebibytes << 20),
        Op::Copy(..) | Op::Tar(..) => archive,
        Op::CopyInto(_, _, count) => directory_usage(count) + usage_times(archive, count),
        Op::Untar(..) | Op::CopyTree(..) => SpaceUsage { bytes: tree_size.unpacked_bytes() + 64 * inodes, inodes },
        Op::WriteZeros(_, mebibytes) => file_usage(mebibytes << 20),
        Op::Split(_, piece, _) => {
            let count = sizes.small_bytes.div_ceil(piece);
            directory_usage(count) + usage_times(file_usage(piece), count)
        }
        Op::Find(_) | Op::Remove(_) | Op::Cat(_) => SpaceUsage::default(),
    }
}

/// Rounds a size up to blocks of 4 KiB.
fn round_up_to_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

/// The space of a file.
fn file_usage(bytes: u64) -> SpaceUsage {
    SpaceUsage { bytes: round_up_to_blocks(bytes), inodes: 1 }
}

/// The space of a directory with `entries` entries of at most 64 bytes each.
fn directory_usage(entries: u64) -> SpaceUsage {
    SpaceUsage { bytes: round_up_to_blocks(64 * entries.max(1)), inodes: 1 }
}

fn usage_times(usage: SpaceUsage, count: u64) -> SpaceUsage {
    SpaceUsage { bytes: usage.bytes * count, inodes: usage.inodes * count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::event::NoteKind;

    #[test]
    fn a_working_set_that_fits_into_memory_gets_a_remark_if_the_cache_is_warm() {
        let note = page_cache_remark(false, 300 << 20, 8 << 30).unwrap();
        assert_eq!(note.kind, NoteKind::Fairness);
        assert!(note.text.starts_with("all files (300 MiB at most) fit into memory (8192 MiB)"));
        assert_eq!(page_cache_remark(true, 300 << 20, 8 << 30), None);
        assert_eq!(page_cache_remark(false, 9 << 30, 8 << 30), None);
    }

    #[test]
    fn the_21_tasks_are_in_order_except_that_the_tree_is_copied_before_its_removal() {
        let mut numbers: Vec<_> = TASKS.iter().map(|task| task.number).collect();
        let copy = numbers.iter().position(|number| *number == 20).unwrap();
        assert_eq!(numbers[copy + 1], 11);
        numbers.remove(copy);
        assert_eq!(numbers, (1..=21).filter(|number| *number != 20).collect::<Vec<_>>());
    }

    #[test]
    fn the_suppliers_of_suppliers_are_included() {
        let rm_tree = TASKS.iter().find(|task| task.id == "rm-tree").unwrap();
        let ids: Vec<_> = with_suppliers(&[rm_tree]).iter().map(|task| task.id).collect();
        assert_eq!(ids, ["rm-tree", "untar", "copy-in"]);
    }

    #[test]
    fn counts_have_separators_and_sizes_the_largest_exact_unit() {
        assert_eq!([7, 313, 10_000, 1_000_000].map(format_count), ["7", "313", "10,000", "1,000,000"]);
        assert_eq!([1 << 30, 32 << 20, 327_680, 1000].map(format_bytes), ["1 GiB", "32 MiB", "320 KiB", "1,000 B"]);
    }

    const SIZES: Sizes =
        Sizes { files: 100, directories: 50, tree_files: Some(10), copies: 10, big_mebibytes: 1, small_bytes: 10_000 };

    const TREE_SIZE: TreeSize = TreeSize {
        files: 10,
        directories: 2,
        links: 0,
        special_files: 0,
        block_bytes: 100 << 10,
        archive_bytes: 102_400,
    };

    fn room_of(numbers: &[i64]) -> Room {
        let tasks: Vec<_> = TASKS.iter().filter(|task| numbers.contains(&task.number)).collect();
        space_needed(&tasks, &SIZES, &TREE_SIZE)
    }

    #[test]
    fn removed_files_free_their_space() {
        // Root, directory, 100 files: then root, directory, 50 directories.
        assert_eq!(room_of(&[1, 2, 3, 4, 5, 6]).inodes, 1 + 1 + 100);
        assert_eq!(room_of(&[1, 2, 3, 4, 5, 6]).bytes, 4096 + 4096 + 50 * 4096);
        assert_eq!(room_of(&[1, 4]).inodes, 1 + 101 + 51);
    }

    #[test]
    fn files_from_tasks_that_were_not_chosen_count() {
        // Root, archive, tree (100 KiB in blocks, two directories, 12 entries of 64 bytes).
        let tree = (100 << 10) + 2 * 4096 + 12 * 64;
        assert_eq!(room_of(&[11]).bytes, 4096 + 102_400 + tree);
        assert_eq!(room_of(&[11]).inodes, 1 + 1 + 12);
        assert_eq!(room_of(&[9, 11]), room_of(&[11]));
    }

    #[test]
    fn the_pieces_of_a_split_file_take_whole_blocks() {
        // 10 pieces of 1000 bytes: 10 blocks, their directory, the file of three blocks, the root.
        assert_eq!(room_of(&[15]).bytes, 4096 * (10 + 1 + 3 + 1));
        assert_eq!(room_of(&[15]).inodes, 10 + 1 + 1 + 1);
    }
}
