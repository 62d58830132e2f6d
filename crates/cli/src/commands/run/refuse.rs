//! Flags that a run would ignore: fsarena refuses them before it makes anything.

use super::Args;
use super::flags::On;
use super::overrides::{is_packaged, is_path};
use crate::failure::Failure;
use fsarena_core::exit::ExitCode;
use fsarena_core::factor;
use fsarena_core::plan::Backing;
use std::path::PathBuf;

/// Why directories as they are take none of the flags for filesystems.
const DIRECTORIES: &str = "directories are used as they are, without mkfs and mount; leave out this flag or the \
                           directories";

impl Args {
    /// Refuses flags that do not apply where the run takes place; `directories` says that variants name directories.
    pub fn refuse_ignored(&self, directories: bool) -> Result<(), Failure> {
        if self.resume.is_some() {
            return Ok(());
        }
        if self.within.is_some() && self.find.is_none() {
            return Err(Failure::new(ExitCode::Usage, "--within: requires --find best"));
        }
        let (backing, _) = self.backing()?;
        let directories = directories || backing == Some(Backing::Dir);
        let guest = matches!(backing, Some(Backing::Guest(_)));
        let of_filesystems = [
            ("--fs", !self.fs.is_empty()),
            ("--options", !self.options.is_empty()),
            ("--mkfs", !self.mkfs.is_empty()),
            ("--mount", !self.mount.is_empty()),
            ("--size", self.size.is_some()),
        ];
        let of_guests = [
            ("--kernel", !self.kernel.is_empty()),
            ("--modules", self.modules.is_some()),
            ("--guest-memory", self.guest_memory.is_some()),
            ("--guest-timeout", self.guest_timeout.is_some()),
            ("--fresh-guests", self.fresh_guests),
        ];
        let of_erase = [("--erase-signature", self.erase_signature.is_some())];
        let of_images = [("--other", self.other.is_some())];
        let other_device = self.other_is_device();
        let of_devices = [("--other-signature", self.other_signature.is_some())];
        let cases = [
            (directories, &of_filesystems[..], DIRECTORIES),
            (!guest, &of_guests, "requires a guest: --on qemu, --on uml or --on exact"),
            (self.erase.is_none(), &of_erase, "requires --erase DEVICE"),
            (
                guest,
                &of_images,
                "the source disk of a guest is an image beside that of the guest; leave it out",
            ),
            (directories && other_device, &of_images, "requires a directory, as the variants are"),
            (!other_device, &of_devices, "requires --other DEVICE"),
        ];
        for (applies, flags, why) in cases {
            if let Some((flag, _)) = flags.iter().find(|(_, given)| applies && *given) {
                return Err(Failure::new(ExitCode::Usage, format!("{flag}: {why}")));
            }
        }
        let formatting = |id: &str| !factor::OF_DIRECTORIES.contains(&id);
        match self.factor.iter().find(|(id, _)| directories && formatting(id)) {
            Some((id, _)) => Err(Failure::new(ExitCode::Usage, format!("--factor {id}: {DIRECTORIES}"))),
            None => self.check_paths(),
        }
    }

    /// Refuses paths that do not exist.
    fn check_paths(&self) -> Result<(), Failure> {
        let places = self.on.iter().filter_map(|on| match on {
            On::Loop(dir) => dir.clone(),
            _ => None,
        });
        let on_images = matches!(self.backing()?.0, None | Some(Backing::Loop { .. }));
        let places = places.chain(self.images.clone().filter(|_| on_images));
        let kernels = self.kernel.iter().filter(|level| !is_packaged(level)).map(PathBuf::from);
        let settings = self.set.iter().filter(|set| is_path(set)).map(|(_, path)| PathBuf::from(path));
        let given = [&self.other, &self.modules].into_iter().flatten().chain(&self.tree).cloned();
        let mut paths = given.chain(places).chain(kernels).chain(settings);
        paths.try_for_each(|path| path.metadata().map(drop).map_err(Failure::file(&path)))
    }
}
