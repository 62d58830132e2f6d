//! Making, describing and mounting a filesystem. Only a [`ScratchDevice`] can be formatted or mounted here.

use crate::def::{ContentsArgument, FsDef, PoolDef};
use crate::{Error, available::install_command, external_journal, grammar, safety::ScratchDevice};
use bytesize::ByteSize;
use fsarena_core::event::{CommandRecord, Note, NoteKind};
use fsarena_core::factor::device::{ExternalJournal, Raid, parse_journal, parse_raid};
use fsarena_core::{cell::Variant, factor, names::unknown_name};
use fsarena_sys::CommandError;
use fsarena_sys::argv::Argv;
use fsarena_sys::mount::{self, MountedFilesystem};
use fsarena_sys::undo::Journal;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs::File, time::Duration};

/// All options of one variant for mkfs and mount.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VariantOptions {
    /// Arguments for mkfs, without [`FsDef::fixed_arguments`] and without the device.
    pub mkfs: Vec<String>,
    /// Mount options, comma-separated.
    pub mount: String,
    /// The journal on a separate device, if any.
    pub journal: Option<ExternalJournal>,
    /// The RAID profile over several devices, if any.
    pub raid: Option<Raid>,
    /// A directory that mkfs copies into the filesystem.
    pub contents: Option<PathBuf>,
    /// The mkfs program; None for the installed one.
    pub program: Option<PathBuf>,
}

/// The devices of one filesystem.
#[derive(Debug, Clone)]
pub struct Devices<'a> {
    /// The devices with data. mount(8) gets the first one as its source. Empty for a filesystem in memory.
    pub members: Vec<&'a ScratchDevice>,
    /// The separate device of the journal, if any.
    pub journal: Option<&'a ScratchDevice>,
}

impl VariantOptions {
    /// Adds the options that keep mkfs and the kernel from discarding blocks. The options of the user follow them, and so
    /// override them.
    pub fn disable_discard(&mut self, def: &FsDef) {
        let (mkfs, mount) = def.no_discard;
        self.mkfs.splice(0..0, mkfs.iter().map(|word| word.to_string()));
        self.prepend_mount_options(mount);
    }

    /// Adds the mount options that limit the size of a filesystem in memory to `bytes`. The options of the user follow them,
    /// and so override them. Does nothing for a filesystem on a device.
    pub fn limit_size(&mut self, def: &FsDef, bytes: u64) {
        self.prepend_mount_options(&def.size_options.replace("{}", &bytes.to_string()));
    }

    fn prepend_mount_options(&mut self, options: &str) {
        let words = [options, &self.mount].into_iter().filter(|word| !word.is_empty());
        self.mount = words.collect::<Vec<_>>().join(",");
    }
}

impl<'a> From<&'a ScratchDevice> for Devices<'a> {
    fn from(device: &'a ScratchDevice) -> Devices<'a> {
        Devices { members: vec![device], journal: None }
    }
}

impl Devices<'_> {
    /// The device node that is the source of the mount.
    ///
    /// # Panics
    /// If there is no device, as for a filesystem in memory.
    pub fn first(&self) -> &Path {
        self.members[0].path()
    }

    /// The source of the mount of a filesystem: the first device, or the name of a filesystem in memory.
    pub fn source(&self, def: &'static FsDef) -> &Path {
        self.members.first().map_or(Path::new(def.id), |device| device.path())
    }

    /// All devices: those with data, then the journal.
    pub fn iter(&self) -> impl Iterator<Item = &ScratchDevice> {
        self.members.iter().copied().chain(self.journal)
    }
}

/// The result of [`format()`].
#[derive(Debug, Clone)]
pub struct FormatResult {
    /// The output of mkfs.
    pub output: String,
    /// The argument vector of mkfs.
    pub argv: Vec<String>,
    /// The run time of mkfs.
    pub elapsed: Duration,
    /// The bytes of the image file that a read-only filesystem takes with all its files; None for other filesystems, and on a
    /// block device.
    pub packed_bytes: Option<u64>,
}

/// The options of a variant: its option set, followed by the levels of the factors `mkfs` and `mount`. Levels of
/// the factors `journal` and `raid` override the option set.
///
/// # Errors
/// The filesystem lacks the option set, an argument or mount option is refused, the filesystem cannot have a separate
/// journal, or the journal is too small.
pub fn variant_options(def: &FsDef, variant: &Variant) -> Result<VariantOptions, Error> {
    let id = variant.level(factor::OPTIONS);
    let set_ids = || def.option_sets.iter().map(|set| set.id);
    let set = def
        .option_set(id)
        .ok_or_else(|| unknown_name("option set", id, set_ids()).with_place(format!("of {}", def.id)))?;
    let mut mkfs: Vec<String> = set.mkfs.iter().map(|word| word.to_string()).collect();
    mkfs.extend(mkfs_level_words(def, variant.level(factor::MKFS)));
    if def.mkfs.is_empty() && !mkfs.is_empty() {
        return Err(Error::Options(format!("{} is made by its mount: leave out the factor `mkfs`", def.id)));
    }
    let mkfs = grammar::check_mkfs_arguments(def, &mkfs)?;
    let mount_level = variant.level(factor::MOUNT);
    let mount = set.mount.iter().copied().chain(mount_level.split(',')).map(str::trim);
    let mount: Vec<&str> = mount.filter(|word| !word.is_empty()).collect();
    grammar::check_mount_options(mount.iter().copied())?;
    let mount = mount.join(",");
    let level_or = |factor: &str, level_of_set: &'static str| match variant.level(factor) {
        "" => level_of_set.to_string(),
        level => level.to_string(),
    };
    let journal = parse_journal(&level_or(factor::JOURNAL, set.journal)).map_err(Error::Options)?;
    let raid = parse_raid(&level_or(factor::RAID, set.raid)).map_err(Error::Options)?;
    check_journal(def, journal)?;
    let program = mkfs_program(def, variant)?;
    Ok(VariantOptions { mkfs, mount, journal, raid, contents: None, program })
}

/// The mkfs program that a variant names; None for the installed one.
///
/// # Errors
/// The file does not exist, or the filesystem is not made on this machine.
fn mkfs_program(def: &FsDef, variant: &Variant) -> Result<Option<PathBuf>, Error> {
    let level = variant.level(factor::MKFS_PROGRAM);
    let why = match level {
        "" => return Ok(None),
        _ if def.mkfs.is_empty() || def.pool.is_some() => {
            format!("no program of this machine makes {}", def.id)
        }
        _ if !variant.level(factor::STACK).is_empty() => "a guest makes the filesystem on a stack".into(),
        level if !Path::new(level).is_file() => "no such file".into(),
        level => return Ok(Some(level.into())),
    };
    Err(Error::Options(format!("{}={level}: {why}", factor::MKFS_PROGRAM)))
}

/// Checks that a filesystem can have a separate journal of the requested size.
fn check_journal(def: &FsDef, requested: Option<ExternalJournal>) -> Result<(), Error> {
    let Some(requested) = requested else { return Ok(()) };
    let id = def.id;
    let Some(journal) = def.journal else {
        let why = format!("{id} cannot keep its journal on a separate device; leave out journal=external");
        return Err(Error::Options(why));
    };
    match requested.size_bytes {
        Some(bytes) if bytes < journal.min_bytes => {
            let (bytes, min_bytes) = (ByteSize(bytes), ByteSize(journal.min_bytes));
            let why = format!("a journal device of {bytes} is too small for {id}: it needs {min_bytes}");
            Err(Error::Options(why))
        }
        _ => Ok(()),
    }
}

/// The size of the journal's device, in bytes; None if the journal is inside the filesystem.
pub fn journal_bytes(def: &FsDef, options: &VariantOptions) -> Option<u64> {
    Some(options.journal?.size_bytes.unwrap_or(def.journal?.default_bytes))
}

/// The mount options of a filesystem on these devices: the options of the variant, and options that name the journal device
/// and the further devices.
pub fn mount_options(def: &FsDef, options: &VariantOptions, devices: &Devices) -> String {
    let mut mount_options = vec![];
    if !options.mount.is_empty() {
        mount_options.push(options.mount.clone());
    }
    mount_options.extend(devices.journal.and_then(|device| journal_option(def, device.path())));
    if let Some(raid) = def.raid.filter(|_| devices.members.len() > 1) {
        let option_for = |device: &&ScratchDevice| raid.mount.replace("{}", &device.path().to_string_lossy());
        mount_options.extend(devices.members.iter().map(option_for));
    }
    mount_options.join(",")
}

/// The mount option that names the device of a journal; None if the filesystem has no such option.
pub fn journal_option(def: &FsDef, device: &Path) -> Option<String> {
    let journal = def.journal.filter(|journal| !journal.mount.is_empty())?;
    Some(journal.mount.replace("{}", &device.to_string_lossy()))
}

/// A note on how the option set of a variant differs from the published recipe that it is named after; None if it is named
/// after none.
pub fn recipe_change_note(variant: &Variant) -> Option<Note> {
    let def = crate::filesystems::find(variant.level(factor::FS)).ok()?;
    let set = def.option_set(variant.level(factor::OPTIONS)).filter(|set| !set.changes.is_empty())?;
    Some(Note::new(NoteKind::Remark, format!("{} today, changes: {}", set.id, set.changes)).task("mkfs"))
}

/// The level of the factor `mkfs` as arguments, split at blanks. A first word without `-` is a feature list, and gets the
/// feature flag of the filesystem before it.
fn mkfs_level_words(def: &FsDef, level: &str) -> Vec<String> {
    let words = level.split_whitespace();
    let flag = def.feature_flag.filter(|_| words.clone().next().is_some_and(|first| !first.starts_with('-')));
    flag.into_iter().chain(words).map(str::to_string).collect()
}

/// Makes a filesystem on scratch devices, whatever was on them. If the kernel has Landlock, mkfs can write to these devices
/// only.
///
/// # Errors
/// The grammar refuses an argument, another device has replaced one of these, or mkfs is not installed or fails; the message
/// has the output of mkfs.
pub fn format<'a>(
    devices: impl Into<Devices<'a>>,
    def: &FsDef,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<FormatResult, Error> {
    let devices = devices.into();
    let mut words = grammar::check_mkfs_arguments(def, &options.mkfs)?;
    for device in devices.iter() {
        device.begin_overwriting()?;
    }
    let journal = def.journal.zip(devices.journal);
    // If mkfs cannot take a file as the journal, fsarena joins both after mkfs.
    let joined_after_mkfs = journal.filter(|(journal, device)| !journal.accepts_files && device.file().is_some());
    if let Some((journal, device)) = journal {
        make_journal(journal.make_command, device, options, log)?;
        if joined_after_mkfs.is_some() {
            external_journal::match_block_size(&mut words, journal.make_command.unwrap_or_default());
        } else {
            let path = device.path().to_string_lossy();
            words.extend(journal.mkfs.iter().map(|arg| arg.replace("{}", &path)));
        }
    }
    if let Some((raid_def, raid)) = def.raid.zip(options.raid).filter(|_| devices.members.len() > 1) {
        words.extend(raid_def.mkfs.iter().map(|arg| arg.replace("{}", raid.profile())));
    }
    let argv = mkfs_command(def, words, options, &devices);
    let argv = argv.confine_writes_to(devices.iter().map(ScratchDevice::path));
    let finished = argv.run_checked(log).map_err(|error| explain_missing_mkfs(error, def))?;
    if let Some((_, device)) = joined_after_mkfs {
        external_journal::join_journal(devices.first(), device.path(), log)?;
    }
    for device in devices.iter() {
        device.log_signatures()?;
    }
    let image = devices.members[0].file().filter(|_| def.traits.read_only);
    let packed_bytes = image.map(|image| image.restore_size()).transpose()?;
    let output = if finished.stdout.trim().is_empty() { finished.stderr } else { finished.stdout };
    let (output, argv) = (render_output(&output), argv.words());
    Ok(FormatResult { output, argv, elapsed: finished.elapsed, packed_bytes })
}

/// The command of mkfs with these options, for these devices and the directory that it copies into the filesystem.
fn mkfs_command(def: &FsDef, words: Vec<String>, options: &VariantOptions, devices: &Devices) -> Argv {
    let argv = match &options.program {
        // Its file can have any name.
        Some(program) => Argv::new(program).args(def.type_flag.into_iter().flat_map(|flag| [flag, def.id])),
        None => Argv::new(def.mkfs),
    };
    let members = devices.members.iter().map(|device| device.path());
    match def.contents_argument.zip(options.contents.as_deref()) {
        None => argv.args(def.fixed_arguments).args(words).args(members),
        Some((ContentsArgument::Flag(flag), dir)) => {
            argv.args(def.fixed_arguments).args(words).arg(flag).arg(dir).args(members)
        }
        Some((ContentsArgument::First, dir)) => argv.arg(dir).args(members).args(def.fixed_arguments).args(words),
        Some((ContentsArgument::Last, dir)) => argv.args(def.fixed_arguments).args(words).args(members).arg(dir),
    }
}

/// Checks that mkfs did what the option set of a variant requires: some versions ignore options that they lack.
///
/// # Errors
/// What the filesystem on this device or image lacks, and what to install; or it cannot be read.
pub fn check_option_set(def: &FsDef, variant: &Variant, image: &Path) -> Result<(), Error> {
    let set = def.option_set(variant.level(factor::OPTIONS));
    let Some(check) = set.and_then(|set| set.mkfs_check) else { return Ok(()) };
    let holds = (check.holds)(image).map_err(fsarena_sys::Error::io("reading", image))?;
    if holds {
        return Ok(());
    }
    Err(Error::OldMkfs { program: def.mkfs, option_set: variant.level(factor::OPTIONS).into(), fix: check.fix })
}

/// Writes the first `bytes` bytes of an image file to a scratch device, and syncs the device.
///
/// # Errors
/// The device is smaller, another device has replaced it, or it cannot be written.
pub fn write_image(image: &Path, bytes: u64, device: &ScratchDevice) -> Result<(), Error> {
    device.begin_overwriting()?;
    let copy = || -> std::io::Result<()> {
        let mut target = File::options().write(true).open(device.path())?;
        std::io::copy(&mut File::open(image)?.take(bytes), &mut target)?;
        target.sync_all()
    };
    copy().map_err(fsarena_sys::Error::io("writing the image to", device.path()))?;
    device.log_signatures()
}

/// Makes a filesystem again if mkfs left work that the kernel would do after the mount; mkfs then does all of that work.
/// Returns the argument of mkfs for it. Does nothing and returns None if no work is left, or if the options of the variant
/// already set whether mkfs or the kernel does it.
///
/// # Errors
/// The errors of [`format()`].
pub fn reformat_if_work_left(
    devices: &Devices,
    def: &FsDef,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<Option<String>, Error> {
    let Some((work, (flag, key, value))) = def.background_work.zip(initialisation_by_mkfs(def, options)) else {
        return Ok(None);
    };
    if !(work.has_work)(devices.first()).unwrap_or(false) {
        return Ok(None);
    }
    let mut options = options.clone();
    grammar::add_flag_value(&mut options.mkfs, flag, key, value);
    format(devices.clone(), def, &options, log)?;
    Ok(Some(format!("{flag} {value}")))
}

/// The mkfs command that makes a filesystem on one device and leaves nothing for the kernel to initialise. The caller adds the
/// path of the device.
///
/// # Errors
/// The grammar refuses an argument.
pub fn mkfs_words(def: &FsDef, options: &VariantOptions) -> Result<Vec<String>, Error> {
    let mut words = grammar::check_mkfs_arguments(def, &options.mkfs)?;
    if let Some(pool) = &def.pool {
        words = pool_words(pool, &words);
    }
    if let Some((flag, key, value)) = initialisation_by_mkfs(def, options) {
        grammar::add_flag_value(&mut words, flag, key, value);
    }
    let fixed_arguments = def.fixed_arguments.iter().map(|word| word.to_string());
    Ok(std::iter::once(def.mkfs.to_string()).chain(fixed_arguments).chain(words).collect())
}

/// The arguments that make a pool: the flags in `arguments` that set no property, the properties of the pool, and its name. A
/// property in `arguments` replaces that of [`PoolDef::properties`], because the program refuses a property that is set
/// twice. Each property gets a flag, because the program takes only one for each flag.
fn pool_words(pool: &PoolDef, arguments: &[String]) -> Vec<String> {
    let mut words = vec![];
    let mut properties: Vec<(&str, &str)> = pool.properties.to_vec();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(flag) = arguments.next() {
        if pool.properties.iter().all(|(property_flag, _)| *property_flag != flag) {
            words.push(flag.to_string());
            continue;
        }
        for property in arguments.next().unwrap_or_default().split(',') {
            let name_of = |property: &str| property.split('=').next().unwrap_or_default().to_string();
            properties.retain(|(_, other)| name_of(other) != name_of(property));
            properties.push((flag, property));
        }
    }
    words.extend(properties.iter().flat_map(|(flag, property)| [flag.to_string(), property.to_string()]));
    words.push(pool.name.into());
    words
}

/// The flag of mkfs, the key of its value, and the value (`KEY=…`), with which mkfs does the work that the kernel would do after
/// the mount. None if mkfs has no such flag, or if the options already set whether mkfs or the kernel does it.
fn initialisation_by_mkfs(def: &FsDef, options: &VariantOptions) -> Option<(&'static str, &'static str, &'static str)> {
    let (flag, value) = def.background_work?.by_mkfs?;
    let key = value.split('=').next().unwrap_or(value);
    let is_set = options.mkfs.iter().any(|word| word.contains(key)) || options.mount.contains("init_itable");
    (!is_set).then_some((flag, key, value))
}

/// Runs the separate command that makes a journal device, if the filesystem needs one. The journal gets the block size in the
/// options of the filesystem, if they set one.
fn make_journal(
    make_command: Option<&[&str]>,
    device: &ScratchDevice,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<(), Error> {
    let Some([program, args @ ..]) = make_command else { return Ok(()) };
    let mut args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let block_size_index = |args: &[String]| args.iter().position(|arg| arg == "-b").map(|flag_index| flag_index + 1);
    if let (Some(index), Some(index_in_options)) = (block_size_index(&args), block_size_index(&options.mkfs))
        && let Some(size) = options.mkfs.get(index_in_options)
    {
        args[index] = size.clone();
    }
    Argv::new(program).args(args).arg(device.path()).confine_writes_to([device.path()]).run_checked(log)?;
    Ok(())
}

/// The output as a terminal would show it: backspaces and carriage returns remove text.
fn render_output(output: &str) -> String {
    let mut lines: Vec<String> = vec![];
    for line in output.trim().lines() {
        let mut visible = String::new();
        for letter in line.chars() {
            match letter {
                '\u{8}' => drop(visible.pop()),
                '\r' => visible.clear(),
                letter => visible.push(letter),
            }
        }
        lines.push(visible.trim_end().to_string());
    }
    lines.join("\n")
}

/// The error of a mkfs command; for a mkfs that is not installed, with the command that installs it.
fn explain_missing_mkfs(error: CommandError, def: &FsDef) -> Error {
    match error {
        CommandError::NotFound { .. } => {
            Error::NoMkfs { program: def.mkfs, title: def.title, fix: install_command([def]) }
        }
        error => error.into(),
    }
}

/// Mounts the filesystem of scratch devices on an existing directory.
///
/// # Errors
/// mount(8) fails; the message has its output.
pub fn mount<'a>(
    devices: impl Into<Devices<'a>>,
    journal: &Journal,
    def: &'static FsDef,
    options: &VariantOptions,
    target: &Path,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<MountedFilesystem, Error> {
    let devices = devices.into();
    let options = mount_options(def, options, &devices);
    Ok(mount::mount(journal, log, devices.source(def), target, def.id, &options)?)
}

/// The features that the filesystem was made with, as its [`FsDef::describe_command`] prints them. None if there is no such
/// command, or if it is not installed or fails.
pub fn describe_features(device: &ScratchDevice, def: &FsDef, log: &mut dyn FnMut(CommandRecord)) -> Option<String> {
    let command = def.describe_command?;
    let output = Argv::new(command.program).args(command.args).arg(device.path()).run_checked(log).ok()?.stdout;
    let is_kept = |line: &&str| command.lines.split('|').any(|start| line.starts_with(start));
    Some(output.lines().filter(is_kept).map(str::trim_end).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems;
    use fsarena_core::exit::{ExitCode, HasExitCode};

    fn variant(levels: &[(&str, &str)]) -> Variant {
        Variant {
            name: "a".into(),
            levels: levels.iter().map(|(factor, level)| (factor.to_string(), level.to_string())).collect(),
        }
    }

    fn options_of(fs: &str, levels: &[(&str, &str)]) -> Result<VariantOptions, Error> {
        variant_options(filesystems::find(fs).unwrap(), &variant(levels))
    }

    #[test]
    fn levels_follow_the_option_set() {
        let options =
            options_of("ext4", &[("options", "no-journal"), ("mkfs", " -b  1024 "), ("mount", "noatime, nodelalloc")]);
        let options = options.unwrap();
        assert_eq!(options.mkfs, ["-O", "^has_journal", "-b", "1024"]);
        assert_eq!(options.mount, "noatime,nodelalloc");
        assert_eq!(options_of("ext4", &[]).unwrap(), VariantOptions::default());
    }

    #[test]
    fn a_first_word_without_a_dash_is_a_feature_list() {
        assert_eq!(options_of("ext4", &[("mkfs", "^has_journal")]).unwrap().mkfs, ["-O", "^has_journal"]);
        assert_eq!(
            options_of("btrfs", &[("mkfs", "no-holes -n 4096")]).unwrap().mkfs,
            ["-O", "no-holes", "-n", "4096"]
        );
        let error = options_of("xfs", &[("mkfs", "crc=0")]).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused);
        assert!(error.to_string().contains("mkfs.xfs"), "{error}");
    }

    #[test]
    fn an_impossible_separate_journal_is_refused() {
        let options = options_of("xfs", &[("journal", "external")]).unwrap();
        let def = filesystems::find("xfs").unwrap();
        assert_eq!(journal_bytes(def, &options), Some(256 << 20));
        assert_eq!(journal_bytes(def, &options_of("xfs", &[]).unwrap()), None);
        let error = options_of("xfs", &[("journal", "external:16MiB")]).unwrap_err().to_string();
        assert!(error.contains("too small for xfs: it needs 64.0 MiB"), "{error}");
        let error = options_of("ext2", &[("journal", "external")]).unwrap_err().to_string();
        assert!(error.contains("journal=external"), "{error}");
    }

    #[test]
    fn levels_of_journal_and_raid_override_the_option_set() {
        let tuned = options_of("ext3", &[("options", "tuned-2011")]).unwrap();
        assert!(tuned.journal.is_some_and(|journal| journal.size_bytes.is_none()));
        let overridden = options_of("ext3", &[("options", "tuned-2011"), ("journal", "external:64MiB")]).unwrap();
        assert_eq!(overridden.journal.unwrap().size_bytes, Some(64 << 20));
        assert_eq!(options_of("btrfs", &[("options", "tuned-2011")]).unwrap().raid.unwrap().profile(), "raid0");
    }

    #[test]
    fn mkfs_writes_all_inode_tables_unless_the_options_decide() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(dir.path(), "test").unwrap();
        let image = fsarena_sys::image::create(&journal, &dir.path().join("image"), 300 << 20, false).unwrap();
        let device = ScratchDevice::from_image(image);
        let def = filesystems::find("ext4").unwrap();
        let has_work_left = || (def.background_work.unwrap().has_work)(device.path()).unwrap();
        let reformat = |mkfs: &str, mount: &str| {
            let mkfs = vec!["-E".to_string(), mkfs.to_string()];
            let options = VariantOptions { mkfs, mount: mount.into(), ..VariantOptions::default() };
            format(&device, def, &options, &mut |_| ()).unwrap();
            let before = has_work_left();
            let argument = reformat_if_work_left(&(&device).into(), def, &options, &mut |_| ()).unwrap();
            (before, argument, has_work_left())
        };
        // Without `nodiscard` mkfs discards the file, and then writes no inode tables because they read as zeros.
        let argument = Some("-E lazy_itable_init=0".to_string());
        assert_eq!(reformat("nodiscard", ""), (true, argument, false));
        assert_eq!(reformat("nodiscard,lazy_itable_init=1", ""), (true, None, true));
        assert_eq!(reformat("nodiscard", "noinit_itable"), (true, None, true));
        assert_eq!(reformat("nodiscard,lazy_itable_init=0", ""), (false, None, false));
    }

    #[test]
    fn a_pool_gets_each_property_once_and_its_name_last() {
        let def = filesystems::find("zfs").unwrap();
        let words = |levels: &[(&str, &str)]| mkfs_words(def, &options_of("zfs", levels).unwrap()).unwrap().join(" ");
        let begin = "zpool create -f -m legacy -o cachefile=none";
        assert_eq!(
            words(&[]),
            format!("{begin} -o ashift=12 -O compression=lz4 -O recordsize=128K -O relatime=on -O xattr=sa fsarena")
        );
        assert_eq!(
            words(&[("options", "zstd"), ("mkfs", "-d -O recordsize=16K,compression=off")]),
            format!("{begin} -d -o ashift=12 -O relatime=on -O xattr=sa -O recordsize=16K -O compression=off fsarena")
        );
        for refused in ["-O mountpoint=legacy", "-m none", "-o cachefile=none", "-R x", "mirror"] {
            let error = options_of("zfs", &[("mkfs", refused)]).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Refused, "{refused}");
        }
    }

    #[test]
    fn erased_progress_is_not_shown() {
        assert_eq!(
            render_output("Tables: 0/1\u{8}\u{8}\u{8}   \u{8}\u{8}\u{8}done     \n\n10%\r100%\n"),
            "Tables: done\n\n100%"
        );
    }

    #[test]
    fn the_error_for_an_unknown_option_set_lists_the_known_ones() {
        let error = options_of("ext3", &[("options", "notail")]).unwrap_err().to_string();
        assert!(error.contains("default, noatime, writeback, journal"), "{error}");
    }
}
