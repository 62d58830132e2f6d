//! Kernels of Debian packages: fetched and unpacked into a cache as an ordinary user. Nothing is installed.

use crate::Error;
use fsarena_core::event::CommandRecord;
use fsarena_sys::argv::{self, Argv};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Names of kernel packages that are no kernels: debug symbols, and unsigned twins.
const NOT_THESE: [&str; 2] = ["-dbg", "-unsigned"];
/// Flavours that are taken only where they are asked for: the one lacks many filesystems, the other is for real time.
const FLAVOURS: [&str; 2] = ["cloud", "rt"];

/// Fetches the newest kernel package whose version begins so, and unpacks it. Returns the directory that has its
/// `boot/` and `lib/`.
///
/// # Errors
/// Where apt knows no such package, or cannot fetch it.
pub fn fetch(version: &str, cache: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<PathBuf, Error> {
    let package = newest(version, log)?;
    let place = cache.join(&package);
    if place.join("boot").is_dir() {
        return Ok(place);
    }
    std::fs::create_dir_all(cache).map_err(Error::io("making", cache))?;
    let room = tempfile::tempdir_in(cache).map_err(Error::io("making a directory in", cache))?;
    Argv::new("apt-get").args(["download", "-q"]).arg(&package).cwd(room.path()).expect(log).map_err(
        |error| {
            Error::Missing(format!("{error}\nThe package lists may be old: `apt-get update` as root, or name a kernel: --kernel PATH --modules DIR"))
        },
    )?;
    let archive = only_file(room.path())?;
    let unpacked = room.path().join("unpacked");
    Argv::new("dpkg").arg("-x").arg(&archive).arg(&unpacked).expect(log)?;
    match std::fs::rename(&unpacked, &place) {
        // Another fsarena was faster.
        Err(_) if place.join("boot").is_dir() => {}
        moved => moved.map_err(Error::io("moving a kernel to", &place))?,
    }
    Ok(place)
}

fn only_file(dir: &Path) -> Result<PathBuf, Error> {
    let mut entries = std::fs::read_dir(dir).map_err(Error::io("reading", dir))?.flatten();
    let first = entries.next().map(|entry| entry.path());
    first.ok_or_else(|| Error::unfit(dir, "apt-get download left no package there"))
}

/// The newest kernel package for this machine whose version begins so.
fn newest(version: &str, log: &mut dyn FnMut(CommandRecord)) -> Result<String, Error> {
    let names =
        Argv::new("apt-cache").args(["pkgnames", "linux-image-"]).expect(log).map_err(
            |error| match error {
                argv::Error::NotFound { .. } => Error::Missing(
                    "this is no Debian: name a kernel in place of `debian:…`: --kernel PATH --modules DIR"
                        .into(),
                ),
                other => other.into(),
            },
        )?;
    choose(names.stdout.lines(), version).ok_or_else(|| {
        Error::Missing(format!(
            "apt knows no kernel package of version {version:?}; see `apt-cache search linux-image`, `apt-get update` \
             as root, or name a kernel: --kernel PATH --modules DIR"
        ))
    })
}

fn choose<'a>(names: impl Iterator<Item = &'a str>, version: &str) -> Option<String> {
    let kernels = names.filter(|name| {
        let release = name.strip_prefix("linux-image-").unwrap_or_default();
        release.starts_with(|first: char| first.is_ascii_digit())
            && is_version(release, version)
            && release.ends_with("-amd64")
            && !NOT_THESE.iter().any(|not| release.contains(not))
    });
    kernels.max_by(|a, b| by_version(a, b)).map(str::to_string)
}

/// Whether a release is of a version: `6.1.0-53-amd64` is of `6.1`, and `6.12.1` is not; `6.1.0-53-cloud-amd64` is of
/// `6.1-cloud`. Every usual one is of ``.
pub fn is_version(release: &str, version: &str) -> bool {
    if version == release {
        return true;
    }
    let asked = FLAVOURS.into_iter().find_map(|flavour| {
        let version = version.strip_suffix(flavour)?;
        Some((version.strip_suffix('-').unwrap_or(version), Some(flavour)))
    });
    let (version, flavour) = asked.unwrap_or((version, None));
    let rest = release.strip_prefix(version);
    let number =
        rest.is_some_and(|rest| version.is_empty() || !rest.starts_with(|next: char| next.is_ascii_digit()));
    number && flavour_of(release) == flavour
}

/// The flavour of a release, where it is not the usual one.
pub fn flavour_of(release: &str) -> Option<&'static str> {
    FLAVOURS.into_iter().find(|flavour| release.contains(&format!("-{flavour}-")))
}

/// Compares releases by their numbers: `6.1.0-9` is older than `6.1.0-53`.
pub fn by_version(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_of_a_version_is_chosen() {
        let names = [
            "linux-image-amd64",
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-53-amd64",
            "linux-image-6.1.0-53-amd64-unsigned",
            "linux-image-6.1.0-54-amd64-dbg",
            "linux-image-6.1.0-60-cloud-amd64",
            "linux-image-6.1.0-60-rt-amd64",
            "linux-image-6.12.3-amd64",
        ];
        assert_eq!(choose(names.into_iter(), "6.1").unwrap(), "linux-image-6.1.0-53-amd64");
        assert_eq!(choose(names.into_iter(), "6.1.0-9").unwrap(), "linux-image-6.1.0-9-amd64");
        assert_eq!(choose(names.into_iter(), "").unwrap(), "linux-image-6.12.3-amd64");
        assert_eq!(choose(names.into_iter(), "6.1-cloud").unwrap(), "linux-image-6.1.0-60-cloud-amd64");
        assert_eq!(
            choose(names.into_iter(), "6.1.0-60-cloud-amd64").unwrap(),
            "linux-image-6.1.0-60-cloud-amd64"
        );
        assert_eq!(choose(names.into_iter(), "5.10"), None);
    }
}
