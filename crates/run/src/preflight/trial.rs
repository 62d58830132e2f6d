//! Tries the user's options of mkfs and mount on temporary images before anything is measured. Only mkfs and the kernel
//! have the complete list of options, so only a trial finds a typo.

use super::room::{RAM_DIR, images_dir};
use crate::device_layout::{DeviceLayout, DeviceRole, DeviceSpec, filesystem_of};
use crate::error::{Result, RunError};
use crate::executor::{CommandLog, ScratchDir};
use crate::packed_filesystems::is_packed;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{Error, def::FsDef, filesystems, grammar, safety::ScratchDevice};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::{CommandError, cancel, dirs, image, mount, undo::MadeDir};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The largest scratch image for an erased device, in bytes.
const MAX_IMAGE_BYTES: u64 = 16 << 30;
/// The factors whose levels a trial tests. The filesystem is the first.
const TRIED_FACTORS: [&str; 7] =
    [factor::FS, factor::OPTIONS, factor::MKFS, factor::MKFS_PROGRAM, factor::MOUNT, factor::JOURNAL, factor::RAID];
/// If a plan has at most this many combinations of levels, all are tried; else a selection. A trial takes a fifth of a
/// second or more.
const MAX_TRIALS: usize = 32;

/// A function that receives the progress: the number of finished trials, and of all trials.
pub type TrialProgress<'a> = &'a mut dyn FnMut(usize, usize);

/// Makes and mounts filesystems with the options of the user. Each lies on a sparse image of `size_bytes`, the size of
/// the images of the run, in the same directory as these. For a guest only mkfs is tried, because the guest has another
/// kernel; and nothing for filesystems that are made in the guest.
///
/// # Errors
/// An option that mkfs or this kernel rejects, with the reason and the nearest valid name; or something that this
/// machine lacks for the trial.
pub fn try_options(
    plan: &Plan,
    variants: &[Variant],
    size_bytes: u64,
    runs_dir: &Path,
    progress: TrialProgress,
    log: CommandLog,
) -> Result<()> {
    let is_in_guest = matches!(plan.device.backing, Backing::Guest(_));
    let has_options = |variant: &&Variant| {
        let is_set = |id| !variant.level(id).is_empty();
        // Packing a file takes a moment and finds options that this mkfs or kernel lacks, such as a compression.
        let needs_trial = is_packed(variant)
            || is_set(factor::MKFS)
            || is_set(factor::MKFS_PROGRAM)
            || is_set(factor::MOUNT) && !is_in_guest;
        // Only a guest makes a filesystem with a pool, with its own kernel.
        let is_made_in_guest = filesystems::find(variant.level(factor::FS)).is_ok_and(|def| def.pool.is_some());
        !variant.is_bare_device() && needs_trial && !is_made_in_guest
    };
    let variants = select_variants(variants.iter().filter(has_options));
    if variants.is_empty() || plan.device.backing == Backing::Dir {
        return Ok(());
    }
    let dir = match &plan.device.backing {
        Backing::Ram | Backing::Zram => Path::new(RAM_DIR),
        _ => images_dir(&plan.device, runs_dir),
    };
    let scratch = ScratchDir::make(dir, "fsarena-trial")?;
    for (done, variant) in variants.iter().enumerate() {
        progress(done, variants.len());
        let (def, mut options) = filesystem_of(variant)?;
        if def.traits.read_only {
            options.contents = Some(make_sample_files(&scratch)?);
        }
        Trial { plan, variant, def, options, is_in_guest, scratch: &scratch }.run(size_bytes, log)?;
    }
    progress(variants.len(), variants.len());
    scratch.remove()?;
    // Signals were only recorded while the scratch images existed.
    Ok(cancel::check()?)
}

/// Selects one variant for each combination of levels. If there are too many, it selects a few in which each level
/// occurs with each of its filesystems. That finds every mistyped option; options that conflict fail later, in their
/// own cell.
fn select_variants<'a>(variants: impl Iterator<Item = &'a Variant>) -> Vec<&'a Variant> {
    let levels = |variant: &'a Variant| TRIED_FACTORS.map(|id| variant.level(id));
    let mut combinations = BTreeSet::new();
    let candidates: Vec<&Variant> = variants.filter(|variant| combinations.insert(levels(variant))).collect();
    if candidates.len() <= MAX_TRIALS {
        return candidates;
    }
    let (mut tried, mut selected) = (BTreeSet::new(), vec![]);
    // Variants with many untried levels come first, which keeps the selection small.
    for min_untried in (1..=TRIED_FACTORS.len()).rev() {
        for variant in &candidates {
            let levels = levels(variant);
            let mut untried: Vec<_> = (0..levels.len()).map(|index| (levels[0], index, levels[index])).collect();
            untried.retain(|level| !tried.contains(level));
            if untried.len() >= min_untried {
                tried.extend(untried);
                selected.push(*variant);
            }
        }
    }
    selected
}

/// The trial of one variant's options.
struct Trial<'a> {
    plan: &'a Plan,
    variant: &'a Variant,
    def: &'static FsDef,
    options: VariantOptions,
    is_in_guest: bool,
    scratch: &'a ScratchDir,
}

impl Trial<'_> {
    /// Makes scratch devices, tries the options on them, and removes them.
    fn run(&self, size_bytes: u64, log: CommandLog) -> Result<()> {
        let erases = matches!(self.plan.device.backing, Backing::Erase { .. });
        let bytes = if erases { size_bytes.min(MAX_IMAGE_BYTES) } else { size_bytes };
        let mut layout = DeviceLayout::of(self.plan, self.variant, bytes)?;
        if self.is_in_guest && !layout.members.is_empty() {
            // mkfs makes one image, which is spread over the members of an array afterwards.
            layout.members = vec![DeviceSpec { role: DeviceRole::Whole, bytes, ..layout.members[0] }];
        }
        let mut device = |spec| self.make_device(spec, log);
        let members = layout.members.iter().map(&mut device).collect::<Result<Vec<_>>>()?;
        let journal = layout.journal.as_ref().map(device).transpose()?;
        let devices = Devices { members: members.iter().collect(), journal: journal.as_ref() };
        let refusal = self.try_mkfs_and_mount(&devices, log)?;
        // The erased device may support options that an image does not, so there only misspelt names count.
        if let Some((why, suggestion)) = refusal.filter(|(_, suggestion)| suggestion.is_some() || !erases) {
            let suggestion = suggestion.map_or(String::new(), |suggestion| format!(". Did you mean `{suggestion}`?"));
            return Err(RunError::in_variant(self.variant, why + &suggestion));
        }
        Ok(members.into_iter().chain(journal).try_for_each(|device| device.release(log))?)
    }

    /// Makes a scratch device: a sparse image; for a trial in this kernel with a loop device.
    fn make_device(&self, spec: &DeviceSpec, log: CommandLog) -> Result<ScratchDevice> {
        let journal = &self.scratch.journal;
        let image = image::create_sparse(journal, &self.scratch.dir().join(spec.image_name()), spec.bytes)?;
        if self.is_in_guest {
            return Ok(ScratchDevice::from_image(image));
        }
        let options = LoopOptions { direct_io: false, discard: self.plan.device.discard };
        let device = loopdev::attach(journal, image.path(), options, log)?;
        Ok(ScratchDevice::from_loop(device, image)?)
    }

    /// Makes and mounts the filesystem; returns why mkfs or the kernel rejects the options, or None.
    fn try_mkfs_and_mount(&self, devices: &Devices, log: CommandLog) -> Result<Option<Refusal>> {
        let (def, mkfs_level) = (self.def, self.variant.level(factor::MKFS));
        if def.traits.volatile {
            return self.try_mount(devices, log);
        }
        if let Err(error) = lifecycle::format(devices.clone(), def, &self.options, log) {
            if def.traits.read_only {
                let why = format!("{} refuses `{}`: {}", def.mkfs, self.options.mkfs.join(" "), failure_reason(error)?);
                return Ok(Some((why, None)));
            }
            let why = format!("{} refuses `{mkfs_level}`: {}", def.mkfs, failure_reason(error)?);
            // Without mkfs options of the user the cause is an option set; that variant fails later, in its own cell.
            return Ok(Some((why, grammar::suggest_feature(def, mkfs_level))).filter(|_| !mkfs_level.is_empty()));
        }
        lifecycle::check_option_set(def, self.variant, devices.first())?;
        self.try_mount(devices, log)
    }

    /// Mounts the filesystem; returns why the kernel rejects the options, or None. Tries nothing for a guest.
    fn try_mount(&self, devices: &Devices, log: CommandLog) -> Result<Option<Refusal>> {
        if self.is_in_guest {
            return Ok(None);
        }
        let def = self.def;
        let target = MadeDir::make(&self.scratch.journal, &self.scratch.dir().join("mnt"))?;
        let journal = &self.scratch.journal;
        let mounted = lifecycle::mount(devices.clone(), journal, def, &self.options, target.path(), log);
        let refusal = match mounted {
            Ok(mounted) => mounted.unmount(log).map(|()| None)?,
            Err(error) => Some(self.find_refused_option(devices.source(def), failure_reason(error)?)),
        };
        target.remove()?;
        Ok(refusal)
    }

    /// Finds the option because of which the kernel rejects the mount, by trying each option alone. `message` is the
    /// message of mount(8).
    fn find_refused_option(&self, device: &Path, message: String) -> Refusal {
        let (id, [mkfs, mount]) = (self.def.id, [factor::MKFS, factor::MOUNT].map(|id| self.variant.level(id)));
        let try_option = |option: &str| mount::reason_for_refused_option(device, self.def.id, option);
        // Why the kernel rejects a mount without options.
        let plain = try_option("");
        let mut words = mount.split(',').map(str::trim).filter(|_| plain.is_none());
        match words.find_map(|option| Some((option, try_option(option)?))) {
            Some((option, why)) => (
                format!("this kernel refuses the mount option `{option}` of {id}: {why}"),
                grammar::suggest_mount_option(self.def, option),
            ),
            None if mount.is_empty() || plain.is_some() && !mkfs.is_empty() => {
                let why = plain.unwrap_or(message);
                (format!("this kernel cannot mount {id} made with `{mkfs}`: {why}"), None)
            }
            None => {
                let suggestion =
                    mount.split(',').find_map(|option| grammar::suggest_mount_option(self.def, option.trim()));
                (format!("{id} cannot be mounted with `{mount}`: {message}"), suggestion)
            }
        }
    }
}

/// A directory with a file that can be compressed, for trials of read-only filesystems.
fn make_sample_files(scratch: &ScratchDir) -> Result<PathBuf> {
    let dir = scratch.dir().join("files");
    dirs::make_dirs(&dir).map_err(fsarena_sys::Error::io("making", &dir))?;
    let file = dir.join("file");
    std::fs::write(&file, "text\n".repeat(40_000)).map_err(fsarena_sys::Error::io("writing", &file))?;
    Ok(dir)
}

/// Why mkfs or the kernel rejects options, and the name of the option that the user probably meant, if it was mistyped.
type Refusal = (String, Option<&'static str>);

/// The line of a failed command's output that has the reason: the first with a word like "invalid", else the first.
///
/// # Errors
/// Any error other than a failed command.
fn failure_reason(error: Error) -> Result<String> {
    match error {
        Error::System(fsarena_sys::Error::Command(CommandError::Failed { output, .. })) => {
            let words = ["error", "invalid", "unknown", "unrecogni", "illegal", "bad ", "wrong"];
            let has_reason = |line: &&str| words.iter().any(|word| line.to_lowercase().contains(word));
            let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
            let line = lines().find(has_reason).or(lines().next()).unwrap_or_default();
            Ok(line.trim_end_matches('.').into())
        }
        error => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_record;
    use fsarena_core::event::CommandEnd;
    use fsarena_core::plan::{Emulator, GuestPlan};

    #[test]
    fn nothing_is_tried_for_filesystems_that_are_made_in_the_guest() {
        let dir = tempfile::tempdir().unwrap();
        let record = empty_record(&["zfs"], &[]);
        let (mut plan, mut variant) = (record.plan, record.variants[0].clone());
        plan.device.backing = Backing::Guest(GuestPlan::of(Emulator::Qemu));
        variant.levels.insert(factor::MKFS.into(), "-O recordsize=16K".into());
        let mut trials = vec![];
        let mut progress = |done: usize, total: usize| trials.push((done, total));
        try_options(&plan, &[variant], 1 << 30, dir.path(), &mut progress, &mut |_| ()).unwrap();
        assert!(trials.is_empty(), "{trials:?}");
    }

    #[test]
    fn with_many_combinations_each_level_is_tried_at_least_once() {
        let variants = |filesystems: &[&str], levels: usize| -> Vec<Variant> {
            let numbers = (0..levels).flat_map(|mkfs| (0..levels).map(move |mount| (mkfs, mount)));
            let all = numbers.flat_map(|(mkfs, mount)| filesystems.iter().map(move |fs| (*fs, mkfs, mount)));
            let variant = |(fs, mkfs, mount): (&str, usize, usize)| Variant {
                name: format!("{fs} {mkfs} {mount}"),
                levels: [
                    (factor::FS.to_string(), fs.to_string()),
                    (factor::MKFS.to_string(), format!("-N {mkfs}")),
                    (factor::MOUNT.to_string(), format!("commit={mount}")),
                ]
                .into(),
            };
            all.map(variant).collect()
        };
        let few = variants(&["ext2", "ext4"], 4);
        assert_eq!(select_variants(few.iter().chain(&few)).len(), MAX_TRIALS);
        let many = variants(&["ext2", "ext4"], 20);
        let chosen = select_variants(many.iter());
        assert_eq!(chosen.len(), 40);
        for variant in &many {
            for id in [factor::MKFS, factor::MOUNT] {
                let same = |other: &&Variant| [factor::FS, id].iter().all(|id| other.level(id) == variant.level(id));
                assert!(chosen.iter().any(same), "{} {id}", variant.name);
            }
        }
    }

    #[test]
    fn the_reason_is_the_line_with_a_word_like_invalid_else_the_first() {
        let failed = |output: &str| {
            let failed =
                CommandError::Failed { command: "mkfs".into(), ended: CommandEnd::Exit(1), output: output.into() };
            failure_reason(failed.into()).unwrap()
        };
        let mke2fs = "mke2fs 1.47.0 (5-Feb-2023)\n\nInvalid filesystem option set: ^has_jounal\n";
        assert_eq!(failed(mke2fs), "Invalid filesystem option set: ^has_jounal");
        assert_eq!(failed("too small\nUsage: mkfs"), "too small");
        let missing = CommandError::NotFound { program: "mkfs.jfs".into() };
        assert!(failure_reason(missing.into()).is_err());
    }
}
