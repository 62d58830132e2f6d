//! Packs the initramfs of guests: fsarena itself and the kernel modules that a cell needs. A run packs each initramfs
//! once.

use crate::{error::Result, layers, preflight::guests};
use fsarena_core::plan::Emulator;
use fsarena_fs::{def::FsDef, filesystems::FILESYSTEMS};
use fsarena_guest::modules::{Module, Modules};
use fsarena_guest::{config::StackConfig, emulator, host_root, initramfs::Initramfs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules that drive the virtual hardware. No module depends on them, so they must be named.
const HARDWARE_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// What a cell requires of its kernel: the parts that decide which modules its guest loads.
#[derive(Debug, Clone, Copy)]
pub struct KernelDemands<'a> {
    /// The level of the factor `kernel`.
    pub level: &'a str,
    /// All modules of that kernel.
    pub modules: &'a Modules,
    /// The filesystem under test.
    pub def: &'a FsDef,
    /// Names of further modules, besides those of filesystems.
    pub further: &'a [String],
}

/// Packs the initramfs of each kernel and set of modules.
pub struct InitramfsPacker {
    emulator: Emulator,
    /// The filesystem of the source disk.
    source_fs: &'static FsDef,
    /// All filesystems that guests of the run mount, sorted by id.
    mounted: Vec<&'static FsDef>,
    /// Whether guests start programs of the host.
    starts_programs: bool,
    dir: PathBuf,
    /// The modules to load, by [`demands_key`].
    modules: BTreeMap<(String, String), Vec<Module>>,
    /// The packed files, by [`demands_key`].
    packed: BTreeMap<(String, String), Initramfs>,
}

impl InitramfsPacker {
    /// A packer that writes its files to `dir`. `mounted` are all filesystems that guests of the run mount, sorted by id.
    pub fn new(
        emulator: Emulator,
        source_fs: &'static FsDef,
        mounted: &[&'static FsDef],
        starts_programs: bool,
        dir: &Path,
    ) -> InitramfsPacker {
        let (mounted, modules, packed) = (mounted.to_vec(), BTreeMap::new(), BTreeMap::new());
        InitramfsPacker { emulator, source_fs, mounted, starts_programs, dir: dir.into(), modules, packed }
    }

    /// The modules that a cell needs, in the order in which they are loaded.
    ///
    /// # Errors
    /// A module is missing.
    pub fn modules(&mut self, demands: KernelDemands) -> Result<&[Module]> {
        let key = demands_key(demands);
        if !self.modules.contains_key(&key) {
            let mut names = guests::filesystem_modules(demands.modules, demands.def);
            names.extend(guests::filesystem_modules(demands.modules, self.source_fs));
            let further = demands.further.iter().map(String::as_str);
            let modules = self.with_dependencies(demands.modules, names.into_iter().chain(further))?;
            self.modules.insert(key.clone(), modules);
        }
        Ok(&self.modules[&key])
    }

    /// The initramfs with the modules that a cell needs.
    ///
    /// # Errors
    /// A module is missing, or there is not enough space.
    pub fn initramfs(&mut self, demands: KernelDemands) -> Result<&mut Initramfs> {
        let key = demands_key(demands);
        if !self.packed.contains_key(&key) {
            let path = self.dir.join(format!("initramfs-{}", self.packed.len()));
            let initramfs = Initramfs::pack(&path, self.modules(demands)?)?;
            self.packed.insert(key.clone(), initramfs);
        }
        Ok(self.packed.get_mut(&key).expect("just inserted"))
    }

    /// Names that distinguish the snapshot of a cell from other snapshots with the same kernel: the unusual modules of
    /// the cell, and the filesystems that the run mounts.
    pub fn distinguishing_names(&self, demands: KernelDemands) -> Vec<String> {
        let usual = usual_modules(demands.modules);
        let unusual = demands.further.iter().filter(|name| !usual.contains(&name.as_str()));
        unusual.map(String::as_str).chain(self.mounted.iter().map(|def| def.id)).map(String::from).collect()
    }

    /// Packs an initramfs for a snapshot that any cell can start from: with the modules of every filesystem that this
    /// kernel has, and those that this cell needs. Also returns the names of the modules to load before the snapshot is
    /// taken: those of the filesystems that the run mounts. Loading them takes seconds if QEMU translates instructions.
    ///
    /// # Errors
    /// A module is missing, or there is not enough space.
    pub fn pack_for_snapshot(&mut self, demands: KernelDemands) -> Result<(Initramfs, Vec<String>)> {
        let supported = self.mounted.iter().filter(|def| guests::modules_support(demands.modules, def));
        let mounted = supported.flat_map(|def| guests::filesystem_modules(demands.modules, def));
        let mut modules = self.with_dependencies(demands.modules, mounted)?;
        let loaded_before_snapshot = modules.iter().map(|module| module.name.clone()).collect();
        let usual = usual_modules(demands.modules);
        modules = demands.modules.extend_load_order(modules, &usual, self.crc32c_module());
        modules.extend_from_slice(self.modules(demands)?);
        let mut names = BTreeSet::new();
        modules.retain(|module| names.insert(module.name.clone()));
        Ok((Initramfs::pack(&self.dir.join("initramfs-any"), &modules)?, loaded_before_snapshot))
    }

    /// The modules with these names and the modules of the virtual hardware, each after the modules that it depends on.
    fn with_dependencies<'a>(&self, modules: &Modules, names: impl Iterator<Item = &'a str>) -> Result<Vec<Module>> {
        if !modules.is_known() {
            return Ok(vec![]);
        }
        let mut all_names: Vec<&str> = match self.emulator {
            Emulator::Exact if emulator::has_memory_disks(modules) => emulator::MEMORY_DISK_DRIVERS.to_vec(),
            Emulator::Qemu | Emulator::Exact => HARDWARE_MODULES.to_vec(),
        };
        if self.starts_programs {
            // The device with the files of the host is a virtio device, whatever the disks are.
            all_names.push(HARDWARE_MODULES[0]);
            all_names.extend(host_root::MODULES);
        }
        let crc32c = self.crc32c_module();
        all_names.extend([crc32c].into_iter().filter(|name| modules.has(name)));
        all_names.extend(names);
        Ok(modules.load_order(&all_names, crc32c)?)
    }

    /// The module that computes CRC32C in guests. Translated by QEMU, the instruction of the CPU is slower than the generic
    /// code. A guest that counts instructions uses it, as a real machine would.
    fn crc32c_module(&self) -> &'static str {
        if self.emulator == Emulator::Exact { "crc32c_intel" } else { "crc32c_generic" }
    }
}

/// Every module of this kernel that a guest may need, with its dependencies, sorted by name.
pub fn guest_modules(modules: &Modules) -> Vec<Module> {
    let mut names = usual_modules(modules);
    names.extend(
        HARDWARE_MODULES.iter().chain(&emulator::MEMORY_DISK_DRIVERS).chain(&["crc32c_generic", "crc32c_intel"]),
    );
    names.retain(|name| modules.has(name));
    let mut loadable = modules.extend_load_order(vec![], &names, "crc32c_generic");
    loadable.sort_by(|a, b| a.name.cmp(&b.name));
    loadable
}

/// The names of the modules of this kernel that cells commonly need.
fn usual_modules(modules: &Modules) -> Vec<&'static str> {
    // Modules that fsarena compiled are large: only the runs that mount such a filesystem carry them.
    let filesystems =
        FILESYSTEMS.iter().filter(|def| def.module_source.is_none() && guests::modules_support(modules, def));
    let filesystems = filesystems.flat_map(|def| guests::filesystem_modules(modules, def));
    let schedulers = guests::SCHEDULER_MODULES.map(|(_, module)| module);
    filesystems
        .chain(StackConfig::all_modules())
        .chain(layers::MODULES)
        .chain(schedulers)
        .filter(|name| modules.has(name))
        .collect()
}

/// The key of demands with the same modules: the level of the kernel, and the filesystem with the further modules.
fn demands_key(demands: KernelDemands) -> (String, String) {
    (demands.level.to_string(), format!("{} {}", demands.def.id, demands.further.join(" ")))
}
