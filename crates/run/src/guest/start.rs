//! Starts the guests of a run: their machines, their configs, and the requests to their agents.

use super::boot::{GuestCell, GuestStarter};
use super::early::EarlyGuests;
use super::host_programs::HostPrograms;
use super::images::Images;
use super::initramfs::{InitramfsPacker, KernelDemands};
use super::saved_machines::{SavedMachines, StartedGuest};
use super::session::{GuestExit, GuestOwner};
use super::snapshot_pool::SnapshotPool;
use crate::aged_images::AgedImages;
use crate::ageing::{AgeingMethod, AgeingStep};
use crate::context::RunContext;
use crate::device_layout::DeviceLayout;
use crate::error::{CellError, Result, RunError};
use crate::executor::CellSink;
use crate::format_cache::FormatCache;
use crate::packed_filesystems::WORK_DIR;
use crate::packed_programs::{self, SOURCE_DIR};
use crate::preflight::guests;
use crate::protocol::{AgentRequest, GuestRequest, MountRequest, Power, ProcessRole};
use crate::{layers, power_cut::PowerSupply, shell::ShellSession, work};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan};
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{def::FsDef, fairness::VariantFacts, grammar, safety::ScratchDevice};
use fsarena_guest::config::{GuestConfig, StackConfig};
use fsarena_guest::emulator::{self, Machine};
use fsarena_guest::host_tree::HostTree;
use fsarena_guest::instruction_counter::CounterPlugin;
use fsarena_guest::memory_layout::MemoryLayout;
use fsarena_load::ageing::AGED_DIR;
use fsarena_sys::{Error, dirs};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, time::Duration};

/// The longest silence of a guest that ages a filesystem, in seconds. It sends nothing until a part of the history is
/// done.
const AGEING_MAX_SILENCE_S: f64 = 3600.0;
/// The longest silence of a guest in which a command of the user ages a filesystem, in seconds.
const COMMAND_MAX_SILENCE_S: f64 = 25.0 * 3600.0;
/// A guest may be silent for this time longer than the time limit of its commands.
const SILENCE_SLACK: Duration = Duration::from_secs(60);

/// If the host has less free space than this, in bytes, a failure is explained by it: sparse images cannot grow any
/// more.
const SCARCE_BYTES: u64 = 1 << 20;
/// Where the guest mounts the filesystem under test. It is below `/run`, where programs of this machine have no files.
const TARGET_DIR: &str = "/run/fsarena/test";

/// A cell, and the filesystem that it starts from: the facts of the filesystem and its image.
pub(super) struct CellFilesystem {
    pub(super) cell: Cell,
    pub(super) facts: VariantFacts,
    pub(super) image: PathBuf,
    /// The size of a read-only filesystem with all its files, in bytes; None for other filesystems.
    pub(super) packed_bytes: Option<u64>,
    /// Whether the image already has the filesystem of an aged image, so that the guest does not make it.
    pub(super) has_filesystem: bool,
}

/// How to run a guest.
pub(super) struct GuestRun<'a> {
    /// The power supply of the guest.
    pub(super) supply: &'a PowerSupply,
    /// The connection to the terminal of a shell; None for a guest without a shell.
    pub(super) terminal: Option<OwnedFd>,
    /// The ageing that it performs instead of the tasks of its cell; None for a guest that runs tasks.
    pub(super) ageing: Option<&'a AgeingGuest<'a>>,
}

impl GuestRun<'_> {
    /// A guest for the tasks of its cell.
    pub(super) fn for_tasks(supply: &PowerSupply) -> GuestRun<'_> {
        GuestRun { supply, terminal: None, ageing: None }
    }
}

/// The purpose of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestPurpose {
    /// Find out which files of this machine the programs of a cell open.
    Rehearse,
    /// Check that the programs succeed without the files of this machine.
    Verify,
    /// Measure the cell.
    Measure,
}

impl GuestPurpose {
    /// The suffix of the name of the guest's directory.
    fn suffix(self) -> &'static str {
        match self {
            GuestPurpose::Rehearse => "-rehearsal",
            GuestPurpose::Verify => "-without-host",
            GuestPurpose::Measure => "",
        }
    }
}

/// The executor of guest kernels.
pub struct GuestExecutor {
    pub(super) run: RunContext,
    pub(super) guest_plan: GuestPlan,
    pub(super) facts: BTreeMap<String, VariantFacts>,
    pub(super) packer: InitramfsPacker,
    /// The snapshots of booted machines that guests start from; None if each guest boots.
    pub(super) snapshots: Option<SnapshotPool>,
    /// The time from launch to the first timed operation, for each guest that got there.
    pub(super) boot_times: Vec<Duration>,
    /// The plugin that counts the instructions of exact guests; None if this QEMU cannot load it.
    pub(super) counter: Option<CounterPlugin>,
    /// The formatted filesystems of exact guests.
    pub(super) format_cache: FormatCache,
    pub(super) images: Images,
    /// The aged filesystems, if the run has any.
    pub(super) aged_images: Option<AgedImages>,
    /// The programs of this machine that the guests start, if any.
    pub(super) programs: Option<HostPrograms>,
    /// The saved machines that guests which count instructions begin with.
    pub(super) saved_machines: SavedMachines,
    /// Why guests boot instead of beginning with saved machines; None if they begin with them.
    pub(super) why_not_restored: Option<String>,
    /// The guests that began before the turns of their cells.
    pub(super) early_guests: EarlyGuests,
}

/// The work of a guest that ages a filesystem.
pub struct AgeingGuest<'a> {
    /// The step that its agent performs.
    pub step: &'a AgeingStep,
    /// The disk with the copies of trees and histories.
    pub stage_disk: &'a Path,
    /// The programs of this machine, and the rights of the agent.
    pub programs: Option<&'a HostPrograms>,
    /// The number of the guest among those that age filesystems.
    pub number: u32,
}

impl AgeingGuest<'_> {
    /// Whether its step starts programs of this machine.
    pub fn starts_programs(&self) -> bool {
        matches!(self.step, AgeingStep::Part { method: AgeingMethod::Git(_) | AgeingMethod::Command { .. }, .. })
    }
}

impl GuestExecutor {
    /// The command that makes a filesystem in the guest. In a guest that counts instructions, values that mkfs would
    /// choose at random are pinned.
    pub(super) fn mkfs_words(&self, def: &FsDef, options: &VariantOptions) -> Result<Vec<String>, fsarena_fs::Error> {
        let mut options = options.clone();
        if self.guest_plan.emulator == Emulator::Exact {
            grammar::pin_random_values(def, &mut options.mkfs);
        }
        lifecycle::mkfs_words(def, &options)
    }

    /// The purpose of the next guest of a cell.
    pub(super) fn next_purpose(&self, cell: &Cell) -> GuestPurpose {
        match &self.programs {
            Some(programs) if self.run.shell.is_none() && programs.needs_rehearsal(cell) => GuestPurpose::Rehearse,
            Some(programs) if self.run.shell.is_none() && programs.needs_verification(cell) => GuestPurpose::Verify,
            _ => GuestPurpose::Measure,
        }
    }

    /// Starts a guest for a cell. A guest that boots, or starts from a snapshot, is run to its end.
    pub(super) fn start_guest(
        &mut self,
        formatted: &CellFilesystem,
        GuestRun { supply, terminal, ageing }: GuestRun,
        emit: CellSink,
    ) -> Result<StartedGuest> {
        let cell = &formatted.cell;
        let dir = match ageing {
            Some(ageing) => self.run.dir.join(format!("guests/ageing-{:03}", ageing.number)),
            None if supply.cut_after.is_some() => self.guest_dir(cell, "-before"),
            None => self.guest_dir(cell, self.next_purpose(cell).suffix()),
        };
        make_dir(&dir)?;
        let (image, write_recording) = match &supply.recording {
            Some((image, recording)) => (image, Some(recording.as_path())),
            None => (&formatted.image, None),
        };
        let level = cell.variant.level(factor::KERNEL);
        let layout = self.run.device_layout(&cell.variant)?;
        let options = &formatted.facts.options;
        let stack = self.stack_config(formatted, &layout)?;
        let test_images = self.images.prepare_disks(image, &layout, &stack)?;
        let mut further_modules = guests::further_modules(&cell.variant, &stack, &options.mount);
        let kernel = &self.run.requirements.kernels.by_level[level];
        further_modules.extend(stack.accelerator_modules().filter(|name| kernel.modules.has(name)).map(String::from));
        let mut log = |record| emit(CellEvent::Command(record));
        let source_disk = match ageing {
            Some(ageing) => ageing.stage_disk.to_path_buf(),
            None => self.images.prepare_source_disk(&self.run, cell, &mut log)?.to_path_buf(),
        };
        let machine = Machine {
            emulator: self.guest_plan.emulator,
            accelerator: self.guest_plan.accelerator.unwrap_or(Accelerator::Tcg),
            kernel,
            initramfs: None,
            config: None,
            test_images: &test_images,
            write_recording,
            journal_image: self.images.journal(&layout).map(ScratchDevice::path),
            source_image: &source_disk,
            has_host_files: match ageing {
                Some(ageing) => ageing.starts_programs(),
                None => self.programs.is_some(),
            },
            has_terminal: terminal.is_some(),
            memory: None,
            keeps_disks: ageing.is_some(),
            clock_start: emulator::CLOCK_START,
            memory_mib: self.guest_plan.memory.as_u64() >> 20,
            dir: &dir,
        };
        let demands = KernelDemands {
            level,
            modules: &machine.kernel.modules,
            def: formatted.facts.def,
            further: &further_modules,
        };
        let config = GuestConfig {
            modules: self.packer.modules(demands)?.iter().map(|module| module.name.clone()).collect(),
            events: machine.events(),
            disk_lookup: machine.disk_lookup(),
            stack,
            request: self.guest_request(formatted, supply.power, ageing)?,
            ..GuestConfig::default()
        };
        let guest_cell = GuestCell { machine: &machine, config: &config, demands };
        let guest_plan = GuestPlan { silence_timeout_s: self.max_silence_s(cell, ageing), ..self.guest_plan.clone() };
        let host_tree = self.programs.as_ref().and_then(|programs| programs.packed_files(cell));
        let begins_with_saved_machine = self.begins_with_saved_machine(host_tree.as_ref(), ageing);
        let mut starter = GuestStarter {
            owner: GuestOwner { journal: &self.run.journal, guest_plan: &guest_plan, is_needless: None },
            packer: &mut self.packer,
            counter: self.counter.as_ref().filter(|_| ageing.is_none()),
            cut_after: supply.cut_after,
            terminal,
        };
        if begins_with_saved_machine {
            let workload = host_tree.as_ref().map_or(String::new(), |_| format!("{:?}", cell.workload));
            let key = [level, &further_modules.join(" "), &workload].join("\n");
            match starter.prepare_restored(&mut self.saved_machines, &key, host_tree.as_ref(), &guest_cell)? {
                // Cells without programs of this machine can boot instead.
                StartedGuest::Ended(GuestExit { outcome: Outcome::Failed { why, .. }, .. }) if host_tree.is_none() => {
                    self.why_not_restored = Some(why);
                }
                started => return Ok(started),
            }
        }
        let exit = match self.snapshots.as_mut().filter(|_| starter.terminal.is_none()) {
            None => starter.boot(&guest_cell, emit)?,
            Some(pool) => starter.start_from_snapshot(pool, &guest_cell, emit)?,
        };
        Ok(StartedGuest::Ended(exit))
    }

    /// The longest silence of the guest of a cell, in seconds. A guest that is silent for longer hangs.
    fn max_silence_s(&self, cell: &Cell, ageing: Option<&AgeingGuest>) -> f64 {
        let work_s = match ageing.map(|ageing| ageing.step) {
            Some(AgeingStep::Part { method: AgeingMethod::Command { .. }, .. }) => COMMAND_MAX_SILENCE_S,
            Some(_) => AGEING_MAX_SILENCE_S,
            // The user of a shell may be silent for any time.
            None if self.run.shell.is_some() => f64::INFINITY,
            // A command may be silent up to its time limit.
            None => work::time_limit(cell).map_or(0.0, |limit| (limit + SILENCE_SLACK).as_secs_f64()),
        };
        self.guest_plan.silence_timeout_s.max(work_s)
    }

    /// Whether the guest of a cell begins with a saved machine. `host_tree` has the files of this machine that the
    /// guest has in memory; None if it has none.
    fn begins_with_saved_machine(&self, host_tree: Option<&HostTree>, ageing: Option<&AgeingGuest>) -> bool {
        // Equal histories must put files at equal places, so ageing must not depend on the time at which a machine was
        // saved.
        if self.guest_plan.emulator != Emulator::Exact || ageing.is_some() {
            return false;
        }
        if self.programs.is_some() { host_tree.is_some() } else { self.why_not_restored.is_none() }
    }

    /// The config of the devices between the disks of the guest of a cell and its filesystem. A filesystem above links,
    /// or one with a pool, can only be made in the guest, so the config then has the command for that.
    fn stack_config(&self, formatted: &CellFilesystem, layout: &DeviceLayout) -> Result<StackConfig> {
        let VariantFacts { def, options, size_bytes, .. } = &formatted.facts;
        let mut stack = guests::guest_stack(&formatted.cell.variant, options.raid)?;
        stack.further_disk_count = layout.members.len().saturating_sub(1);
        stack.has_journal = layout.journal.is_some();
        if !stack.links.is_empty() {
            stack.size_bytes = *size_bytes;
        }
        if !formatted.has_filesystem && (!stack.links.is_empty() || def.pool.is_some()) {
            stack.mkfs = self.mkfs_words(def, options)?;
            stack.mkfs.splice(..1, packed_programs::packed_command(Path::new(SOURCE_DIR), def.mkfs).words());
        }
        Ok(stack)
    }

    /// The request to the agent in a guest. It names no devices, because the guest finds its disks itself.
    fn guest_request(&self, formatted: &CellFilesystem, power: Power, ageing: Option<&AgeingGuest>) -> Result<Value> {
        let CellFilesystem { cell, facts, packed_bytes, .. } = formatted;
        let level = cell.variant.level(factor::LAYER);
        let host_programs = match ageing {
            Some(ageing) => ageing.programs,
            None => self.programs.as_ref(),
        };
        let owner_options = host_programs.filter(|_| !facts.def.traits.unix).map(HostPrograms::owner_mount_options);
        let options = [Some(facts.options.mount.clone()).filter(|options| !options.is_empty()), owner_options];
        let mount = MountRequest {
            source: PathBuf::new(),
            target: TARGET_DIR.into(),
            fs_type: facts.def.id.into(),
            options: options.into_iter().flatten().collect::<Vec<_>>().join(","),
            journal: None,
            by_syscall: true,
            layer: layers::layer_request(level, Path::new(TARGET_DIR), Some(Path::new(SOURCE_DIR))),
            packed_bytes: *packed_bytes,
        };
        let root = layers::layer_root(Path::new(TARGET_DIR), level);
        let root = root.join(if ageing.is_some() { AGED_DIR } else { WORK_DIR });
        let counts_instructions = self.guest_plan.emulator == Emulator::Exact;
        let memory_layout = (counts_instructions && ageing.is_none()).then(|| match self.guest_plan.fixed_layout {
            true => MemoryLayout::FIXED,
            false => MemoryLayout::draw(&format!("{} {:?}", cell.seed, cell.workload)),
        });
        let cell = if counts_instructions { &without_names(cell) } else { cell };
        let base = self.run.agent_request(cell, &root, Path::new(SOURCE_DIR));
        // Without programs the workload runs as root: the guest kernel serves this cell alone. The tracer of a profile
        // requires root too.
        let role = match host_programs {
            Some(programs) if base.profiled_task.is_none() => programs.role(),
            _ => ProcessRole::Single,
        };
        let server_user = base.server_user.clone().filter(|_| host_programs.is_some());
        let shell = self.run.shell.as_ref().map(ShellSession::to_request);
        let ageing_step = ageing.map(|ageing| ageing.step.clone());
        let request = AgentRequest { mount: Some(mount), role, server_user, power, shell, ageing_step, ..base };
        let programs = match ageing {
            Some(ageing) => {
                host_programs.filter(|_| ageing.starts_programs()).map(|programs| programs.for_ageing_guest(cell))
            }
            None => host_programs.map(|programs| programs.for_guest(cell, self.run.shell.as_ref())),
        };
        let source_fs_type = self.run.plan.device.other_fs.clone();
        let request = GuestRequest { request, source_fs_type, memory_layout, programs };
        serde_json::to_value(&request).map_err(|error| RunError::Agent(error.to_string()))
    }

    /// The directory for the console output and other files of the guest of a cell.
    pub(super) fn guest_dir(&self, cell: &Cell, suffix: &str) -> PathBuf {
        self.run.dir.join(format!("guests/{:03}-{}{suffix}", cell.round + 1, cell.id()))
    }

    /// Returns the outcome of a cell. If the cell failed and the host has no space left for growing images, adds that
    /// to the reason.
    pub(super) fn explain_full_disk(&self, outcome: Outcome) -> Outcome {
        let dir = self.images.dir.path();
        match outcome {
            Outcome::Failed { why, .. } if dirs::free_bytes(dir).is_ok_and(|free| free < SCARCE_BYTES) => {
                let dir = dir.display();
                CellError::missing(format!("no room is left in {dir}, where the images grow: {why}")).into()
            }
            outcome => outcome,
        }
    }
}

pub(super) fn make_dir(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir))
}

/// The range of the seeds of guests that count instructions: all have the same number of digits.
const SEED_RANGE: std::ops::Range<u64> = 1_000_000_000_000_000_000..10_000_000_000_000_000_000;

/// The cell without the names of its variant and levels, so that cells with the same work execute the same
/// instructions: a longer name takes more instructions to read, and changes memory addresses. The factor `clients`
/// stays, because the names of tasks depend on it, and `fill`, because the agent in the guest fills the filesystem.
fn without_names(cell: &Cell) -> Cell {
    let mut levels = cell.variant.levels.clone();
    levels.retain(|id, level| [factor::CLIENTS, factor::FILL].contains(&id.as_str()) && !level.is_empty());
    let variant = Variant { name: "variant".into(), levels };
    // The seed has the same number of digits in each round.
    let seed = SEED_RANGE.start + cell.seed % (SEED_RANGE.end - SEED_RANGE.start);
    Cell { round: 0, position: 0, variant, seed, ..cell.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::matrix;

    #[test]
    fn a_cell_without_names_keeps_the_levels_that_its_guest_needs() {
        let record = crate::testing::empty_record(&["ext4"], &[]);
        let mut cell = matrix::cells_of_round(&record.plan, &record.variants, &[0], 0).remove(0);
        for (id, level) in [(factor::FILL, "50%"), (factor::CLIENTS, ""), (factor::MOUNT, "noatime")] {
            cell.variant.levels.insert(id.into(), level.into());
        }
        let expected = [(factor::FILL.to_string(), "50%".to_string())].into();
        assert_eq!(without_names(&cell).variant, Variant { name: "variant".into(), levels: expected });
    }
}
