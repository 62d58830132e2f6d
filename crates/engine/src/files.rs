//! The files or block device of a job: preparing, opening and removing them, and the alignment that direct I/O needs.

use crate::error::{EngineError, Result};
use crate::job::{Content, Durability, LoadJob};
use crate::{buffers::Filler, verify::BlockIdentity};
use fsarena_sys::cancel;
use rustix::fs::{Advice, AtFlags, CWD, Mode, OFlags, SeekFrom, StatxFlags, fadvise};
use rustix::process::{Resource, getrlimit};
use rustix::{fd::OwnedFd, io::Errno};
use std::path::{Path, PathBuf};
use std::{fs::File, io::Write};

/// Bytes of one write while files are prepared.
const CHUNK: usize = 1 << 20;

/// Files, or one block device, that a job works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub(super) paths: Vec<PathBuf>,
    /// Bytes of each file, or of the used part of the device.
    pub(super) bytes_per_file: u64,
    pub(super) is_device: bool,
}

/// Files to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpec {
    /// Number of files.
    pub count: u32,
    /// Bytes of each file.
    pub bytes_per_file: u64,
    /// Their content.
    pub content: Content,
    /// Seed of the contents.
    pub seed: u64,
    /// Bytes of the verifiable blocks with which the files are filled, for jobs with [`LoadJob::verify`]; None for plain
    /// content.
    pub verified_block_bytes: Option<u32>,
}

impl Files {
    /// Files in a directory that do not exist yet, for jobs that create them.
    pub fn planned(dir: &Path, count: u32, bytes_per_file: u64) -> Files {
        let paths = (0..count).map(|number| dir.join(format!("test_file.{number}"))).collect();
        Files { paths, bytes_per_file, is_device: false }
    }

    /// Creates files, fills them with data, and syncs them to the device.
    ///
    /// # Errors
    /// A file cannot be written or synced, or its size is not a multiple of the verified block.
    pub fn prepare(dir: &Path, spec: &FileSpec) -> Result<Files> {
        let files = Files::planned(dir, spec.count, spec.bytes_per_file);
        if let Some(block) = spec.verified_block_bytes
            && (block < 64 || !spec.bytes_per_file.is_multiple_of(u64::from(block)))
        {
            return Err(EngineError::Job(format!(
                "files of {} bytes are not made of whole verified blocks of {block} bytes; blocks need at least 64",
                spec.bytes_per_file
            )));
        }
        let mut filler = Filler::new(spec.content, spec.seed);
        let mut buffer = vec![0; CHUNK.max(spec.verified_block_bytes.unwrap_or(0) as usize)];
        filler.fill(&mut buffer);
        for (number, path) in files.paths.iter().enumerate() {
            write_file(path, number as u32, spec, &mut filler, &mut buffer)?;
        }
        Ok(files)
    }

    /// Uses existing files, which must all have the same size.
    ///
    /// # Errors
    /// A path is not a readable regular file, or a file is empty or differs in size from the first.
    pub fn existing(paths: Vec<PathBuf>) -> Result<Files> {
        let mut bytes_per_file = None;
        for path in &paths {
            let metadata = std::fs::metadata(path).map_err(EngineError::io("reading the status of", path))?;
            let (length, first) = (metadata.len(), *bytes_per_file.get_or_insert(metadata.len()));
            let why = match length {
                _ if !metadata.is_file() => "it must be a regular file".into(),
                0 => "it is empty".into(),
                _ if length == first => continue,
                _ => format!("it has {length} bytes and the first file {first}; all must be alike"),
            };
            return Err(EngineError::Files { path: path.clone(), why });
        }
        let bytes_per_file = bytes_per_file.ok_or_else(|| EngineError::Job("the list of files is empty".into()))?;
        Ok(Files { paths, bytes_per_file, is_device: false })
    }

    /// Uses a whole block device. The caller must make sure that the user allows writes, which destroy the contents of the
    /// device.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn device(path: &Path) -> Result<Files> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let device = rustix::fs::open(path, flags, Mode::empty()).map_err(EngineError::io("opening", path))?;
        let bytes_per_file =
            rustix::fs::seek(&device, SeekFrom::End(0)).map_err(EngineError::io("finding the size of", path))?;
        Ok(Files { paths: vec![path.into()], bytes_per_file, is_device: true })
    }

    /// Uses the first `bytes` bytes of a block device; see [`Files::device`].
    ///
    /// # Errors
    /// The device cannot be opened or is smaller.
    pub fn start_of_device(path: &Path, bytes: u64) -> Result<Files> {
        let device = Files::device(path)?;
        if device.bytes_per_file < bytes {
            let why = format!("it has {} bytes and {bytes} are needed", device.bytes_per_file);
            return Err(EngineError::Files { path: path.into(), why });
        }
        Ok(Files { bytes_per_file: bytes, ..device })
    }

    /// The paths of all files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Bytes of each file, or of the used part of the device.
    pub fn bytes_per_file(&self) -> u64 {
        self.bytes_per_file
    }

    /// Drops all pages of the files from the page cache.
    ///
    /// # Errors
    /// A file cannot be opened or synced, or its pages cannot be dropped.
    pub fn drop_cached_pages(&self) -> Result {
        self.paths.iter().try_for_each(|path| {
            let file = File::open(path).map_err(EngineError::io("opening", path))?;
            // Only clean pages can be dropped.
            file.sync_all().map_err(EngineError::io("syncing", path))?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(EngineError::io("dropping the cached pages of", path))
        })
    }

    /// Removes the files that exist. Never removes a device.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self) -> Result {
        let mut existing = self.paths.iter().filter(|path| !self.is_device && path.exists());
        existing.try_for_each(|path| std::fs::remove_file(path).map_err(EngineError::io("removing", path)))
    }

    /// The layout of a job's blocks in the files.
    ///
    /// # Errors
    /// If a file is smaller than one block.
    pub(super) fn layout(&self, job: &LoadJob) -> Result<BlockLayout> {
        let block_bytes = u64::from(job.block_bytes);
        match self.bytes_per_file / block_bytes {
            0 => Err(EngineError::Files {
                path: self.paths[0].clone(),
                why: format!("it has {} bytes and a block {block_bytes}; use smaller blocks", self.bytes_per_file),
            }),
            blocks_per_file => {
                let file_count = self.paths.len() as u32;
                Ok(BlockLayout { file_count, blocks_per_file, block_bytes })
            }
        }
    }
}

/// Creates file `number` of a set and fills it; stops with an error after a signal. `buffer` is a filled buffer to write from.
fn write_file(path: &Path, number: u32, spec: &FileSpec, filler: &mut Filler, buffer: &mut [u8]) -> Result {
    let mut file = File::create(path).map_err(EngineError::io("making", path))?;
    let block = spec.verified_block_bytes.map(|block| block as usize);
    let chunk_bytes = block.map_or(buffer.len(), |block| buffer.len() / block * block);
    let mut offset = 0;
    while offset < spec.bytes_per_file {
        if cancel::received_signal().is_some() {
            let source = std::io::ErrorKind::Interrupted.into();
            return Err(EngineError::Io { doing: "making", path: path.into(), source });
        }
        let piece = &mut buffer[..chunk_bytes.min((spec.bytes_per_file - offset) as usize)];
        match block {
            None => filler.refresh(piece),
            Some(block) => {
                for (index, block) in piece.chunks_exact_mut(block).enumerate() {
                    let offset = offset + (index * block.len()) as u64;
                    filler.seal(block, BlockIdentity { file: number, offset, generation: 0 });
                }
            }
        }
        file.write_all(piece).map_err(EngineError::io("writing", path))?;
        offset += piece.len() as u64;
    }
    file.sync_all().map_err(EngineError::io("syncing", path))
}

/// The layout of numbered blocks in files of equal size.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockLayout {
    /// The number of files.
    pub file_count: u32,
    /// Blocks per file.
    pub blocks_per_file: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
}

impl BlockLayout {
    /// Number of blocks in all files.
    pub fn blocks(&self) -> u64 {
        u64::from(self.file_count) * self.blocks_per_file
    }

    /// The file and byte offset of a block.
    #[inline(always)]
    pub fn locate(&self, block: u64) -> (u32, u64) {
        if self.file_count == 1 {
            return (0, block * self.block_bytes);
        }
        let block_in_file = block % self.blocks_per_file;
        ((block / self.blocks_per_file) as u32, block_in_file * self.block_bytes)
    }
}

/// The alignment to assume if the kernel does not report it (before Linux 6.1): a sector.
const SECTOR_BYTES: u32 = 512;
/// The file descriptors that fsarena needs besides the files of a load.
const OTHER_DESCRIPTORS: u64 = 32;

/// Opens every file once, for all threads.
///
/// # Errors
/// If a file cannot be opened with these settings, direct I/O needs other blocks, or the limit of open files is too low.
pub fn open_all(job: &LoadJob, files: &Files) -> Result<Vec<OwnedFd>> {
    let needed = files.paths.len() as u64 + OTHER_DESCRIPTORS;
    if getrlimit(Resource::Nofile).maximum.is_some_and(|limit| limit < needed) {
        let problem = format!("this load needs {needed} open files in one process");
        let advice = "; raise the hard limit (`ulimit -Hn`), or use fewer files";
        return Err(EngineError::Resource { problem, source: Errno::MFILE.into(), advice });
    }
    files.paths.iter().map(|path| open_for_job(job, path)).collect()
}

/// Opens one file with the settings of a job; creates it anew if the job recreates its files.
fn open_for_job(job: &LoadJob, path: &Path) -> Result<OwnedFd> {
    let mut flags = OFlags::CLOEXEC | if job.writes() { OFlags::RDWR } else { OFlags::RDONLY };
    flags |= match job.open.durability {
        Durability::Plain => OFlags::empty(),
        Durability::Dsync => OFlags::DSYNC,
        Durability::Sync => OFlags::SYNC,
    };
    if job.open.recreate {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(EngineError::io("removing", path)(error));
            }
            _ => flags |= OFlags::CREATE | OFlags::EXCL,
        }
    }
    open_with(path, flags, job.open.direct, job.block_bytes)
}

/// Opens one file for reading, or if `for_writing` creates it if it is missing and opens it for writing.
///
/// # Errors
/// If the file cannot be opened, or direct I/O needs blocks of another alignment.
pub fn open_file(path: &Path, for_writing: bool, direct: bool, block_bytes: u32) -> Result<OwnedFd> {
    let access = if for_writing { OFlags::WRONLY | OFlags::CREATE } else { OFlags::RDONLY };
    open_with(path, OFlags::CLOEXEC | access, direct, block_bytes)
}

/// Opens a file with these flags, and with `O_DIRECT` if `direct`; then also checks the alignment of blocks.
fn open_with(path: &Path, flags: OFlags, direct: bool, block_bytes: u32) -> Result<OwnedFd> {
    let flags = if direct { flags | OFlags::DIRECT } else { flags };
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| {
        if error == Errno::INVAL && direct {
            let why = "its filesystem has no direct I/O; use buffered I/O or another filesystem".into();
            return EngineError::Files { path: path.into(), why };
        }
        EngineError::io("opening", path)(error)
    })?;
    if direct {
        check_alignment(path, block_bytes, dio_align(path))?;
    }
    Ok(file)
}

/// The alignment in bytes that direct I/O on a file requires of offsets and lengths, from statx.
pub fn dio_align(path: &Path) -> u32 {
    match rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN) {
        Ok(status) if StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN) => {
            status.stx_dio_offset_align.max(1)
        }
        _ => SECTOR_BYTES,
    }
}

/// Checks that blocks of this size are aligned for direct I/O.
fn check_alignment(path: &Path, block_bytes: u32, needed: u32) -> Result {
    if block_bytes.is_multiple_of(needed) {
        return Ok(());
    }
    let why = format!(
        "direct I/O needs blocks aligned to {needed} bytes, and this load has blocks of {block_bytes}; use a multiple of \
         {needed}, or buffered I/O"
    );
    Err(EngineError::Files { path: path.into(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: FileSpec =
        FileSpec { count: 2, bytes_per_file: 10_000, content: Content::Random, seed: 1, verified_block_bytes: None };

    #[test]
    fn prepared_files_are_filled_with_random_data() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::prepare(dir.path(), &SPEC).unwrap();
        let contents: Vec<Vec<u8>> = files.paths().iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(contents.iter().all(|bytes| bytes.len() == 10_000));
        assert_ne!(contents[0], contents[1]);
        for bytes in &contents {
            let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
            assert!(zeros < 100, "{zeros} of 10,000");
        }
        files.remove().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_prepared_for_verification_pass_the_check() {
        let dir = tempfile::tempdir().unwrap();
        let spec = FileSpec { bytes_per_file: 3 << 20, verified_block_bytes: Some(3072), ..SPEC };
        let files = Files::prepare(dir.path(), &spec).unwrap();
        for (number, path) in files.paths().iter().enumerate() {
            for (index, block) in std::fs::read(path).unwrap().chunks(3072).enumerate() {
                crate::verify::check_block(block, path, number as u32, index as u64 * 3072, Some(0)).unwrap();
            }
        }
    }

    #[test]
    fn unequal_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let paths = vec![dir.path().join("a"), dir.path().join("b")];
        std::fs::write(&paths[0], "1234").unwrap();
        std::fs::write(&paths[1], "123").unwrap();
        assert!(Files::existing(paths).unwrap_err().to_string().contains("3 bytes and the first file 4"));
        assert!(Files::existing(vec![]).is_err());
    }

    #[test]
    fn blocks_are_placed_over_files() {
        let layout = BlockLayout { file_count: 3, blocks_per_file: 4, block_bytes: 512 };
        assert_eq!(layout.blocks(), 12);
        assert_eq!(layout.locate(0), (0, 0));
        assert_eq!(layout.locate(5), (1, 512));
        assert_eq!(layout.locate(11), (2, 1536));
    }

    #[test]
    fn a_block_that_is_not_aligned_for_direct_io_is_refused() {
        assert!(check_alignment(Path::new("/f"), 4096, 512).is_ok());
        let error = check_alignment(Path::new("/f"), 512, 4096).unwrap_err().to_string();
        assert!(error.contains("aligned to 4096 bytes") && error.contains("blocks of 512"), "{error}");
    }

    #[test]
    fn recreated_files_are_empty() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::planned(dir.path(), 2, 4096);
        std::fs::write(&files.paths[1], "old").unwrap();
        let mut job = LoadJob { read_share: 0.0, ..LoadJob::default() };
        job.open.recreate = true;
        open_all(&job, &files).unwrap();
        assert!(files.paths.iter().all(|path| std::fs::metadata(path).unwrap().len() == 0));
    }
}
