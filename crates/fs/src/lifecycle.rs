//! From mkfs to mount. Takes nothing but a [`ScratchDevice`].

use crate::{Error, available::to_install, def::FsDef, external, grammar, safety::ScratchDevice};
use bytesize::ByteSize;
use fsarena_core::event::{CommandRecord, Note, NoteKind};
use fsarena_core::factor::journal::{self, External};
use fsarena_core::factor::raid::{self, Raid};
use fsarena_core::{cell::Variant, factor, names::unknown};
use fsarena_sys::argv::{self, Argv};
use fsarena_sys::mount::{self, Mounted};
use fsarena_sys::undo::Journal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of one variant, complete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VariantOptions {
    /// Arguments for mkfs, without those that force it and without the device.
    pub mkfs: Vec<String>,
    /// Mount options, comma-separated.
    pub mount: String,
    /// The journal on a separate device, if any.
    pub journal: Option<External>,
    /// The arrangement of several devices, if any.
    pub raid: Option<Raid>,
    /// A directory that mkfs copies into the filesystem.
    pub contents: Option<PathBuf>,
}

/// The devices of one filesystem.
#[derive(Debug, Clone)]
pub struct Devices<'a> {
    /// Those with data, the first of which is named to mount.
    pub members: Vec<&'a ScratchDevice>,
    /// The separate device of the journal, if any.
    pub journal: Option<&'a ScratchDevice>,
}

impl VariantOptions {
    /// Keeps mkfs and the kernel from discarding blocks, unless the user asks them to.
    pub fn without_discard(&mut self, def: &FsDef) {
        let (mkfs, mount) = def.no_discard;
        self.mkfs.splice(0..0, mkfs.iter().map(|word| word.to_string()));
        let words = [mount, &self.mount].into_iter().filter(|word| !word.is_empty());
        self.mount = words.collect::<Vec<_>>().join(",");
    }
}

impl<'a> From<&'a ScratchDevice> for Devices<'a> {
    fn from(device: &'a ScratchDevice) -> Devices<'a> {
        Devices { members: vec![device], journal: None }
    }
}

impl Devices<'_> {
    /// The device that is mounted.
    pub fn first(&self) -> &Path {
        self.members[0].path()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &ScratchDevice> {
        self.members.iter().copied().chain(self.journal)
    }
}

/// A filesystem just made.
#[derive(Debug, Clone)]
pub struct Formatted {
    /// The output of mkfs.
    pub output: String,
    /// The argument vector.
    pub argv: Vec<String>,
    /// How long mkfs took.
    pub elapsed: Duration,
}

/// The options of a variant: its option set, and after it the levels of `mkfs` and `mount`. Levels of `journal` and
/// `raid` stand before what the option set says of them.
///
/// # Errors
/// Where the filesystem has no such option set, no feature list, no journal that could be elsewhere, or takes a
/// larger one only.
pub fn variant_options(def: &FsDef, variant: &Variant) -> Result<VariantOptions, Error> {
    let id = variant.level(factor::OPTIONS);
    let known = || def.options.iter().map(|set| set.id);
    let set =
        def.option_set(id).ok_or_else(|| unknown("option set", id, known()).at(format!("of {}", def.id)))?;
    let mut mkfs: Vec<String> = set.mkfs.iter().map(|word| word.to_string()).collect();
    mkfs.extend(mkfs_level(def, variant.level(factor::MKFS)));
    let mkfs = grammar::check_mkfs_arguments(def, &mkfs)?;
    let further = variant.level(factor::MOUNT);
    let mount = set.mount.iter().copied().chain(further.split(',')).map(str::trim);
    let mount: Vec<&str> = mount.filter(|word| !word.is_empty()).collect();
    grammar::check_mount_options(mount.iter().copied())?;
    let mount = mount.join(",");
    let level_or = |factor: &str, of_set: &'static str| match variant.level(factor) {
        "" => of_set.to_string(),
        level => level.to_string(),
    };
    let journal = journal::parse(&level_or(factor::JOURNAL, set.journal)).map_err(Error::Options)?;
    let raid = raid::parse(&level_or(factor::RAID, set.raid)).map_err(Error::Options)?;
    check_journal(def, journal)?;
    Ok(VariantOptions { mkfs, mount, journal, raid, contents: None })
}

fn check_journal(def: &FsDef, asked: Option<External>) -> Result<(), Error> {
    let Some(asked) = asked else { return Ok(()) };
    let id = def.id;
    let fault = match (def.journal, asked.bytes) {
        (None, _) => format!("{id} cannot keep its journal on a separate device; leave out journal=external"),
        (Some(able), Some(bytes)) if bytes < able.min_bytes => {
            let (bytes, least) = (ByteSize(bytes), ByteSize(able.min_bytes));
            format!("a journal device of {bytes} is too small for {id}: it needs {least}")
        }
        _ => return Ok(()),
    };
    Err(Error::Options(fault))
}

/// The size of the journal's device, in bytes. None where it lies inside.
pub fn journal_bytes(def: &FsDef, options: &VariantOptions) -> Option<u64> {
    Some(options.journal?.bytes.unwrap_or(def.journal?.default_bytes))
}

/// The mount options of a filesystem on these devices: its own, and those that name further devices.
pub fn mount_options(def: &FsDef, options: &VariantOptions, devices: &Devices) -> String {
    let journal = devices.journal.and_then(|device| journal_option(def, device.path()));
    let several = def.raid.filter(|_| devices.members.len() > 1);
    let members = several.iter().flat_map(|able| {
        devices.members.iter().map(|device| able.mount.replace("{}", &device.path().to_string_lossy()))
    });
    let own = Some(options.mount.clone()).filter(|own| !own.is_empty());
    own.into_iter().chain(journal).chain(members).collect::<Vec<_>>().join(",")
}

/// The mount option that names the device of a journal, where there is one.
pub fn journal_option(def: &FsDef, device: &Path) -> Option<String> {
    let able = def.journal.filter(|able| !able.mount.is_empty())?;
    Some(able.mount.replace("{}", &device.to_string_lossy()))
}

/// A note on how the option set of a variant differs from the recipe that it is named for; None if it does not differ.
pub fn note_recipe_changes(variant: &Variant) -> Option<Note> {
    let def = crate::filesystems::find(variant.level(factor::FS)).ok()?;
    let set = def.option_set(variant.level(factor::OPTIONS)).filter(|set| !set.changes.is_empty())?;
    Some(Note::new(NoteKind::Remark, format!("{} today, changes: {}", set.id, set.changes)).task("mkfs"))
}

/// The level of the factor `mkfs` as arguments: split at blanks; a bare word at the beginning is a feature list.
fn mkfs_level(def: &FsDef, level: &str) -> Vec<String> {
    let words = level.split_whitespace();
    let flag = def.feature_flag.filter(|_| words.clone().next().is_some_and(|first| !first.starts_with('-')));
    flag.into_iter().chain(words).map(str::to_string).collect()
}

/// Makes a filesystem on scratch devices, whatever was on them. mkfs can write to these devices and to nothing else,
/// where the kernel can enforce that.
///
/// # Errors
/// Where the grammar refuses an argument, another device took the place of one of these, or mkfs is not installed or
/// fails; the message has its own words.
pub fn format<'a>(
    devices: impl Into<Devices<'a>>,
    def: &FsDef,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<Formatted, Error> {
    let devices = devices.into();
    let mut words = grammar::check_mkfs_arguments(def, &options.mkfs)?;
    for device in devices.all() {
        device.begin()?;
    }
    let journal = def.journal.zip(devices.journal);
    let joined = journal.filter(|(able, device)| !able.files && device.file().is_some());
    if let Some((able, device)) = journal {
        make_journal(able.make, device, options, log)?;
        match joined {
            None => {
                words.extend(able.mkfs.iter().map(|arg| arg.replace("{}", &device.path().to_string_lossy())))
            }
            Some(_) => external::match_block_size(&mut words, able.make.unwrap_or_default()),
        }
    }
    let mut argv = Argv::new(def.mkfs).args(def.always).args(&words);
    if let Some((flag, dir)) = def.contents.zip(options.contents.as_ref()) {
        argv = argv.arg(flag).arg(dir);
    }
    if let Some((able, raid)) = def.raid.zip(options.raid).filter(|_| devices.members.len() > 1) {
        argv = argv.args(able.mkfs.iter().map(|arg| arg.replace("{}", raid.profile())));
    }
    let argv = devices.members.iter().fold(argv, |argv, device| argv.arg(device.path()));
    let argv = argv.writes_only(devices.all().map(ScratchDevice::path));
    let finished = argv.expect(log).map_err(|error| not_installed(error, def))?;
    if let Some((_, device)) = joined {
        external::join_journal(devices.first(), device.path(), log)?;
    }
    for device in devices.all() {
        device.note_written()?;
    }
    let output = if finished.stdout.trim().is_empty() { finished.stderr } else { finished.stdout };
    Ok(Formatted { output: rendered(&output), argv: argv.words(), elapsed: finished.elapsed })
}

/// Makes a filesystem again, where mkfs left work that the kernel does after mounting, in the state that waiting for the
/// kernel would reach. Returns the argument that did it; None where nothing is left, or where the options say who does that work.
///
/// # Errors
/// As those of [`format()`].
pub fn complete(
    devices: &Devices,
    def: &FsDef,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<Option<String>, Error> {
    let Some((background, (flag, value))) = def.background.and_then(|work| Some((work, work.by_mkfs?)))
    else {
        return Ok(None);
    };
    let key = value.split('=').next().unwrap_or(value);
    if leaves_to_kernel(options, key) || !(background.has_work)(devices.first()).unwrap_or(false) {
        return Ok(None);
    }
    let mut options = options.clone();
    grammar::set_flag_value(&mut options.mkfs, flag, key, value);
    format(devices.clone(), def, &options, log)?;
    Ok(Some(format!("{flag} {value}")))
}

/// The command that makes a filesystem on one device, whose path follows, with nothing left for the kernel to initialise.
///
/// # Errors
/// Where the grammar refuses an argument.
pub fn mkfs_words(def: &FsDef, options: &VariantOptions) -> Result<Vec<String>, Error> {
    let mut words = grammar::check_mkfs_arguments(def, &options.mkfs)?;
    if let Some((flag, value)) = def.background.and_then(|work| work.by_mkfs) {
        let key = value.split('=').next().unwrap_or(value);
        if !leaves_to_kernel(options, key) {
            grammar::set_flag_value(&mut words, flag, key, value);
        }
    }
    let always = def.always.iter().map(|word| word.to_string());
    Ok(std::iter::once(def.mkfs.to_string()).chain(always).chain(words).collect())
}

/// Whether the options say whether mkfs or the kernel initialises the filesystem.
fn leaves_to_kernel(options: &VariantOptions, key: &str) -> bool {
    options.mkfs.iter().any(|word| word.contains(key)) || options.mount.contains("init_itable")
}

/// Makes the journal where that takes a separate command; its blocks are as large as those of the filesystem.
fn make_journal(
    make: Option<&[&str]>,
    device: &ScratchDevice,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<(), Error> {
    let Some([program, args @ ..]) = make else { return Ok(()) };
    let mut args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let behind = |args: &[String]| args.iter().position(|arg| arg == "-b").map(|at| at + 1);
    if let (Some(own), Some(asked)) = (behind(&args), behind(&options.mkfs))
        && let Some(size) = options.mkfs.get(asked)
    {
        args[own] = size.clone();
    }
    Argv::new(program).args(args).arg(device.path()).writes_only([device.path()]).expect(log)?;
    Ok(())
}

/// The output as a terminal would show it, without progress that backspaces removed.
fn rendered(output: &str) -> String {
    let mut lines: Vec<String> = vec![];
    for line in output.trim().lines() {
        let mut shown = String::new();
        for letter in line.chars() {
            match letter {
                '\u{8}' => drop(shown.pop()),
                '\r' => shown.clear(),
                letter => shown.push(letter),
            }
        }
        lines.push(shown.trim_end().to_string());
    }
    lines.join("\n")
}

fn not_installed(error: argv::Error, def: &FsDef) -> Error {
    match error {
        argv::Error::NotFound { .. } => {
            Error::NoMkfs { program: def.mkfs, title: def.title, fix: to_install([def]) }
        }
        other => other.into(),
    }
}

/// Mounts the filesystem of scratch devices on an existing directory.
///
/// # Errors
/// Where mount(8) fails; the message has its own words.
pub fn mount<'a>(
    devices: impl Into<Devices<'a>>,
    journal: &Journal,
    def: &FsDef,
    options: &VariantOptions,
    target: &Path,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<Mounted, Error> {
    let devices = devices.into();
    let options = mount_options(def, options, &devices);
    Ok(mount::mount(journal, log, devices.first(), target, def.id, &options)?)
}

/// The features that the filesystem was made with, as its own tool prints them. None where no tool does,
/// or it is not installed, or it fails: a report then says nothing rather than something wrong.
pub fn describe(device: &ScratchDevice, def: &FsDef, log: &mut dyn FnMut(CommandRecord)) -> Option<String> {
    let describe = def.describe?;
    let printed = Argv::new(describe.program).args(describe.args).arg(device.path()).expect(log).ok()?.stdout;
    let wanted = |line: &&str| describe.lines.split('|').any(|start| line.starts_with(start));
    Some(printed.lines().filter(wanted).map(str::trim_end).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems;
    use fsarena_core::exit::{ExitCode, Exits};

    fn variant(levels: &[(&str, &str)]) -> Variant {
        Variant {
            name: "a".into(),
            levels: levels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        }
    }

    fn of(fs: &str, levels: &[(&str, &str)]) -> Result<VariantOptions, Error> {
        variant_options(filesystems::find(fs).unwrap(), &variant(levels))
    }

    #[test]
    fn levels_follow_the_option_set() {
        let options = of(
            "ext4",
            &[("options", "no-journal"), ("mkfs", " -b  1024 "), ("mount", "noatime, nodelalloc")],
        );
        let options = options.unwrap();
        assert_eq!(options.mkfs, ["-O", "^has_journal", "-b", "1024"]);
        assert_eq!(options.mount, "noatime,nodelalloc");
        assert_eq!(of("ext4", &[]).unwrap(), VariantOptions::default());
    }

    #[test]
    fn a_bare_word_is_a_feature_list_where_there_is_one() {
        assert_eq!(of("ext4", &[("mkfs", "^has_journal")]).unwrap().mkfs, ["-O", "^has_journal"]);
        assert_eq!(
            of("btrfs", &[("mkfs", "no-holes -n 4096")]).unwrap().mkfs,
            ["-O", "no-holes", "-n", "4096"]
        );
        let error = of("xfs", &[("mkfs", "crc=0")]).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused);
        assert!(error.to_string().contains("mkfs.xfs"), "{error}");
    }

    #[test]
    fn a_journal_elsewhere_is_checked_before_anything_is_made() {
        let options = of("xfs", &[("journal", "external")]).unwrap();
        let def = filesystems::find("xfs").unwrap();
        assert_eq!(journal_bytes(def, &options), Some(256 << 20));
        assert_eq!(journal_bytes(def, &of("xfs", &[]).unwrap()), None);
        let error = of("xfs", &[("journal", "external:16MiB")]).unwrap_err().to_string();
        assert!(error.contains("too small for xfs: it needs 64.0 MiB"), "{error}");
        let error = of("ext2", &[("journal", "external")]).unwrap_err().to_string();
        assert!(error.contains("journal=external"), "{error}");
    }

    #[test]
    fn an_option_set_brings_devices_unless_the_variant_says_otherwise() {
        let tuned = of("ext3", &[("options", "tuned-2011")]).unwrap();
        assert!(tuned.journal.is_some_and(|journal| journal.bytes.is_none()));
        let own = of("ext3", &[("options", "tuned-2011"), ("journal", "external:64MiB")]).unwrap();
        assert_eq!(own.journal.unwrap().bytes, Some(64 << 20));
        assert_eq!(of("btrfs", &[("options", "tuned-2011")]).unwrap().raid.unwrap().profile(), "raid0");
    }

    #[test]
    fn inode_tables_are_complete_unless_the_user_says_who_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(dir.path(), "test").unwrap();
        let image =
            fsarena_sys::image::create(&journal, &dir.path().join("image"), 300 << 20, false).unwrap();
        let device = ScratchDevice::from_image(image);
        let def = filesystems::find("ext4").unwrap();
        let left = || (def.background.unwrap().has_work)(device.path()).unwrap();
        let completed = |mkfs: &str, mount: &str| {
            let mkfs = vec!["-E".to_string(), mkfs.to_string()];
            let options = VariantOptions { mkfs, mount: mount.into(), ..VariantOptions::default() };
            format(&device, def, &options, &mut |_| ()).unwrap();
            let before = left();
            let by = complete(&(&device).into(), def, &options, &mut |_| ()).unwrap();
            (before, by, left())
        };
        // mkfs knows that a discarded file is zeros.
        let by = Some("-E lazy_itable_init=0".to_string());
        assert_eq!(completed("nodiscard", ""), (true, by, false));
        assert_eq!(completed("nodiscard,lazy_itable_init=1", ""), (true, None, true));
        assert_eq!(completed("nodiscard", "noinit_itable"), (true, None, true));
        assert_eq!(completed("nodiscard,lazy_itable_init=0", ""), (false, None, false));
    }

    #[test]
    fn progress_taken_back_is_not_shown() {
        assert_eq!(
            rendered("Tables: 0/1\u{8}\u{8}\u{8}   \u{8}\u{8}\u{8}done     \n\n10%\r100%\n"),
            "Tables: done\n\n100%"
        );
    }

    #[test]
    fn an_unknown_option_set_lists_those_there_are() {
        let error = of("ext3", &[("options", "notail")]).unwrap_err().to_string();
        assert!(error.contains("default, noatime, writeback, journal"), "{error}");
    }
}
