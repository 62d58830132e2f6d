//! Tries the options of mkfs and mount that the user wrote, on scratch images: only mkfs and the kernel know all of
//! them, and a typo must be found before anything is measured.

use super::room::{RAM, images_dir};
use crate::executor::{Fatal, Log, Result};
use crate::layout::{Layout, Role, Wanted, filesystem_of};
use crate::scratch::Scratch;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{Error, def::FsDef, mistyped, safety::ScratchDevice};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::{argv, cancel, image, mount, undo::MadeDir};
use std::{collections::BTreeSet, path::Path};

/// Scratch images that stand for an erased device are at most this large.
const LARGEST: u64 = 16 << 30;
/// The factors whose levels decide what is tried, the filesystem first.
const DECISIVE: [&str; 6] =
    [factor::FS, factor::OPTIONS, factor::MKFS, factor::MOUNT, factor::JOURNAL, factor::RAID];
/// Up to this many combinations of these levels are all tried. Each takes a fifth of a second or more.
const ALL: usize = 32;

/// Shows how many trials of how many are done.
pub type Trying<'a> = &'a mut dyn FnMut(usize, usize);

/// Makes and mounts filesystems with the options that the user wrote, on sparse images as large as the run's and in the
/// same place. For a guest only mkfs is tried: its kernel is another.
///
/// # Errors
/// An option that mkfs or this kernel refuses, with its reason and the nearest name; or whatever the machine lacks.
pub fn options(
    plan: &Plan,
    variants: &[Variant],
    bytes: u64,
    runs: &Path,
    trying: Trying,
    log: Log,
) -> Result<()> {
    let guest = matches!(plan.device.backing, Backing::Guest(_));
    let written = |variant: &&Variant| {
        let said = |id| !variant.level(id).is_empty();
        !variant.is_bare_device() && (said(factor::MKFS) || said(factor::MOUNT) && !guest)
    };
    let variants = representative(variants.iter().filter(written));
    if variants.is_empty() || plan.device.backing == Backing::Dir {
        return Ok(());
    }
    let place = match &plan.device.backing {
        Backing::Ram | Backing::Zram => Path::new(RAM),
        _ => images_dir(&plan.device, runs),
    };
    let scratch = Scratch::make(place, "fsarena-trial")?;
    for (done, variant) in variants.iter().enumerate() {
        trying(done, variants.len());
        let (def, options) = filesystem_of(variant)?;
        Trial { plan, variant, def, options, guest, scratch: &scratch }.run(bytes, log)?;
    }
    trying(variants.len(), variants.len());
    scratch.clear()?;
    // While the scratch images were there, a signal was only noted.
    Ok(cancel::check()?)
}

/// One variant for each combination of the decisive levels. Where these are many, so few that each level of each
/// filesystem is among them: a mistyped option shows with any other, and options that do not go together show when
/// their variant's turn comes.
fn representative<'a>(variants: impl Iterator<Item = &'a Variant>) -> Vec<&'a Variant> {
    let levels = |variant: &'a Variant| DECISIVE.map(|id| variant.level(id));
    let mut seen = BTreeSet::new();
    let all: Vec<&Variant> = variants.filter(|variant| seen.insert(levels(variant))).collect();
    if all.len() <= ALL {
        return all;
    }
    let (mut tried, mut few) = (BTreeSet::new(), vec![]);
    // First those that have many levels at once that no other has had.
    for least in (1..=DECISIVE.len()).rev() {
        for variant in &all {
            let levels = levels(variant);
            let mut new: Vec<_> = (0..levels.len()).map(|at| (levels[0], at, levels[at])).collect();
            new.retain(|level| !tried.contains(level));
            if new.len() >= least {
                tried.extend(new);
                few.push(*variant);
            }
        }
    }
    few
}

/// The trial of one variant's options.
struct Trial<'a> {
    plan: &'a Plan,
    variant: &'a Variant,
    def: &'static FsDef,
    options: VariantOptions,
    guest: bool,
    scratch: &'a Scratch,
}

impl Trial<'_> {
    fn run(&self, bytes: u64, log: Log) -> Result<()> {
        let erases = matches!(self.plan.device.backing, Backing::Erase { .. });
        let bytes = if erases { bytes.min(LARGEST) } else { bytes };
        let mut layout = Layout::of(self.plan, self.variant, bytes)?;
        if self.guest {
            // mkfs makes one image, which is spread over the members of an array afterwards.
            layout.members = vec![Wanted { role: Role::Whole, bytes, ..layout.members[0] }];
        }
        let mut device = |wanted| self.device(wanted, log);
        let members = layout.members.iter().map(&mut device).collect::<Result<Vec<_>>>()?;
        let journal = layout.journal.as_ref().map(device).transpose()?;
        let devices = Devices { members: members.iter().collect(), journal: journal.as_ref() };
        let refusal = self.refusal(&devices, log)?;
        // The device itself may support more than an image does; misspelt names it does not.
        if let Some((why, near)) = refusal.filter(|(_, near)| near.is_some() || !erases) {
            let near = near.map_or(String::new(), |near| format!(". Did you mean `{near}`?"));
            return Err(Fatal::variant(self.variant, why + &near));
        }
        Ok(members.into_iter().chain(journal).try_for_each(|device| device.release(log))?)
    }

    /// A scratch device: a sparse image, behind a loop device where it is mounted here.
    fn device(&self, wanted: &Wanted, log: Log) -> Result<ScratchDevice> {
        let journal = &self.scratch.journal;
        let image = image::sparse(journal, &self.scratch.dir().join(wanted.image()), wanted.bytes)?;
        if self.guest {
            return Ok(ScratchDevice::from_image(image));
        }
        let options = LoopOptions { direct_io: false, discard: self.plan.device.discard };
        let device = loopdev::attach(journal, image.path(), options, log)?;
        Ok(ScratchDevice::from_loop(device, image)?)
    }

    /// Why mkfs or the kernel refuses the options, with the name that was probably meant.
    fn refusal(&self, devices: &Devices, log: Log) -> Result<Option<Refusal>> {
        let (def, written) = (self.def, self.variant.level(factor::MKFS));
        if let Err(error) = lifecycle::format(devices.clone(), def, &self.options, log) {
            let why = format!("{} refuses `{written}`: {}", def.mkfs, reason(error)?);
            // What an option set asks for is not the user's typo: that variant fails when its turn comes.
            return Ok(Some((why, mistyped::feature(def, written))).filter(|_| !written.is_empty()));
        }
        if self.guest {
            return Ok(None);
        }
        let target = MadeDir::make(&self.scratch.journal, &self.scratch.dir().join("mnt"))?;
        let journal = &self.scratch.journal;
        let mounted = lifecycle::mount(devices.clone(), journal, def, &self.options, target.path(), log);
        let refusal = match mounted {
            Ok(mounted) => mounted.unmount(log).map(|()| None)?,
            Err(error) => Some(self.blame(devices.first(), reason(error)?)),
        };
        target.remove()?;
        Ok(refusal)
    }

    /// Finds the option for which the kernel does not mount the filesystem; `said` is the reason that mount(8) gives.
    fn blame(&self, device: &Path, said: String) -> Refusal {
        let (id, [mkfs, mount]) =
            (self.def.id, [factor::MKFS, factor::MOUNT].map(|id| self.variant.level(id)));
        let ask = |option: &str| mount::refusal(device, self.def.id, option);
        let plain = ask("");
        let mut words = mount.split(',').map(str::trim).filter(|_| plain.is_none());
        match words.find_map(|option| Some((option, ask(option)?))) {
            Some((option, why)) => (
                format!("this kernel refuses the mount option `{option}` of {id}: {why}"),
                mistyped::mount_option(self.def, option),
            ),
            None if mount.is_empty() || plain.is_some() && !mkfs.is_empty() => {
                let why = plain.unwrap_or(said);
                (format!("this kernel cannot mount {id} made with `{mkfs}`: {why}"), None)
            }
            None => {
                let near =
                    mount.split(',').find_map(|option| mistyped::mount_option(self.def, option.trim()));
                (format!("{id} cannot be mounted with `{mount}`: {said}"), near)
            }
        }
    }
}

/// A reason, and the name that was probably meant.
type Refusal = (String, Option<&'static str>);

/// The line of a failed command's words that says why. Any other error stays one.
fn reason(error: Error) -> Result<String> {
    match error {
        Error::System(fsarena_sys::Error::Command(argv::Error::Failed { said, .. })) => {
            let words = ["error", "invalid", "unknown", "unrecogni", "illegal", "bad ", "wrong"];
            let says_why = |line: &&str| words.iter().any(|word| line.to_lowercase().contains(word));
            let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
            let line = lines().find(says_why).or(lines().next()).unwrap_or_default();
            Ok(line.trim_end_matches('.').into())
        }
        error => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_combinations_each_level_is_tried_once() {
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
        assert_eq!(representative(few.iter().chain(&few)).len(), ALL);
        let many = variants(&["ext2", "ext4"], 20);
        let chosen = representative(many.iter());
        assert_eq!(chosen.len(), 40);
        for variant in &many {
            for id in [factor::MKFS, factor::MOUNT] {
                let same =
                    |other: &&Variant| [factor::FS, id].iter().all(|id| other.level(id) == variant.level(id));
                assert!(chosen.iter().any(same), "{} {id}", variant.name);
            }
        }
    }

    #[test]
    fn the_reason_is_the_line_that_says_why() {
        let failed = |said: &str| {
            let failed =
                argv::Error::Failed { command: "mkfs".into(), ended: "exit 1".into(), said: said.into() };
            reason(failed.into()).unwrap()
        };
        let mke2fs = "mke2fs 1.47.0 (5-Feb-2023)\n\nInvalid filesystem option set: ^has_jounal\n";
        assert_eq!(failed(mke2fs), "Invalid filesystem option set: ^has_jounal");
        assert_eq!(failed("too small\nUsage: mkfs"), "too small");
        let missing = argv::Error::NotFound { program: "mkfs.jfs".into() };
        assert!(reason(missing.into()).is_err());
    }
}
