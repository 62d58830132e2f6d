//! Refuses flags that a run would ignore, before fsarena makes anything.

use super::flags::{Args, RunPlace};
use super::overrides::{is_packaged_kernel, is_path_setting, kernel_path};
use crate::failure::{Failure, usage_error};
use fsarena_core::{factor, plan::Backing};
use std::path::PathBuf;

/// The reason to refuse flags for mkfs and mount if the variants are directories.
const NO_MKFS_REASON: &str = "directories are used as they are, without mkfs and mount; leave out this flag or the \
                           directories";

/// The flags that apply to guests only.
const GUEST_FLAGS: [&str; 5] = ["kernel", "modules", "guest_memory", "guest_timeout", "fresh_guests"];

impl Args {
    /// Refuses flags that do not apply to the place of the run, and paths that do not exist.
    /// `are_directories` is whether the variants are directories.
    pub fn refuse_ignored(&self, are_directories: bool) -> Result<(), Failure> {
        if self.resume.is_some() {
            return Ok(());
        }
        if self.within.is_some() && self.find.is_none() {
            return usage_error("--within: requires --find best");
        }
        if self.by.is_some() && self.find.is_none() {
            return usage_error("--by: requires --find best; a claim ends with `by mean` instead");
        }
        let (backing, _) = self.backing_and_directories()?;
        let are_directories = are_directories || backing == Some(Backing::Dir);
        let is_guest = matches!(backing, Some(Backing::Guest(_)));
        let other_is_device = self.other_is_device();
        let is_exact = backing.as_ref().is_some_and(Backing::counts_instructions);
        // Whether these flags are refused, and why.
        let cases: [(bool, &[&str], &str); 7] = [
            (are_directories, &["fs", "options", "mkfs", "mount", "size"], NO_MKFS_REASON),
            (!is_guest, &GUEST_FLAGS, "requires a guest: --on qemu or --on exact"),
            (!is_exact, &["fixed_layout"], "requires guests that count instructions: --on exact"),
            (self.erase.is_none(), &["erase_signature"], "requires --erase DEVICE"),
            (is_guest, &["other"], "the source disk of a guest is an image beside that of the guest; leave it out"),
            (are_directories && other_is_device, &["other"], "requires a directory, as the variants are"),
            (!other_is_device, &["other_signature"], "requires --other DEVICE"),
        ];
        for (is_refused, flags, why) in cases {
            // Called in any case, because in debug builds it panics for a name that is not a flag.
            let refused = self.explicit_flags.refuse(flags.iter().copied(), why);
            if is_refused {
                refused?;
            }
        }
        let is_for_mkfs = |id: &str| !factor::DIRECTORY_FACTORS.contains(&id);
        for (flag, levels) in [("factor", &self.factor), ("vary", &self.vary)] {
            if let Some((id, _)) = levels.iter().find(|(id, _)| are_directories && is_for_mkfs(id)) {
                return usage_error(format!("--{flag} {id}: {NO_MKFS_REASON}"));
            }
        }
        self.check_paths()
    }

    /// Refuses paths that do not exist.
    fn check_paths(&self) -> Result<(), Failure> {
        let image_dirs = self.on.iter().filter_map(|place| match place {
            RunPlace::Loop(dir) => dir.clone(),
            _ => None,
        });
        let uses_images = matches!(self.backing_and_directories()?.0, None | Some(Backing::Loop { .. }));
        let image_dirs = image_dirs.chain(self.images.clone().filter(|_| uses_images));
        let kernels = self.kernel.iter().filter(|level| !is_packaged_kernel(level)).map(|level| kernel_path(level));
        let settings = self.set.iter().filter(|set| is_path_setting(set)).map(|(_, path)| PathBuf::from(path));
        let flag_paths = [&self.other, &self.modules].into_iter().flatten().chain(&self.tree).cloned();
        let mut paths = flag_paths.chain(image_dirs).chain(kernels).chain(settings);
        paths.try_for_each(|path| path.metadata().map(drop).map_err(Failure::for_path(&path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches};

    fn parse_args(words: &[&str]) -> Args {
        let matches = Args::augment_args(Command::new("run")).get_matches_from(words);
        Args::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn every_refused_name_is_a_flag() {
        parse_args(&["run"]).refuse_ignored(false).unwrap();
        let refused = parse_args(&["run", "--on", "dir:/", "--fs", "ext4"]).refuse_ignored(false);
        assert!(refused.unwrap_err().to_string().starts_with("--fs: directories are used as they are"));
    }
}
