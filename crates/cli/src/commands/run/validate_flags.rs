//! Refuses flags that a run would ignore, before fsarena makes anything.

use super::flags::{Args, On};
use super::overrides::{is_packaged, is_path, kernel_path};
use crate::failure::{Failure, usage};
use fsarena_core::{factor, plan::Backing, plan::Emulator};
use std::path::PathBuf;

/// The reason to refuse flags for mkfs and mount if the variants are directories.
const DIRECTORIES: &str = "directories are used as they are, without mkfs and mount; leave out this flag or the \
                           directories";

/// The flags that apply to guests only.
const OF_GUESTS: [&str; 5] = ["kernel", "modules", "guest_memory", "guest_timeout", "fresh_guests"];

impl Args {
    /// Refuses flags that do not apply to the place of the run, and paths that do not exist. `directories` is whether the
    /// variants are directories.
    pub fn refuse_ignored(&self, directories: bool) -> Result<(), Failure> {
        if self.resume.is_some() {
            return Ok(());
        }
        if self.within.is_some() && self.find.is_none() {
            return usage("--within: requires --find best");
        }
        if self.by.is_some() && self.find.is_none() {
            return usage("--by: requires --find best; a claim ends with `by mean` instead");
        }
        let (backing, _) = self.backing()?;
        let directories = directories || backing == Some(Backing::Dir);
        let guest = matches!(backing, Some(Backing::Guest(_)));
        let other_device = self.other_is_device();
        let counts = matches!(&backing, Some(Backing::Guest(guest)) if guest.emulator == Emulator::Exact);
        let cases: [(bool, &[&str], &str); 7] = [
            (directories, &["fs", "options", "mkfs", "mount", "size"], DIRECTORIES),
            (!guest, &OF_GUESTS, "requires a guest: --on qemu or --on exact"),
            (!counts, &["fixed_layout"], "requires guests that count instructions: --on exact"),
            (self.erase.is_none(), &["erase_signature"], "requires --erase DEVICE"),
            (
                guest,
                &["other"],
                "the source disk of a guest is an image beside that of the guest; leave it out",
            ),
            (directories && other_device, &["other"], "requires a directory, as the variants are"),
            (!other_device, &["other_signature"], "requires --other DEVICE"),
        ];
        for (applies, flags, why) in cases {
            // Called in any case, because in debug builds it panics for a name that is not a flag.
            let refused = self.given.refuse(flags, why);
            if applies {
                refused?;
            }
        }
        let formatting = |id: &str| !factor::OF_DIRECTORIES.contains(&id);
        for (flag, levels) in [("factor", &self.factor), ("vary", &self.vary)] {
            if let Some((id, _)) = levels.iter().find(|(id, _)| directories && formatting(id)) {
                return usage(format!("--{flag} {id}: {DIRECTORIES}"));
            }
        }
        self.check_paths()
    }

    /// Refuses paths that do not exist.
    fn check_paths(&self) -> Result<(), Failure> {
        let places = self.on.iter().filter_map(|on| match on {
            On::Loop(dir) => dir.clone(),
            _ => None,
        });
        let on_images = matches!(self.backing()?.0, None | Some(Backing::Loop { .. }));
        let places = places.chain(self.images.clone().filter(|_| on_images));
        let kernels = self.kernel.iter().filter(|level| !is_packaged(level)).map(|level| kernel_path(level));
        let settings = self.set.iter().filter(|set| is_path(set)).map(|(_, path)| PathBuf::from(path));
        let given = [&self.other, &self.modules].into_iter().flatten().chain(&self.tree).cloned();
        let mut paths = given.chain(places).chain(kernels).chain(settings);
        paths.try_for_each(|path| path.metadata().map(drop).map_err(Failure::file(&path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches};

    fn parsed(line: &[&str]) -> Args {
        let matches = Args::augment_args(Command::new("run")).get_matches_from(line);
        Args::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn every_refused_name_is_a_flag() {
        parsed(&["run"]).refuse_ignored(false).unwrap();
        let refused = parsed(&["run", "--on", "dir:/", "--fs", "ext4"]).refuse_ignored(false);
        assert!(refused.unwrap_err().to_string().starts_with("--fs: directories are used as they are"));
    }
}
