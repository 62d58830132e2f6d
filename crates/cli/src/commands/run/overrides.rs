//! Turns the flags of `fsarena run` into overrides of the plan.

use super::flags::{Args, RunPlace};
use super::variants::Levels;
use crate::commands::is_root;
use crate::failure::{Failure, usage_error};
use crate::flags::{absolute_path, absolute_text};
use fsarena_core::plan::{Backing, Emulator, GuestPlan, ParsedPlan, Plan, SourceDevice};
use fsarena_core::{factor, plan::resolve::Overrides, setting::SettingKind};
use fsarena_guest::kernel::DEBIAN;
use fsarena_load::{source::TREE_SEPARATOR, workloads::WORKLOADS};
use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};

/// The default of `--within`: the fraction that the choice of `--find best` may cost more than the best.
const DEFAULT_WITHIN: f64 = 0.01;

impl Args {
    /// The overrides of these flags for this plan. A stored plan of directories runs in its directories again, even without
    /// root, where the default is a guest.
    pub fn overrides_for(&self, parsed_plan: &ParsedPlan) -> Result<Overrides, Failure> {
        let mut overrides = self.overrides()?;
        let ran_in_directories = parsed_plan.stored.as_ref().is_some_and(|plan| plan.device.backing == Backing::Dir);
        if ran_in_directories && self.on.is_empty() && self.erase.is_none() && self.kernel.is_empty() {
            overrides.backing = None;
        }
        Ok(overrides)
    }

    /// The overrides of these flags for any plan.
    pub fn overrides(&self) -> Result<Overrides, Failure> {
        let (backing, directories) = self.backing_and_directories()?;
        let kernels = self.kernel.iter().map(|level| absolute_kernel_level(level)).collect::<Result<_, _>>()?;
        let mut factors = vec![];
        for (id, levels) in [
            (factor::FS, self.fs.clone()),
            (factor::OPTIONS, self.options.clone()),
            (factor::MKFS, self.mkfs.clone()),
            (factor::MOUNT, self.mount.clone()),
            (factor::KERNEL, kernels),
            (factor::DIR, directories),
        ] {
            if !levels.is_empty() {
                factors.push((id.to_string(), levels));
            }
        }
        for (id, levels) in &self.factor {
            // The plan refuses a directory, because `--on` names it.
            let levels = if id == factor::DIR { levels.clone() } else { absolute_levels(id, levels)? };
            factors.push((id.clone(), levels));
        }
        let other = self.other.as_deref().map(absolute_path).transpose()?;
        let mut settings = self.set.iter().map(absolute_setting).collect::<Result<Vec<_>, _>>()?;
        let trees: Vec<String> = self.tree.iter().map(|dir| absolute_text(dir)).collect::<Result<_, _>>()?;
        if !trees.is_empty() {
            settings.push(("tree".into(), trees.join(TREE_SEPARATOR.encode_utf8(&mut [0; 4]))));
        }
        for (id, text) in
            [("engine", &self.engine), ("modes", &self.modes), ("bs", &self.bs), ("threads", &self.threads)]
        {
            if let Some(text) = text {
                settings.push((id.into(), text.clone()));
            }
        }
        Ok(Overrides {
            scale: self.scale,
            seed: self.seed,
            rounds: self.rounds,
            warmup: self.warmup,
            shard: self.shard,
            budget_s: self.budget.map(|budget| budget.as_secs_f64()),
            max_rounds: self.max_rounds,
            margin: self.report.margin,
            best_within: self.find.as_ref().map(|_| self.within.unwrap_or(DEFAULT_WITHIN)),
            best_metric: self.metric.first().cloned(),
            best_by: self.by,
            claims: self.claim.clone(),
            has_gate: false,
            factors,
            vary: self.vary_levels()?,
            grid: self.grid.clone(),
            workload: self.workload.clone(),
            settings,
            backing,
            images_dir: self.images.as_deref().map(absolute_path).transpose()?,
            size: self.size,
            precondition: self.precondition,
            age_images: self.age_images,
            repository: self.repository.as_deref().map(absolute_path).transpose()?,
            source_dir: other.clone().filter(|_| !self.other_is_device()),
            source_device: other
                .filter(|_| self.other_is_device())
                .map(|path| SourceDevice { path, signature: self.other_signature.clone() }),
            fresh_seed: fresh_seed(&SysRoot::host()),
        })
    }

    /// The factors and levels of `--vary`, each factor once.
    fn vary_levels(&self) -> Result<Vec<(String, Vec<String>)>, Failure> {
        let mut vary: Vec<(String, Vec<String>)> = vec![];
        for (id, levels) in &self.vary {
            let levels = absolute_levels(id, levels)?;
            match vary.iter_mut().find(|(known, _)| known == id) {
                Some((_, known_levels)) => known_levels.extend(levels),
                None => vary.push((id.clone(), levels)),
            }
        }
        Ok(vary)
    }

    /// Whether `--other` names a device. Everything that exists and is not a directory counts as a device; the safety guard
    /// refuses it if it is not one.
    pub(super) fn other_is_device(&self) -> bool {
        self.other.as_ref().is_some_and(|path| path.exists() && !path.is_dir())
    }

    /// The backing of guests with this emulator and the flags of guests.
    fn guest_backing(&self, emulator: Emulator) -> Result<Backing, Failure> {
        let default_plan = GuestPlan::of(emulator);
        Ok(Backing::Guest(GuestPlan {
            modules: self.modules.as_deref().map(absolute_path).transpose()?,
            memory: self.guest_memory.unwrap_or(default_plan.memory),
            silence_timeout_s: self.guest_timeout.map_or(default_plan.silence_timeout_s, |time| time.as_secs_f64()),
            boots_anew: self.fresh_guests,
            fixed_layout: self.fixed_layout,
            ..default_plan
        }))
    }

    /// A note for users who did not choose a guest but get one because they are not root.
    pub fn default_guest_note(&self, plan: &Plan) -> Option<String> {
        let is_chosen = !self.on.is_empty() || self.erase.is_some() || !self.kernel.is_empty() || self.resume.is_some();
        let Backing::Guest(guest) = &plan.device.backing else { return None };
        if is_chosen || is_root() {
            return None;
        }
        Some(format!(
            "without root nothing can be mounted here, so this runs in a guest kernel (--on {}); as root, or with \
             `--on dir:PATH`, it would run in this one",
            guest.emulator.name()
        ))
    }

    /// The backing that `--on` or `--erase` names, and the directories of `--on dir:PATH`. By default a guest for users
    /// without root and for `--kernel`, else None.
    pub(super) fn backing_and_directories(&self) -> Result<(Option<Backing>, Vec<String>), Failure> {
        if let Some(path) = &self.erase {
            let signature = self.erase_signature.clone();
            return Ok((Some(Backing::Erase { path: absolute_path(path)?, signature }), vec![]));
        }
        let mut directories = Vec::new();
        for place in &self.on {
            match place {
                RunPlace::Dir(path) => directories.push(absolute_text(path)?),
                _ if self.on.len() > 1 => {
                    return usage_error("--on can be repeated for `dir:PATH` only");
                }
                RunPlace::Loop(path) => {
                    let path = path.as_deref().or(self.images.as_deref()).map(absolute_path).transpose()?;
                    return Ok((Some(Backing::Loop { path }), vec![]));
                }
                RunPlace::Ram => return Ok((Some(Backing::Ram), vec![])),
                RunPlace::Zram => return Ok((Some(Backing::Zram), vec![])),
                RunPlace::Guest(emulator) => return Ok((Some(self.guest_backing(*emulator)?), vec![])),
            }
        }
        if self.on.is_empty() && (!self.kernel.is_empty() || !is_root()) {
            return Ok((Some(self.guest_backing(Emulator::Qemu)?), vec![]));
        }
        Ok(((!directories.is_empty()).then_some(Backing::Dir), directories))
    }
}

/// Makes the path of a kernel absolute. The name of a packaged kernel, such as `debian:6.1`, does not change. `~/` is the home
/// directory, because a shell expands it only at the beginning of a word.
pub fn absolute_kernel_level(level: &str) -> Result<String, Failure> {
    if is_packaged_kernel(level) { Ok(level.to_string()) } else { absolute_text(&kernel_path(level)) }
}

/// The path of a kernel, with the home directory instead of `~/`.
pub(super) fn kernel_path(level: &str) -> PathBuf {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    match level.strip_prefix("~/").zip(home) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => level.into(),
    }
}

/// Makes the paths of directories, kernels and programs among the levels of a variant absolute.
pub fn absolute_variant(mut variant: Levels) -> Result<Levels, Failure> {
    for (id, level) in &mut variant {
        *level = absolute_level(id, level)?;
    }
    Ok(variant)
}

/// Makes the levels of a factor absolute if they are paths of directories, kernels or programs.
fn absolute_levels(id: &str, levels: &[String]) -> Result<Vec<String>, Failure> {
    levels.iter().map(|level| absolute_level(id, level)).collect()
}

/// Makes a level of a factor absolute if it is the path of a directory, a kernel or a program.
pub fn absolute_level(id: &str, level: &str) -> Result<String, Failure> {
    match id {
        factor::DIR | factor::MKFS_PROGRAM if !level.is_empty() => absolute_text(level.as_ref()),
        factor::KERNEL => absolute_kernel_level(level),
        _ => Ok(level.to_string()),
    }
}

/// Whether a kernel is named by its Debian version instead of its path.
pub(super) fn is_packaged_kernel(level: &str) -> bool {
    level.is_empty() || level.split(':').next() == Some(DEBIAN)
}

/// Whether a setting of `--set` is a path.
pub(super) fn is_path_setting((id, text): &(String, String)) -> bool {
    let mut defs = WORKLOADS.iter().flat_map(|workload| workload.def().settings);
    !text.is_empty() && defs.any(|def| def.id == id && def.kind == SettingKind::Path)
}

/// Makes the value of a setting absolute if the setting is a path.
fn absolute_setting(set: &(String, String)) -> Result<(String, String), Failure> {
    let (id, text) = set;
    Ok((id.clone(), if is_path_setting(set) { absolute_text(Path::new(text))? } else { text.clone() }))
}

/// A seed for runs without `--seed`, from the clock and the boot id.
fn fresh_seed(kernel: &SysRoot) -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_nanos() as u64);
    let boot = fsarena_sys::process::boot_id(kernel).unwrap_or_default();
    boot.bytes().fold(now, |seed, byte| fsarena_core::schedule::mix(seed, u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches};

    #[test]
    fn levels_of_factors_that_are_paths_become_absolute() {
        let words = "run --on qemu --factor mkfs_program=mkfs,/sbin/mkfs.ext4 --factor kernel=debian:6.1,./vmlinux";
        let matches = Args::augment_args(Command::new("run")).get_matches_from(words.split(' '));
        let overrides = Args::from_arg_matches(&matches).unwrap().overrides().unwrap();
        let here = std::env::current_dir().unwrap();
        let path = |name: &str| here.join(name).display().to_string();
        let programs = vec![path("mkfs"), "/sbin/mkfs.ext4".to_string()];
        let kernels = vec!["debian:6.1".to_string(), path("vmlinux")];
        assert_eq!(overrides.factors, [("mkfs_program".to_string(), programs), ("kernel".to_string(), kernels)]);
    }
}
