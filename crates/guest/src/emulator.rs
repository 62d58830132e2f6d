//! The command line of QEMU.
//!
//! Exact machines are for counting instructions, so nothing in them may depend on the pace of the host.
//! A virtio disk completes when a thread of QEMU gets to it, so the guest is interrupted after a different number of
//! instructions each time. So disks of exact machines are memory (NVDIMM) if the kernel has drivers for them, and their
//! events go to an I/O port, which takes a byte while the guest's own instruction waits.

use crate::config::{
    DiskLookup, EventChannel, FW_CFG_NAME, JOURNAL_DISK, SOURCE_DISK, TERMINAL_PORT, TEST_DISK, member_disk,
};
use crate::{kernel::GuestKernel, launch::GuestCommand, modules::Modules};
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{ffi::OsString, process::Stdio};

/// The emulator of whole machines.
pub const QEMU: &str = "qemu-system-x86_64";
/// The virtio serial port that events come over.
const EVENT_PORT_NAME: &str = "fsarena.events";
/// The devices of that port. `stdio` would close the connection to the guest at the end of an empty standard input.
const EVENT_ARGUMENTS: &str = "-device virtio-serial-pci -chardev file,id=events,path=/dev/stdout \
                      -device virtserialport,chardev=events,name=fsarena.events";

/// A virtual machine to start.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// The kind of emulation.
    pub emulator: Emulator,
    /// How its instructions are executed: by KVM or by translation.
    pub accelerator: Accelerator,
    /// The kernel that it boots.
    pub kernel: &'a GuestKernel,
    /// Its initramfs; None if it starts from a saved state.
    pub initramfs: Option<&'a Path>,
    /// The file with its config, if the config is not in the initramfs.
    pub config: Option<&'a Path>,
    /// The images under test: one, or the members of an array.
    pub test_images: &'a [PathBuf],
    /// The file in which QEMU records each write to the first image under test, if any.
    pub write_recording: Option<&'a Path>,
    /// The image of the journal's disk, if any.
    pub journal_image: Option<&'a Path>,
    /// The image of the source disk.
    pub source_image: &'a Path,
    /// Whether it can read the files of the host, to run programs of the host.
    pub has_host_files: bool,
    /// Whether its standard input is the connection to a terminal.
    pub has_terminal: bool,
    /// The file of its memory, for a machine that is saved or begins with a saved state.
    pub memory: Option<MemoryFile<'a>>,
    /// Whether its writes stay in its images even if it counts instructions and has no [`MemoryFile`] that keeps writes.
    pub keeps_disks: bool,
    /// The first time of its clock, such as `2020-01-01T00:00:00`, for a machine that counts instructions.
    pub clock_start: &'a str,
    /// Its memory in mebibytes.
    pub memory_mib: u64,
    /// A directory for this guest alone, which receives its console log.
    pub dir: &'a Path,
}

/// The memory of a guest as a file.
#[derive(Debug, Clone, Copy)]
pub struct MemoryFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Whether the writes of the guest stay in this file and in the images of its disks.
    pub keeps_writes: bool,
}

/// The first time of the clock of a guest that counts instructions.
pub const CLOCK_START: &str = "2020-01-01T00:00:00";

/// Kernel parameters for every guest: among others, no self-tests of ciphers and none of the 256 legacy ptys.
const KERNEL_PARAMETERS: &str = "quiet panic=-1 oops=panic cryptomgr.notests pty.legacy_count=0 rdinit=/init";
/// Further kernel parameters for exact counts: no random addresses, no random page or slab order, and one CPU without its
/// local timer, whose calibration takes a third of the boot. And short lists of free pages for each CPU: by default Linux
/// 6.7 and later fill them with up to 2,016 pages at a time, so that some tasks take 600,000 instructions more than
/// others.
const EXACT_KERNEL_PARAMETERS: &str = "norandmaps nokaslr page_alloc.shuffle=0 slab_nomerge randomize_kstack_offset=off nosmp nolapic \
     sysctl.vm.percpu_pagelist_high_fraction=1000000";

impl Machine<'_> {
    /// The file with the console log.
    pub fn console(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// The device to which the guest writes its events.
    pub fn events(&self) -> EventChannel {
        match self.emulator {
            Emulator::Qemu => EventChannel::Port(EVENT_PORT_NAME.into()),
            Emulator::Exact => EventChannel::IoPort(EXACT_EVENT_PORT),
        }
    }

    /// How the guest identifies its disks.
    pub fn disk_lookup(&self) -> DiskLookup {
        match self.emulator {
            Emulator::Exact if has_memory_disks(&self.kernel.modules) => DiskLookup::InMemory,
            Emulator::Qemu | Emulator::Exact => DiskLookup::BySerial,
        }
    }

    /// Returns the command that starts it, with further arguments and a standard input.
    pub fn guest_command(&self, further_arguments: impl IntoIterator<Item = OsString>, stdin: Stdio) -> GuestCommand {
        GuestCommand {
            argv: self.argv().into_iter().chain(further_arguments).collect(),
            console: self.console(),
            stdin,
        }
    }

    /// Returns the program and its arguments.
    pub fn argv(&self) -> Vec<OsString> {
        let is_exact = self.emulator == Emulator::Exact;
        let (accelerator, cpu) = match (self.accelerator, is_exact) {
            // With RDRAND, the kernel's random numbers come from the seed in `EXACT_CLOCK_ARGUMENTS`. In QEMU 7.2 an
            // interrupt after CMPXCHG16B can see wrong flags, which crashes the kernel, at the same instruction each time.
            (_, true) => ("tcg,thread=single", "Nehalem,+rdrand,-cx16"),
            (Accelerator::Kvm, _) => ("kvm", "host"),
            // With `max`, the guest's memory copies run byte by byte under translation.
            (Accelerator::Tcg, _) => ("tcg,thread=multi", "Nehalem"),
        };
        let has_memory_disks = self.disk_lookup() == DiskLookup::InMemory;
        let board = match (has_memory_disks, self.memory) {
            (true, Some(_)) => "q35,nvdimm=on,memory-backend=ram",
            (true, None) => "q35,nvdimm=on",
            (false, _) => "q35",
        };
        let machine = format!("{QEMU} -M {board} -accel {accelerator} -cpu {cpu} -smp 1");
        let mut arguments: Vec<OsString> = split_words(&machine).collect();
        arguments.extend(split_words("-nodefaults -no-user-config -display none -no-reboot"));
        arguments.extend(["-kernel".into(), self.kernel.image.clone().into()]);
        arguments.extend(self.initramfs.into_iter().flat_map(|path| ["-initrd".into(), path.into()]));
        let config = format!("name={FW_CFG_NAME},file=");
        arguments.extend(self.config.into_iter().flat_map(|path| ["-fw_cfg".into(), path_option(&config, path)]));
        arguments.extend(["-chardev".into(), path_option("file,id=console,append=on,path=", &self.console())]);
        arguments.extend(split_words("-serial chardev:console"));
        if has_memory_disks {
            // Exact guests have no further members of an array: the preflight refuses them.
            let images = [(TEST_DISK, self.test_images[0].as_path()), (SOURCE_DISK, self.source_image)];
            arguments.extend(memory_arguments(
                self.memory_mib,
                &images,
                self.keeps_disks || self.memory.is_some_and(|file| file.keeps_writes),
            ));
            arguments.extend(self.memory.into_iter().flat_map(|file| {
                let (mib, share) = (self.memory_mib, on_off(file.keeps_writes));
                let head = format!("memory-backend-file,id=ram,share={share},size={mib}M,mem-path=");
                ["-object".into(), path_option(&head, file.path)]
            }));
        } else {
            let discards_writes = is_exact && !self.keeps_disks;
            arguments.extend(["-m".into(), self.memory_mib.to_string().into()]);
            arguments.extend(match self.write_recording {
                Some(recording) => recorded_disk_arguments(TEST_DISK, &self.test_images[0], recording),
                None => disk_arguments(TEST_DISK, &self.test_images[0], discards_writes),
            });
            arguments.extend(disk_arguments(SOURCE_DISK, self.source_image, discards_writes));
            let members = self.test_images[1..].iter().zip(1..);
            arguments
                .extend(members.flat_map(|(path, number)| disk_arguments(&member_disk(number), path, discards_writes)));
            arguments.extend(
                self.journal_image.into_iter().flat_map(|path| disk_arguments(JOURNAL_DISK, path, discards_writes)),
            );
        }
        if is_exact {
            arguments.extend(split_words(EXACT_CLOCK_ARGUMENTS).chain(split_words(EXACT_EVENT_ARGUMENTS)));
            arguments.extend(["-rtc".into(), format!("base={},clock=vm", self.clock_start).into()]);
        } else {
            arguments.extend(split_words(EVENT_ARGUMENTS));
        }
        if self.has_terminal {
            let port = format!("virtserialport,chardev=terminal,name={TERMINAL_PORT}");
            arguments.extend(split_words("-chardev socket,id=terminal,fd=0").chain(["-device".into(), port.into()]));
        }
        if self.has_host_files {
            let tag = format!("{HOST_FILES_QEMU_DEVICE},fsdev=host,mount_tag={}", GuestPlan::HOST_FILES_DEVICE);
            arguments.extend(split_words(HOST_FILES_ARGUMENTS).chain(["-device".into(), tag.into()]));
        }
        // `earlyprintk` shows errors from before the console works.
        let further_parameters = if is_exact { EXACT_KERNEL_PARAMETERS } else { "nokaslr earlyprintk=ttyS0" };
        let common_parameters = "console=ttyS0 mitigations=off random.trust_cpu=on no_timer_check";
        arguments
            .extend(["-append".into(), format!("{common_parameters} {KERNEL_PARAMETERS} {further_parameters}").into()]);
        arguments
    }
}

/// A raw image as a virtio disk with a serial number.
fn disk_arguments(name: &str, path: &Path, discards_writes: bool) -> [OsString; 4] {
    // A full host disk becomes an I/O error in the guest; by default QEMU would pause the guest for ever. Exact guests
    // count instructions and leave both disks unchanged, so they need not wait for the host's writes.
    let cache_options = if discards_writes { "cache=unsafe,snapshot=on" } else { "cache=writeback" };
    let drive = format!("if=none,id={name},format=raw,werror=report,rerror=report,{cache_options},file=");
    let device = format!("virtio-blk-pci,drive={name},serial={name}");
    ["-drive".into(), path_option(&drive, path), "-device".into(), device.into()]
}

/// A raw image as a virtio disk, with each write to it recorded in a file.
fn recorded_disk_arguments(name: &str, path: &Path, recording: &Path) -> [OsString; 4] {
    let drive = format!("if=none,id={name},driver=blklogwrites,werror=report,rerror=report,log-sector-size=512");
    let mut drive = path_option(&format!("{drive},log.driver=file,log.filename="), recording);
    drive.push(path_option(",file.driver=raw,file.file.driver=file,file.file.filename=", path));
    let [_, _, device_option, device] = disk_arguments(name, path, false);
    ["-drive".into(), drive, device_option, device]
}

/// The files of the host, which QEMU reads as the user who started it and never writes. Inode numbers of several
/// filesystems stay distinct.
const HOST_FILES_ARGUMENTS: &str = "-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap";
/// The device of QEMU through which a guest reads the files of the host.
pub const HOST_FILES_QEMU_DEVICE: &str = "virtio-9p-pci";

/// The drivers of disks in memory.
pub const MEMORY_DISK_DRIVERS: [&str; 2] = ["nfit", "nd_pmem"];
/// The I/O port to which the guest writes its events: the traditional debugging port of Bochs.
const EXACT_EVENT_PORT: u64 = 0xe9;

/// Whether a kernel is known to support disks in memory.
pub fn has_memory_disks(modules: &Modules) -> bool {
    MEMORY_DISK_DRIVERS.iter().all(|name| modules.has(name))
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// The arguments for a machine's memory and for disks in memory with the contents of these images. Unless `keeps_writes`, the
/// images do not change: QEMU discards the guest's writes when it ends.
fn memory_arguments(memory_mib: u64, images: &[(&str, &Path)], keeps_writes: bool) -> Vec<OsString> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let disk_bytes: u64 = images.iter().map(|(_, path)| size(path).next_multiple_of(1 << 30)).sum();
    // QEMU may align each disk to a gibibyte.
    let max_mib = memory_mib + (disk_bytes >> 20) + 1024 * images.len() as u64;
    let mut words: Vec<OsString> =
        vec!["-m".into(), format!("{memory_mib}M,slots={},maxmem={max_mib}M", images.len()).into()];
    for (name, path) in images {
        let (share, size) = (on_off(keeps_writes), size(path));
        let head = format!("memory-backend-file,id=memory-{name},share={share},size={size},mem-path=");
        words.extend(["-object".into(), path_option(&head, path)]);
        words.extend(["-device".into(), format!("nvdimm,id={name},memdev=memory-{name}").into()]);
    }
    words
}

/// Arguments that connect the I/O port for events to standard output.
const EXACT_EVENT_ARGUMENTS: &str =
    "-chardev file,id=events,path=/dev/stdout -device isa-debugcon,iobase=0xe9,chardev=events";

/// Arguments for a deterministic clock: one instruction is one nanosecond, and waiting takes none of the host's time.
/// Random numbers are the same each time.
const EXACT_CLOCK_ARGUMENTS: &str = "-icount shift=0,sleep=off,align=off -seed 1";

/// Splits a text at its spaces.
pub(crate) fn split_words(text: &str) -> impl Iterator<Item = OsString> {
    text.split(' ').map(OsString::from)
}

/// An option that ends with a path. QEMU requires commas in the path to be doubled.
pub(crate) fn path_option(prefix: &str, path: &Path) -> OsString {
    let mut option = prefix.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        option.push(*byte);
        if *byte == b',' {
            option.push(b',');
        }
    }
    OsString::from_vec(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(emulator: Emulator, test: &str) -> String {
        let kernel = GuestKernel { image: "/k".into(), release: "6.1".into(), ..GuestKernel::default() };
        let machine = Machine {
            emulator,
            accelerator: Accelerator::Tcg,
            kernel: &kernel,
            initramfs: Some(Path::new("/i")),
            config: None,
            test_images: &[PathBuf::from(test), PathBuf::from("/m")],
            write_recording: None,
            journal_image: Some(Path::new("/j")),
            source_image: Path::new("/o"),
            has_host_files: false,
            has_terminal: false,
            memory: None,
            keeps_disks: false,
            clock_start: CLOCK_START,
            memory_mib: 512,
            dir: Path::new("/d"),
        };
        machine.argv().iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_comma_in_a_path_is_doubled() {
        assert!(command_line(Emulator::Qemu, "/a,b").contains("file=/a,,b "));
    }

    #[test]
    fn a_path_that_is_not_text_stays_as_it_is() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/\xff,b"));
        assert_eq!(path_option("file=", path).as_bytes(), b"file=/\xff,,b");
    }

    #[test]
    fn members_of_an_array_and_the_journal_are_disks_with_a_serial_number() {
        assert!(
            command_line(Emulator::Qemu, "/t").contains("file=/j -device virtio-blk-pci,drive=journal,serial=journal")
        );
        assert!(command_line(Emulator::Qemu, "/t").contains("file=/m -device virtio-blk-pci,drive=test1,serial=test1"));
    }

    #[test]
    fn a_recorded_disk_is_the_same_device_for_the_guest() {
        let [_, drive, _, device] = recorded_disk_arguments(TEST_DISK, Path::new("/t"), Path::new("/a,b"));
        assert!(
            drive
                .to_string_lossy()
                .ends_with("log.filename=/a,,b,file.driver=raw,file.file.driver=file,file.file.filename=/t")
        );
        assert_eq!(device, disk_arguments(TEST_DISK, Path::new("/t"), false)[3]);
    }

    #[test]
    fn only_exact_guests_count_instructions() {
        let of_exact = command_line(Emulator::Exact, "/t");
        assert!(of_exact.contains("-icount shift=0,sleep=off") && of_exact.contains("norandmaps"), "{of_exact}");
        assert!(of_exact.contains("snapshot=on,file=/o") && of_exact.contains("snapshot=on,file=/t"), "{of_exact}");
        let of_qemu = command_line(Emulator::Qemu, "/t");
        assert!(!of_qemu.contains("icount") && !of_qemu.contains("norandmaps"), "{of_qemu}");
    }

    #[test]
    fn disks_in_memory_add_to_the_machines_memory() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("a,b.img");
        std::fs::File::create(&image).unwrap().set_len(300 << 20).unwrap();
        let words: Vec<String> = memory_arguments(512, &[("test", &image)], false)
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert_eq!(words[1], "512M,slots=1,maxmem=2560M");
        assert!(words[3].starts_with("memory-backend-file,id=memory-test,share=off,size=314572800,"), "{words:?}");
        assert!(words[3].ends_with("/a,,b.img") && words[5] == "nvdimm,id=test,memdev=memory-test", "{words:?}");
    }
}
