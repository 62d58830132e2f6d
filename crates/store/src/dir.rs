//! The directory of a run: creating it, finding it, and the files with the output of the user's commands.

use crate::{Error, Result, command_log, insert::intern_variant, schema, views};
use bytesize::ByteSize;
use fsarena_core::{cell::Cell, event::CommandRecord, matrix, names::unknown_name, plan::Plan};
use fsarena_sys::{input, none_if_missing};
use jiff::Timestamp;
use rusqlite::params;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{io::Write, time::SystemTime};

/// The characters of the random part of an id, without 0/o and 1/l, which are easily confused.
const SUFFIX_CHARACTERS: &[u8] = b"23456789abcdefghijkmnpqrstuvwxyz";
/// The largest plan that fsarena stores or reads, in bytes. A plan with the largest number of variants takes about 2 MB.
/// Parsing a damaged plan takes up to eighty times its size in memory.
const MAX_PLAN_BYTES: u64 = 4 << 20;
/// How often another id is tried if one is taken. The suffix of a merged run is always the same.
const MAX_FURTHER_TRIES: u32 = 100;
/// The largest number of runs that an error message names.
const MAX_NAMED_RUNS: usize = 8;

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Creates the directory of a new run in `runs_root`, with its plan and an empty database.
    ///
    /// The id of the run consists of the time in UTC, the plan's name and four random characters, so that ids sort by time and
    /// runs of several hosts can be in one directory.
    ///
    /// # Errors
    /// The files cannot be written, or the plan cannot be written as TOML.
    pub fn create(runs_root: &Path, plan: &Plan, version: &str) -> Result<RunDir> {
        RunDir::create_with_suffix(runs_root, plan, version, random_suffix)
    }

    /// Does the work of [`RunDir::create`]; the id ends with the result of `suffix`, which is called again a few times if that
    /// id is taken.
    pub(crate) fn create_with_suffix(
        runs_root: &Path,
        plan: &Plan,
        version: &str,
        suffix: impl Fn() -> String,
    ) -> Result<RunDir> {
        let now = Timestamp::now();
        let mut further_tries = MAX_FURTHER_TRIES;
        let (id, path) = loop {
            let id = format!("{}-{}-{}", now.strftime("%Y%m%d-%H%M%S"), slug(&plan.name), suffix());
            let path = runs_root.join(&id);
            fs::create_dir_all(runs_root).map_err(Error::io("creating", runs_root))?;
            match fs::create_dir(&path) {
                Ok(()) => break (id, path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && further_tries > 0 => {
                    further_tries -= 1;
                }
                Err(error) => return Err(Error::io("creating", &path)(error)),
            }
        };
        let dir = RunDir { path };
        let result = dir.write_plan_and_database(&id, plan, version, now);
        if result.is_err() {
            // Remove the incomplete run. Errors are ignored, because the first error matters more. A
            // directory with any other file in it stays.
            for file in [dir.plan_file(), dir.database_file(), dir.path.join("run.db-journal")] {
                let _ = fs::remove_file(file);
            }
            let _ = fs::remove_dir(&dir.path);
        }
        result.map(|()| dir)
    }

    fn write_plan_and_database(&self, id: &str, plan: &Plan, version: &str, now: Timestamp) -> Result<()> {
        let file = self.plan_file();
        let text = toml::to_string(plan)
            .map_err(|error| Error::invalid_data(&file, format!("the plan cannot be written as TOML: {error}")))?;
        if text.len() as u64 > MAX_PLAN_BYTES {
            let (size, limit) = (ByteSize(text.len() as u64), ByteSize(MAX_PLAN_BYTES));
            let reason = format!("the resolved plan has {size}, and the limit is {limit}; compare fewer variants");
            return Err(Error::invalid_data(&file, reason));
        }
        // Refuse a plan that could not be read back. That would be a fault in the code that made it.
        Plan::of_stored(&text)
            .map_err(|reason| Error::invalid_data(&file, format!("the plan cannot be stored: {reason}")))?;
        write_new_file(&file, text.as_bytes()).map_err(Error::io("writing", &file))?;
        let path = self.database_file();
        let mut db = schema::create_database(&path)?;
        let mut insert = || -> rusqlite::Result<()> {
            let transaction = db.transaction()?;
            transaction.execute(
                "INSERT INTO run(id, version, study, started) VALUES(?1, ?2, ?3, ?4)",
                params![id, version, plan.name, format!("{now:.3}")],
            )?;
            for variant in matrix::expand(plan) {
                intern_variant(&transaction, &variant)?;
            }
            transaction.execute_batch(&views::views_sql(plan))?;
            transaction.commit()
        };
        insert().map_err(Error::while_writing(&path))?;
        // The run's directory, the directory of runs, and its parent: fsarena may have made each of them.
        self.path.ancestors().take(3).for_each(sync_directory);
        Ok(())
    }

    /// Opens the run in a directory.
    ///
    /// # Errors
    /// The directory has no `run.db`.
    pub fn open(path: &Path) -> Result<RunDir> {
        let dir = RunDir { path: path.into() };
        match fs::metadata(dir.database_file()) {
            Ok(meta) if meta.is_file() => Ok(dir),
            _ => Err(Error::damaged(path, "not a run: it does not contain run.db")),
        }
    }

    /// Finds a run by its id, by the beginning of its id if only one run matches, by the path of its directory, or as
    /// `latest`.
    ///
    /// # Errors
    /// No run or several runs match; the message names some runs.
    ///
    /// # Examples
    /// ```no_run
    /// use fsarena_store::RunDir;
    /// use std::path::Path;
    ///
    /// let run = RunDir::find(Path::new("runs"), "latest")?;
    /// let record = fsarena_store::read(&run)?;
    /// println!("{}: {} samples of {} variants", run.id(), record.samples.len(), record.variants.len());
    /// # Ok::<(), fsarena_store::Error>(())
    /// ```
    pub fn find(runs_root: &Path, name: &str) -> Result<RunDir> {
        let dirs = RunDir::find_all(runs_root)?;
        if name == "latest" {
            return dirs.into_iter().next().ok_or_else(|| unknown_run_error(runs_root, name, &[]));
        }
        if let Some(exact) = dirs.iter().find(|dir| dir.id() == name) {
            return Ok(exact.clone());
        }
        if Path::new(name).is_dir() {
            return RunDir::open(Path::new(name));
        }
        let matching: Vec<_> = dirs.iter().filter(|dir| !name.is_empty() && dir.id().starts_with(name)).collect();
        match matching[..] {
            [] => Err(unknown_run_error(runs_root, name, &dirs)),
            [run] => Ok(run.clone()),
            _ => {
                let ids = matching.into_iter().take(MAX_NAMED_RUNS).map(RunDir::id).collect();
                Err(Error::Ambiguous(name.into(), ids))
            }
        }
    }

    /// All runs in `runs_root`, newest first; empty if `runs_root` is missing.
    ///
    /// # Errors
    /// `runs_root` cannot be read.
    pub fn find_all(runs_root: &Path) -> Result<Vec<RunDir>> {
        let entries = none_if_missing(fs::read_dir(runs_root)).map_err(Error::io("reading", runs_root))?;
        let mut dirs = Vec::new();
        for entry in entries.into_iter().flatten() {
            let path = entry.map_err(Error::io("reading", runs_root))?.path();
            dirs.extend(RunDir::open(&path));
        }
        // Ids begin with the second in which the run began. The plan is written once, so its time orders runs
        // that began in the same second.
        dirs.sort_by_cached_key(|dir| {
            let start_second: String = dir.id().chars().take("20261121-204512".len()).collect();
            let plan_written_at = fs::metadata(dir.plan_file()).and_then(|meta| meta.modified());
            std::cmp::Reverse((start_second, plan_written_at.unwrap_or(SystemTime::UNIX_EPOCH), dir.id()))
        });
        Ok(dirs)
    }

    /// The id: the directory's name.
    pub fn id(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The path of the run's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the database.
    pub fn database_file(&self) -> PathBuf {
        self.path.join("run.db")
    }

    /// The path of the resolved plan.
    pub fn plan_file(&self) -> PathBuf {
        self.path.join("plan.toml")
    }

    /// The path of the log of external commands.
    pub fn command_log_file(&self) -> PathBuf {
        self.path.join("command.log")
    }

    /// The path of the log of events, which [`crate::EventReader`] reads.
    pub fn event_log_file(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// The directory with the output of commands; it is missing if no command printed anything.
    pub fn output_dir(&self) -> PathBuf {
        self.path.join("output")
    }

    /// The path of the file with the output of a cell's commands: `output/001-ext4-0f3a6c21.txt`. Rounds count from 1.
    pub fn output_file(&self, cell: &Cell) -> PathBuf {
        let (variant, id) = (slug(&cell.variant.name), cell.id());
        self.output_dir().join(format!("{:03}-{variant}-{}.txt", cell.round + 1, &id.0[..8]))
    }

    /// Whether a process is writing the run.
    pub fn is_being_written(&self) -> bool {
        command_log::is_locked(&self.command_log_file())
    }

    /// Reads the resolved plan.
    ///
    /// # Errors
    /// The file is missing or is not a resolved plan.
    pub fn plan(&self) -> Result<Plan> {
        let file = self.plan_file();
        let bytes = input::read(&file, MAX_PLAN_BYTES).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::damaged(&file, "the run's plan is missing"),
            _ if input::is_refusal(&error) => Error::damaged(&file, error.to_string()),
            _ => Error::io("reading", &file)(error),
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8 text".to_string());
        text.and_then(Plan::of_stored).map_err(|reason| {
            // If another version of fsarena wrote the run, the error names the version, not the key that the plan lacks.
            match schema::check_version(&self.database_file()) {
                Err(other_version) => other_version,
                Ok(()) => Error::damaged(&file, format!("not a resolved plan: {reason}")),
            }
        })
    }
}

/// Writes and syncs a file that must not exist yet.
fn write_new_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Syncs a directory, so that the names in it survive a power failure: SQLite syncs its own files, but not the directories
/// above them. Ignores errors, because not every network filesystem supports this.
fn sync_directory(dir: &Path) {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let _ = fs::File::open(dir).and_then(|dir| dir.sync_all());
}

/// The error for a name that no run has.
fn unknown_run_error(runs_root: &Path, name: &str, dirs: &[RunDir]) -> Error {
    if dirs.is_empty() {
        let hint = format!("The directory {} has no runs.", runs_root.display());
        return unknown_name("run", name, []).with_hint(hint).into();
    }
    let ids: Vec<String> = dirs.iter().take(MAX_NAMED_RUNS).map(RunDir::id).collect();
    let known_names = ids.iter().map(String::as_str).chain(["latest"]);
    unknown_name("run", name, known_names).with_place(format!("in {}", runs_root.display())).into()
}

/// A name in a form that is safe in file names: lower-case letters, digits and `-`, at most 40 characters.
pub(crate) fn slug(name: &str) -> String {
    let safe: String =
        name.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    match safe.trim_matches('-') {
        "" => "plan".into(),
        slug => slug.into(),
    }
}

fn random_suffix() -> String {
    (0..4).map(|_| SUFFIX_CHARACTERS[rand::random_range(0..SUFFIX_CHARACTERS.len())] as char).collect()
}

/// The name of an output file while it is copied. No output file of a cell has it.
const PARTIAL_OUTPUT: &str = ".partial";

/// Removes the output of an earlier attempt of a cell.
pub(crate) fn remove_output(run: &RunDir, cell: &Cell) -> Result<()> {
    let path = run.output_file(cell);
    none_if_missing(fs::remove_file(&path)).map(drop).map_err(Error::io("removing", &path))
}

/// Appends a command and its output to the output file of its cell.
pub(crate) fn append_output(run: &RunDir, cell: &Cell, command: &CommandRecord, output: &str) -> Result<()> {
    let (dir, path) = (run.output_dir(), run.output_file(cell));
    fs::create_dir_all(&dir).map_err(Error::io("creating", &dir))?;
    let line_end = if output.ends_with('\n') { "" } else { "\n" };
    let text = format!("$ {}\n{output}{line_end}[{}, {} ms]\n", command.argv.join(" "), command.ended, command.ms);
    let mut file = File::options().append(true).create(true).open(&path).map_err(Error::io("opening", &path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("writing", &path))
}

/// Copies the output files of one run that the other run lacks, by the directories of their outputs. Output files of
/// different cells have different names. An interrupted copy leaves no file under its final name, so the next one repeats it.
pub(crate) fn copy_missing_outputs(source_dir: &Path, target_dir: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(source_dir) else { return Ok(()) };
    fs::create_dir_all(target_dir).map_err(Error::io("creating", target_dir))?;
    for entry in entries {
        let entry = entry.map_err(Error::io("reading", source_dir))?;
        let target = target_dir.join(entry.file_name());
        // Shards may come from another machine, so only regular files are copied.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) && !target.exists() {
            let partial = target_dir.join(PARTIAL_OUTPUT);
            let copied = fs::copy(entry.path(), &partial).and_then(|_| fs::rename(&partial, &target));
            copied.map_err(|error| {
                let _ = fs::remove_file(&partial);
                Error::io("writing", &target)(error)
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;
    use fsarena_core::exit::{ExitCode, HasExitCode};

    #[test]
    fn a_new_run_is_found_by_id_prefix_path_and_latest() {
        let root = tempfile::tempdir().unwrap();
        let older = RunDir::create(root.path(), &plan(&["ext4"]), "0.1.0").unwrap();
        let newer = RunDir::create(root.path(), &plan(&["ext4"]), "0.1.0").unwrap();
        // The clock of files may not tell the two apart.
        let older_plan = File::options().write(true).open(older.plan_file()).unwrap();
        older_plan.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let find = |name: &str| RunDir::find(root.path(), name).unwrap();
        assert_eq!(find(&older.id()), older);
        assert_eq!(find(older.path().to_str().unwrap()), older);
        let unique_prefix = &newer.id()[..newer.id().len() - 1];
        if !older.id().starts_with(unique_prefix) {
            assert_eq!(find(unique_prefix), newer);
        }
        assert_eq!(find("latest"), newer);
        assert_eq!(older.plan().unwrap(), plan(&["ext4"]));
    }

    #[test]
    fn a_taken_id_whose_suffix_stays_the_same_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        // The ids of this second and of those that follow.
        for seconds in 0..60 {
            let time = Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
            fs::create_dir_all(root.path().join(format!("{}-tasks-same", time.strftime("%Y%m%d-%H%M%S")))).unwrap();
        }
        let error = RunDir::create_with_suffix(root.path(), &plan(&["ext4"]), "0.1.0", || "same".into()).unwrap_err();
        assert!(error.to_string().contains("-tasks-same") && error.to_string().contains("exists"), "{error}");
    }

    #[test]
    fn the_error_for_an_unknown_run_names_other_runs() {
        let root = tempfile::tempdir().unwrap();
        let error = RunDir::find(root.path(), "latest").unwrap_err();
        assert!(error.to_string().contains("has no runs."), "{error}");
        let ids = [0, 1].map(|_| RunDir::create(root.path(), &plan(&["ext4"]), "0.1.0").unwrap().id());
        for (name, expected) in
            [("nothing", "Unknown run `nothing`"), ("20", "fits several runs"), ("", "Unknown run ``")]
        {
            let error = RunDir::find(root.path(), name).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expected) && ids.iter().all(|id| text.contains(id)), "{text}");
            assert_eq!(error.exit_code(), ExitCode::Usage);
        }
    }

    #[test]
    fn a_directory_without_a_run_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = RunDir::find(root.path(), root.path().to_str().unwrap()).unwrap_err();
        assert!(error.to_string().contains("does not contain run.db"), "{error}");
    }

    #[test]
    fn runs_are_sorted_newest_first() {
        let root = tempfile::tempdir().unwrap();
        for id in ["20200101-000000-a-2222", "20260101-000000-a-2222", "20230101-000000-a-2222"] {
            fs::create_dir(root.path().join(id)).unwrap();
            fs::write(root.path().join(id).join("run.db"), "").unwrap();
        }
        let years: Vec<_> =
            RunDir::find_all(root.path()).unwrap().iter().map(|dir| dir.id()[..4].to_string()).collect();
        assert_eq!(years, ["2026", "2023", "2020"]);
    }

    #[test]
    fn only_whole_output_files_have_their_final_name() {
        let root = tempfile::tempdir().unwrap();
        let (source, target) = (root.path().join("source"), root.path().join("target"));
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("001-ext4-0f3a6c21.txt"), "$ make\n[exit 0, 9 ms]\n").unwrap();
        // Nothing can be copied while a directory has the temporary name.
        fs::create_dir_all(target.join(PARTIAL_OUTPUT)).unwrap();
        copy_missing_outputs(&source, &target).unwrap_err();
        fs::remove_dir(target.join(PARTIAL_OUTPUT)).unwrap();
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        // An earlier merge died while it copied.
        fs::write(target.join(PARTIAL_OUTPUT), "$ ma").unwrap();
        copy_missing_outputs(&source, &target).unwrap();
        assert_eq!(crate::archive::files_below(&target).unwrap(), ["001-ext4-0f3a6c21.txt"]);
        assert_eq!(fs::read_to_string(target.join("001-ext4-0f3a6c21.txt")).unwrap(), "$ make\n[exit 0, 9 ms]\n");
    }

    #[test]
    fn slugs_have_only_safe_characters() {
        assert_eq!(slug("../My Plan\n"), "my-plan");
        assert_eq!(slug("///"), "plan");
    }

    #[test]
    fn the_error_for_a_damaged_plan_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::create(root.path(), &plan(&["ext4"]), "0.1.0").unwrap();
        for garbage in [&b"name = 3"[..], b"\xff\xfe", b""] {
            fs::write(run.plan_file(), garbage).unwrap();
            let error = run.plan().unwrap_err();
            assert!(error.to_string().contains("plan.toml: not a resolved plan"), "{error}");
            assert_eq!(error.exit_code(), ExitCode::Usage);
        }
    }
}
