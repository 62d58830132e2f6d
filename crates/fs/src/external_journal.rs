//! External journals, which are on a separate device: joins an ext filesystem and its journal if both are image files (mke2fs
//! joins only block devices), and writes the device number of the journal into a filesystem.

use crate::Error;
use crate::def::{DEBUGFS, FsDef, TUNE2FS};
use fsarena_core::event::CommandRecord;
use fsarena_sys::{Error as SysError, argv::Argv};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::{fs::File, io::Error as IoError, path::Path};

/// The offset of the ext superblock, in bytes.
const SUPERBLOCK_OFFSET: u64 = 1024;
/// The offset of the block size, stored as log2(bytes / 1024).
const BLOCK_SIZE_OFFSET: u64 = SUPERBLOCK_OFFSET + 24;
/// The offset of the UUID of the filesystem.
const UUID_OFFSET: u64 = SUPERBLOCK_OFFSET + 104;
/// The offset of the UUID of its journal.
const JOURNAL_UUID_OFFSET: u64 = SUPERBLOCK_OFFSET + 208;
/// The first bytes of the superblock of a journal.
const JOURNAL_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
/// In the superblock of a journal: the offset of the number of filesystems that use the journal.
const USER_COUNT_OFFSET: u64 = 64;
/// In the superblock of a journal: the offset of the UUID of the first filesystem that uses the journal.
const FIRST_USER_OFFSET: u64 = 256;
/// The largest binary logarithm of a block size in KiB: blocks have at most 64 KiB.
const MAX_BLOCK_POWER: u8 = 6;

/// Adds the block size in the mkfs arguments of a journal to the mkfs arguments of an ext filesystem, unless these set a block
/// size.
pub(crate) fn match_block_size(mkfs_args: &mut Vec<String>, journal_args: &[&str]) {
    if mkfs_args.iter().any(|arg| arg == "-b") {
        return;
    }
    if let Some(position) = journal_args.iter().position(|arg| *arg == "-b") {
        mkfs_args.extend(journal_args[position..].iter().take(2).map(|arg| arg.to_string()));
    }
}

/// Joins an ext filesystem to an external journal: removes the internal journal of the filesystem, writes the UUID of the
/// external journal into the filesystem, and makes the filesystem the only user of that journal.
///
/// # Errors
/// A file has no ext filesystem or journal, or tune2fs or debugfs is not installed or fails.
pub(crate) fn join_journal(filesystem: &Path, journal: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
    let uuid = set_only_user(filesystem, journal).map_err(SysError::io("joining", journal))?;
    let confined = |program: &str| Argv::new(program).confine_writes_to([filesystem]);
    confined(TUNE2FS).args(["-O", "^has_journal"]).arg(filesystem).run_checked(log)?;
    let requests = ["feature has_journal".into(), format!("set_super_value journal_uuid {}", format_uuid(uuid))];
    for request in requests {
        confined(DEBUGFS).arg("-w").arg("-R").arg(request).arg(filesystem).run_checked(log)?;
    }
    // debugfs exits with 0 even if a request fails.
    match read_at(filesystem, JOURNAL_UUID_OFFSET).map_err(SysError::io("reading", filesystem))? {
        found if found == uuid => Ok(()),
        _ => {
            let why = format!("{DEBUGFS} did not join it to its journal {}", journal.display());
            Err(SysError::Unusable { object: filesystem.into(), why }.into())
        }
    }
}

/// Makes a filesystem the only user of a journal. Returns the UUID of the journal.
fn set_only_user(filesystem: &Path, journal: &Path) -> std::io::Result<[u8; 16]> {
    let file = File::options().read(true).write(true).open(journal)?;
    let [power] = read_at(journal, BLOCK_SIZE_OFFSET)?;
    let block_bytes = 1024_u64 << u8::min(power, MAX_BLOCK_POWER);
    // The superblock of the journal is in the block after the ext superblock.
    let journal_superblock = if block_bytes == SUPERBLOCK_OFFSET { 2 * block_bytes } else { block_bytes };
    if read_at(journal, journal_superblock)? != JOURNAL_MAGIC {
        return Err(IoError::other("it holds no ext journal"));
    }
    let filesystem_uuid: [u8; 16] = read_at(filesystem, UUID_OFFSET)?;
    file.write_all_at(&1u32.to_be_bytes(), journal_superblock + USER_COUNT_OFFSET)?;
    file.write_all_at(&filesystem_uuid, journal_superblock + FIRST_USER_OFFSET)?;
    read_at(journal, UUID_OFFSET)
}

/// Reads `N` bytes of a file or device at an offset.
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

/// Writes the device number of the journal into a filesystem that finds its journal by this number; does nothing for other
/// filesystems. mkfs has written the number that the device had on the machine of mkfs, and in a guest the device has another
/// number.
///
/// # Errors
/// A device cannot be read or written.
pub fn write_device_number(def: &FsDef, filesystem: &Path, journal: &Path) -> std::io::Result<()> {
    let offsets = def.journal.map_or(&[][..], |def| def.device_number_offsets);
    if offsets.is_empty() {
        return Ok(());
    }
    let rdev = journal.metadata()?.rdev();
    let number = encode_device_number(rustix::fs::major(rdev), rustix::fs::minor(rdev)).to_le_bytes();
    let file = File::options().write(true).open(filesystem)?;
    for offset in offsets {
        file.write_all_at(&number, *offset)?;
    }
    Ok(())
}

/// A device number in the encoding that filesystems store (`new_encode_dev` of the kernel).
fn encode_device_number(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems;

    #[test]
    fn device_numbers_are_encoded_like_in_the_kernel() {
        assert_eq!(encode_device_number(254, 32), 0xfe20);
        assert_eq!(encode_device_number(7, 0x12345), 0x1230_0745);
    }

    #[test]
    fn the_block_size_of_the_journal_is_added_unless_one_is_set() {
        let matched = |words: &[&str]| {
            let mut words = words.iter().map(|word| word.to_string()).collect();
            match_block_size(&mut words, &["-q", "-b", "4096"]);
            words.join(" ")
        };
        assert_eq!(matched(&["-O", "extent"]), "-O extent -b 4096");
        assert_eq!(matched(&["-b", "1024"]), "-b 1024");
    }

    #[test]
    fn the_device_number_is_written_to_each_offset() {
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
    fn join_journal_links_filesystem_and_journal() {
        let dir = tempfile::tempdir().unwrap();
        let [image, journal] = ["image", "journal"].map(|name| dir.path().join(name));
        for (path, size) in [(&image, 32 << 20), (&journal, 8 << 20)] {
            File::create(path).unwrap().set_len(size).unwrap();
        }
        for block in ["1024", "4096"] {
            let run_mkfs = |program: &str, words: &[&str], path: &Path| {
                Argv::new(program)
                    .args(["-q", "-F", "-b", block])
                    .args(words)
                    .arg(path)
                    .run_checked(&mut |_| {})
                    .unwrap();
            };
            run_mkfs("mke2fs", &["-O", "journal_dev"], &journal);
            run_mkfs("mkfs.ext3", &[], &image);
            join_journal(&image, &journal, &mut |_| {}).unwrap();
            let describe =
                |path: &Path| Argv::new("dumpe2fs").arg("-h").arg(path).run_checked(&mut |_| {}).unwrap().stdout;
            let field = |text: &str, name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.trim().to_string()
            };
            let (of_image, of_journal) = (describe(&image), describe(&journal));
            assert!(field(&of_image, "Filesystem features:").contains("has_journal"), "{of_image}");
            assert!(!of_image.contains("Journal inode:"), "{of_image}");
            assert_eq!(field(&of_image, "Journal UUID:"), field(&of_journal, "Filesystem UUID:"));
            assert_eq!(field(&of_journal, "Journal users:"), field(&of_image, "Filesystem UUID:"), "{of_journal}");
        }
        assert!(join_journal(&journal, &image, &mut |_| {}).unwrap_err().to_string().contains("holds no ext journal"));
    }
}
