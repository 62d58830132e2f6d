//! Packs fsarena itself and the config of a guest into an initramfs.
//!
//! An initramfs is a cpio archive of the format "newc" (driver-api/early-userspace/buffer-format in the kernel's
//! documentation). A header is only text, so a device node requires neither mknod(2) nor root. The kernel unpacks all archives
//! of a file, so the config is a second archive behind the first one; fsarena replaces it for each guest.

use crate::config::{CONFIG_PATH, GuestConfig};
use crate::{Error, Result, modules::Module};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::{ffi::CStr, fs::File};

/// The running program, even if its file has been replaced since it was started.
pub(crate) const RUNNING_PROGRAM: &str = "/proc/self/exe";
/// The directory of the modules in the guest.
const MODULES_DIR: &str = "/modules";

/// An initramfs that is the same for many guests, up to the config at its end.
#[derive(Debug)]
pub struct Initramfs {
    /// Its file.
    pub path: PathBuf,
    file: File,
    /// The offset of the config.
    config_offset: u64,
}

impl Initramfs {
    /// Packs the running program as `/init`, with the shared libraries that it is linked with, and these modules.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn pack(path: &Path, modules: &[Module]) -> Result<Initramfs> {
        let file = File::create(path).map_err(Error::io("writing", path))?;
        let length = write_archive(&file, modules).map_err(Error::io("packing the initramfs", path))?;
        Ok(Initramfs { path: path.into(), file, config_offset: length })
    }

    /// Replaces the config at its end. No guest may be reading the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_config(&mut self, config: &GuestConfig) -> Result<()> {
        let text = serde_json::to_vec(config).map_err(|error| Error::invalid_file(&self.path, error.to_string()))?;
        let mut append = || -> std::io::Result<()> {
            self.file.set_len(self.config_offset)?;
            self.file.seek(SeekFrom::Start(self.config_offset))?;
            let mut archive = CpioArchive::new(Vec::new());
            archive.add_file(CONFIG_PATH, &text)?;
            self.file.write_all(&archive.finish()?)
        };
        append().map_err(Error::io("writing", &self.path))
    }
}

/// The path of a module in the guest.
pub fn module_path(name: &str) -> String {
    format!("{MODULES_DIR}/{name}.ko")
}

/// Writes the archive and returns its length.
fn write_archive(file: &File, modules: &[Module]) -> std::io::Result<u64> {
    let mut archive = CpioArchive::new(BufWriter::new(file));
    // Without a console the kernel starts /init with no standard output, and its output is lost.
    archive.add_character_device("/dev/console", (5, 1))?;
    // `/host` is the mount point of the files of the host.
    for dir in ["/proc", "/sys", "/tmp", "/host", "/mnt"] {
        archive.add_directory(dir)?;
    }
    archive.add_program("/init", &std::fs::read(RUNNING_PROGRAM)?)?;
    for library in libraries() {
        archive.add_program(&library, &std::fs::read(&library)?)?;
    }
    for module in modules {
        archive.add_file(&module_path(&module.name), &module.elf)?;
    }
    drop(archive.finish()?);
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

/// The shared libraries of this process and its dynamic linker, by the names under which the linker found them.
/// Empty if the program is statically linked.
pub(crate) fn libraries() -> Vec<String> {
    unsafe extern "C" fn add_name(info: *mut libc::dl_phdr_info, _: usize, names: *mut libc::c_void) -> i32 {
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
    unsafe { libc::dl_iterate_phdr(Some(add_name), (&raw mut names).cast()) };
    // The program itself has an empty name, and the vDSO of the kernel has a name without a path.
    names.retain(|name| name.starts_with('/'));
    names
}

const DIRECTORY_MODE: u32 = 0o040_755;
const FILE_MODE: u32 = 0o100_644;
const PROGRAM_MODE: u32 = 0o100_755;
const CHARACTER_DEVICE_MODE: u32 = 0o020_600;
/// Names, contents and archives end at multiples of this number of bytes.
const ALIGNMENT: usize = 4;
/// The name of the last entry of every archive.
const END_NAME: &str = "TRAILER!!!";

/// A cpio archive that is being written.
pub struct CpioArchive<W> {
    out: W,
    entry_count: u32,
    directories: std::collections::BTreeSet<String>,
}

impl<W: Write> CpioArchive<W> {
    /// An archive without entries.
    pub fn new(out: W) -> CpioArchive<W> {
        CpioArchive { out, entry_count: 0, directories: Default::default() }
    }

    /// Adds a file at a path of the guest, and the directories above it.
    ///
    /// # Errors
    /// Those of the writer, and a file of 4 GiB or more.
    pub fn add_file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.add_entry_with_parents(path, FILE_MODE, (0, 0), bytes)
    }

    /// Adds an executable file, and the directories above it.
    ///
    /// # Errors
    /// The errors of [`CpioArchive::add_file`].
    pub fn add_program(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.add_entry_with_parents(path, PROGRAM_MODE, (0, 0), bytes)
    }

    /// Adds a directory and its parent directories.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn add_directory(&mut self, path: &str) -> io::Result<()> {
        self.add_parents(&format!("{path}/"))
    }

    /// Adds a character device.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn add_character_device(&mut self, path: &str, device: (u32, u32)) -> io::Result<()> {
        self.add_entry_with_parents(path, CHARACTER_DEVICE_MODE, device, &[])
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.add_entry(END_NAME, 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn add_parents(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            if self.directories.insert(path[..end].to_string()) {
                self.add_entry(&path[..end], DIRECTORY_MODE, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    fn add_entry_with_parents(&mut self, path: &str, mode: u32, device: (u32, u32), bytes: &[u8]) -> io::Result<()> {
        self.add_parents(path)?;
        self.add_entry(path, mode, device, bytes)
    }

    /// Adds an entry with this mode; `device` has the major and minor number of a device node.
    fn add_entry(&mut self, path: &str, mode: u32, device: (u32, u32), bytes: &[u8]) -> io::Result<()> {
        let name = path.trim_start_matches('/');
        let size =
            u32::try_from(bytes.len()).map_err(|_| io::Error::other(format!("{name}: too large for an initramfs")))?;
        self.entry_count += 1;
        let (major, minor) = device;
        let links = if mode & DIRECTORY_MODE == DIRECTORY_MODE { 2 } else { 1 };
        // Inode, mode, uid, gid, links, mtime, size, the device that contains it, its own device number, length of the
        // name, checksum. The time is constant, so that equal contents make equal archives.
        let fields = [self.entry_count, mode, 0, 0, links, 0, size, 0, 0, major, minor, name.len() as u32 + 1, 0];
        let mut text = String::from("070701");
        fields.iter().for_each(|field| text += &format!("{field:08X}"));
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.pad(text.len() + name.len() + 1, 1)?;
        self.out.write_all(bytes)?;
        self.pad(bytes.len(), 0)
    }

    /// Ends a part of an entry with `min_zeros` zero bytes, and with further zero bytes up to a multiple of [`ALIGNMENT`].
    /// `length` is the length of the part in bytes, with `min_zeros` included.
    fn pad(&mut self, length: usize, min_zeros: usize) -> io::Result<()> {
        let zeros = min_zeros + length.next_multiple_of(ALIGNMENT) - length;
        self.out.write_all(&[0; 2 * ALIGNMENT][..zeros])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_libraries_of_this_process_are_files() {
        let libraries = libraries();
        let has_libc = libraries.iter().any(|path| path.contains("libc."));
        assert!(cfg!(target_feature = "crt-static") || has_libc, "{libraries:?}");
        for library in libraries {
            assert!(std::fs::read(&library).unwrap().starts_with(b"\x7fELF"), "{library}");
        }
    }

    #[test]
    fn a_config_replaces_the_previous_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("initramfs");
        let module = Module { name: "ext4".into(), elf: b"elf".to_vec() };
        let mut packed = Initramfs::pack(&path, &[module]).unwrap();
        let config = |words: &str| GuestConfig { request: words.into(), ..GuestConfig::default() };
        packed.set_config(&config(&"long ".repeat(100))).unwrap();
        packed.set_config(&config("short")).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has("modules/ext4.ko") && has("\"short\"") && has("init"));
        assert!(!bytes[packed.config_offset as usize..].windows(4).any(|window| window == b"long"));
    }

    #[test]
    fn an_entry_has_the_newc_format() {
        let mut archive = CpioArchive::new(Vec::new());
        archive.add_file("/ab", b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with(
            "07070100000001000081A4000000000000000000000001000000000000000500000000000000000000000000000000\
             0000000300000000ab\x00\x00\x00\x00hello\x00\x00\x00070701"
        ));
        assert!(text.trim_end_matches('\0').ends_with(END_NAME));
        assert_eq!(bytes.len() % ALIGNMENT, 0);
    }

    #[test]
    fn directories_appear_once_and_before_their_contents() {
        let mut archive = CpioArchive::new(Vec::new());
        archive.add_program("/usr/lib/a", b"1").unwrap();
        archive.add_file("/usr/lib/b", b"2").unwrap();
        archive.add_character_device("/dev/console", (5, 1)).unwrap();
        let bytes = archive.finish().unwrap();
        let names: Vec<String> = names(&bytes);
        assert_eq!(names, ["usr", "usr/lib", "usr/lib/a", "usr/lib/b", "dev", "dev/console", END_NAME]);
    }

    /// The names of an archive, by the lengths in its headers.
    fn names(bytes: &[u8]) -> Vec<String> {
        let (mut offset, mut names) = (0, vec![]);
        while bytes[offset..].starts_with(b"070701") {
            let field = |number: usize| {
                let text = std::str::from_utf8(&bytes[offset + 6 + 8 * number..offset + 14 + 8 * number]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (size, name_length) = (field(6), field(11));
            names.push(String::from_utf8_lossy(&bytes[offset + 110..offset + 110 + name_length - 1]).into_owned());
            offset = (offset + 110 + name_length).next_multiple_of(ALIGNMENT) + size.next_multiple_of(ALIGNMENT);
            if offset >= bytes.len() {
                break;
            }
        }
        names
    }

    #[test]
    fn cpio_can_read_an_archive() {
        let mut archive = CpioArchive::new(Vec::new());
        archive.add_file("/etc/one", b"1").unwrap();
        let bytes = archive.finish().unwrap();
        let Ok(mut cpio) = Command::new("cpio").arg("-t").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            return fsarena_sys::testkit::record_skip("program cpio");
        };
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = cpio.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "etc\netc/one\n");
    }
}
