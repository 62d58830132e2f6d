//! Writing the archive that Linux unpacks before it starts `/init`.
//!
//! The format is "newc" as the kernel's documentation has it (driver-api/early-userspace/buffer-format). A header is
//! only text, so a device node needs neither mknod(2) nor root. The kernel unpacks any number of archives that
//! follow one another, which is how a request reaches a guest: it is appended.

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// Names, contents and archives end at whole multiples of this.
const ALIGN: usize = 4;
const END: &str = "TRAILER!!!";

/// An archive that is being written.
pub struct Archive<W> {
    out: W,
    entries: u32,
    directories: std::collections::BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// An archive without entries.
    pub fn new(out: W) -> Archive<W> {
        Archive { out, entries: 0, directories: Default::default() }
    }

    /// Adds a file at a path of the guest, and the directories above it.
    ///
    /// # Errors
    /// Those of the writer, and a file of 4 GiB or more.
    pub fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.entry_below(path, FILE, (0, 0), bytes)
    }

    /// Adds an executable file, and the directories above it.
    ///
    /// # Errors
    /// As for [`Archive::file`].
    pub fn program(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.entry_below(path, PROGRAM, (0, 0), bytes)
    }

    /// Adds a directory, and those above it.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn directory(&mut self, path: &str) -> io::Result<()> {
        self.directories_above(&format!("{path}/"))
    }

    /// Adds a character device.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn character_device(&mut self, path: &str, device: (u32, u32)) -> io::Result<()> {
        self.entry_below(path, CHARACTER_DEVICE, device, &[])
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(END, 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn directories_above(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            if self.directories.insert(path[..end].to_string()) {
                self.entry(&path[..end], DIRECTORY, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    fn entry_below(&mut self, path: &str, mode: u32, device: (u32, u32), bytes: &[u8]) -> io::Result<()> {
        self.directories_above(path)?;
        self.entry(path, mode, device, bytes)
    }

    /// An entry with this mode, and with the numbers of a device node.
    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), bytes: &[u8]) -> io::Result<()> {
        let name = path.trim_start_matches('/');
        let size = u32::try_from(bytes.len())
            .map_err(|_| io::Error::other(format!("{name}: too large for an initramfs")))?;
        self.entries += 1;
        let (major, minor) = device;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        // Inode, mode, uid, gid, links, mtime, size, the device it is on, the device it is, name, checksum. The
        // time is always the same: equal contents make equal archives.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, major, minor, name.len() as u32 + 1, 0];
        let mut text = String::from("070701");
        fields.iter().for_each(|field| text += &format!("{field:08X}"));
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.pad(text.len() + name.len() + 1, 1)?;
        self.out.write_all(bytes)?;
        self.pad(bytes.len(), 0)
    }

    /// Ends with `least` zero bytes, and more where the length so far is not aligned.
    fn pad(&mut self, length: usize, least: usize) -> io::Result<()> {
        let zeros = least + length.next_multiple_of(ALIGN) - length;
        self.out.write_all(&[0; 2 * ALIGN][..zeros])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_entry_is_what_the_format_says() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/ab", b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with(
            "07070100000001000081A4000000000000000000000001000000000000000500000000000000000000000000000000\
             0000000300000000ab\x00\x00\x00\x00hello\x00\x00\x00070701"
        ));
        assert!(text.trim_end_matches('\0').ends_with(END));
        assert_eq!(bytes.len() % ALIGN, 0);
    }

    #[test]
    fn directories_come_once_and_before_what_is_in_them() {
        let mut archive = Archive::new(Vec::new());
        archive.program("/usr/lib/a", b"1").unwrap();
        archive.file("/usr/lib/b", b"2").unwrap();
        archive.character_device("/dev/console", (5, 1)).unwrap();
        let bytes = archive.finish().unwrap();
        let names: Vec<String> = names(&bytes);
        assert_eq!(names, ["usr", "usr/lib", "usr/lib/a", "usr/lib/b", "dev", "dev/console", END]);
    }

    /// The names of an archive, by the lengths in its headers.
    fn names(bytes: &[u8]) -> Vec<String> {
        let (mut at, mut names) = (0, vec![]);
        while bytes[at..].starts_with(b"070701") {
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (size, name) = (field(6), field(11));
            names.push(String::from_utf8_lossy(&bytes[at + 110..at + 110 + name - 1]).into_owned());
            at = (at + 110 + name).next_multiple_of(ALIGN) + size.next_multiple_of(ALIGN);
            if at >= bytes.len() {
                break;
            }
        }
        names
    }

    #[test]
    fn cpio_itself_reads_it() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/etc/one", b"1").unwrap();
        let bytes = archive.finish().unwrap();
        let Ok(mut cpio) =
            Command::new("cpio").arg("-t").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        else {
            return fsarena_testkit::skipped("program cpio");
        };
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let said = cpio.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "etc\netc/one\n");
    }
}
