//! Mounts, syncs and unmounts the filesystem under test, in the agent.
//!
//! This needs no undo journal: the executor has written the mount into its own before it starts the agent.

use crate::bench::{Bench, lifecycle_task};
use crate::error::{CellError, CellResult};
use crate::executor::CommandLog;
use crate::{layers, pools::Pool, protocol::MountRequest};
use bytesize::ByteSize;
use fsarena_core::event::{Activity, Cause, Note, NoteKind};
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, metric::reading, number::plural};
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{Error, dirs::FilesystemSpace, kernel::SysRoot, mount};
use std::{fs::File, os::unix::fs::FileTypeExt, path::Path};

/// Mounts the filesystem. Returns the peak memory of mount(8) in bytes; 0 if mounted by a system call.
///
/// # Errors
/// The mount fails, with the message of mount(8) or of the kernel.
pub fn mount(request: &MountRequest, log: CommandLog) -> Result<u64, Error> {
    let peak_bytes = mount_filesystem(request, log)?;
    if let Some(layer) = &request.layer {
        layers::set_up(&request.target, layer, log)?;
    }
    Ok(peak_bytes)
}

fn mount_filesystem(request: &MountRequest, log: CommandLog) -> Result<u64, Error> {
    let MountRequest { source, target, fs_type, options, by_syscall, .. } = request;
    let command = mount::mount_command(source, target, fs_type, options);
    if !by_syscall {
        return Ok(command.run_checked(log)?.max_rss_bytes);
    }
    let pool = Pool::of(fs_type);
    let source = match &pool {
        Some(pool) => {
            pool.open(log)?;
            pool.source()
        }
        None => source,
    };
    let mounted = mount::mount_by_syscall(source, target, fs_type, options, log);
    mounted.map_err(Error::io("mounting", source))?;
    Ok(0)
}

/// Unmounts the filesystem.
///
/// # Errors
/// The filesystem stays in use.
pub fn unmount(request: &MountRequest, log: CommandLog) -> Result<(), Error> {
    let target = &request.target;
    unmount_layer(request, log)?;
    unmount_dir(request, target, log)?;
    match Pool::of(&request.fs_type) {
        Some(pool) => pool.close(log),
        None => Ok(()),
    }
}

fn unmount_layer(request: &MountRequest, log: CommandLog) -> Result<(), Error> {
    let Some(layer) = &request.layer else { return Ok(()) };
    unmount_dir(request, &layers::layer_root(&request.target, &layer.level), log)?;
    layers::wait_for_program()
}

fn unmount_dir(request: &MountRequest, dir: &Path, log: CommandLog) -> Result<(), Error> {
    match request.by_syscall {
        true => mount::unmount_by_syscall(dir, log),
        false => mount::unmount(dir, log),
    }
}

/// Moves the files that were written through the layer so far to the directories below it, and mounts the layer again.
///
/// # Errors
/// The layer stays in use, or the filesystem refuses.
pub fn commit_layer(request: &MountRequest, log: CommandLog) -> Result<(), Error> {
    let Some(layer) = &request.layer else { return Ok(()) };
    unmount_layer(request, log)?;
    layers::commit_written_files(&request.target, layer)?;
    layers::set_up(&request.target, layer, log)
}

/// A note on the files that a task copied up from below the layer; None if it copied none.
///
/// # Errors
/// The filesystem refuses.
pub fn copies_note(request: &MountRequest, task: &str) -> Result<Option<Note>, Error> {
    let Some(layer) = &request.layer else { return Ok(None) };
    let (files, bytes) = layers::count_new_copies(&request.target, layer)?;
    let (files_text, size) = (plural(files as usize, "file"), ByteSize(bytes));
    let text = format!("copied up to the upper directory: {files_text}, {size} after the task");
    Ok((files > 0).then(|| Note::new(NoteKind::Remark, text).task(task)))
}

/// Mounts the filesystem as a measured task. `before_mount` runs before the mount and is timed with it.
pub fn measure_mount(
    kernel: &SysRoot,
    request: &MountRequest,
    info: &TaskInfo,
    before_mount: impl FnOnce(CommandLog) -> Result<(), Error>,
    bench: &mut Bench,
) -> CellResult {
    bench.wait_until_idle(&info.id.to_string());
    let mut readings = Readings::default();
    let work = |log: CommandLog| {
        before_mount(log)?;
        let peak_bytes = mount(request, log)?;
        if let Some(bytes) = FilesystemSpace::at_path(&request.target).ok().and_then(|space| space.free_bytes()) {
            readings.set(reading::USABLE_BYTES, bytes as f64);
        }
        let device = BlockDevice::open(kernel, &request.source).ok();
        if let Some(bytes) = device.and_then(|device| device.size_bytes()) {
            readings.set(reading::DEVICE_SIZE, bytes as f64);
        }
        Ok::<_, Error>(TaskOutput { peak_memory_bytes: peak_bytes, ..TaskOutput::from(readings) })
    };
    bench.measure(info, Activity::Lifecycle, work, || sync_all(&[&request.target]))?;
    if let Some(journal) = &request.journal
        && !device::is_claimed(journal)?
    {
        // A filesystem claims the device of its journal. If it does not, it does not use this journal, and its figures
        // would be wrong for the variant.
        let journal = journal.display();
        let why = format!("the filesystem is mounted and does not use its journal on {journal}");
        return Err(CellError::new(Cause::Work, why));
    }
    let options = mount::effective_options(kernel, &request.target)?;
    bench.note(Note::new(NoteKind::Options, options).task("mount"));
    if let Some(layer) = &request.layer {
        let options = mount::effective_options(kernel, &layers::layer_root(&request.target, &layer.level))?;
        bench.note(Note::new(NoteKind::Options, format!("{}: {options}", layer.level)).task("layer"));
    }
    Ok(())
}

/// Unmounts the filesystem as a measured task. If `measures_space` is set, the sample has the bytes that the files
/// take.
pub fn measure_unmount(request: &MountRequest, measures_space: bool, bench: &mut Bench) -> CellResult {
    bench.wait_until_idle("unmount");
    let mut readings = Readings::default();
    if measures_space && let Some(bytes) = request.packed_bytes.or_else(|| used_bytes(&request.target)) {
        readings.set(reading::FILES_SPACE, bytes as f64);
    }
    let work = |log: CommandLog| unmount(request, log).map(|()| TaskOutput::from(readings));
    Ok(bench.measure(&lifecycle_task("unmount", "Unmount"), Activity::Lifecycle, work, || Ok(()))?)
}

/// Bytes in use on the filesystem of a directory, after a sync; None if the kernel does not report them.
fn used_bytes(dir: &Path) -> Option<u64> {
    sync_all(&[dir]).ok()?;
    FilesystemSpace::at_path(dir).ok()?.used_bytes()
}

/// Syncs the filesystems of these directories, and the block devices and files among the paths.
pub fn sync_all(paths: &[&Path]) -> std::io::Result<()> {
    paths.iter().try_for_each(|path| {
        let file_type = path.metadata()?.file_type();
        // fuse2fs does nothing at the fsync of a file that is not open for writing.
        let file = File::options().read(true).write(file_type.is_file()).open(path)?;
        if file_type.is_block_device() || file_type.is_file() {
            return file.sync_all();
        }
        Ok(rustix::fs::syncfs(file)?)
    })
}

/// Makes a filesystem with a pool write now what its background threads would write during the next task. Does nothing
/// for other filesystems.
///
/// # Errors
/// The program of the pool fails.
pub fn finish_background_writes(request: &MountRequest, log: CommandLog) -> Result<(), Error> {
    match Pool::of(&request.fs_type) {
        Some(pool) => pool.sync(log),
        None => Ok(()),
    }
}

/// Drops the own cache of a filesystem with a pool, which the kernel does not drop with its caches: closes and opens
/// the pool. Does nothing for other filesystems.
///
/// # Errors
/// The filesystem stays in use, or cannot be mounted again.
pub fn drop_own_cache(request: &MountRequest, log: CommandLog) -> Result<(), Error> {
    if Pool::of(&request.fs_type).is_some() {
        unmount(request, log)?;
        mount(request, log)?;
    }
    Ok(())
}

/// The kernel's file that drops its caches when it is written.
const DROP_CACHES_FILE: &str = "/proc/sys/vm/drop_caches";

/// Whether this process may drop the kernel's caches.
pub fn can_drop_caches() -> bool {
    File::options().write(true).open(DROP_CACHES_FILE).is_ok()
}

/// Writes back the filesystems of these directories, then drops clean pages, dentries and inodes.
///
/// # Errors
/// This process may not drop caches.
pub fn drop_caches(dirs: &[&Path]) -> CellResult {
    for dir in dirs {
        let synced = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
        synced.map_err(Error::io("syncing", dir))?;
    }
    std::fs::write(DROP_CACHES_FILE, "3").map_err(|error| {
        let flag = setting("set", "cache=warm");
        CellError::missing(format!("dropping caches: {error}; run as root, or take `{flag}`"))
    })
}
