//! Runs cells in existing directories, without formatting or mounting anything and without root. The work of a cell is
//! done by one agent on this machine, or by one agent on each of several machines ([`Clients`]).

use crate::context::RunContext;
use crate::error::{CellError, Result};
use crate::executor::{CellSink, Executor, RunSink, check_absent, remove_run_dir};
use crate::work::{DrawnInputsState, make_inputs};
use crate::{axes, axes::Confinement, bench::device_numbers, child, protocol::AgentRequest};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Event, FULLNESS_NOTE, MOUNT_NOTE, Note, NoteKind, Outcome};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, matrix, plan::Plan};
use fsarena_sys::kernel::{MountEntry, SysRoot};
use fsarena_sys::undo::{Journal, MadeDir};
use fsarena_sys::{Error, device, dirs::FilesystemSpace};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, os::unix::fs::MetadataExt};

/// The executor of existing directories.
pub struct DirectoryExecutor {
    run: RunContext,
    /// The directory that stands for the source disk.
    source_dir: MadeDir,
    inputs: DrawnInputsState,
    clients: Box<dyn Clients>,
    /// The directory of this run in each directory under test, by its path. Each cell works below it.
    run_dirs: BTreeMap<PathBuf, MadeDir>,
}

impl DirectoryExecutor {
    /// Makes the inputs in a separate directory, emits notes on the filesystem and mount of each directory under test,
    /// and checks the clients.
    ///
    /// # Errors
    /// A directory exists already or cannot be written, the inputs cannot be made, or a client cannot work.
    pub fn start(run: RunContext, mut clients: Box<dyn Clients>, emit: RunSink) -> Result<DirectoryExecutor> {
        let parent = absolute(run.plan.device.source_dir.as_ref().unwrap_or(&run.dir))?;
        let source_dir = parent.join(format!("fsarena-{}-other", run.id()));
        check_absent(&source_dir)?;
        let source_dir = MadeDir::make_tree(&run.journal, &source_dir)?;
        make_inputs(&run.plan, source_dir.path())?;
        run.agent_config.role.give_to_workload_user(source_dir.path())?;
        let variants = matrix::expand(&run.plan);
        for variant in &variants {
            let dir = Path::new(variant.level(factor::DIR));
            for note in directory_notes(&run.kernel, dir, source_dir.path()) {
                emit(Event::Note(note.variant(&variant.name)))?;
            }
        }
        clients.check(&run.plan, &variants, emit)?;
        Ok(DirectoryExecutor {
            run,
            source_dir,
            inputs: DrawnInputsState::default(),
            clients,
            run_dirs: BTreeMap::new(),
        })
    }
}

impl Executor for DirectoryExecutor {
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        if self.inputs.draw(&self.run.plan, cell, self.source_dir.path())? {
            self.run.agent_config.role.give_to_workload_user(self.source_dir.path())?;
        }
        let RunContext { kernel, journal, .. } = &self.run;
        let dir = &absolute(Path::new(cell.variant.level(factor::DIR)))?;
        let run_dir = dir.join(format!("fsarena-{}", self.run.id()));
        if !self.run_dirs.contains_key(&run_dir) {
            check_absent(&run_dir)?;
            self.run_dirs.insert(run_dir.clone(), MadeDir::make(journal, &run_dir)?);
        }
        let root = MadeDir::make_tree(journal, &run_dir.join("work"))?;
        let device = device::device_of_path(kernel, dir)?.as_ref().map(device_numbers);
        let request = AgentRequest { device, ..self.run.agent_request(cell, root.path(), self.source_dir.path()) };
        // The list of devices is empty, because axes that set up devices are for formatted devices only.
        let conditions = match axes::set_up(kernel, journal, &cell.variant, &[]) {
            Ok(conditions) => conditions,
            Err(error) => return Ok(CellError::from(error).into_setup_outcome()),
        };
        for note in &conditions.notes {
            emit(CellEvent::Note(note.clone().variant(&cell.variant.name)));
        }
        let outcome = self.clients.run_cell(journal, &request, &conditions.confinement, emit);
        conditions.undo()?;
        root.remove()?;
        outcome
    }

    fn remarks(&self) -> Vec<Note> {
        let text = "nothing was formatted: these directories differ in age, fullness and fragmentation as well as \
                    in their filesystems, and all rounds use the same filesystem";
        let note = Note::new(NoteKind::Fairness, text);
        // The name of the setting alone: `--on`.
        let note = note.fix(format!("as root, without {}, every round starts on a fresh mkfs", setting("on", "")));
        self.clients.remarks().into_iter().chain([note]).collect()
    }

    fn finish(self: Box<Self>, emit: RunSink) -> Result<()> {
        self.run_dirs.into_values().chain([self.source_dir]).try_for_each(|dir| remove_run_dir(dir, emit))
    }
}

/// Makes the path of a directory absolute, because `fsarena recover` can be started in any directory.
fn absolute(dir: &Path) -> Result<PathBuf> {
    Ok(std::path::absolute(dir).map_err(Error::io("finding", dir))?)
}

/// Notes on a directory under test: its filesystem and mount options, how full it is, and whether it shares its
/// filesystem with `source_dir`, the directory that stands for the source disk.
fn directory_notes(kernel: &SysRoot, dir: &Path, source_dir: &Path) -> Vec<Note> {
    let mut notes = vec![];
    if let Some(mount) = kernel.mount_of(dir) {
        notes.push(Note::new(NoteKind::Options, describe_mount(&mount)).task(MOUNT_NOTE));
    }
    if let Some(percent) = FilesystemSpace::at_path(dir).ok().and_then(|space| space.used_percent()) {
        notes.push(Note::new(NoteKind::Options, format!("{percent}% full")).task(FULLNESS_NOTE));
    }
    let device_of = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    if device_of(dir).is_some() && device_of(dir) == device_of(source_dir) {
        let text = "the source disk is a directory of the same filesystem: copies to and from it stay on one device";
        let fix = format!("{} with a directory on another device", setting("other", "DIR"));
        notes.push(Note::new(NoteKind::Fairness, text).fix(fix));
    }
    notes
}

/// A mount and, after a colon, its options. The part before the colon is the same only for mounts of one filesystem: the
/// source alone does not identify it if it is no path, such as that of every tmpfs.
fn describe_mount(mount: &MountEntry) -> String {
    let MountEntry { fs_type, source, mount_options, super_options, .. } = mount;
    let device = if source.starts_with('/') { String::new() } else { format!(", device {}", mount.major_minor) };
    format!("{fs_type} on {source}{device}: {mount_options},{super_options}")
}

/// The clients that do the work of a cell together in a directory, each on a separate machine. The defaults are those
/// of a single client: an agent on this machine.
pub trait Clients {
    /// Number of clients. Each needs the space of the workload.
    fn count(&self) -> u32 {
        1
    }

    /// Facts about the clients: names and values. The run records them together with the facts of this machine.
    fn facts(&self) -> Vec<(String, String)> {
        vec![]
    }

    /// Checks before the first cell that all clients can work.
    ///
    /// # Errors
    /// The first client that cannot, with what to do.
    fn check(&mut self, _plan: &Plan, _variants: &[Variant], _emit: RunSink) -> Result<()> {
        Ok(())
    }

    /// Does the work of one cell with all clients; by default with an agent on this machine.
    ///
    /// # Errors
    /// An error that makes every further cell pointless.
    fn run_cell(
        &mut self,
        journal: &Journal,
        request: &AgentRequest,
        confinement: &Confinement,
        emit: CellSink,
    ) -> Result<Outcome> {
        child::run_agent(journal, request, confinement, &mut |event| emit(event))
    }

    /// Notes on the clients for the report.
    fn remarks(&self) -> Vec<Note> {
        vec![]
    }
}

/// A single client: an agent on this machine.
pub struct SingleClient;

impl Clients for SingleClient {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{preflight::Requirements, privsep::AgentConfig, testing::empty_record};

    #[test]
    fn mounts_of_several_filesystems_differ_before_the_colon() {
        let mount = |source: &str, major_minor: &str| {
            describe_mount(&MountEntry {
                target: "/a".into(),
                source: source.into(),
                fs_type: "tmpfs".into(),
                mount_options: "rw".into(),
                super_options: "rw,size=1k".into(),
                major_minor: major_minor.into(),
            })
        };
        assert_eq!(mount("tmpfs", "0:45"), "tmpfs on tmpfs, device 0:45: rw,rw,size=1k");
        assert_ne!(mount("tmpfs", "0:45"), mount("tmpfs", "0:46"));
        assert_eq!(mount("/dev/sda1", "8:1"), "tmpfs on /dev/sda1: rw,rw,size=1k");
    }

    #[test]
    fn a_level_that_cannot_be_set_up_fails_its_cell_and_not_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let mut plan = empty_record(&["ext4"], &[]).plan;
        let (scale, workload) = (plan.scale, plan.workloads.remove(0));
        let levels = [(factor::DIR, dir.path().to_str().unwrap()), (factor::CPUS, "none")];
        let levels = levels.map(|(id, level)| (id.to_string(), level.to_string())).into();
        let variant = Variant { name: "a".into(), levels };
        let cell = Cell { round: 0, position: 0, variant, workload, scale, seed: 1 };
        let run = RunContext {
            kernel: SysRoot::host(),
            plan,
            requirements: Requirements::default(),
            journal: journal.clone(),
            dir: dir.path().join("run"),
            agent_config: AgentConfig::unconfined(),
            declared_metrics: Default::default(),
            shell: None,
            shared_machines_dir: None,
        };
        let source_dir = MadeDir::make_tree(&journal, &dir.path().join("source")).unwrap();
        let (inputs, clients) = (DrawnInputsState::default(), Box::new(SingleClient));
        let mut executor = DirectoryExecutor { run, source_dir, inputs, clients, run_dirs: BTreeMap::new() };
        let outcome = executor.run(&cell, &mut |_| ()).unwrap();
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        assert!(!dir.path().join("fsarena-run/work").exists(), "the directory of the cell is left");
    }
}
