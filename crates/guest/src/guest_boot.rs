//! The work of `/init` in a guest before and after the agent. No other program runs in a guest, so fsarena does everything by
//! system calls.
//!
//! A guest may boot before it has a config or disks: it boots as far as it can, reports that, and waits. QEMU then saves
//! the whole machine, and each guest that resumes from the saved state reads its own config and disks.

use crate::config::{
    CONFIG_PATH, CONTINUING_MESSAGE, DiskLookup, EventChannel, FW_CFG_NAME, GuestConfig, JOURNAL_DISK,
    NOT_READY_MESSAGE, READY_MESSAGE, SOURCE_DISK, StackConfig, TEST_DISK, WORKS_MESSAGE, member_disk,
};
use crate::host_tree::HostTree;
use crate::instruction_counter::{self, Mark};
use crate::{array_members::CHUNK_BYTES, initramfs::module_path, memory_layout};
use fsarena_core::factor::device::Raid;
use fsarena_sys::device_mapper::{self, DeviceMapper};
use fsarena_sys::links::{CommandForProgram, DeviceStack};
use fsarena_sys::wait::{Cancel, wait_until};
use rustix::{io::Errno, mount::MountFlags, system::RebootCommand};
use std::io::{Error, Result, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{arch::asm, fs::File, marker::PhantomData};

/// A guest that is ready to work.
pub struct BootedGuest {
    /// Its config.
    pub config: GuestConfig,
    /// The channel for its events, one line at a time.
    pub events: Box<dyn Write>,
    /// The disks under test.
    pub disks: Vec<PathBuf>,
    /// The disk of the journal, if any.
    pub journal: Option<PathBuf>,
    /// The source disk.
    pub source_disk: PathBuf,
}

/// Whether this process is the first of a guest that fsarena booted.
pub fn is_guest_init() -> bool {
    std::process::id() == 1 && Path::new(CONFIG_PATH).exists()
}

/// Mounts the usual filesystems, loads modules, and opens the disks and the channel for events.
///
/// # Errors
/// The kernel lacks a feature, which the error names.
pub fn boot() -> Result<BootedGuest> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
        mount(kind, target)?;
    }
    let mut config: GuestConfig = serde_json::from_slice(&std::fs::read(CONFIG_PATH)?)?;
    if config.is_trial {
        println!("{WORKS_MESSAGE}");
        power_off();
    }
    // Only guests that count instructions have disks in memory. In others, threads run in parallel and need several heaps.
    if config.disk_lookup == DiskLookup::InMemory {
        memory_layout::keep_heap_resident();
    }
    if config.config_follows {
        config = wait_for_config(&config)?;
    }
    for module in &config.modules {
        load_module(module)?;
    }
    let events = open_events(&config.events)?;
    let StackConfig { further_disk_count, has_journal, .. } = config.stack;
    // The numbers are those of the memory disks in exact guests.
    let disk = |number: usize, name: &str| match config.disk_lookup {
        DiskLookup::BySerial => wait_for_disk(name),
        DiskLookup::InMemory => wait_for_device(format!("/dev/pmem{number}")),
    };
    let mut disks = vec![disk(0, TEST_DISK)?];
    for number in 1..=further_disk_count {
        disks.push(disk(number + 1, &member_disk(number))?);
    }
    let journal = has_journal.then(|| disk(further_disk_count + 2, JOURNAL_DISK)).transpose()?;
    let source_disk = disk(1, SOURCE_DISK)?;
    if config.disk_lookup == DiskLookup::InMemory {
        // Enables the counters of written sectors. Where the kernel cannot, the probe adds a note.
        let _ = std::fs::write("/sys/block/pmem0/queue/iostats", "1");
    }
    Ok(BootedGuest { config, events, disks, journal, source_disk })
}

impl BootedGuest {
    /// Assembles the array, the faulty device and the links that the config requires; `command` returns the command that
    /// starts a program of a link. Returns the device to mount, and the links if there are any.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn assemble_stack(&self, command: CommandForProgram) -> Result<(PathBuf, Option<DeviceStack>)> {
        let stack = &self.config.stack;
        let array_or_disk = match stack.array {
            Some(array) => wait_for_device(assemble_array(array, &self.disks)?)?,
            None => self.disks[0].clone(),
        };
        let device = match stack.faults {
            Some(fault) => {
                let sectors = sector_count(&array_or_disk)?;
                wait_for_device(device_mapper::make_faulty(fault, &array_or_disk, sectors)?)?
            }
            None => array_or_disk,
        };
        if stack.links.is_empty() {
            return Ok((device, None));
        }
        let linked =
            DeviceStack::make(DeviceMapper::open(None)?, command, "", &stack.links(), &device, stack.size_bytes)?;
        Ok((linked.path().to_path_buf(), Some(linked)))
    }
}

/// How long the guest waits for disks and ports, which drivers detect asynchronously.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(20);

/// Powers the guest off. Only the contents of its disks remain.
pub fn power_off() -> ! {
    rustix::fs::sync();
    // A reboot ends the guest too, because QEMU runs with `-no-reboot`.
    for command in [RebootCommand::PowerOff, RebootCommand::Restart, RebootCommand::Halt] {
        let _ = rustix::system::reboot(command);
    }
    loop {
        std::thread::sleep(DEVICE_TIMEOUT);
    }
}

/// Mounts a filesystem of the kernel, which has no device, on a directory.
fn mount(kind: &str, target: &str) -> Result<()> {
    match rustix::mount::mount(kind, target, kind, MountFlags::empty(), None) {
        // The kernel has already mounted it.
        Err(Errno::BUSY) => Ok(()),
        result => result.map_err(|error| Error::other(format!("mounting {kind} on {target}: {error}"))),
    }
}

/// Loads a module of the initramfs.
fn load_module(name: &str) -> Result<()> {
    let file = File::open(module_path(name));
    let file = file.map_err(|error| Error::other(format!("opening module {name} of the initramfs: {error}")))?;
    match rustix::system::finit_module(&file, c"", 0) {
        // It is there already, or drives hardware that this machine lacks.
        Err(Errno::EXIST | Errno::NODEV) => Ok(()),
        result => result.map_err(|error| Error::other(format!("loading module {name}: {error}"))),
    }
}

fn open_events(events: &EventChannel) -> Result<Box<dyn Write>> {
    Ok(match events {
        EventChannel::Console => Box::new(std::io::stdout()),
        EventChannel::Port(name) => Box::new(open_port(name)?),
        EventChannel::IoPort(number) => Box::new(IoPort(File::options().write(true).open("/dev/port")?, *number)),
    })
}

/// Waits for the virtio port of this name, and opens it to read and to write.
pub(crate) fn open_port(name: &str) -> Result<File> {
    let port = wait_for(name, || find_device("/sys/class/virtio-ports", "name", name))?;
    File::options().read(true).write(true).open(port)
}

/// An I/O port. Each write passes one byte, because the kernel writes further bytes to the following ports.
struct IoPort(File, u64);

impl Write for IoPort {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write_at(&bytes[..bytes.len().min(1)], self.1)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Waits until a device node exists, and returns its path.
fn wait_for_device(path: impl Into<PathBuf>) -> Result<PathBuf> {
    let path = path.into();
    wait_for(&path.display().to_string(), || Some(path.clone()).filter(|path| path.exists()))
}

/// Waits for the disk with a serial number, and returns its path.
fn wait_for_disk(serial: &str) -> Result<PathBuf> {
    let noun = format!("a disk with the serial number {serial}");
    wait_for(&noun, || find_device("/sys/block", "serial", serial))
}

/// Finds the device of a class whose attribute has this value, and returns the path of its node.
fn find_device(class: &str, attribute: &str, value: &str) -> Option<PathBuf> {
    let has_value = |dir: &PathBuf| {
        let text = std::fs::read_to_string(dir.join(attribute));
        text.is_ok_and(|text| text.trim_end_matches(['\n', '\0']) == value)
    };
    let device = std::fs::read_dir(class).ok()?.flatten().map(|entry| entry.path()).find(has_value)?;
    Some(Path::new("/dev").join(device.file_name()?)).filter(|path| path.exists())
}

/// Polls until `find` returns something; `noun` names it in the error.
fn wait_for<T>(noun: &str, find: impl Fn() -> Option<T>) -> Result<T> {
    wait_until(Instant::now() + DEVICE_TIMEOUT, Cancel::Never, find)
        .map_err(|_| Error::other(format!("this kernel does not find {noun}")))
}

/// The size of a device in sectors of 512 bytes.
fn sector_count(device: &Path) -> Result<u64> {
    let size = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("size");
    std::fs::read_to_string(size)?.trim().parse().map_err(Error::other)
}

/// The I/O port that selects an item.
const FW_CFG_SELECTOR: u16 = 0x510;
/// The I/O port that returns the next byte of the item.
const FW_CFG_DATA: u16 = 0x511;
/// The selector of the directory of files.
const FW_CFG_DIRECTORY: u16 = 0x19;
/// A file in the directory: size, selector, two reserved bytes, name; numbers in big-endian order.
const FW_CFG_ENTRY_BYTES: usize = 64;
const FW_CFG_NAME_OFFSET: usize = 8;

/// QEMU's `fw_cfg` interface (docs/specs/fw_cfg.rst in QEMU), which hands files to a guest through two I/O ports. It needs no
/// driver, and files can change after the boot. Only this thread may use the ports.
struct FwCfg(PhantomData<*const ()>);

impl FwCfg {
    /// Gets access to the ports.
    ///
    /// # Errors
    /// The kernel does not give programs access to ports.
    fn open() -> Result<FwCfg> {
        // Only x86 machines have such ports.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a plain system call.
        if unsafe { libc::ioperm(FW_CFG_SELECTOR.into(), 2, 1) } == 0 {
            return Ok(FwCfg(PhantomData));
        }
        let error = Error::last_os_error();
        Err(Error::other(format!("its kernel does not permit I/O ports: {error}")))
    }

    /// The content of a file; None if there is no file of this name.
    fn read_file(&self, name: &str) -> Option<Vec<u8>> {
        self.select(FW_CFG_DIRECTORY);
        let count = u32::from_be_bytes(self.read_bytes(4).try_into().ok()?);
        let has_name = |entry: &Vec<u8>| {
            let text = entry[FW_CFG_NAME_OFFSET..].split(|byte| *byte == 0).next();
            text == Some(name.as_bytes())
        };
        let entry = (0..count).map(|_| self.read_bytes(FW_CFG_ENTRY_BYTES)).find(has_name)?;
        let size = u32::from_be_bytes(entry[..4].try_into().ok()?);
        self.select(u16::from_be_bytes([entry[4], entry[5]]));
        Some(self.read_bytes(size as usize))
    }

    /// Selects the item that the next reads return from its beginning.
    fn select(&self, selector: u16) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: access to the port is permitted, and only QEMU's device uses it.
        unsafe {
            asm!("out dx, ax", in("dx") FW_CFG_SELECTOR, in("ax") selector, options(nomem, nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (FW_CFG_SELECTOR, selector);
    }

    fn read_bytes(&self, count: usize) -> Vec<u8> {
        let byte = |_| {
            let byte: u8;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: access to the port is permitted, and only QEMU's device uses it.
            unsafe {
                asm!("in al, dx", in("dx") FW_CFG_DATA, out("al") byte, options(nomem, nostack, preserves_flags));
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                byte = (FW_CFG_DATA & 0) as u8;
            }
            byte
        };
        (0..count).map(byte).collect()
    }
}

/// The driver of the disks. A disk gets its new size only when the driver probes it again.
const DISK_DRIVER: &str = "/sys/bus/virtio/drivers/virtio_blk";
/// The pause between two attempts to read the config.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Loads the modules of the first config, reports that QEMU can save the machine, and waits for the real config, which it
/// returns without the modules that are loaded. If the machine cannot be saved, it reports why and ends the guest.
///
/// # Errors
/// The guest has no event channel, or cannot continue.
fn wait_for_config(first: &GuestConfig) -> Result<GuestConfig> {
    // If loading failed, the event channel may not exist.
    let result: Result<()> = first.modules.iter().try_for_each(|module| load_module(module));
    let result = result.and_then(|()| first.host_tree.as_ref().map_or(Ok(()), HostTree::copy_from_host));
    let mut out = open_events(&first.events)?;
    let mut send = |message: &str| out.write_all(format!("{message}\n").as_bytes()).and_then(|()| out.flush());
    let (fw_cfg, disks) = match result.and_then(|()| Ok((FwCfg::open()?, unbind_disks(first)?))) {
        Ok(prepared) => prepared,
        Err(error) => {
            send(&format!("{NOT_READY_MESSAGE}{error}"))?;
            power_off()
        }
    };
    send(READY_MESSAGE)?;
    instruction_counter::mark(Mark::Hold);
    let mut config = read_config(&fw_cfg);
    if let Some(host_time) = config.host_time {
        set_clock(host_time)?;
    }
    for disk in &disks {
        write_to_driver("bind", disk)?;
    }
    // From here on, an error makes the cell fail.
    send(CONTINUING_MESSAGE)?;
    config.modules.retain(|module| !first.modules.contains(module));
    Ok(config)
}

/// Unbinds the disks from their driver, and returns their names.
fn unbind_disks(config: &GuestConfig) -> Result<Vec<String>> {
    if config.disk_lookup == DiskLookup::InMemory {
        // The driver of disks in memory is loaded after the guest has received the config for its own disks.
        return Ok(vec![]);
    }
    let stack = &config.stack;
    let disks = wait_for_disks(2 + stack.further_disk_count + usize::from(stack.has_journal))?;
    for disk in &disks {
        write_to_driver("unbind", disk)?;
    }
    Ok(disks)
}

/// Reads the config for the work of the guest; waits until QEMU has it.
fn read_config(fw_cfg: &FwCfg) -> GuestConfig {
    loop {
        // QEMU may have saved the machine while this was reading: if the text is not a config, read again.
        match fw_cfg.read_file(FW_CFG_NAME).and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(config) => return config,
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Waits until the driver has found all disks, and returns their names.
fn wait_for_disks(count: usize) -> Result<Vec<String>> {
    let names = || -> Option<Vec<String>> {
        let entries = std::fs::read_dir(DISK_DRIVER).ok()?.flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let disks: Vec<String> = names.filter(|name| name.starts_with("virtio")).collect();
        // A disk that is still being probed has no directory yet.
        let is_probed = |disk: &String| Path::new(DISK_DRIVER).join(disk).join("block").exists();
        (disks.len() == count && disks.iter().all(is_probed)).then_some(disks)
    };
    wait_for("its disks", names)
}

/// Writes the name of a disk to the file `bind` or `unbind` of the driver.
fn write_to_driver(file: &str, disk: &str) -> Result<()> {
    std::fs::write(Path::new(DISK_DRIVER).join(file), disk)
        .map_err(|error| Error::other(format!("{file} of the disk {disk}: {error}")))
}

/// Sets the clock to the time of the host since 1970: the clock stood still while the machine was saved.
fn set_clock(host_time: Duration) -> Result<()> {
    let time = rustix::time::Timespec { tv_sec: host_time.as_secs() as i64, tv_nsec: host_time.subsec_nanos().into() };
    Ok(rustix::time::clock_settime(rustix::time::ClockId::Realtime, time)?)
}

const ARRAY_NAME: &str = "md0";
/// Writing a name to this file creates the md device of that name.
const NEW_ARRAY: &str = "/sys/module/md_mod/parameters/new_array";

/// Assembles an md array without metadata of these disks, which already hold its contents, through sysfs: guests do not
/// contain mdadm. Returns the path of its device.
///
/// # Errors
/// The kernel refuses.
fn assemble_array(array: Raid, members: &[PathBuf]) -> Result<PathBuf> {
    write_value(Path::new(NEW_ARRAY), ARRAY_NAME)?;
    let md = Path::new("/sys/block").join(ARRAY_NAME).join("md");
    let set = |name: &str, value: &str| write_value(&md.join(name), value);
    set("metadata_version", "none")?;
    set("level", array.profile())?;
    set("raid_disks", &members.len().to_string())?;
    if !array.mirrored {
        set("chunk_size", &CHUNK_BYTES.to_string())?;
    }
    let sizes = members.iter().map(|disk| sector_count(disk)).collect::<Result<Vec<u64>>>()?;
    let smallest_kib = sizes.into_iter().min().unwrap_or(0) / 2;
    if array.mirrored {
        set("component_size", &smallest_kib.to_string())?;
        // All members have the same contents, so they need no resynchronisation.
        set("resync_start", "none")?;
    }
    for (slot, disk) in members.iter().enumerate() {
        let rdev = std::fs::metadata(disk)?.rdev();
        set("new_dev", &format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)))?;
        let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let member = md.join(format!("dev-{name}"));
        write_value(&member.join("size"), &smallest_kib.to_string())?;
        write_value(&member.join("slot"), &slot.to_string())?;
    }
    set("array_state", "active")?;
    Ok(Path::new("/dev").join(ARRAY_NAME))
}

fn write_value(path: &Path, value: &str) -> Result<()> {
    std::fs::write(path, value).map_err(|error| Error::other(format!("writing {value} to {}: {error}", path.display())))
}
