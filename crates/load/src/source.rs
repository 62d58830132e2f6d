//! The tree that workloads copy and unpack, generated or from real directories, and its archive.

use crate::error::{Result, TaskError, failed_to};
use crate::payload::Payload;
use crate::tree::{GeneratedTree, TOP_DIR, TreeEntry};
use crate::workload::{DemandFinder, Demands, Job, remark_note};
use fsarena_core::{event::Note, schedule::mix, setting::SettingDef};
use fsarena_sys::cancel;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::fs::MetadataExt};
use tar::{Builder, EntryType, Header};
use walkdir::WalkDir;

/// The source of the tree that a workload copies, archives or unpacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeSource {
    /// A generated tree like that of the Linux kernel.
    Generated {
        /// The seed of its names and contents.
        seed: u64,
        /// Number of files.
        files: u64,
        /// Per cent of each file that is compressible text.
        compressible_percent: u8,
        /// Of 10,000 files, the number that get a twin: another file of the same size beside them.
        twins_per_10_000: u64,
    },
    /// Existing directories.
    Directories(Vec<PathBuf>),
}

/// The setting that names a real tree.
pub const TREE: SettingDef = SettingDef::path("tree").help(
    "directory whose tree is worked on, or several with `:` between them; empty for a generated tree like the kernel's",
);

/// The separator between the directories of [`TREE`].
pub const TREE_SEPARATOR: char = ':';

/// The setting for the size of the generated tree.
pub const TREE_FILES: SettingDef = SettingDef::int("tree_files", 0..=10_000_000, 0)
    .help("files of the generated tree; 0 for 20,000 at scale paper, and fewer at quick and tiny");

/// The setting for the contents of the generated tree.
pub const COMPRESSIBLE: SettingDef = SettingDef::int("compressible", 0..=100, 50)
    .help("per cent of each generated file that is text; the rest cannot be compressed");

/// The setting that adds a known amount of extra work.
pub const TWINS: SettingDef = SettingDef::int("twins", 0..=10_000, 0)
    .help("how many of 10,000 generated files get a second file of the same size beside them: 14 are 0.14% more work");

/// Number of files in the generated tree of a job.
pub fn generated_file_count(job: &Job) -> u64 {
    // 20,000 files as published, and at least 40 at the other scales.
    job.count_or_published(TREE_FILES.id, (20_000, 40))
}

/// Per cent of each generated file of a job that is compressible text.
pub fn compressible_percent(job: &Job) -> u8 {
    job.settings.int(COMPRESSIBLE.id) as u8
}

/// The size of a tree and of its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeSize {
    /// Regular files.
    pub files: u64,
    /// Directories, including the top one.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Sockets, pipes and devices, which the archive leaves out.
    pub special_files: u64,
    /// Bytes of all files, each rounded up to blocks of 4 KiB.
    pub bytes_in_blocks: u64,
    /// Bytes of its archive.
    pub archive_bytes: u64,
}

impl TreeSize {
    /// Bytes of the tree on a filesystem where each directory and symbolic link takes a block.
    pub fn unpacked_bytes(&self) -> u64 {
        self.bytes_in_blocks + 4096 * (self.directories + self.symlinks)
    }

    /// Number of files, directories and symbolic links, each of which takes an inode.
    pub fn inode_count(&self) -> u64 {
        self.files + self.directories + self.symlinks
    }

    /// Counts an entry of the tree. `name` is its path in the tree.
    fn count_entry(&mut self, kind: EntryType, name: &Path, bytes: u64) {
        let count = match kind {
            EntryType::Regular => &mut self.files,
            EntryType::Directory => &mut self.directories,
            EntryType::Symlink => &mut self.symlinks,
            _ => return self.special_files += 1,
        };
        *count += 1;
        self.bytes_in_blocks += bytes.next_multiple_of(4096);
        self.archive_bytes += entry_archive_bytes(name, bytes);
    }

    /// Counts an entry of a real directory, and adds its demands unless the archive leaves it out. Each name of a
    /// hard-linked file counts as a file, because the archive has its contents under each name.
    fn count_source_entry(&mut self, entry: &SourceEntry, finder: &mut DemandFinder) -> Result<()> {
        let kind = entry.kind();
        self.count_entry(kind, &entry.path_in_tree, entry.bytes());
        if kind == EntryType::Block {
            return Ok(());
        }
        if kind == EntryType::Symlink {
            let target = std::fs::read_link(&entry.path).map_err(failed_to("read link", &entry.path))?;
            self.archive_bytes += long_name_bytes(&target);
            finder.demands.symlink.get_or_insert_with(|| entry.path_in_tree.clone());
        }
        if (entry.metadata.uid(), entry.metadata.gid()) != (0, 0) {
            finder.demands.foreign_owner.get_or_insert_with(|| entry.path_in_tree.clone());
        }
        finder.add_name(&entry.path_in_tree);
        Ok(())
    }
}

impl TreeSource {
    /// The source of a job's tree, by [`TREE`], [`TREE_FILES`], [`COMPRESSIBLE`] and [`TWINS`].
    pub fn from_job(job: &Job) -> TreeSource {
        match job.settings.text(TREE.id) {
            "" => TreeSource::Generated {
                seed: job.seed,
                files: generated_file_count(job),
                compressible_percent: compressible_percent(job),
                // Some workloads do not have this setting.
                twins_per_10_000: job.settings.0.get(TWINS.id).map_or(0, |_| job.settings.int(TWINS.id) as u64),
            },
            path if Path::new(path).is_dir() => TreeSource::Directories(vec![path.into()]),
            paths => TreeSource::Directories(paths.split(TREE_SEPARATOR).map(PathBuf::from).collect()),
        }
    }

    /// Whether the tree is generated from the seed of a job.
    pub fn is_generated(&self) -> bool {
        matches!(self, TreeSource::Generated { .. })
    }

    /// The notes on the tree in every report. `tree_size` is that of [`TreeSource::measure`].
    pub fn notes(&self, tree_size: &TreeSize) -> Vec<Note> {
        let mut notes = vec![self.describe()];
        let special_files = tree_size.special_files;
        if special_files > 0 {
            let text = format!("{special_files} sockets, pipes and devices of the tree were left out of the archive");
            notes.push(remark_note(text));
        }
        notes
    }

    /// The note that describes the tree.
    fn describe(&self) -> Note {
        let text = match self {
            TreeSource::Directories(dirs) => {
                let dirs: Vec<_> = dirs.iter().map(|dir| dir.to_string_lossy()).collect();
                format!("the tree is that of {} as it was at the start of the run", dirs.join(" and "))
            }
            TreeSource::Generated { files, compressible_percent, twins_per_10_000, .. } => {
                let twins = match twins_per_10_000 {
                    0 => String::new(),
                    twins => format!(", {}% of them with a second file of the same size", *twins as f64 / 100.0),
                };
                format!(
                    "the tree is generated anew in each round: {files} files with the sizes and directories of the kernel's tree{twins}; {compressible_percent}% of each file is compressible text"
                )
            }
        };
        remark_note(text)
    }

    /// Measures the size of the tree, and finds its demands on a filesystem. A generated tree has none. One pass over
    /// the tree finds both, because a real tree may have a million files.
    ///
    /// # Errors
    /// If a directory of the tree is unreadable.
    pub fn measure(&self) -> Result<(TreeSize, Demands)> {
        let (mut tree_size, mut finder) = (TreeSize::default(), DemandFinder::default());
        match self {
            TreeSource::Generated { seed, files, twins_per_10_000, .. } => {
                let Ok(()) = generated_tree(*seed, *files, *twins_per_10_000).for_each(|entry| {
                    let kind = entry.bytes.map_or(EntryType::Directory, |_| EntryType::Regular);
                    tree_size.count_entry(kind, Path::new(&entry.path), entry.bytes.unwrap_or(0));
                    Ok::<_, std::convert::Infallible>(())
                });
            }
            TreeSource::Directories(dirs) => {
                for entry in walk_dirs(dirs) {
                    tree_size.count_source_entry(&entry?, &mut finder)?;
                }
            }
        }
        // An archive ends with two blocks of zeros.
        tree_size.archive_bytes = (tree_size.archive_bytes + 1024).next_multiple_of(TAR_RECORD_BYTES as u64);
        Ok((tree_size, finder.demands))
    }

    /// Writes the archive of the tree to a file, without syncing it.
    ///
    /// # Errors
    /// If a file of the tree cannot be read or the archive cannot be written.
    pub fn write_archive_file(&self, path: &Path) -> Result<File> {
        let file = File::create(path).map_err(failed_to("create", path))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        self.write_archive(&mut out)?;
        out.into_inner().map_err(|error| failed_to("write", path)(error.into_error()))
    }

    /// Writes the archive of the tree.
    ///
    /// # Errors
    /// If a file of the tree cannot be read or the archive cannot be written.
    pub fn write_archive(&self, out: impl Write) -> Result<()> {
        match self {
            TreeSource::Generated { seed, files, compressible_percent, twins_per_10_000 } => {
                let mut payload = Payload::new(*seed, *compressible_percent);
                archive_generated(out, &generated_tree(*seed, *files, *twins_per_10_000), &mut payload)
                    .map_err(TaskError::io("write the generated archive"))
            }
            TreeSource::Directories(dirs) => {
                let mut builder = start_archive(out);
                for entry in walk_dirs(dirs) {
                    let entry = entry?;
                    append_entry(&mut builder, &entry).map_err(failed_to("archive", &entry.path))?;
                }
                finish_archive(builder).map_err(TaskError::io("write the archive of the tree"))
            }
        }
    }
}

/// The tree that a generated source describes. A constant is mixed into its seed, so that its random numbers differ from
/// those of the contents, which use the seed itself.
fn generated_tree(seed: u64, files: u64, twins_per_10_000: u64) -> GeneratedTree {
    GeneratedTree { seed: mix(seed, 3), files, twins_per_10_000 }
}

/// An entry of a real directory, and its place in the tree.
struct SourceEntry {
    path: PathBuf,
    path_in_tree: PathBuf,
    metadata: std::fs::Metadata,
}

impl SourceEntry {
    /// The type of the entry in an archive: `Block` for all special files, which the archive leaves out.
    fn kind(&self) -> EntryType {
        match self.metadata.file_type() {
            kind if kind.is_file() => EntryType::Regular,
            kind if kind.is_dir() => EntryType::Directory,
            kind if kind.is_symlink() => EntryType::Symlink,
            _ => EntryType::Block,
        }
    }

    /// Bytes of the entry's contents in an archive.
    fn bytes(&self) -> u64 {
        if self.metadata.is_file() { self.metadata.len() } else { 0 }
    }
}

/// Walks through directories in sorted order, so that the same directories give the same archive. A single directory
/// becomes the tree itself; several become numbered directories in it.
fn walk_dirs(dirs: &[PathBuf]) -> impl Iterator<Item = Result<SourceEntry>> + use<'_> {
    let top_entry = dirs.first().filter(|_| dirs.len() > 1).map(|dir| {
        let metadata = dir.metadata().map_err(failed_to("read the tree at", dir))?;
        Ok(SourceEntry { path: dir.clone(), path_in_tree: TOP_DIR.into(), metadata })
    });
    let entries_of_dirs = dirs.iter().enumerate().flat_map(|(index, dir)| {
        let name = dir.file_name().unwrap_or_default().display();
        walk_dir(dir, if dirs.len() > 1 { format!("{TOP_DIR}/{}-{name}", index + 1) } else { TOP_DIR.into() })
    });
    top_entry.into_iter().chain(entries_of_dirs)
}

/// Walks through one directory, whose path in the tree is `top`.
fn walk_dir(dir: &Path, top: String) -> impl Iterator<Item = Result<SourceEntry>> + use<'_> {
    WalkDir::new(dir).follow_root_links(true).sort_by_file_name().into_iter().map(move |entry| {
        let unreadable = |error: walkdir::Error| {
            let path = error.path().unwrap_or(dir).to_path_buf();
            failed_to("read the tree at", &path)(error)
        };
        let entry = entry.map_err(unreadable)?;
        let metadata = if entry.depth() == 0 {
            // If `dir` is a link to a directory, `entry` is the link.
            let metadata = dir.metadata().map_err(failed_to("read the tree at", dir))?;
            if !metadata.is_dir() {
                return Err(failed_to("read the tree at", dir)(io::ErrorKind::NotADirectory));
            }
            metadata
        } else {
            entry.metadata().map_err(unreadable)?
        };
        let path_in_dir = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        // Joining an empty path would leave a slash at the end.
        let path_in_tree = if entry.depth() == 0 { PathBuf::from(&top) } else { Path::new(&top).join(path_in_dir) };
        Ok(SourceEntry { path_in_tree, metadata, path: entry.into_path() })
    })
}

fn append_entry<W: Write>(builder: &mut Builder<W>, entry: &SourceEntry) -> std::io::Result<()> {
    let (meta, kind, bytes) = (&entry.metadata, entry.kind(), entry.bytes());
    let mut header = tar_header(kind, [meta.mode(), meta.uid(), meta.gid()], meta.mtime(), bytes);
    match kind {
        EntryType::Regular => {
            let contents = ExactReader { file: File::open(&entry.path)?, bytes_left: bytes };
            builder.append_data(&mut header, &entry.path_in_tree, contents)
        }
        EntryType::Directory => builder.append_data(&mut header, &entry.path_in_tree, std::io::empty()),
        EntryType::Symlink => builder.append_link(&mut header, &entry.path_in_tree, std::fs::read_link(&entry.path)?),
        _ => Ok(()),
    }
}

/// Reads exactly the next `bytes_left` bytes of a file, because the header of its archive entry states this number.
/// Fails if the file is shorter.
struct ExactReader {
    file: File,
    bytes_left: u64,
}

impl Read for ExactReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let max_bytes = buf.len().min(usize::try_from(self.bytes_left).unwrap_or(usize::MAX));
        let read_bytes = self.file.read(&mut buf[..max_bytes])?;
        if read_bytes == 0 && max_bytes > 0 {
            return Err(std::io::Error::other("it shrank while it was read"));
        }
        self.bytes_left -= read_bytes as u64;
        Ok(read_bytes)
    }
}

/// Bytes of a record. GNU tar writes whole records and pads its archives to them.
pub const TAR_RECORD_BYTES: usize = 10_240;

/// Archives a generated tree as `tar cf` would. Files have mode 0644, directories 0755, and root owns all.
fn archive_generated(out: impl Write, tree: &GeneratedTree, payload: &mut Payload) -> std::io::Result<()> {
    let mut builder = start_archive(out);
    let mut contents = Vec::new();
    tree.for_each(|entry| {
        contents.resize(entry.bytes.unwrap_or(0) as usize, 0);
        payload.fill(&mut contents);
        builder.append_data(&mut make_generated_header(&entry)?, &entry.path, contents.as_slice())
    })?;
    finish_archive(builder)
}

/// Makes the header of an archive entry.
pub fn tar_header(kind: EntryType, [mode, uid, gid]: [u32; 3], mtime: i64, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o7777);
    header.set_uid(uid.into());
    header.set_gid(gid.into());
    header.set_mtime(mtime.max(0) as u64);
    header.set_size(bytes);
    header
}

fn make_generated_header(entry: &TreeEntry) -> std::io::Result<Header> {
    let (kind, mode) = entry.bytes.map_or((EntryType::Directory, 0o755), |_| (EntryType::Regular, 0o644));
    let mut header = tar_header(kind, [mode, 0, 0], entry.mtime as i64, entry.bytes.unwrap_or(0));
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}

/// Starts an archive. [`finish_archive`] ends it.
fn start_archive<W: Write>(out: W) -> Builder<ArchiveWriter<W>> {
    Builder::new(ArchiveWriter { out, written_bytes: 0 })
}

/// Ends an archive with two blocks of zeros, and fills the last record with more zeros.
fn finish_archive<W: Write>(builder: Builder<ArchiveWriter<W>>) -> std::io::Result<()> {
    let mut out = builder.into_inner()?;
    let padding_bytes = out.written_bytes.next_multiple_of(TAR_RECORD_BYTES) - out.written_bytes;
    out.write_all(&vec![0; padding_bytes])?;
    out.flush()
}

/// Bytes of an entry in an archive: its header, a second header for a long path, and its contents in blocks of 512
/// bytes.
fn entry_archive_bytes(path: &Path, bytes: u64) -> u64 {
    long_name_bytes(path) + 512 + bytes.next_multiple_of(512)
}

/// Extra bytes that an archive takes for a path or link target of more than 100 bytes, which does not fit into the
/// entry's header.
fn long_name_bytes(path: &Path) -> u64 {
    let length = path.as_os_str().len() as u64;
    if length > 100 { 512 + (length + 1).next_multiple_of(512) } else { 0 }
}

/// Counts the bytes of an archive. It fails after a signal has interrupted fsarena, because the archive of a large tree
/// takes minutes.
struct ArchiveWriter<W> {
    out: W,
    written_bytes: usize,
}

impl<W: Write> Write for ArchiveWriter<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        if cancel::received_signal().is_some() {
            // Callers retry after `ErrorKind::Interrupted`, so the error has another kind.
            return Err(std::io::Error::other("interrupted by a signal"));
        }
        let written = self.out.write(buf)?;
        self.written_bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Archives a tree, checks the size that [`TreeSource::measure`] predicts, and returns the entries.
    fn archive_entries(source: &TreeSource) -> Vec<(String, EntryType, u64)> {
        let mut bytes = Vec::new();
        source.write_archive(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, source.measure().unwrap().0.archive_bytes);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.path().unwrap().display().to_string(), entry.header().entry_type(), entry.size())
        });
        entries.collect()
    }

    #[test]
    fn a_real_directory_is_archived_without_sockets() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("b c")).unwrap();
        std::fs::write(dir.path().join("b c/f\n"), [1; 700]).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("a")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        let source = TreeSource::Directories(vec![dir.path().into()]);
        assert_eq!(
            archive_entries(&source),
            [
                ("tree".into(), EntryType::Directory, 0),
                ("tree/a".into(), EntryType::Symlink, 0),
                ("tree/b c".into(), EntryType::Directory, 0),
                ("tree/b c/f\n".into(), EntryType::Regular, 700),
            ]
        );
        let (tree_size, demands) = source.measure().unwrap();
        assert_eq!((tree_size.files, tree_size.directories, tree_size.symlinks, tree_size.special_files), (1, 2, 1, 1));
        assert_eq!((demands.symlink, demands.reserved_name), (Some("tree/a".into()), Some("tree/b c/f\n".into())));
        assert_eq!(tree_size.bytes_in_blocks, 4096);
    }

    #[test]
    fn an_entry_that_the_archive_leaves_out_demands_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("a:socket")).unwrap();
        let demands = TreeSource::Directories(vec![dir.path().into()]).measure().unwrap().1;
        assert_eq!((demands.reserved_name, demands.longest_name), (None, Some("tree".into())));
    }

    #[test]
    fn several_directories_are_numbered_in_the_tree() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a/x", "b/x"].map(|name| dir.path().join(name));
        dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        std::fs::write(dirs[1].join("f"), "1").unwrap();
        let names = archive_entries(&TreeSource::Directories(dirs.to_vec())).into_iter().map(|(name, ..)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["tree", "tree/1-x", "tree/2-x", "tree/2-x/f"]);
    }

    #[test]
    fn the_archive_size_includes_long_link_targets() {
        let dir = tempfile::tempdir().unwrap();
        for (name, length) in [("a", 100), ("b", 101), ("c", 600)] {
            std::os::unix::fs::symlink("x".repeat(length), dir.path().join(name)).unwrap();
        }
        // `archive_entries` compares the size of the archive with the predicted one.
        assert_eq!(archive_entries(&TreeSource::Directories(vec![dir.path().into()])).len(), 4);
    }

    #[test]
    fn the_error_for_a_missing_tree_has_its_path() {
        let error = TreeSource::Directories(vec!["/does not exist".into()]).measure().unwrap_err();
        assert!(error.to_string().starts_with("read the tree at /does not exist: "), "{error}");
    }

    #[test]
    fn a_link_to_a_directory_stands_for_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let [directory, link] = ["linux-6.1", "linux"].map(|name| dir.path().join(name));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("f"), "1").unwrap();
        std::os::unix::fs::symlink("linux-6.1", &link).unwrap();
        let source = TreeSource::Directories(vec![link]);
        assert_eq!(
            archive_entries(&source),
            [("tree".into(), EntryType::Directory, 0), ("tree/f".into(), EntryType::Regular, 1)]
        );
        assert_eq!(source.measure().unwrap().1.symlink, None);
    }

    #[test]
    fn a_file_instead_of_a_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("linux.tar");
        std::fs::write(&file, "").unwrap();
        for dirs in [vec![file.clone()], vec![dir.path().into(), file.clone()]] {
            let error = TreeSource::Directories(dirs).measure().unwrap_err().to_string();
            assert_eq!(error, format!("read the tree at {}: not a directory", file.display()));
        }
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_read_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"12345").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let error = std::io::copy(&mut ExactReader { file, bytes_left: 6 }, &mut std::io::sink()).unwrap_err();
        assert_eq!(error.to_string(), "it shrank while it was read");
    }

    #[test]
    fn the_measured_size_of_a_generated_tree_matches_its_archive() {
        let source = TreeSource::Generated { seed: 4, files: 100, compressible_percent: 50, twins_per_10_000: 0 };
        let (tree_size, _) = source.measure().unwrap();
        assert_eq!(archive_entries(&source).len() as u64, tree_size.files + tree_size.directories);
        assert_eq!(tree_size.files, 100);
    }

    fn archive_of_seed(seed: u64, files: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let tree = GeneratedTree { seed, files, twins_per_10_000: 0 };
        archive_generated(&mut bytes, &tree, &mut Payload::new(seed, 50)).unwrap();
        bytes
    }

    #[test]
    fn the_archive_of_a_seed_never_changes() {
        // A change here makes runs before and after it incomparable: it needs a new version.
        let hash = blake3::hash(&archive_of_seed(1, 40)).to_hex();
        assert_eq!(&hash[..32], "9c42e61f2623252e8187bbfb4da65276");
    }

    #[test]
    fn the_archive_size_follows_from_the_entries() {
        for files in [1, 40, 625] {
            let tree = crate::tree::generate_entries(3, files);
            let entry_bytes: u64 =
                tree.iter().map(|entry| entry_archive_bytes(Path::new(&entry.path), entry.bytes.unwrap_or(0))).sum();
            assert_eq!(
                archive_of_seed(3, files).len() as u64,
                (entry_bytes + 1024).next_multiple_of(TAR_RECORD_BYTES as u64)
            );
        }
    }

    #[test]
    fn the_archive_contains_the_generated_tree() {
        let bytes = archive_of_seed(5, 100);
        let mut archived = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_string();
            let is_file = entry.header().entry_type().is_file();
            let mut contents = Vec::new();
            entry.read_to_end(&mut contents).unwrap();
            archived.push(TreeEntry {
                path,
                bytes: is_file.then_some(contents.len() as u64),
                mtime: entry.header().mtime().unwrap(),
            });
        }
        assert_eq!(archived, crate::tree::generate_entries(5, 100));
    }
}
