//! Building a set-up from loop devices.

use super::{Content, Holder, MIB, Name, SetUp, erase};
use crate::common::Place;
use crate::common::stand_in::{self, run, text};
use crate::guard::{dos_table, gpt_table};
use fsarena_fs::safety::WrittenLog;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs::File, hash::Hasher, time::Duration};

const PAGE: usize = 4096;
/// Where the partition of a partitioned disk begins.
const FIRST: u64 = MIB;

/// Contents of devices by type, as pieces at their places. mkfs makes some, others are the marks that wipefs(8) looks for.
pub struct Templates(Vec<Template>);

struct Template {
    kinds: Vec<String>,
    table: bool,
    /// The size that it is made for; any larger one does where it is none.
    size: Option<u64>,
    least: u64,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Templates {
    pub fn make(dir: &Path) -> Templates {
        let mut all = Templates(vec![]);
        for (kind, program, options) in [
            ("ext2", "mkfs.ext2", "-qF"),
            ("ext4", "mkfs.ext4", "-qF"),
            ("swap", "mkswap", "-f"),
            ("minix", "mkfs.minix", "-3"),
        ] {
            let file = dir.join("template");
            File::create(&file).unwrap().set_len(MIB).unwrap();
            if Command::new(program).args([options, text(&file)]).output().is_ok_and(|ended| ended.status.success()) {
                let pieces = pieces(&std::fs::read(&file).unwrap());
                all.add(dir, &[kind], false, None, pieces);
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
        for (kind, at, mark) in marks {
            all.add(dir, &[kind], false, None, vec![(at, mark.to_vec())]);
        }
        let two = vec![(0, marks[0].2.to_vec()), (marks[3].1, marks[3].2.to_vec())];
        all.add(dir, &["crypto_LUKS", "iso9660"], false, None, two);
        all.add(dir, &["dos"], true, None, vec![(0, dos_table())]);
        all.add(dir, &["mac"], true, None, vec![(0, b"ER\x02\0".to_vec()), (512, b"PM".to_vec())]);
        all.add(dir, &["gpt"], true, Some(16 * MIB), vec![(0, gpt_table())]);
        all
    }

    /// Adds a template, if this version of wipefs(8) tells it.
    fn add(&mut self, dir: &Path, kinds: &[&str], table: bool, size: Option<u64>, pieces: Vec<(u64, Vec<u8>)>) {
        let file = dir.join("template");
        let open = File::create(&file).unwrap();
        open.set_len(size.unwrap_or(16 * MIB)).unwrap();
        paste(&open, &pieces, 0);
        let told = run("wipefs", &["--no-act", "--noheadings", "--output", "TYPE", text(&file)]);
        std::fs::remove_file(&file).unwrap();
        if kinds.iter().all(|kind| told.lines().any(|line| line == *kind)) {
            let kinds = kinds.iter().map(|kind| kind.to_string()).collect();
            let ends = pieces.iter().map(|(at, bytes)| at + bytes.len() as u64);
            // libblkid looks for few marks on a device that could be a floppy disk.
            let floppy = if !table && pieces.len() < 3 { 2 * MIB } else { MIB };
            let least = ends.max().unwrap_or(0).max(floppy);
            self.0.push(Template { kinds, table, size, least, pieces });
        }
    }

    pub fn kinds(&self, size: u64) -> Vec<Vec<String>> {
        self.fitting(false, size).map(|template| template.kinds.clone()).collect()
    }

    pub fn tables(&self, size: u64) -> Vec<String> {
        self.fitting(true, size).map(|template| template.kinds[0].clone()).collect()
    }

    fn fitting(&self, table: bool, size: u64) -> impl Iterator<Item = &Template> {
        self.0.iter().filter(move |template| {
            template.table == table && template.size.is_none_or(|own| own == size) && template.least <= size
        })
    }

    fn pieces(&self, kinds: &[String]) -> &[(u64, Vec<u8>)] {
        &self.0.iter().find(|template| template.kinds == kinds).unwrap().pieces
    }
}

/// The pages of a content that are not zero.
fn pieces(content: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let pages = content.chunks(PAGE).enumerate().filter(|(_, page)| **page != [0; PAGE][..page.len()]);
    pages.map(|(number, page)| ((number * PAGE) as u64, page.to_vec())).collect()
}

fn paste(file: &File, pieces: &[(u64, Vec<u8>)], from: u64) {
    pieces.iter().for_each(|(at, bytes)| file.write_all_at(bytes, from + at).unwrap());
}

/// Another mount namespace, which lasts as long as this lives.
pub struct Namespace(Child);

impl Namespace {
    /// It begins with a copy of all mounts, which would keep devices of other tests busy.
    pub fn make() -> Namespace {
        let script = "while read -r _ _ _ _ at _; do case $at in /tmp/*|/dev/shm/*) umount -l \"$(printf \"$at\")\";; esac; \
                      done < /proc/self/mountinfo; echo made; exec sleep 100000";
        let mut command = Command::new("unshare");
        let mut child = command.args(["--mount", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "made\n");
        Namespace(child)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A set-up that is built. It is taken apart when dropped.
pub struct Stage {
    /// By which the device is named to fsarena.
    pub name: PathBuf,
    pub written: WrittenLog,
    image: PathBuf,
    /// All devices of the image, whose caches are written before its bytes are read.
    devices: Vec<PathBuf>,
    /// Only the first page tells anything of swap that is in use: the kernel may write to the others at any time.
    swap: bool,
    links: Vec<stand_in::Name>,
    held: Option<File>,
    /// Commands that take it apart, in reverse order.
    undo: Vec<Vec<String>>,
    _dir: tempfile::TempDir,
}

impl Stage {
    pub fn build(place: &Place, namespace: &Namespace, templates: &Templates, set_up: &SetUp) -> Stage {
        let dir = tempfile::Builder::new().prefix("stage-").tempdir_in(&place.dir).unwrap();
        let image = dir.path().join("disk");
        let from = if set_up.partition { FIRST } else { 0 };
        let file = File::create(&image).unwrap();
        file.set_len(from + set_up.size).unwrap();
        fill(&file, from, templates, set_up);
        if set_up.partition {
            paste(&file, &[(0, dos_table())], 0);
        }
        let swap = matches!(set_up.holder, Holder::Swap | Holder::SwapThroughSecondLoop);
        let mut stage = Stage {
            name: PathBuf::new(),
            written: WrittenLog::open(&place.state()),
            image,
            devices: vec![],
            swap,
            links: vec![],
            held: None,
            undo: vec![],
            _dir: dir,
        };
        let disk = stage.attach(&stage.image.clone(), &["--partscan"]);
        let device = if set_up.partition { stage.partition(&disk, set_up.size) } else { disk.clone() };
        stage.name(set_up.name, &device);
        stage.make_own(&set_up.content, &device);
        stage.hold(set_up, namespace, &disk, &device, from);
        if set_up.read_only {
            run("blockdev", &["--setro", text(&device)]);
            // A loop device stays read-only for its next user.
            stage.on_drop(&["blockdev", "--setrw", text(&device)]);
        }
        stage
    }

    /// The content of the image, without its zeros.
    pub fn digest(&self) -> u64 {
        // Syncing fails on a device that is read-only, which has nothing to write.
        self.devices.iter().for_each(|device| drop(File::open(device).and_then(|device| device.sync_all())));
        let file = File::open(&self.image).unwrap();
        let mut hasher = std::hash::DefaultHasher::new();
        let (mut at, mut page) = (0, [0; PAGE]);
        let end = if self.swap { PAGE as u64 } else { file.metadata().unwrap().len() };
        while at < end {
            let read = file.read_at(&mut page, at).unwrap();
            if page[..read] != [0; PAGE][..read] {
                hasher.write_u64(at);
                hasher.write(&page[..read]);
            }
            at += read as u64;
        }
        hasher.finish()
    }

    fn on_drop(&mut self, command: &[&str]) {
        self.undo.push(command.iter().map(|word| word.to_string()).collect());
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

    /// The partition of a disk, also where the kernel reads no tables.
    fn partition(&mut self, disk: &Path, size: u64) -> PathBuf {
        let device = PathBuf::from(format!("{}p1", disk.display()));
        if !device.exists() {
            run("addpart", &[text(disk), "1", &(FIRST / 512).to_string(), &(size / 512).to_string()]);
            self.on_drop(&["delpart", text(disk), "1"]);
        }
        self.devices.push(device.clone());
        device
    }

    fn link(&mut self, to: &Path) -> PathBuf {
        self.links.push(stand_in::Name::of(to));
        self.links.last().unwrap().0.clone()
    }

    fn name(&mut self, name: Name, device: &Path) {
        let beside = self.image.with_file_name("link");
        symlink(device, &beside).unwrap();
        self.name = match name {
            Name::ById => self.link(device),
            Name::ByIdToLink => self.link(&beside),
            Name::Kernel => device.into(),
            Name::LinkElsewhere => beside,
            Name::ByIdToImage => self.link(&self.image.clone()),
            Name::Image => self.image.clone(),
            Name::ByIdToNull => self.link(Path::new("/dev/null")),
            Name::Dangling => self.link(&self.image.with_file_name("gone")),
        };
    }

    /// Lets fsarena make a filesystem, and changes what a user could change.
    fn make_own(&mut self, content: &Content, device: &Path) {
        if !matches!(content, Content::Own | Content::OwnChanged | Content::OwnRenamed) {
            return;
        }
        let other = self.link(device);
        let usual = self.name.starts_with("/dev/disk/by-id") && self.name.canonicalize().is_ok_and(|to| to == *device);
        let name = if usual && *content != Content::OwnRenamed { self.name.clone() } else { other };
        erase(&name, None, &self.written).unwrap();
        if *content == Content::OwnChanged {
            let file = File::options().write(true).open(device).unwrap();
            file.write_all_at(b"thesis", 2 * MIB - 512).unwrap();
            file.sync_all().unwrap();
        }
    }

    fn hold(&mut self, set_up: &SetUp, namespace: &Namespace, disk: &Path, device: &Path, from: u64) {
        let (offset, length) = (format!("--offset={from}"), format!("--sizelimit={}", set_up.size));
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
                self.held = Some(open(device, flags, Mode::empty()).unwrap().into());
            }
        }
    }

    /// Mounted read-only, so that whatever changes is fsarena's doing.
    fn mount(&mut self, device: &Path) {
        let at = self.image.with_file_name("mnt");
        std::fs::create_dir(&at).unwrap();
        run("mount", &["-o", "ro", text(device), text(&at)]);
        self.on_drop(&["umount", text(&at)]);
    }

    fn mount_in_namespace(&mut self, device: &Path, namespace: &Namespace) {
        let at = self.image.with_file_name("mnt");
        std::fs::create_dir(&at).unwrap();
        let within = format!("--mount=/proc/{}/ns/mnt", namespace.0.id());
        run("nsenter", &[&within, "mount", "-o", "ro", text(device), text(&at)]);
        self.on_drop(&["nsenter", &within, "umount", text(&at)]);
    }

    fn swap_on(&mut self, device: &Path) {
        run("swapon", &[text(device)]);
        self.on_drop(&["swapoff", text(device)]);
    }
}

fn fill(file: &File, from: u64, templates: &Templates, set_up: &SetUp) {
    match &set_up.content {
        Content::Zeros | Content::Own | Content::OwnChanged | Content::OwnRenamed => {}
        Content::Ones => paste(file, &[(0, vec![0xff; set_up.size as usize])], from),
        // No signature has a byte like it in each place.
        Content::Data(at, length) => paste(file, &[(*at, vec![0xa7; *length as usize])], from),
        Content::Signatures(kinds) => paste(file, templates.pieces(kinds), from),
        Content::Table(kind) => paste(file, templates.pieces(std::slice::from_ref(kind)), from),
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.held = None;
        for command in self.undo.drain(..).rev() {
            let undone = || Command::new(&command[0]).args(&command[1..]).output().unwrap();
            let mut output = undone();
            // Another program that looks at all devices, such as a test that asks `blkid`, may have this one open.
            for _ in 0..100 {
                if output.status.success() || !String::from_utf8_lossy(&output.stderr).contains("busy") {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
                output = undone();
            }
            assert!(output.status.success() || std::thread::panicking(), "{command:?}: {output:?}");
        }
    }
}
