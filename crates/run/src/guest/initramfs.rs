//! The initramfs beside a kernel: fsarena itself and the modules that a cell asks for, packed once a run.

use crate::{error::Result, layers, preflight::guests};
use fsarena_core::plan::Emulator;
use fsarena_fs::{def::FsDef, filesystems::FILESYSTEMS};
use fsarena_guest::modules::{Module, Modules};
use fsarena_guest::{config::Stack, emulator, packing::Initramfs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Modules of virtual hardware that nothing else asks for.
const HARDWARE: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// What a cell asks of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelDemands<'a> {
    /// The level of the factor `kernel`.
    pub level: &'a str,
    /// That kernel's modules.
    pub modules: &'a Modules,
    /// The filesystem under test.
    pub def: &'a FsDef,
    /// Modules besides those of filesystems.
    pub further: &'a [String],
}

/// Packs what the cells of a run want.
pub struct Packer {
    emulator: Emulator,
    /// The filesystem of the source disk.
    other: &'static FsDef,
    /// All filesystems of the run, by their names.
    mounted: Vec<&'static FsDef>,
    dir: PathBuf,
    /// By the kernel's level and what of it is wanted.
    wanted: BTreeMap<(String, String), Vec<Module>>,
    packed: BTreeMap<(String, String), Initramfs>,
}

impl Packer {
    /// Nothing is packed yet.
    pub fn new(emulator: Emulator, other: &'static FsDef, mounted: &[&'static FsDef], dir: &Path) -> Packer {
        let mut mounted = mounted.to_vec();
        mounted.sort_by_key(|def| def.id);
        Packer { emulator, other, mounted, dir: dir.into(), wanted: BTreeMap::new(), packed: BTreeMap::new() }
    }

    /// The modules that a cell wants, in the order in which they are loaded.
    ///
    /// # Errors
    /// Where one is missing.
    pub fn modules(&mut self, asked: KernelDemands) -> Result<&[Module]> {
        let key = key(asked);
        if !self.wanted.contains_key(&key) {
            let of = [asked.def, self.other];
            let filesystems = of.into_iter().flat_map(|def| guests::of_filesystem(asked.modules, def));
            let further = asked.further.iter().map(String::as_str);
            let modules = self.closure(asked.modules, filesystems.chain(further))?;
            self.wanted.insert(key.clone(), modules);
        }
        Ok(&self.wanted[&key])
    }

    /// An initramfs with the modules that a cell wants.
    ///
    /// # Errors
    /// If one is missing, or there is not enough room.
    pub fn initramfs(&mut self, asked: KernelDemands) -> Result<&mut Initramfs> {
        let key = key(asked);
        if !self.packed.contains_key(&key) {
            let path = self.dir.join(format!("initramfs-{}", self.packed.len()));
            let initramfs = Initramfs::pack(&path, self.modules(asked)?)?;
            self.packed.insert(key.clone(), initramfs);
        }
        Ok(self.packed.get_mut(&key).expect("just inserted"))
    }

    /// What of the modules tells a machine that boots for any cell from others, besides the kernel's own.
    pub fn particular(&self, asked: KernelDemands) -> Vec<String> {
        let usual = usual(asked.modules);
        let unusual = asked.further.iter().filter(|name| !usual.contains(&name.as_str()));
        unusual.map(String::as_str).chain(self.mounted.iter().map(|def| def.id)).map(String::from).collect()
    }

    /// An initramfs for whatever cell may come: with the modules of every filesystem that this kernel has, and of this
    /// one. And the names of those to load before anything is known of a cell: what the run mounts. Under translation xfs
    /// alone takes seconds to load.
    ///
    /// # Errors
    /// If a module is missing, or there is not enough room.
    pub fn for_any(&mut self, asked: KernelDemands) -> Result<(Initramfs, Vec<String>)> {
        let here = self.mounted.iter().filter(|def| guests::in_modules(asked.modules, def));
        let first =
            self.closure(asked.modules, here.flat_map(|def| guests::of_filesystem(asked.modules, def)))?;
        let names = first.iter().map(|module| module.name.clone()).collect();
        let mut all = first;
        for name in usual(asked.modules) {
            // A module without its dependency is useless, and no cell has asked for it yet.
            all.extend(self.closure(asked.modules, [name].into_iter()).unwrap_or_default());
        }
        all.extend_from_slice(self.modules(asked)?);
        let mut seen = BTreeSet::new();
        all.retain(|module| seen.insert(module.name.clone()));
        Ok((Initramfs::pack(&self.dir.join("initramfs-any"), &all)?, names))
    }

    /// The modules of the machine and these, each after all that it needs.
    fn closure<'a>(&self, modules: &Modules, wanted: impl Iterator<Item = &'a str>) -> Result<Vec<Module>> {
        if !modules.is_known() {
            return Ok(vec![]);
        }
        let mut all: Vec<&str> = match self.emulator {
            Emulator::Exact if emulator::has_memory_disks(modules) => emulator::MEMORY_DISKS.to_vec(),
            Emulator::Qemu | Emulator::Exact => HARDWARE.to_vec(),
        };
        // Under translation the CPU's CRC32C is slower than the generic one; counted, it is what hardware would do.
        let crc32c = if self.emulator == Emulator::Exact { "crc32c_intel" } else { "crc32c_generic" };
        all.extend([crc32c].into_iter().filter(|name| modules.has(name)));
        all.extend(wanted);
        Ok(modules.closure(&all, crc32c)?)
    }
}

/// The modules that any cell may want and that this kernel has.
fn usual(modules: &Modules) -> Vec<&'static str> {
    let filesystems = FILESYSTEMS.iter().filter(|def| guests::in_modules(modules, def));
    let filesystems = filesystems.flat_map(|def| guests::of_filesystem(modules, def));
    let schedulers = guests::SCHEDULERS.map(|(_, module)| module);
    filesystems
        .chain(Stack::all_modules())
        .chain(layers::MODULES)
        .chain(schedulers)
        .filter(|name| modules.has(name))
        .collect()
}

fn key(asked: KernelDemands) -> (String, String) {
    (asked.level.to_string(), format!("{} {}", asked.def.id, asked.further.join(" ")))
}
