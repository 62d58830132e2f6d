//! Set-ups built from loop devices.

use super::{Content, Holder, MIB, NameKind, SetUp, erase};
use crate::common::Sandbox;
use crate::common::stand_in::{self, run, text};
use crate::guard::{dos_table, gpt_table};
use fsarena_fs::safety::WrittenLog;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs::File, hash::Hasher, time::Duration};

const PAGE_BYTES: usize = 4096;
/// Offset of the partition of a partitioned disk.
const PARTITION_OFFSET: u64 = MIB;

/// Contents of devices. mkfs makes some of them, the others are only the bytes by which wipefs(8) recognizes a type.
pub struct Templates(Vec<Template>);

struct Template {
    /// The types of its signatures, as wipefs(8) names them.
    kinds: Vec<String>,
    is_table: bool,
    /// The only size of a device that it fits; none if it fits every device of at least `min_bytes`.
    exact_bytes: Option<u64>,
    min_bytes: u64,
    /// Offsets and bytes.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Templates {
    pub fn make(dir: &Path) -> Templates {
        let mut templates = Templates(vec![]);
        for (kind, program, options) in [
            ("ext2", "mkfs.ext2", "-qF"),
            ("ext4", "mkfs.ext4", "-qF"),
            ("swap", "mkswap", "-f"),
            ("minix", "mkfs.minix", "-3"),
        ] {
            let file = dir.join("template");
            File::create(&file).unwrap().set_len(MIB).unwrap();
            if Command::new(program).args([options, text(&file)]).output().is_ok_and(|output| output.status.success()) {
                let pieces = nonzero_pages(&std::fs::read(&file).unwrap());
                templates.add(dir, &[kind], false, None, pieces);
            }
        }
        let raid = [0xa92b_4efcu32.to_le_bytes(), 1u32.to_le_bytes()].concat();
        let marks: [(&str, u64, &[u8]); 11] = [
            ("crypto_LUKS", 0, b"LUKS\xba\xbe\0\x01"),
            ("LVM1_member", 0, b"HM\x01\0"),
            ("linux_raid_member", 4096, &[&raid[..], &[0; 136], &8u64.to_le_bytes()].concat()),
            ("iso9660", 32768, b"\x01CD001\x01"),
            ("squashfs", 0, b"hsqs\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0"),
            ("ceph_bluestore", 0, b"bluestore block device\n"),
            ("vdo", 0, b"dmvdo001"),
            ("f2fs", 1024, b"\x10\x20\xf5\xf2"),
            ("reiser4", 65536, b"ReIsEr4"),
            ("romfs", 0, b"-rom1fs-"),
            ("cramfs", 0, b"\x45\x3d\xcd\x28"),
        ];
        for (kind, offset, mark) in marks {
            templates.add(dir, &[kind], false, None, vec![(offset, mark.to_vec())]);
        }
        let both = vec![(0, marks[0].2.to_vec()), (marks[3].1, marks[3].2.to_vec())];
        templates.add(dir, &["crypto_LUKS", "iso9660"], false, None, both);
        templates.add(dir, &["dos"], true, None, vec![(0, dos_table())]);
        templates.add(dir, &["mac"], true, None, vec![(0, b"ER\x02\0".to_vec()), (512, b"PM".to_vec())]);
        templates.add(dir, &["gpt"], true, Some(16 * MIB), vec![(0, gpt_table())]);
        templates
    }

    /// Adds a template if this version of wipefs(8) recognizes all its types.
    fn add(
        &mut self,
        dir: &Path,
        kinds: &[&str],
        is_table: bool,
        exact_bytes: Option<u64>,
        pieces: Vec<(u64, Vec<u8>)>,
    ) {
        let path = dir.join("template");
        let file = File::create(&path).unwrap();
        file.set_len(exact_bytes.unwrap_or(16 * MIB)).unwrap();
        write_pieces(&file, &pieces, 0);
        let recognized = run("wipefs", &["--no-act", "--noheadings", "--output", "TYPE", text(&path)]);
        std::fs::remove_file(&path).unwrap();
        if kinds.iter().all(|kind| recognized.lines().any(|line| line == *kind)) {
            let kinds = kinds.iter().map(|kind| kind.to_string()).collect();
            let ends = pieces.iter().map(|(offset, bytes)| offset + bytes.len() as u64);
            // libblkid looks for few types on a device that could be a floppy disk.
            let above_floppy = if !is_table && pieces.len() < 3 { 2 * MIB } else { MIB };
            let min_bytes = ends.max().unwrap_or(0).max(above_floppy);
            self.0.push(Template { kinds, is_table, exact_bytes, min_bytes, pieces });
        }
    }

    /// The types of the templates without a partition table that fit a device.
    pub fn kinds(&self, device_bytes: u64) -> Vec<Vec<String>> {
        self.fitting(false, device_bytes).map(|template| template.kinds.clone()).collect()
    }

    /// The types of the partition tables that fit a device.
    pub fn tables(&self, device_bytes: u64) -> Vec<String> {
        self.fitting(true, device_bytes).map(|template| template.kinds[0].clone()).collect()
    }

    fn fitting(&self, tables: bool, device_bytes: u64) -> impl Iterator<Item = &Template> {
        self.0.iter().filter(move |template| {
            template.is_table == tables
                && template.exact_bytes.is_none_or(|exact| exact == device_bytes)
                && template.min_bytes <= device_bytes
        })
    }

    fn pieces(&self, kinds: &[String]) -> &[(u64, Vec<u8>)] {
        &self.0.iter().find(|template| template.kinds == kinds).unwrap().pieces
    }
}

/// The pages of a content that are not zero, with their offsets.
fn nonzero_pages(content: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let pages = content.chunks(PAGE_BYTES).enumerate().filter(|(_, page)| **page != [0; PAGE_BYTES][..page.len()]);
    pages.map(|(number, page)| ((number * PAGE_BYTES) as u64, page.to_vec())).collect()
}

fn write_pieces(file: &File, pieces: &[(u64, Vec<u8>)], base: u64) {
    for (offset, bytes) in pieces {
        file.write_all_at(bytes, base + offset).unwrap();
    }
}

/// Another mount namespace, which lasts as long as this lives.
pub struct Namespace(Child);

impl Namespace {
    /// Unmounts in the new namespace what other tests mounted: it begins with a copy of all mounts, which would keep the
    /// devices of these tests busy.
    pub fn make() -> Namespace {
        let script = "while read -r _ _ _ _ at _; do case $at in /tmp/*|/dev/shm/*) umount -l \"$(printf \"$at\")\";; esac; \
                      done < /proc/self/mountinfo; echo made; exec sleep 100000";
        let mut command = Command::new("unshare");
        let mut child = command.args(["--mount", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "made\n");
        Namespace(child)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A set-up that is built. Dropping it removes everything.
pub struct Stage {
    /// The path that `--erase` gets.
    pub device_name: PathBuf,
    pub written_log: WrittenLog,
    image: PathBuf,
    /// All devices of the image, whose caches are written before its bytes are read.
    devices: Vec<PathBuf>,
    /// Whether the device is swap in use. Then only its first page is compared: the kernel may write to the others at any
    /// time.
    is_swap: bool,
    links: Vec<stand_in::ByIdLink>,
    exclusive_file: Option<File>,
    /// Commands that remove the set-up, in reverse order.
    undo_commands: Vec<Vec<String>>,
    _dir: tempfile::TempDir,
}

impl Stage {
    pub fn build(sandbox: &Sandbox, namespace: &Namespace, templates: &Templates, set_up: &SetUp) -> Stage {
        let dir = tempfile::Builder::new().prefix("stage-").tempdir_in(&sandbox.dir).unwrap();
        let image = dir.path().join("disk");
        let start = if set_up.is_partition { PARTITION_OFFSET } else { 0 };
        let file = File::create(&image).unwrap();
        file.set_len(start + set_up.size_bytes).unwrap();
        fill(&file, start, templates, set_up);
        if set_up.is_partition {
            write_pieces(&file, &[(0, dos_table())], 0);
        }
        let is_swap = matches!(set_up.holder, Holder::Swap | Holder::SwapThroughSecondLoop);
        let mut stage = Stage {
            device_name: PathBuf::new(),
            written_log: WrittenLog::open(&sandbox.state_dir()),
            image,
            devices: vec![],
            is_swap,
            links: vec![],
            exclusive_file: None,
            undo_commands: vec![],
            _dir: dir,
        };
        let disk = stage.attach(&stage.image.clone(), &["--partscan"]);
        let device = if set_up.is_partition { stage.add_partition(&disk, set_up.size_bytes) } else { disk.clone() };
        stage.set_name(set_up.name, &device);
        stage.make_own_filesystem(&set_up.content, &device);
        stage.start_use(set_up, namespace, &disk, &device, start);
        if set_up.read_only {
            run("blockdev", &["--setro", text(&device)]);
            // A loop device stays read-only for its next user.
            stage.on_drop(&["blockdev", "--setrw", text(&device)]);
        }
        stage
    }

    /// A hash of the image, without its pages of zeros.
    pub fn digest(&self) -> u64 {
        // Syncing fails on a device that is read-only, which has nothing to write.
        self.devices.iter().for_each(|device| drop(File::open(device).and_then(|device| device.sync_all())));
        let file = File::open(&self.image).unwrap();
        let mut hasher = std::hash::DefaultHasher::new();
        let (mut offset, mut page) = (0, [0; PAGE_BYTES]);
        let end = if self.is_swap { PAGE_BYTES as u64 } else { file.metadata().unwrap().len() };
        while offset < end {
            let read = file.read_at(&mut page, offset).unwrap();
            if page[..read] != [0; PAGE_BYTES][..read] {
                hasher.write_u64(offset);
                hasher.write(&page[..read]);
            }
            offset += read as u64;
        }
        hasher.finish()
    }

    fn on_drop(&mut self, command: &[&str]) {
        self.undo_commands.push(command.iter().map(|word| word.to_string()).collect());
    }

    /// Attaches a file to a loop device. Between finding a free one and taking it another process may take it.
    fn attach(&mut self, file: &Path, options: &[&str]) -> PathBuf {
        let attach = || {
            let output = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output().unwrap();
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        };
        let device = (0..50).find_map(|_| attach()).expect("losetup attaches nothing");
        let device = device.trim();
        self.on_drop(&["losetup", "--detach", device]);
        self.devices.push(device.into());
        device.into()
    }

    /// Returns the partition of a disk. Adds it if the kernel does not read partition tables.
    fn add_partition(&mut self, disk: &Path, size_bytes: u64) -> PathBuf {
        let device = PathBuf::from(format!("{}p1", disk.display()));
        if !device.exists() {
            run("addpart", &[text(disk), "1", &(PARTITION_OFFSET / 512).to_string(), &(size_bytes / 512).to_string()]);
            self.on_drop(&["delpart", text(disk), "1"]);
        }
        self.devices.push(device.clone());
        device
    }

    fn add_by_id_link(&mut self, target: &Path) -> PathBuf {
        self.links.push(stand_in::ByIdLink::make(target));
        self.links.last().unwrap().0.clone()
    }

    fn set_name(&mut self, kind: NameKind, device: &Path) {
        let beside = self.image.with_file_name("link");
        symlink(device, &beside).unwrap();
        self.device_name = match kind {
            NameKind::ById => self.add_by_id_link(device),
            NameKind::ByIdToLink => self.add_by_id_link(&beside),
            NameKind::Kernel => device.into(),
            NameKind::LinkElsewhere => beside,
            NameKind::ByIdToImage => self.add_by_id_link(&self.image.clone()),
            NameKind::Image => self.image.clone(),
            NameKind::ByIdToNull => self.add_by_id_link(Path::new("/dev/null")),
            NameKind::Dangling => self.add_by_id_link(&self.image.with_file_name("gone")),
        };
    }

    /// Lets fsarena make a filesystem if the content is one of it, and makes the change of `OwnChanged`.
    fn make_own_filesystem(&mut self, content: &Content, device: &Path) {
        if !matches!(content, Content::Own | Content::OwnChanged | Content::OwnRenamed) {
            return;
        }
        let other_name = self.add_by_id_link(device);
        let is_by_id_link = self.device_name.starts_with("/dev/disk/by-id")
            && self.device_name.canonicalize().is_ok_and(|target| target == *device);
        let name = if is_by_id_link && *content != Content::OwnRenamed { self.device_name.clone() } else { other_name };
        erase(&name, None, &self.written_log).unwrap();
        if *content == Content::OwnChanged {
            let file = File::options().write(true).open(device).unwrap();
            file.write_all_at(b"thesis", 2 * MIB - 512).unwrap();
            file.sync_all().unwrap();
        }
    }

    fn start_use(&mut self, set_up: &SetUp, namespace: &Namespace, disk: &Path, device: &Path, start: u64) {
        let (offset, length) = (format!("--offset={start}"), format!("--sizelimit={}", set_up.size_bytes));
        let image = self.image.clone();
        match set_up.holder {
            Holder::None => {}
            Holder::IdleSecondLoop => drop(self.attach(&image, &[])),
            Holder::Mounted => self.mount(device),
            Holder::MountedInNamespace => self.mount_in_namespace(device, namespace),
            Holder::MountedThroughSecondLoop => {
                let second = self.attach(&image, &[&offset, &length]);
                self.mount(&second);
            }
            Holder::CopyMounted => {
                let copy = image.with_file_name("copy");
                std::fs::copy(&image, &copy).unwrap();
                let copy = self.attach(&copy, &[&offset, &length]);
                self.mount(&copy);
            }
            Holder::LoopAbove => drop(self.attach(disk, &[])),
            Holder::Swap => self.swap_on(device),
            Holder::SwapThroughSecondLoop => {
                let second = self.attach(&image, &[&offset, &length]);
                self.swap_on(&second);
            }
            Holder::Exclusive => {
                use rustix::fs::{Mode, OFlags, open};
                let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
                self.exclusive_file = Some(open(device, flags, Mode::empty()).unwrap().into());
            }
        }
    }

    /// Mounts a device read-only, so that only fsarena changes it.
    fn mount(&mut self, device: &Path) {
        let mount_point = self.image.with_file_name("mnt");
        std::fs::create_dir(&mount_point).unwrap();
        run("mount", &["-o", "ro", text(device), text(&mount_point)]);
        self.on_drop(&["umount", text(&mount_point)]);
    }

    fn mount_in_namespace(&mut self, device: &Path, namespace: &Namespace) {
        let mount_point = self.image.with_file_name("mnt");
        std::fs::create_dir(&mount_point).unwrap();
        let namespace_option = format!("--mount=/proc/{}/ns/mnt", namespace.0.id());
        run("nsenter", &[&namespace_option, "mount", "-o", "ro", text(device), text(&mount_point)]);
        self.on_drop(&["nsenter", &namespace_option, "umount", text(&mount_point)]);
    }

    fn swap_on(&mut self, device: &Path) {
        run("swapon", &[text(device)]);
        self.on_drop(&["swapoff", text(device)]);
    }
}

/// Writes the content of a set-up to its image, where its device begins.
fn fill(file: &File, start: u64, templates: &Templates, set_up: &SetUp) {
    match &set_up.content {
        Content::Zeros | Content::Own | Content::OwnChanged | Content::OwnRenamed => {}
        Content::Ones => write_pieces(file, &[(0, vec![0xff; set_up.size_bytes as usize])], start),
        // These bytes belong to no signature.
        Content::Data { offset, length } => write_pieces(file, &[(*offset, vec![0xa7; *length as usize])], start),
        Content::Signatures(kinds) => write_pieces(file, templates.pieces(kinds), start),
        Content::Table(kind) => write_pieces(file, templates.pieces(std::slice::from_ref(kind)), start),
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.exclusive_file = None;
        for command in self.undo_commands.drain(..).rev() {
            let run_undo = || Command::new(&command[0]).args(&command[1..]).output().unwrap();
            let mut output = run_undo();
            // Another program that looks at all devices, such as `blkid` of another test, may have this one open.
            for _ in 0..100 {
                if output.status.success() || !String::from_utf8_lossy(&output.stderr).contains("busy") {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
                output = run_undo();
            }
            assert!(output.status.success() || std::thread::panicking(), "{command:?}: {output:?}");
        }
    }
}
