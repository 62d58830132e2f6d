//! Journals on devices of their own: what mkfs leaves to do where the devices are files, which a guest takes for disks.

use crate::Error;
use crate::def::{DEBUGFS, FsDef, TUNE2FS};
use fsarena_core::event::CommandRecord;
use fsarena_sys::{Error as SysError, argv::Argv};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::{fs::File, io::Error as IoError, path::Path};

/// The superblock of ext, in bytes from the beginning.
const SUPERBLOCK: u64 = 1024;
/// In it: the size of blocks, as the power of two by which it is above 1024.
const BLOCK_SIZE: u64 = SUPERBLOCK + 24;
/// In it: the identity of the filesystem, and that of its journal.
const UUID: u64 = SUPERBLOCK + 104;
const JOURNAL_UUID: u64 = SUPERBLOCK + 208;
/// The superblock of a journal begins with this. In it: the number of filesystems that use it, and their identities.
const JOURNAL_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
const USERS: u64 = 64;
const FIRST_USER: u64 = 256;

/// Adds the block size of the journal to the arguments of an ext mkfs, unless they set a block size.
pub(crate) fn match_block_size(words: &mut Vec<String>, journal: &[&str]) {
    let own = journal.iter().position(|word| *word == "-b");
    if let Some(at) = own.filter(|_| !words.iter().any(|word| word == "-b")) {
        words.extend(journal[at..].iter().take(2).map(|word| word.to_string()));
    }
}

/// Joins an ext filesystem to a journal, as mke2fs does with block devices alone: it loses the journal that it has inside,
/// names this one, and is its one user.
///
/// # Errors
/// Where a file is not what it was taken for, or a program is not installed or fails.
pub(crate) fn join_journal(
    filesystem: &Path,
    journal: &Path,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<(), Error> {
    let uuid = set_only_user(filesystem, journal).map_err(SysError::io("joining", journal))?;
    let confined = |program: &str| Argv::new(program).writes_only([filesystem]);
    confined(TUNE2FS).args(["-O", "^has_journal"]).arg(filesystem).expect(log)?;
    let requests =
        ["feature has_journal".into(), format!("set_super_value journal_uuid {}", format_uuid(uuid))];
    for request in requests {
        confined(DEBUGFS).arg("-w").arg("-R").arg(request).arg(filesystem).expect(log)?;
    }
    // debugfs exits with 0 whatever it thinks of a request.
    match read_at(filesystem, JOURNAL_UUID).map_err(SysError::io("reading", filesystem))? {
        found if found == uuid => Ok(()),
        _ => {
            let why = format!("{DEBUGFS} did not join it to its journal {}", journal.display());
            Err(SysError::Unfit { what: filesystem.into(), why }.into())
        }
    }
}

/// Makes a filesystem the only user of a journal. Returns the UUID of the journal.
fn set_only_user(filesystem: &Path, journal: &Path) -> std::io::Result<[u8; 16]> {
    let file = File::options().read(true).write(true).open(journal)?;
    let [power] = read_at(journal, BLOCK_SIZE)?;
    let block = SUPERBLOCK << power.min(6);
    // The block behind that of the superblock of ext.
    let begin = if block == SUPERBLOCK { 2 * SUPERBLOCK } else { block };
    if read_at(journal, begin)? != JOURNAL_MAGIC {
        return Err(IoError::other("it holds no ext journal"));
    }
    let user: [u8; 16] = read_at(filesystem, UUID)?;
    file.write_all_at(&1u32.to_be_bytes(), begin + USERS)?;
    file.write_all_at(&user, begin + FIRST_USER)?;
    read_at(journal, UUID)
}

fn read_at<const N: usize>(path: &Path, offset: u64) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open(path)?.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// A UUID as text.
fn format_uuid(uuid: [u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(|part| part.concat()).join("-")
}

/// Writes the number of its journal's device into a filesystem, where that is what it finds its journal by. mkfs has
/// written the number that the device had where it ran; a guest's devices have others.
///
/// # Errors
/// Where a device cannot be read or written.
pub fn write_device_number(def: &FsDef, filesystem: &Path, journal: &Path) -> std::io::Result<()> {
    let offsets = def.journal.map_or(&[][..], |able| able.numbers);
    if offsets.is_empty() {
        return Ok(());
    }
    let rdev = journal.metadata()?.rdev();
    let number = encode_device(rustix::fs::major(rdev), rustix::fs::minor(rdev)).to_le_bytes();
    let file = File::options().write(true).open(filesystem)?;
    for offset in offsets {
        file.write_all_at(&number, *offset)?;
    }
    Ok(())
}

/// A device number as filesystems keep it (`new_encode_dev` of the kernel).
fn encode_device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems;

    #[test]
    fn numbers_are_as_the_kernel_encodes_them() {
        assert_eq!(encode_device(254, 32), 0xfe20);
        assert_eq!(encode_device(7, 0x12345), 0x1230_0745);
    }

    #[test]
    fn blocks_are_as_large_as_those_of_the_journal() {
        let like = |words: &[&str]| {
            let mut words = words.iter().map(|word| word.to_string()).collect();
            match_block_size(&mut words, &["-q", "-b", "4096"]);
            words.join(" ")
        };
        assert_eq!(like(&["-O", "extent"]), "-O extent -b 4096");
        assert_eq!(like(&["-b", "1024"]), "-b 1024");
    }

    #[test]
    fn the_number_goes_where_the_filesystem_looks_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(1 << 20).unwrap();
        // /dev/null has a device number that never changes: 1, 3.
        write_device_number(filesystems::find("jfs").unwrap(), &image, Path::new("/dev/null")).unwrap();
        for offset in [0x8000 + 64, 0xf000 + 64] {
            assert_eq!(read_at(&image, offset).unwrap(), [3, 1, 0, 0]);
        }
        std::fs::write(&image, "").unwrap();
        write_device_number(filesystems::find("xfs").unwrap(), &image, Path::new("/dev/null")).unwrap();
        assert_eq!(image.metadata().unwrap().len(), 0);
    }

    #[test]
    fn an_ext_filesystem_and_its_journal_know_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let [image, journal] = ["image", "journal"].map(|name| dir.path().join(name));
        for (path, size) in [(&image, 32 << 20), (&journal, 8 << 20)] {
            File::create(path).unwrap().set_len(size).unwrap();
        }
        for block in ["1024", "4096"] {
            let made = |program: &str, words: &[&str], path: &Path| {
                Argv::new(program)
                    .args(["-q", "-F", "-b", block])
                    .args(words)
                    .arg(path)
                    .expect(&mut |_| {})
                    .unwrap();
            };
            made("mke2fs", &["-O", "journal_dev"], &journal);
            made("mkfs.ext3", &[], &image);
            join_journal(&image, &journal, &mut |_| {}).unwrap();
            let shown =
                |path: &Path| Argv::new("dumpe2fs").arg("-h").arg(path).expect(&mut |_| {}).unwrap().stdout;
            let field = |text: &str, name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.trim().to_string()
            };
            let (of_image, of_journal) = (shown(&image), shown(&journal));
            assert!(field(&of_image, "Filesystem features:").contains("has_journal"), "{of_image}");
            assert!(!of_image.contains("Journal inode:"), "{of_image}");
            assert_eq!(field(&of_image, "Journal UUID:"), field(&of_journal, "Filesystem UUID:"));
            assert_eq!(
                field(&of_journal, "Journal users:"),
                field(&of_image, "Filesystem UUID:"),
                "{of_journal}"
            );
        }
        assert!(
            join_journal(&journal, &image, &mut |_| {})
                .unwrap_err()
                .to_string()
                .contains("holds no ext journal")
        );
    }
}
