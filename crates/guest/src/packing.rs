//! Packing fsarena itself into an initramfs, and what it is to do there.

use crate::config::{CONFIG, GuestConfig};
use crate::{Error, Result, cpio::Archive, modules::Module};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::{ffi::CStr, fs::File};

/// This very program, even where its file has been replaced since it was started.
pub(crate) const SELF: &str = "/proc/self/exe";
/// Where the guest's modules are.
const MODULES: &str = "/modules";

/// An initramfs that is the same for many guests, up to the config at its end.
#[derive(Debug)]
pub struct Initramfs {
    /// Where it is.
    pub path: PathBuf,
    file: File,
    /// Where the config begins.
    end: u64,
}

impl Initramfs {
    /// Packs this very program as `/init`, with the shared libraries that it is linked with, and these modules.
    ///
    /// # Errors
    /// Where a file cannot be read or written.
    pub fn pack(path: &Path, modules: &[Module]) -> Result<Initramfs> {
        let file = File::create(path).map_err(Error::io("writing", path))?;
        let written = write(&file, modules).map_err(Error::io("packing the initramfs", path))?;
        Ok(Initramfs { path: path.into(), file, end: written })
    }

    /// Replaces the config at its end.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn hand_over(&mut self, config: &GuestConfig) -> Result<()> {
        let text = serde_json::to_vec(config).map_err(|error| Error::unfit(&self.path, error.to_string()))?;
        let mut append = || -> std::io::Result<()> {
            self.file.set_len(self.end)?;
            self.file.seek(SeekFrom::Start(self.end))?;
            let mut archive = Archive::new(Vec::new());
            archive.file(CONFIG, &text)?;
            self.file.write_all(&archive.finish()?)
        };
        append().map_err(Error::io("writing", &self.path))
    }
}

/// Where a module is in the guest.
pub fn module_path(name: &str) -> String {
    format!("{MODULES}/{name}.ko")
}

/// Writes the archive and returns its length.
fn write(file: &File, modules: &[Module]) -> std::io::Result<u64> {
    let mut archive = Archive::new(BufWriter::new(file));
    // Without a console the kernel starts /init with no standard output, and what it says is lost.
    archive.character_device("/dev/console", (5, 1))?;
    for dir in ["/proc", "/sys", "/tmp", "/host", "/mnt"] {
        archive.directory(dir)?;
    }
    archive.program("/init", &std::fs::read(SELF)?)?;
    for library in libraries() {
        archive.program(&library, &std::fs::read(&library)?)?;
    }
    for module in modules {
        archive.file(&module_path(&module.name), &module.elf)?;
    }
    drop(archive.finish()?);
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

/// The shared libraries of this process and its dynamic linker, by the names under which the linker found them.
/// Nothing where the program is static.
pub(crate) fn libraries() -> Vec<String> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, names: *mut libc::c_void) -> i32 {
        // SAFETY: the linker passes a valid entry, whose name is null or ends with NUL and lives as long as this process;
        // `names` is the vector of the call below.
        let (name, names) = unsafe {
            let name = (*info).dlpi_name;
            ((!name.is_null()).then(|| CStr::from_ptr(name)), &mut *names.cast::<Vec<String>>())
        };
        names.extend(name.map(|name| name.to_string_lossy().into_owned()));
        0
    }
    let mut names: Vec<String> = vec![];
    // SAFETY: the callback only reads its entry and pushes to the vector that is passed through.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    // The program itself has no name, and what the kernel maps into every process has no path.
    names.retain(|name| name.starts_with('/'));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_this_process_are_files() {
        let found = libraries();
        assert!(
            cfg!(target_feature = "crt-static") || found.iter().any(|path| path.contains("libc.")),
            "{found:?}"
        );
        for library in found {
            assert!(std::fs::read(&library).unwrap().starts_with(b"\x7fELF"), "{library}");
        }
    }

    #[test]
    fn orders_replace_those_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("initramfs");
        let module = Module { name: "ext4".into(), elf: b"elf".to_vec() };
        let mut packed = Initramfs::pack(&path, &[module]).unwrap();
        let config = |words: &str| GuestConfig { request: words.into(), ..GuestConfig::default() };
        packed.hand_over(&config(&"long ".repeat(100))).unwrap();
        packed.hand_over(&config("short")).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has("modules/ext4.ko") && has("\"short\"") && has("init"));
        assert!(!bytes[packed.end as usize..].windows(4).any(|window| window == b"long"));
    }
}
