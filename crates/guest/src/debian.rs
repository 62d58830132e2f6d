//! Fetches kernels of Debian packages and unpacks them into a cache as an ordinary user. Nothing is installed.

use crate::{Error, Result, cache::write_digest_list};
use fsarena_core::event::CommandRecord;
use fsarena_sys::argv::{self, Argv};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Receives the commands that were run.
pub type Log<'a> = &'a mut dyn FnMut(CommandRecord);

/// The prefix of the names of kernel packages.
const PACKAGE: &str = "linux-image-";
/// Suffixes of packages to skip: debug symbols, and unsigned copies of kernels.
const NOT_THESE: [&str; 2] = ["-dbg", "-unsigned"];
/// Flavours that only an explicit version selects: `cloud` lacks many filesystems, `rt` is a real-time kernel.
const FLAVOURS: [&str; 2] = ["cloud", "rt"];

/// Fetches the newest kernel package of a version and unpacks it. Returns the directory that contains its `boot/` and
/// `lib/`. `here` are the available releases, for the error message.
///
/// # Errors
/// Where apt knows no such package, or cannot fetch it.
pub fn fetch(version: &str, cache: &Path, here: &[String], log: Log) -> Result<PathBuf> {
    let package = newest(version, here, log)?;
    let place = cache.join(&package);
    if place.join("boot").is_dir() {
        return Ok(place);
    }
    std::fs::create_dir_all(cache).map_err(Error::io("making", cache))?;
    let room = tempfile::tempdir_in(cache).map_err(Error::io("making a directory in", cache))?;
    let download = Argv::new("apt-get").args(["download", "-q"]).arg(&package).cwd(room.path());
    download.expect(log).map_err(|error| {
        Error::Missing(format!(
            "{error}\nThe package lists may be old: `apt-get update` as root, or name a kernel: --kernel PATH \
             --modules DIR"
        ))
    })?;
    let mut files = std::fs::read_dir(room.path()).map_err(Error::io("reading", room.path()))?.flatten();
    let archive =
        files.next().ok_or_else(|| Error::unfit(room.path(), "apt-get download left no package there"))?;
    let unpacked = room.path().join("unpacked");
    Argv::new("dpkg").arg("-x").arg(archive.path()).arg(&unpacked).expect(log)?;
    write_digest_list(&unpacked).map_err(Error::io("noting the digests of", &unpacked))?;
    match std::fs::rename(&unpacked, &place) {
        // Another fsarena process has unpacked it meanwhile.
        Err(_) if place.join("boot").is_dir() => {}
        moved => moved.map_err(Error::io("moving a kernel to", &place))?,
    }
    Ok(place)
}

/// The name of the newest kernel package of a version for this machine.
fn newest(version: &str, here: &[String], log: Log) -> Result<String> {
    let names =
        Argv::new("apt-cache").args(["pkgnames", PACKAGE]).expect(log).map_err(|error| match error {
            argv::Error::NotFound { .. } => Error::Missing(format!(
                "no kernel of version {version:?} is here, and without apt none can be fetched; {}name one: --kernel \
                 PATH --modules DIR",
                list_of("here are", here)
            )),
            other => other.into(),
        })?;
    let releases: Vec<&str> = names.stdout.lines().filter_map(release).collect();
    let wanted = releases.iter().filter(|release| is_version(release, version));
    let newest = wanted.max_by(|a, b| by_version(a, b)).map(|release| format!("{PACKAGE}{release}"));
    newest.ok_or_else(|| {
        Error::Missing(format!(
            "apt knows no kernel package of version {version:?}; {}{}`apt-get update` as root may bring more, or name \
             a kernel: --kernel PATH --modules DIR",
            list_of("here are", here),
            list_of("apt has", &series(&releases)),
        ))
    })
}

/// The release of a package; None if it is not a kernel for this machine. `6.12-amd64` has none, because it only depends
/// on the newest package of its series.
fn release(package: &str) -> Option<&str> {
    let release = package.strip_prefix(PACKAGE)?;
    let (number, _) = release.split_once(['-', '+'])?;
    let numbered = number.split('.').count() > 2 && number.starts_with(|first: char| first.is_ascii_digit());
    let kernel = release.ends_with("-amd64") && !NOT_THESE.iter().any(|not| release.contains(not));
    Some(release).filter(|_| numbered && kernel)
}

/// The versions by which a user can select these releases: `6.1`, `6.1-cloud`.
fn series(releases: &[&str]) -> Vec<String> {
    let of = |release: &str| {
        let version = release.split('.').take(2).collect::<Vec<_>>().join(".");
        flavour_of(release).map_or(version.clone(), |flavour| format!("{version}-{flavour}"))
    };
    in_order(releases.iter().map(|release| of(release)))
}

/// Sorts releases, the oldest first, and removes duplicates.
pub fn in_order(releases: impl Iterator<Item = String>) -> Vec<String> {
    let mut releases: Vec<String> = releases.collect();
    releases.sort_by(|a, b| by_version(a, b));
    releases.dedup();
    releases
}

/// A list for a message, `here are 6.1.0-53-amd64, 6.12.1-amd64; `; empty without names.
fn list_of(what: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{what} {}; ", names.join(", ")) }
}

/// Whether a release is of a version: `6.1.0-53-amd64` is of `6.1`, and `6.12.1` is not; `6.1.0-53-cloud-amd64` is of
/// `6.1-cloud`. Every release without a flavour is of the empty version.
pub fn is_version(release: &str, version: &str) -> bool {
    if version == release {
        return true;
    }
    let with_flavour = FLAVOURS.into_iter().find_map(|flavour| {
        let version = version.strip_suffix(flavour)?;
        Some((version.strip_suffix('-').unwrap_or(version), Some(flavour)))
    });
    let (version, flavour) = with_flavour.unwrap_or((version, None));
    let rest = release.strip_prefix(version);
    let number =
        rest.is_some_and(|rest| version.is_empty() || !rest.starts_with(|next: char| next.is_ascii_digit()));
    number && flavour_of(release) == flavour
}

/// The flavour of a release, if any.
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

    const PACKAGES: [&str; 11] = [
        "linux-image-amd64",
        "linux-image-6.1.0-9-amd64",
        "linux-image-6.1.0-53-amd64",
        "linux-image-6.1.0-53-amd64-unsigned",
        "linux-image-6.1.0-54-amd64-dbg",
        "linux-image-6.1.0-60-cloud-amd64",
        "linux-image-6.1.0-60-rt-amd64",
        "linux-image-6.12-amd64",
        "linux-image-6.12-cloud-amd64",
        "linux-image-6.12.3+deb12-amd64",
        "linux-image-6.12.100+deb12-amd64",
    ];

    #[test]
    fn only_packages_with_kernels_for_this_machine_have_releases() {
        let releases: Vec<&str> = PACKAGES.into_iter().filter_map(release).collect();
        assert_eq!(series(&releases), ["6.1", "6.1-cloud", "6.1-rt", "6.12"]);
        assert_eq!(releases.len(), 6, "{releases:?}");
    }

    #[test]
    fn a_version_selects_its_newest_release() {
        let of = |version: &str| {
            let releases = PACKAGES.into_iter().filter_map(release);
            releases.filter(|release| is_version(release, version)).max_by(|a, b| by_version(a, b))
        };
        assert_eq!(of("6.1"), Some("6.1.0-53-amd64"));
        assert_eq!(of("6.1.0-9"), Some("6.1.0-9-amd64"));
        assert_eq!((of(""), of("6.12")), (Some("6.12.100+deb12-amd64"), Some("6.12.100+deb12-amd64")));
        assert_eq!(of("6.1-cloud"), Some("6.1.0-60-cloud-amd64"));
        assert_eq!(of("6.1.0-60-cloud-amd64"), of("6.1-cloud"));
        assert_eq!(of("5.10"), None);
        assert_eq!(list_of("here are", &["6.1".into(), "6.12".into()]), "here are 6.1, 6.12; ");
    }

    /// No package has the version 0.01.
    #[test]
    fn an_error_lists_the_available_releases() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            fetch("0.01", dir.path(), &["6.1.0-53-amd64".into()], &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("\"0.01\"") && error.contains("here are 6.1.0-53-amd64; "), "{error}");
    }
}
