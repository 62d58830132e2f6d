//! fsarena as the first process of a guest: it boots the guest, then becomes the agent.

use crate::axes::{self, Conditions, load::parse_memory};
use crate::packed_programs::{self, SOURCE_DIR};
use crate::pools::Pool;
use crate::protocol::{
    AgentMessage, AgentRequest, COPIES_DIR, GuestPrograms, GuestRequest, MountRequest, Power, ProcessRole, Rights,
    write_message,
};
use crate::shell::Shell;
use crate::{agent, bench, error::CellError};
use fsarena_core::event::{Cause, CellEvent, Note, NoteKind, Outcome};
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::{external_journal, filesystems, lifecycle};
use fsarena_guest::access_recorder::AccessRecorder;
use fsarena_guest::guest_boot::{self, BootedGuest};
use fsarena_guest::memory_layout::LAYOUT_DIR;
use fsarena_guest::terminal::GuestTerminal;
use fsarena_guest::{host_root, instruction_counter, instruction_counter::Mark};
use fsarena_sys::{argv::Argv, device::BlockDevice, kernel::SysRoot, mount, undo::Journal};
use std::fs::File;
use std::io::{self, Error};
use std::path::{Path, PathBuf};

pub use fsarena_guest::guest_boot::is_guest_init;

/// The reason for the failure of a program that tried to reach another machine.
const NO_NETWORK: &str = "it tried to reach the network, which guests do not have";
/// The file for the exit code of a shell.
const EXIT_CODE_FILE: &str = "/run/fsarena/exit-code";
/// Where control groups are mounted.
const CGROUP_DIR: &str = "/sys/fs/cgroup";

/// Runs the cell that the guest was booted for, and ends the guest.
pub fn run_guest() -> ! {
    if let Err(error) = guest_boot::boot().and_then(run_cell) {
        // The event channel may not work yet; the host keeps the console log and shows its end.
        println!("fsarena: the guest cannot work: {error}");
    }
    guest_boot::power_off()
}

/// Prepares the booted guest, runs its cell as the agent, and unmounts the source disk.
fn run_cell(mut booted: BootedGuest) -> io::Result<()> {
    let mut guest: GuestRequest = serde_json::from_value(booted.config.request.clone())?;
    if let Some(layout) = guest.memory_layout {
        layout.occupy(Path::new(LAYOUT_DIR))?;
    }
    let conditions = prepare_cell(&mut booted, &mut guest);
    let mut events = booted.events;
    match conditions {
        // Do not undo the conditions: they end with the guest, and this process is in their control groups.
        Ok(conditions) => std::mem::forget(conditions),
        // A level that cannot be set up is a failure of the cell.
        Err(error) => {
            return write_message(&mut events, &AgentMessage::End(CellError::missing(error.to_string()).into()));
        }
    }
    let mark: fn(Mark) =
        if guest.memory_layout.is_some() { instruction_counter::wait_and_mark } else { instruction_counter::mark };
    match &guest.programs {
        None => agent::serve(serde_json::to_vec(&guest.request)?.as_slice(), events, mark)?,
        Some(programs) => run_programs(&mut guest.request, programs, mark, &mut events)?,
    }
    // Unmount the source disk too, so that the next guest finds it consistent.
    Ok(rustix::mount::unmount(&guest.request.source_dir, rustix::mount::UnmountFlags::empty())?)
}

/// Runs a cell that starts programs of the host.
fn run_programs(
    request: &mut AgentRequest,
    programs: &GuestPrograms,
    mark: fn(Mark),
    events: &mut Box<dyn io::Write>,
) -> io::Result<()> {
    let terminal = request.shell.as_mut().map(|shell| connect_shell(shell, &request.role)).transpose()?;
    let recorder = programs.is_rehearsal.then(AccessRecorder::start).transpose()?;
    let attempts_before = host_root::count_network_attempts();
    let outcome = agent::run_request(serde_json::to_vec(request)?.as_slice(), events, mark)?;
    let exit_code = request.shell.as_ref().and_then(|shell| std::fs::read_to_string(&shell.status_file).ok());
    if let (Some(terminal), Some(code)) = (terminal, exit_code.and_then(|code| code.parse().ok())) {
        terminal.finish();
        write_message(events, &AgentMessage::ShellExited(code))?;
    }
    if let Some(recorder) = recorder {
        write_message(events, &AgentMessage::OpenedFiles(recorder.finish()))?;
    }
    let tried_network = host_root::count_network_attempts() > attempts_before;
    write_message(events, &AgentMessage::End(if tried_network { explain_missing_network(outcome) } else { outcome }))?;
    // The mounts of copies would keep the source disk in use.
    let unmount = |path: &PathBuf| rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty());
    Ok(programs.copied_paths.iter().try_for_each(unmount)?)
}

/// Connects a shell with the terminal of the host.
fn connect_shell(shell: &mut Shell, role: &ProcessRole) -> io::Result<GuestTerminal> {
    let ProcessRole::Supervisor(Rights { user, .. }) = role else {
        return Err(Error::other("the shell has no user"));
    };
    let terminal = GuestTerminal::open(shell.has_terminal, user)?;
    std::fs::write(EXIT_CODE_FILE, "")?;
    user.chown_to_user(Path::new(EXIT_CODE_FILE))?;
    (shell.input_path, shell.output_path) = (terminal.input.clone(), terminal.output.clone());
    shell.status_file = EXIT_CODE_FILE.into();
    Ok(terminal)
}

/// Returns the outcome of work that tried to reach another machine. If the work failed, names the missing network as
/// the cause.
fn explain_missing_network(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed { why, cause: Cause::Work } => {
            let text = format!("{NO_NETWORK}: {why}");
            Outcome::Failed { why: text, cause: Cause::Missing }
        }
        outcome => outcome,
    }
}

/// Mounts the source disk, assembles the disks, makes the filesystem if mkfs did not run on the host, adds the devices
/// to the request, and sets up the levels of the variant.
fn prepare_cell(booted: &mut BootedGuest, guest: &mut GuestRequest) -> io::Result<Conditions> {
    let kernel = SysRoot::host();
    write_note(booted, kernel_note(&kernel))?;
    if let Some(programs) = &guest.programs {
        if programs.is_packed {
            host_root::enter_tree()?
        } else {
            host_root::enter()?
        }
        set_environment(&programs.environment);
    }
    let request = &mut guest.request;
    // Create the mount points too. The work directory is inside the filesystem that will be mounted, so the mount hides
    // the directory made here.
    [&request.root, &request.source_dir].into_iter().try_for_each(std::fs::create_dir_all)?;
    // With access times, the age of a file in seconds would determine whether reading it also writes.
    mount::mount_by_syscall(&booted.source_disk, &request.source_dir, &guest.source_fs_type, "noatime", &mut |_| ())
        .map_err(|error| Error::other(format!("mounting the source disk: {error}")))?;
    if let Some(programs) = &guest.programs {
        let copies = request.source_dir.join(COPIES_DIR);
        for path in &programs.copied_paths {
            host_root::mount_copy(&copies.join(path.strip_prefix("/").unwrap_or(path)), path)?;
        }
        host_root::copy_up(&programs.in_memory);
        host_root::look_up(&programs.paths_to_look_up);
        request.paths_to_look_up.clone_from(&programs.paths_to_look_up);
    }
    // Programs of the stack are on the source disk.
    let (device, links) = booted.assemble_stack(|name| packed_programs::packed_command(Path::new(SOURCE_DIR), name))?;
    // Links store their metadata on the disk below them, so that disk is measured.
    let measured_disk = if links.is_some() { &booted.disks[0] } else { &device };
    let in_memory = request.mount.as_ref().is_some_and(MountRequest::is_volatile);
    let measured = BlockDevice::open(&kernel, measured_disk).ok().filter(|_| !in_memory);
    request.device = measured.as_ref().map(bench::device_numbers);
    // Where instructions are counted, the cell does not name its filesystem.
    let pool = request.mount.as_ref().and_then(|mount| Pool::of(&mount.fs_type));
    let device = match &pool {
        Some(pool) => pool.make_node(&device).map_err(Error::other)?,
        None => device,
    };
    if request.power != Power::Restored {
        make_filesystem(booted, &device, &request.source_dir, pool.as_ref())?;
    }
    if let Some(links) = links {
        write_note(booted, bench::below_stack_note())?;
        links.finish_after_mkfs()?;
    }
    let journal = booted.journal.clone();
    let devices: Vec<&Path> = [device.as_path()].into_iter().chain(journal.as_deref()).collect();
    if let Some(note) = bench::first_device_note(&devices) {
        write_note(booted, note)?;
    }
    if let Some(mount) = &mut request.mount {
        if let Some(journal) = &journal {
            set_journal_device(&request.cell.variant, mount, &device, journal)?;
        }
        mount.source = if in_memory { mount.fs_type.clone().into() } else { device };
    }
    let disks: Vec<&Path> = booted.disks.iter().chain(&journal).map(PathBuf::as_path).collect();
    let conditions = set_up_conditions(&kernel, &request.cell.variant, &disks)?;
    let memory = parse_memory(request.cell.variant.level(factor::MEMORY)).map_err(Error::other)?;
    if let (Some(bytes), Some(pool)) = (memory, &pool) {
        pool.limit_cache(bytes).map_err(Error::other)?;
    }
    for note in &conditions.notes {
        write_note(booted, note.clone())?;
    }
    Ok(conditions)
}

/// Replaces the environment of this process and of the processes that it starts later.
fn set_environment(variables: &[(String, String)]) {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    // SAFETY: the guest has no second thread yet.
    unsafe {
        names.iter().for_each(|name| std::env::remove_var(name));
        variables.iter().for_each(|(name, value)| std::env::set_var(name, value));
    }
}

/// Makes the filesystem on the device, unless mkfs has made it on the host. If mkfs opens a pool, closes the pool
/// again.
fn make_filesystem(booted: &mut BootedGuest, device: &Path, source_disk: &Path, pool: Option<&Pool>) -> io::Result<()> {
    let Some((program, args)) = booted.config.stack.mkfs.split_first() else { return Ok(()) };
    let mut commands = vec![];
    let argv = Argv::new(program).args(args).arg(device);
    let argv = argv.env("MKE2FS_CONFIG", packed_programs::packed_file(source_disk, "mke2fs.conf"));
    let mut log = |record| commands.push(record);
    let result = argv.run_checked(&mut log).map_err(Error::other);
    let result = result.and_then(|_| pool.map_or(Ok(()), |pool| pool.close(&mut log)).map_err(Error::other));
    for record in commands {
        write_message(&mut booted.events, &AgentMessage::Event(CellEvent::Command(record)))?;
    }
    result?;
    File::open(device)?.sync_all()
}

/// Sets the device of the journal in the filesystem and in the mount options. mkfs ran on the host, so the filesystem
/// does not yet have the number that the journal's device has in this guest.
fn set_journal_device(variant: &Variant, mount: &mut MountRequest, disk: &Path, journal: &Path) -> io::Result<()> {
    let def = filesystems::find(variant.level(factor::FS)).map_err(Error::other)?;
    external_journal::write_device_number(def, disk, journal)?;
    if let Some(option) = lifecycle::journal_option(def, journal) {
        mount.options += if mount.options.is_empty() { "" } else { "," };
        mount.options += &option;
    }
    mount.journal = Some(journal.into());
    Ok(())
}

/// Sets up the levels of a variant, and moves this process into their control groups. Mounts the control groups only if
/// a level needs them.
fn set_up_conditions(kernel: &SysRoot, variant: &Variant, disks: &[&Path]) -> io::Result<Conditions> {
    if [factor::LIMIT, factor::MEMORY, factor::CPU_SPEED].iter().any(|axis| !variant.level(axis).is_empty()) {
        mount::mount_by_syscall(Path::new("none"), Path::new(CGROUP_DIR), "cgroup2", "", &mut |_| ())?;
    }
    let open = |disk: &&Path| BlockDevice::open(kernel, disk);
    let devices = disks.iter().map(open).collect::<Result<Vec<_>, _>>().map_err(Error::other)?;
    let journal = Journal::create(Path::new("/tmp"), "guest").map_err(Error::other)?;
    let conditions =
        axes::set_up(kernel, &journal, variant, &devices.iter().collect::<Vec<_>>()).map_err(Error::other)?;
    conditions.confinement.enter(std::process::id() as i32).map_err(Error::other)?;
    Ok(conditions)
}

fn write_note(booted: &mut BootedGuest, note: Note) -> io::Result<()> {
    write_message(&mut booted.events, &AgentMessage::Event(CellEvent::Note(note)))
}

/// A note with the release of the guest's kernel and its implementation of CRC32C, whose speed affects the figures of
/// filesystems with checksums.
fn kernel_note(kernel: &SysRoot) -> Note {
    let release = kernel.read_trimmed("proc/sys/kernel/osrelease").unwrap_or_default();
    let version = kernel.read_trimmed("proc/sys/kernel/version").unwrap_or_default();
    let crypto = kernel.read("proc/crypto").unwrap_or_default();
    let crc32c = crc32c_driver(&crypto).unwrap_or("no driver loaded yet");
    let text = format!("guest kernel {release} {version}; CRC32C: {crc32c}");
    Note::new(NoteKind::Options, text).task("kernel")
}

/// The driver that the kernel prefers for CRC32C: the driver with the highest priority in `/proc/crypto`.
fn crc32c_driver(crypto: &str) -> Option<&str> {
    let priority = |block: &&str| field_value(block, "priority").and_then(|text| text.parse::<i64>().ok());
    let drivers = crypto.split("\n\n").filter(|block| field_value(block, "name") == Some("crc32c"));
    field_value(drivers.max_by_key(|block| priority(block).unwrap_or(0))?, "driver")
}

/// The value of the line `name : value` in a block of `/proc/crypto`; None without such a line.
fn field_value<'a>(block: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = block.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc32c_driver_with_the_highest_priority_is_preferred() {
        let crypto = "name         : crc32c\ndriver       : crc32c-generic\npriority     : 100\n\n\
                      name         : crc32c\ndriver       : crc32c-intel\npriority     : 200\n\n\
                      name         : sha1\ndriver       : sha1-generic\npriority     : 900\n";
        assert_eq!(crc32c_driver(crypto), Some("crc32c-intel"));
        assert_eq!(crc32c_driver(""), None);
    }
}
