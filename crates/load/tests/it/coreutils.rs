//! Tests of the workload `coreutils`: all 21 tasks by both drivers, in temporary directories.

use fsarena_core::scale::Scale;
use fsarena_core::setting::{SettingValue, Settings};
use fsarena_load::task::{StartState, Task};
use fsarena_load::workload::{Job, Place, Workload};
use std::{collections::BTreeMap, os::unix::fs::MetadataExt, path::Path};

fn workload() -> &'static dyn Workload {
    fsarena_load::workloads::find_workload("coreutils").unwrap()
}

/// A job of the smallest scale with these settings; the others have their defaults.
fn job(settings: &[(&str, SettingValue)]) -> Job {
    let mut all_settings = Settings::defaults(workload().def().settings);
    for (id, value) in settings {
        all_settings.0.insert(id.to_string(), value.clone()).expect("the setting exists");
    }
    Job { settings: all_settings, scale: Scale::Tiny, seed: 42 }
}

fn text(value: &str) -> SettingValue {
    SettingValue::Text(value.into())
}

fn numbers(values: &[i64]) -> SettingValue {
    SettingValue::List(values.iter().copied().map(SettingValue::Int).collect())
}

/// Two empty directories instead of two disks.
struct Disks {
    place: Place,
    _dir: tempfile::TempDir,
}

fn make_disks() -> Disks {
    let dir = tempfile::tempdir().unwrap();
    let place =
        Place { root: dir.path().join("under test"), source_dir: dir.path().join("other\ndisk"), server_user: None };
    std::fs::create_dir(&place.root).unwrap();
    std::fs::create_dir(&place.source_dir).unwrap();
    Disks { place, _dir: dir }
}

/// Makes the inputs and the tasks of a job.
fn start(job: &Job) -> (Disks, Vec<Task>) {
    let disks = make_disks();
    workload().make_inputs(job, &disks.place).unwrap();
    let tasks = workload().tasks(job, &disks.place).unwrap();
    (disks, tasks)
}

/// Performs a task. Returns the logged commands of its timed work, each with the number of times that it ran.
fn perform(task: Task) -> Vec<(Vec<String>, u64)> {
    let mut commands = Vec::new();
    for action in task.preparation {
        action.perform(&mut |_| {}).unwrap_or_else(|error| panic!("{}: {error}", task.info.id));
    }
    for action in task.work {
        action
            .perform(&mut |command| commands.push((command.argv, command.times)))
            .unwrap_or_else(|error| panic!("{}: {error}", task.info.id));
    }
    commands
}

/// The properties of a file that must not depend on the driver. `mtime` is `None` unless the task restores it.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    mode: u32,
    owner: (u32, u32),
    contents: Vec<u8>,
    mtime: Option<i64>,
}

/// The states of all files below a directory, by path.
fn read_tree(root: &Path) -> BTreeMap<String, FileState> {
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new(root).min_depth(1) {
        let entry = entry.unwrap();
        let metadata = entry.path().symlink_metadata().unwrap();
        let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_string();
        let contents = match name.as_str() {
            // The two archives write owners differently, so compare their entries.
            "tree-again.tar" => list_archive(entry.path()).into_bytes(),
            _ if metadata.is_file() => std::fs::read(entry.path()).unwrap(),
            _ if metadata.is_symlink() => {
                std::fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => vec![],
        };
        // Only untar restores times. Other files have the time of the test.
        let has_restored_time = name == "tree" || name.starts_with("tree/");
        let owner = (metadata.uid(), metadata.gid());
        let mtime = has_restored_time.then(|| metadata.mtime());
        files.insert(name, FileState { mode: metadata.mode(), owner, contents, mtime });
    }
    files
}

/// Lists the entries of an archive, sorted: path, type, mode, owner, time, link target and hash.
fn list_archive(archive: &Path) -> String {
    let bytes = std::fs::read(archive).unwrap();
    assert_eq!(bytes.len() % 10_240, 0, "records are whole");
    let mut lines = Vec::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut contents = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut contents).unwrap();
        let header = entry.header();
        lines.push(format!(
            "{} {:?} {:o} {:?} {} {:?} {}",
            String::from_utf8_lossy(&entry.path_bytes()),
            header.entry_type(),
            header.mode().unwrap(),
            (header.uid().unwrap(), header.gid().unwrap()),
            header.mtime().unwrap(),
            entry.link_name_bytes(),
            blake3::hash(&contents)
        ));
    }
    lines.sort();
    lines.join("\n")
}

/// Checks that both drivers leave the same files after every task.
fn check_drivers_agree(settings: &[(&str, SettingValue)]) {
    let start_with_driver = |driver: &str| {
        let mut settings = settings.to_vec();
        settings.push(("driver", text(driver)));
        start(&job(&settings))
    };
    let (command_disks, command_tasks) = start_with_driver("commands");
    let (native_disks, native_tasks) = start_with_driver("native");
    let mut changing_tasks = 0;
    let mut files_before = BTreeMap::new();
    for (command_task, native_task) in command_tasks.into_iter().zip(native_tasks) {
        let id = command_task.info.id.clone();
        assert_eq!(command_task.info, native_task.info);
        let programs_of =
            |task| perform(task).into_iter().map(|(argv, times)| (argv[0].clone(), times)).collect::<Vec<_>>();
        assert_eq!(programs_of(command_task), programs_of(native_task), "{id} is logged alike");
        let files = read_tree(&command_disks.place.root);
        let native_files = read_tree(&native_disks.place.root);
        assert!(files.keys().eq(native_files.keys()), "{id} leaves the same names");
        for (name, state) in &files {
            assert!(*state == native_files[name], "after {id}, {name} differs");
        }
        changing_tasks += u32::from(files != files_before);
        files_before = files;
    }
    assert_eq!(changing_tasks, 17, "all but three reading tasks and copy-out change something");
    let copied_out = "tree-copied-out.tar";
    assert_eq!(
        std::fs::read(command_disks.place.source_dir.join(copied_out)).unwrap(),
        std::fs::read(native_disks.place.source_dir.join(copied_out)).unwrap()
    );
}

#[test]
fn both_drivers_do_the_same_to_the_generated_tree() {
    check_drivers_agree(&[]);
}

#[test]
fn both_drivers_do_the_same_if_copies_may_be_clones() {
    check_drivers_agree(&[("reflink", text("auto"))]);
}

#[test]
fn both_drivers_do_the_same_to_a_real_tree() {
    let dir = tempfile::tempdir().unwrap();
    let deep_dir = dir.path().join("a".repeat(60)).join("b".repeat(60));
    std::fs::create_dir_all(&deep_dir).unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::write(deep_dir.join("a name\nof two lines"), "x".repeat(30_000)).unwrap();
    std::fs::write(dir.path().join("nothing"), "").unwrap();
    std::os::unix::fs::symlink("nothing", dir.path().join("link")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o750);
    std::fs::set_permissions(dir.path().join("nothing"), mode).unwrap();
    check_drivers_agree(&[("tree", text(dir.path().to_str().unwrap()))]);
}

#[test]
fn tasks_match_the_outline_and_leave_the_files_of_their_titles() {
    let job = job(&[]);
    let (disks, tasks) = start(&job);
    assert_eq!(tasks.iter().map(|task| task.info.clone()).collect::<Vec<_>>(), workload().outline(&job));
    assert_eq!(tasks.len(), 21);
    assert!(tasks.iter().all(|task| task.info.in_totals && task.start_state == StartState::Warm));
    assert_eq!(tasks[0].info.title, "Touch 20 files");
    let entries = |name: &str| std::fs::read_dir(disks.place.root.join(name)).map_or(0, |dir| dir.count());
    for task in tasks {
        let id = task.info.id.name.clone();
        perform(task);
        match id.as_str() {
            "touch" => assert_eq!(entries("files"), 20),
            "rm-files" => assert_eq!(entries("files"), 0),
            "mkdir" => assert_eq!(entries("dirs"), 20),
            "rm-tree" => assert!(!disks.place.root.join("tree").exists()),
            "copy-10" => assert_eq!(entries("copies"), 10),
            "create" => assert_eq!(disks.place.root.join("big").metadata().unwrap().len(), 3 << 20),
            "split-1000" => assert_eq!(entries("split-1000"), 33),
            "split-8192" => assert_eq!(entries("split-8192"), 4),
            _ => {}
        }
    }
}

#[test]
fn the_surveyed_room_matches_the_space_that_the_tasks_take() {
    let job = job(&[]);
    let room = workload().survey(&job).unwrap().room;
    let (disks, tasks) = start(&job);
    let (mut peak_bytes, mut peak_inodes) = (0, 0);
    for task in tasks {
        perform(task);
        let (mut bytes, mut inodes) = (0, 0);
        for entry in walkdir::WalkDir::new(&disks.place.root) {
            let metadata = entry.unwrap().path().symlink_metadata().unwrap();
            bytes += metadata.len().next_multiple_of(4096);
            inodes += 1;
        }
        (peak_bytes, peak_inodes) = (bytes.max(peak_bytes), inodes.max(peak_inodes));
    }
    assert_eq!(room.inodes, peak_inodes);
    let allowed_bytes = peak_bytes..peak_bytes + peak_bytes / 20;
    assert!(allowed_bytes.contains(&room.bytes), "{} surveyed, {peak_bytes} needed", room.bytes);
    let block_bytes =
        |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().metadata().unwrap().len().next_multiple_of(4096);
    let source_bytes: u64 = std::fs::read_dir(&disks.place.source_dir).unwrap().map(block_bytes).sum();
    assert_eq!(room.source_bytes, source_bytes);
}

#[test]
fn untimed_work_makes_the_files_that_a_chosen_task_needs() {
    for driver in ["commands", "native"] {
        for number in 1..=21 {
            let (_disks, tasks) = start(&job(&[("driver", text(driver)), ("tasks", numbers(&[number]))]));
            assert_eq!(tasks.len(), 1);
            assert_eq!(tasks[0].info.number, Some(format!("{number:03}")));
            for task in tasks {
                perform(task);
            }
        }
    }
}

#[test]
fn tasks_that_read_existing_files_start_from_a_cold_cache() {
    let (_disks, tasks) = start(&job(&[("cache", text("cold"))]));
    let warm_tasks: Vec<_> =
        tasks.iter().filter(|task| task.start_state == StartState::Warm).map(|task| &task.info.id.name).collect();
    assert_eq!(warm_tasks, ["touch", "mkdir", "create"]);
}

#[test]
fn the_archive_is_made_once_and_again_for_another_tree() {
    let disks = make_disks();
    let archive = disks.place.source_dir.join("tree.tar");
    let make_and_identify = |job: &Job| {
        workload().make_inputs(job, &disks.place).unwrap();
        (archive.metadata().unwrap().ino(), blake3::hash(&std::fs::read(&archive).unwrap()))
    };
    let first = make_and_identify(&job(&[]));
    assert_eq!(make_and_identify(&job(&[])), first, "it is kept");
    let other_seed = make_and_identify(&Job { seed: 43, ..job(&[]) });
    assert_ne!(other_seed.1, first.1, "another seed is another tree");
    // The description of an archive is removed before its archive is replaced.
    let nowhere = job(&[("tree", text("/nowhere"))]);
    assert!(workload().make_inputs(&nowhere, &disks.place).is_err());
    assert!(!disks.place.source_dir.join("tree.tar.made-of").exists());
    // A run that was killed while it wrote leaves no complete archive.
    std::fs::write(&archive, "half").unwrap();
    assert_eq!(make_and_identify(&job(&[])).1, first.1, "an unfinished one is made anew");
}

#[test]
fn a_missing_archive_is_an_error_with_its_path() {
    let disks = make_disks();
    let Err(error) = workload().tasks(&job(&[]), &disks.place) else { panic!("tasks() must fail without its input") };
    assert!(error.to_string().contains("tree.tar is missing"), "{error}");
}

#[test]
fn the_error_of_a_failed_task_has_the_file_and_the_message_of_the_system() {
    for (driver, expected) in [("commands", "File exists"), ("native", "mkdir ")] {
        let (disks, tasks) = start(&job(&[("driver", text(driver)), ("tasks", numbers(&[4]))]));
        let task = tasks.into_iter().next().unwrap();
        for action in task.preparation {
            action.perform(&mut |_| {}).unwrap();
        }
        std::fs::create_dir(disks.place.root.join("dirs/d00003")).unwrap();
        let error = task.work.into_iter().next().unwrap().perform(&mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("d00003") && error.contains("File exists"), "{error}");
    }
}

/// A tmpfs of 64 KiB. Dropping it unmounts it.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> SmallDisk {
        let dir = tempfile::tempdir().unwrap();
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "none"])
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(status.success());
        SmallDisk(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn the_error_of_a_full_disk_has_the_file() {
    if !rustix::process::geteuid().is_root() {
        fsarena_sys::testkit::record_skip("root");
        return;
    }
    for driver in ["commands", "native"] {
        let small_disk = SmallDisk::mount();
        let mut disks = make_disks();
        disks.place.root = small_disk.0.path().into();
        let job = job(&[("driver", text(driver)), ("tasks", numbers(&[7]))]);
        workload().make_inputs(&job, &disks.place).unwrap();
        let task = workload().tasks(&job, &disks.place).unwrap().remove(0);
        let error = task.work.into_iter().next().unwrap().perform(&mut |_| {}).unwrap_err();
        let error_text = error.to_string();
        assert!(error_text.contains("tree.tar") && error_text.contains("No space left on device"), "{error_text}");
    }
}

#[test]
fn the_required_programs_are_those_of_the_chosen_tasks() {
    let programs = |settings: &[(&str, SettingValue)]| workload().programs(&job(settings));
    assert_eq!(programs(&[]), ["cat", "cp", "dd", "find", "mkdir", "rm", "split", "tar", "touch"]);
    assert_eq!(programs(&[("tasks", numbers(&[11]))]), ["cp", "rm", "tar"]);
    assert!(programs(&[("driver", text("native"))]).is_empty());
}

#[test]
fn sockets_that_are_left_out_of_a_real_tree_get_a_remark() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let notes = workload().survey(&job(&[("tree", text(dir.path().to_str().unwrap()))])).unwrap().remarks;
    assert!(notes.iter().any(|note| note.text.starts_with("1 sockets, pipes and devices")), "{notes:?}");
}
