//! What is booted beside a kernel: fsarena itself and the modules that a cell asks for, packed once a run.

use crate::executor::Fatal;
use crate::preflight::guests;
use fsarena_core::plan::Emulator;
use fsarena_fs::def::FsDef;
use fsarena_guest::exact;
use fsarena_guest::modules::{Module, Modules};
use fsarena_guest::packing::Initramfs;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Modules of virtual hardware that nothing else asks for.
const HARDWARE: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// What is booted beside a kernel.
pub struct Packed {
    pub initramfs: Initramfs,
    /// The modules in it, in the order in which they are loaded.
    pub modules: Vec<String>,
}

/// Packs what the cells of a run want.
pub struct Packer {
    emulator: Emulator,
    /// The filesystem of the other disk.
    other: &'static FsDef,
    dir: PathBuf,
    /// By the kernel's level and what of it is wanted.
    packed: BTreeMap<(String, String), Packed>,
}

impl Packer {
    /// Nothing is packed yet.
    pub fn new(emulator: Emulator, other: &'static FsDef, dir: PathBuf) -> Packer {
        Packer { emulator, other, dir, packed: BTreeMap::new() }
    }

    /// What is booted beside the kernel of a level for a filesystem and further modules.
    ///
    /// # Errors
    /// Where a module is missing or there is no room.
    pub fn of(
        &mut self,
        level: &str,
        modules: &Modules,
        def: &FsDef,
        further: &[String],
    ) -> Result<&mut Packed, Fatal> {
        let key = (level.to_string(), format!("{} {}", def.kernel_type, further.join(" ")));
        if !self.packed.contains_key(&key) {
            let modules = self.modules(modules, def, further)?;
            let path = self.dir.join(format!("initramfs-{}", self.packed.len()));
            let initramfs = Initramfs::pack(&path, &modules)?;
            let modules = modules.into_iter().map(|module| module.name).collect();
            self.packed.insert(key.clone(), Packed { initramfs, modules });
        }
        Ok(self.packed.get_mut(&key).expect("just inserted"))
    }

    fn modules(&self, modules: &Modules, def: &FsDef, further: &[String]) -> Result<Vec<Module>, Fatal> {
        if !modules.is_known() {
            return Ok(vec![]);
        }
        let mut wanted = vec![];
        if self.emulator == Emulator::Exact && exact::has_memory_disks(modules) {
            wanted.extend(exact::MEMORY_DISKS);
        } else if self.emulator != Emulator::Uml {
            wanted.extend(HARDWARE);
        }
        // Under translation the CPU's CRC32C is slower than the generic one; counted, it is what hardware would do.
        let crc32c = if self.emulator == Emulator::Exact { "crc32c_intel" } else { "crc32c_generic" };
        wanted.extend([crc32c].into_iter().filter(|name| modules.has(name)));
        wanted.extend([def, self.other].into_iter().flat_map(|def| guests::of_filesystem(modules, def)));
        wanted.extend(further.iter().map(String::as_str));
        Ok(modules.closure(&wanted, crc32c)?)
    }
}
