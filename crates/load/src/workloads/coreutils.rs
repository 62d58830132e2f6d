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
        let sizes = TaskSizes::from_job(job);
        CoreutilsSettings::resolve(job).tasks.iter().map(|task| task_info(task, &sizes)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = CoreutilsSettings::resolve(job);
        let (tree_size, demands) = settings.source.measure()?;
        let room = space_needed(&settings.tasks, &TaskSizes::from_job(job), &tree_size);
        let unpacks_tree = with_makers(&settings.tasks).iter().any(|task| task.makes == FileGroup::Tree);
        let demands = if unpacks_tree { demands } else { Demands::default() };
        Ok(Survey { room, demands, remarks: settings.remarks(&tree_size, room.bytes), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        let settings = CoreutilsSettings::resolve(job);
        if settings.driver.is_native {
            return vec![];
        }
        let (place, sizes) = (placeholder_place(), TaskSizes::from_job(job));
        let tasks = with_makers(&settings.tasks);
        let programs: BTreeSet<_> = tasks.iter().map(|task| (task.op)(&place, &sizes).program()).collect();
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
        let unfinished_path = archive.with_extension("unfinished");
        let file = settings.source.write_archive_file(&unfinished_path)?;
        file.sync_all().map_err(failed_to("write", &unfinished_path))?;
        std::fs::rename(&unfinished_path, archive).map_err(failed_to("rename", &unfinished_path))?;
        std::fs::write(&description_path, description).map_err(failed_to("write", &description_path))
    }

    fn inputs_depend_on_seed(&self, job: &Job) -> bool {
        TreeSource::from_job(job).is_generated()
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let settings = CoreutilsSettings::resolve(job);
        let builder = CoreutilsTaskBuilder { place, sizes: TaskSizes::from_job(job), settings: &settings, job };
        let archive = place.source_dir.join(TARBALL);
        let needs_archive = with_makers(&settings.tasks).iter().any(|task| task.needs == FileGroup::Input);
        if needs_archive && !archive.exists() {
            let reason =
                format!("the archive {} is missing; fsarena makes it at the start of a run", archive.display());
            return Err(TaskError::Unfit(reason));
        }
        let mut present_groups = initial_groups();
        Ok(settings.tasks.iter().map(|task| builder.build_task(task, &mut present_groups)).collect())
    }

    fn may_clone(&self, job: &Job) -> bool {
        CoreutilsSettings::resolve(job).driver.may_clone
    }
}

fn task_info(task: &TaskDef, sizes: &TaskSizes) -> TaskInfo {
    TaskInfo { number: Some(format!("{:03}", task.number)), ..task::info(task.id, task.title(sizes), []) }
}

/// Builds the tasks of a cell from their definitions.
struct CoreutilsTaskBuilder<'a> {
    place: &'a Place,
    sizes: TaskSizes,
    settings: &'a CoreutilsSettings,
    job: &'a Job,
}

impl CoreutilsTaskBuilder<'_> {
    /// Builds a task. `present_groups` are the files that exist before it, and on return those that exist after it.
    fn build_task(&self, task: &TaskDef, present_groups: &mut BTreeSet<FileGroup>) -> Task {
        let mut preparation = Vec::new();
        for maker in missing_makers(task.needs, present_groups) {
            let work = match maker {
                Some(maker) => self.make_action(maker, &mut preparation),
                None => self.write_split_file_action(),
            };
            preparation.push(work);
        }
        let work = self.make_action(task, &mut preparation);
        if task.removes_files(&self.sizes) {
            present_groups.remove(&task.needs);
        }
        present_groups.insert(task.makes);
        let starts_cold = self.settings.drops_caches && task.needs != FileGroup::Nothing;
        let start_state = if starts_cold { StartState::ColdCache } else { StartState::Warm };
        Task { start_state, preparation, ..Task::new(task_info(task, &self.sizes), work) }
    }

    /// Makes the action of a task, and adds the untimed work that prepares its destination to `preparation`.
    fn make_action(&self, task: &TaskDef, preparation: &mut Vec<Action>) -> Action {
        let op = (task.op)(self.place, &self.sizes);
        preparation.extend(prepare_destination_action(&op));
        program::make_action(&op, self.settings.driver)
    }

    /// Makes the action that writes the file that is split.
    fn write_split_file_action(&self) -> Action {
        let (path, bytes) = (self.place.root.join(SMALL_FILE), self.sizes.small_bytes);
        let (seed, compressible_percent) = (self.job.seed, compressible_percent(self.job));
        Action::Call(Call::new([format!("write {bytes} bytes to {}", path.display())], move || {
            let mut contents = vec![0; bytes as usize];
            Payload::new(seed, compressible_percent).fill(&mut contents);
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
        notes.extend(self.source.notes(tree_size));
        let (zero_tasks, other_tasks): (Vec<&TaskDef>, Vec<&TaskDef>) =
            self.tasks.iter().copied().partition(|task| task.needs == FileGroup::Big || task.makes == FileGroup::Big);
        if !zero_tasks.is_empty() {
            let text = "the large file comes from /dev/zero: a filesystem that compresses stores next to nothing of it";
            notes.push(remark_note(text).fix(suggest_fix_for_zeros(&zero_tasks, &other_tasks)));
        }
        notes.extend(page_cache_remark(self.drops_caches, bytes, rustix::system::sysinfo().totalram as u64));
        notes
    }
}

/// Suggests how to compare fairly although the large file consists of zeros: without compression, or without its tasks.
fn suggest_fix_for_zeros(zero_tasks: &[&TaskDef], other_tasks: &[&TaskDef]) -> String {
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
fn page_cache_remark(drops_caches: bool, file_bytes: u64, memory_bytes: u64) -> Option<Note> {
    if drops_caches || file_bytes > memory_bytes {
        return None;
    }
    let text = format!(
        "all files ({} MiB at most) fit into memory ({} MiB): with cache=warm find, tar, cp and cat read from the page cache, not from the device",
        file_bytes >> 20,
        memory_bytes >> 20
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

/// The counts and sizes of files at the scale of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TaskSizes {
    /// Files that are touched.
    files: u64,
    /// Directories that are made.
    directories: u64,
    /// Files of the generated tree, or `None` for a real tree.
    tree_files: Option<u64>,
    /// Mebibytes of the large file.
    big_mebibytes: u64,
    /// Bytes of the file that is split.
    small_bytes: u64,
}

impl TaskSizes {
    /// The sizes at the scale of a job.
    fn from_job(job: &Job) -> TaskSizes {
        let scale = job.scale;
        TaskSizes {
            files: scale.scaled_count(10_000, 20),
            directories: scale.scaled_count(10_000, 20),
            tree_files: job.settings.text("tree").is_empty().then(|| generated_file_count(job)),
            big_mebibytes: scale.scaled_count(1024, 1),
            small_bytes: scale.scaled_count(10 << 20, 32 << 10),
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

/// The definition of one of the 21 tasks.
struct TaskDef {
    /// Its number in the publications.
    number: i64,
    /// Its name.
    id: &'static str,
    /// The files it requires.
    needs: FileGroup,
    /// The files it makes.
    makes: FileGroup,
    /// Its title in reports; a word in braces stands for one of the [`TaskSizes`].
    title: &'static str,
    /// Its operation.
    op: fn(&Place, &TaskSizes) -> Op,
}

const fn task_def(
    number: i64,
    id: &'static str,
    needs: FileGroup,
    makes: FileGroup,
    title: &'static str,
    op: fn(&Place, &TaskSizes) -> Op,
) -> TaskDef {
    TaskDef { number, id, needs, makes, title, op }
}

/// All tasks in the order in which they run. The order is by number, except that the tree is copied (020) before it is
/// removed (011). The author ran 020 later and unpacked the tree a second time for it, untimed.
const TASKS: &[TaskDef] = &[
    task_def(1, "touch", Nothing, Files, "Touch {files} files", |place, sizes| {
        Op::Touch(place.root.join("files"), sizes.files)
    }),
    task_def(2, "find-files", Files, Nothing, "Find {files} files", |place, _| Op::Find(place.root.join("files"))),
    task_def(3, "rm-files", Files, Nothing, "Remove {files} files", |place, _| Op::Remove(place.root.join("files"))),
    task_def(4, "mkdir", Nothing, Dirs, "Make {directories} directories", |place, sizes| {
        Op::MakeDirectories(place.root.join("dirs"), sizes.directories)
    }),
    task_def(5, "find-dirs", Dirs, Nothing, "Find {directories} directories", |place, _| {
        Op::Find(place.root.join("dirs"))
    }),
    task_def(6, "rm-dirs", Dirs, Nothing, "Remove {directories} directories", |place, _| {
        Op::Remove(place.root.join("dirs"))
    }),
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
    task_def(11, "rm-tree", Tree, Nothing, "Remove the tree{tree}", |place, _| Op::Remove(place.root.join(TOP_DIR))),
    task_def(12, "copy-10", Tarball, Nothing, "Copy the tarball 10 times", |place, _| {
        Op::CopyInto(place.root.join(TARBALL), place.root.join("copies"), 10)
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

/// Defines a task that splits the small file into pieces of `PIECE_BYTES` bytes.
const fn split_task<const PIECE_BYTES: u64>(number: i64, id: &'static str, title: &'static str) -> TaskDef {
    task_def(number, id, FileGroup::Small, Nothing, title, |place, _| {
        Op::Split(place.root.join(SMALL_FILE), PIECE_BYTES, place.root.join(format!("split-{PIECE_BYTES}")))
    })
}

impl TaskDef {
    /// Whether the task removes the files that it requires.
    fn removes_files(&self, sizes: &TaskSizes) -> bool {
        matches!((self.op)(&placeholder_place(), sizes), Op::Remove(_))
    }

    /// Its title in reports.
    fn title(&self, sizes: &TaskSizes) -> String {
        let tree = sizes.tree_files.map_or(String::new(), |files| format!(" of {} files", format_count(files)));
        let words = [
            ("{files}", format_count(sizes.files)),
            ("{directories}", format_count(sizes.directories)),
            ("{tree}", tree),
            ("{big}", format_bytes(sizes.big_mebibytes << 20)),
            ("{small}", format_bytes(sizes.small_bytes)),
        ];
        words.iter().fold(self.title.into(), |title, (word, size)| title.replace(word, size))
    }
}

/// The task that makes these files, or `None` if they exist from the start or no task makes them.
fn find_maker(group: FileGroup) -> Option<&'static TaskDef> {
    TASKS.iter().find(|task| task.makes == group && group != FileGroup::Nothing)
}

/// The tasks that make the missing files of a group, in the order in which they run. `None` stands for untimed work that
/// writes the file that is split, because no task makes it. Afterwards the files are present.
fn missing_makers(group: FileGroup, present_groups: &mut BTreeSet<FileGroup>) -> Vec<Option<&'static TaskDef>> {
    let (mut makers, mut missing_group) = (vec![], group);
    while present_groups.insert(missing_group) {
        let maker = find_maker(missing_group);
        makers.push(maker);
        missing_group = maker.map_or(FileGroup::Nothing, |maker| maker.needs);
    }
    makers.reverse();
    makers
}

/// The groups of files that exist before the first task.
fn initial_groups() -> BTreeSet<FileGroup> {
    BTreeSet::from([FileGroup::Nothing, FileGroup::Input])
}

/// The tasks, followed by the tasks that make the files that they need, directly or indirectly.
fn with_makers(tasks: &[&'static TaskDef]) -> Vec<&'static TaskDef> {
    let mut present_groups = initial_groups();
    let makers = tasks.iter().flat_map(|task| missing_makers(task.needs, &mut present_groups)).flatten();
    tasks.iter().copied().chain(makers).collect()
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
fn space_needed(tasks: &[&'static TaskDef], sizes: &TaskSizes, tree_size: &TreeSize) -> Room {
    let usage_of = |task: &TaskDef| usage_of_task(task, sizes, tree_size);
    let mut present_groups = initial_groups();
    // At first only the root directory exists, which takes a block.
    let mut usage = file_usage(4096);
    let mut peak = usage;
    for task in tasks {
        for maker in missing_makers(task.needs, &mut present_groups) {
            usage = usage + maker.map_or(file_usage(sizes.small_bytes), usage_of);
        }
        present_groups.insert(task.makes);
        usage = usage + usage_of(task);
        peak = SpaceUsage { bytes: peak.bytes.max(usage.bytes), inodes: peak.inodes.max(usage.inodes) };
        if task.removes_files(sizes) {
            present_groups.remove(&task.needs);
            let freed = find_maker(task.needs).map_or(SpaceUsage::default(), usage_of);
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
fn usage_of_task(task: &TaskDef, sizes: &TaskSizes, tree_size: &TreeSize) -> SpaceUsage {
    let (place, inodes) = (placeholder_place(), tree_size.inode_count());
    match (task.op)(&place, sizes) {
        Op::Touch(_, count) => directory_usage(count, 0),
        Op::MakeDirectories(_, count) => directory_usage(count, 4096),
        Op::Copy(_, to) if to.starts_with(&place.source_dir) => SpaceUsage::default(),
        Op::Copy(..) if task.needs == FileGroup::Big => file_usage(sizes.big_mebibytes << 20),
        Op::Copy(..) | Op::Tar(..) => file_usage(tree_size.archive_bytes),
        Op::CopyInto(_, _, count) => directory_usage(count, tree_size.archive_bytes),
        Op::Untar(..) | Op::CopyTree(..) => SpaceUsage { bytes: tree_size.unpacked_bytes() + 64 * inodes, inodes },
        Op::WriteZeros(_, mebibytes) => file_usage(mebibytes << 20),
        Op::Split(_, piece_bytes, _) => directory_usage(sizes.small_bytes.div_ceil(piece_bytes), piece_bytes),
        Op::Find(_) | Op::Remove(_) | Op::Cat(_) => SpaceUsage::default(),
    }
}

/// A place for operations that are only inspected, not performed.
fn placeholder_place() -> Place {
    Place { root: "/root".into(), source_dir: "/other".into(), server_user: None }
}

/// Rounds a size up to blocks of 4 KiB.
fn round_up_to_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

/// The space of a file.
fn file_usage(bytes: u64) -> SpaceUsage {
    SpaceUsage { bytes: round_up_to_blocks(bytes), inodes: 1 }
}

/// The space of a directory with `count` files or directories of `bytes_each` bytes. Its own entries have at most 64 bytes.
fn directory_usage(count: u64, bytes_each: u64) -> SpaceUsage {
    let own_bytes = round_up_to_blocks(64 * count.max(1));
    SpaceUsage { bytes: own_bytes + count * round_up_to_blocks(bytes_each), inodes: 1 + count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::event::NoteKind;

    #[test]
    fn files_that_fit_into_memory_get_a_remark_if_the_cache_is_warm() {
        let note = page_cache_remark(false, 300 << 20, 8 << 30).unwrap();
        assert_eq!(note.kind, NoteKind::Fairness);
        assert!(note.text.starts_with("all files (300 MiB at most) fit into memory (8192 MiB)"));
        assert_eq!(page_cache_remark(true, 300 << 20, 8 << 30), None);
        assert_eq!(page_cache_remark(false, 9 << 30, 8 << 30), None);
    }

    #[test]
    fn the_21_tasks_are_in_order_except_that_the_tree_is_copied_before_its_removal() {
        let mut numbers: Vec<_> = TASKS.iter().map(|task| task.number).collect();
        let copy_index = numbers.iter().position(|number| *number == 20).unwrap();
        assert_eq!(numbers[copy_index + 1], 11);
        numbers.remove(copy_index);
        assert_eq!(numbers, (1..=21).filter(|number| *number != 20).collect::<Vec<_>>());
    }

    #[test]
    fn the_makers_of_the_files_of_makers_are_included() {
        let rm_tree = TASKS.iter().find(|task| task.id == "rm-tree").unwrap();
        let ids: Vec<_> = with_makers(&[rm_tree]).iter().map(|task| task.id).collect();
        assert_eq!(ids, ["rm-tree", "copy-in", "untar"]);
    }

    #[test]
    fn counts_have_separators_and_sizes_the_largest_exact_unit() {
        assert_eq!([7, 313, 10_000, 1_000_000].map(format_count), ["7", "313", "10,000", "1,000,000"]);
        assert_eq!([1 << 30, 32 << 20, 327_680, 1000].map(format_bytes), ["1 GiB", "32 MiB", "320 KiB", "1,000 B"]);
    }

    const SIZES: TaskSizes =
        TaskSizes { files: 100, directories: 50, tree_files: Some(10), big_mebibytes: 1, small_bytes: 10_000 };

    const TREE_SIZE: TreeSize = TreeSize {
        files: 10,
        directories: 2,
        symlinks: 0,
        special_files: 0,
        bytes_in_blocks: 100 << 10,
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
