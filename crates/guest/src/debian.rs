//! Fetches kernels of Debian packages and unpacks them into a cache as an ordinary user. Nothing is installed.

use crate::apt::{AptDirs, OnCommand, Package};
use crate::{Error, Result};
use fsarena_core::setting_text::setting;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// The prefix of the names of kernel packages.
const PACKAGE_PREFIX: &str = "linux-image-";
/// The end of the names of kernels for x86-64, the only processor that guests have. Debug symbols (`-dbg`) and unsigned copies
/// (`-unsigned`) have another end.
const ARCHITECTURE_SUFFIX: &str = "-amd64";
/// Flavours that only an explicit version selects: `cloud` lacks many filesystems, `rt` is a real-time kernel.
const FLAVOURS: [&str; 2] = ["cloud", "rt"];

/// Fetches the newest kernel of Debian whose version begins with `version`, and unpacks it. Returns the directory with
/// its kernel and modules. `available` are the releases that this machine already has, for the message.
///
/// # Errors
/// No suite has such a kernel, or apt cannot fetch it.
pub fn fetch_kernel(
    version: &str,
    cache: &Path,
    apt_dirs: &AptDirs,
    available: &[String],
    log: OnCommand,
) -> Result<PathBuf> {
    let refreshed = apt_dirs.refresh(log);
    let kernels = list_kernels(apt_dirs, log).unwrap_or_default();
    let stable = apt_dirs.stable_code_name(log).unwrap_or_default();
    let Some(kernel) = newest_kernel(version, &kernels, stable.as_deref()) else {
        let releases: Vec<&str> = kernels.iter().map(|kernel| kernel.release.as_str()).collect();
        let why = refreshed.err().map(|error| format!("\nIts package lists could not be fetched: {error}"));
        return Err(Error::Missing(format!(
            "no kernel of version {version:?} is here or in a suite of Debian; {}{}choose another version, or name a kernel: {} {}{}",
            list_for_message("here are", available),
            list_for_message("Debian has", &list_series(&releases)),
            setting("kernel", "PATH"),
            setting("modules", "DIR"),
            why.unwrap_or_default(),
        )));
    };
    let package_dir = cache.join(&kernel.package.name);
    if package_dir.is_dir() {
        return Ok(package_dir);
    }
    apt_dirs.unpack(&apt_dirs.list_parts(&kernel.package, log)?, &package_dir, log)?;
    Ok(package_dir)
}

/// A kernel that Debian packages.
#[derive(Debug, Clone)]
pub struct DebianKernel {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// The package that has or requires all of it.
    pub package: Package,
}

/// Returns the kernels for guests in the cached lists of all suites; the oldest first.
///
/// # Errors
/// apt is not installed, or its lists are damaged.
pub fn list_kernels(apt_dirs: &AptDirs, log: OnCommand) -> Result<Vec<DebianKernel>> {
    let packages = apt_dirs.list_packages(PACKAGE_PREFIX, |name| release_of_package(name).is_some(), log)?;
    let kernel = |package: Package| Some(DebianKernel { release: release_of_package(&package.name)?.into(), package });
    let mut kernels: Vec<DebianKernel> = packages.into_iter().filter_map(kernel).collect();
    kernels.sort_by(|a, b| compare_releases(&a.release, &b.release));
    Ok(kernels)
}

/// The newest kernel whose version begins with `version`; for an empty version the newest of the stable suite, if it has one.
fn newest_kernel<'a>(version: &str, kernels: &'a [DebianKernel], stable: Option<&str>) -> Option<&'a DebianKernel> {
    let mut matching = kernels.iter().filter(|kernel| matches_version(&kernel.release, version));
    let is_default = |kernel: &&DebianKernel| version.is_empty() && Some(kernel.package.suite.as_str()) == stable;
    matching.clone().rfind(is_default).or_else(|| matching.next_back())
}

/// The release of a package; None if it is not a kernel for guests. `6.12-amd64` has none, because it only depends
/// on the newest package of its series.
fn release_of_package(package: &str) -> Option<&str> {
    let release = package.strip_prefix(PACKAGE_PREFIX)?;
    let (number, _) = release.split_once(['-', '+'])?;
    let has_full_version = number.split('.').count() > 2 && number.starts_with(|first: char| first.is_ascii_digit());
    Some(release).filter(|release| has_full_version && release.ends_with(ARCHITECTURE_SUFFIX))
}

/// The versions by which a user can select these releases: `6.1`, `6.1-cloud`.
fn list_series(releases: &[&str]) -> Vec<String> {
    sort_releases(releases.iter().map(|release| series_of(release)))
}

/// The version by which a user can select a release: `6.1` of `6.1.0-53-amd64`.
pub fn series_of(release: &str) -> String {
    let version = release.split('.').take(2).collect::<Vec<_>>().join(".");
    match flavour_of(release) {
        Some(flavour) => format!("{version}-{flavour}"),
        None => version,
    }
}

/// Sorts releases, the oldest first, and removes duplicates.
pub fn sort_releases(releases: impl Iterator<Item = String>) -> Vec<String> {
    let mut releases: Vec<String> = releases.collect();
    releases.sort_by(|a, b| compare_releases(a, b));
    releases.dedup();
    releases
}

/// A list for a message, `here are 6.1.0-53-amd64, 6.12.1-amd64; `; empty without names.
fn list_for_message(intro: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{intro} {}; ", names.join(", ")) }
}

/// Whether a release is of a version: `6.1.0-53-amd64` is of `6.1`, and `6.12.1` is not; `6.1.0-53-cloud-amd64` is of
/// `6.1-cloud`. Every release without a flavour is of the empty version.
pub fn matches_version(release: &str, version: &str) -> bool {
    if version == release {
        return true;
    }
    let with_flavour = FLAVOURS.into_iter().find_map(|flavour| {
        let version = version.strip_suffix(flavour)?;
        Some((version.strip_suffix('-').unwrap_or(version), Some(flavour)))
    });
    let (version, flavour) = with_flavour.unwrap_or((version, None));
    let rest = release.strip_prefix(version);
    let has_number =
        rest.is_some_and(|rest| version.is_empty() || !rest.starts_with(|next: char| next.is_ascii_digit()));
    has_number && flavour_of(release) == flavour
}

/// The flavour of a release, if any.
pub fn flavour_of(release: &str) -> Option<&'static str> {
    FLAVOURS.into_iter().find(|flavour| release.contains(&format!("-{flavour}-")))
}

/// Compares releases by their numbers: `6.1.0-9` is older than `6.1.0-53`. A release candidate, `6.19.0-rc5`, is older than its
/// release, `6.19.0`.
pub fn compare_releases(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let key = |release: &str| match release.split_once("-rc") {
        Some((version, candidate)) if candidate.starts_with(|first: char| first.is_ascii_digit()) => {
            (numbers(version), false, numbers(candidate))
        }
        _ => (numbers(release), true, vec![]),
    };
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
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
    fn only_packages_with_kernels_for_guests_have_releases() {
        let releases: Vec<&str> = PACKAGES.into_iter().filter_map(release_of_package).collect();
        assert_eq!(list_series(&releases), ["6.1", "6.1-cloud", "6.1-rt", "6.12"]);
        assert_eq!(releases.len(), 6, "{releases:?}");
    }

    #[test]
    fn a_version_selects_its_newest_release() {
        let newest = |version: &str| {
            let releases = PACKAGES.into_iter().filter_map(release_of_package);
            releases.filter(|release| matches_version(release, version)).max_by(|a, b| compare_releases(a, b))
        };
        assert_eq!(newest("6.1"), Some("6.1.0-53-amd64"));
        assert_eq!(newest("6.1.0-9"), Some("6.1.0-9-amd64"));
        assert_eq!((newest(""), newest("6.12")), (Some("6.12.100+deb12-amd64"), Some("6.12.100+deb12-amd64")));
        assert_eq!(newest("6.1-cloud"), Some("6.1.0-60-cloud-amd64"));
        assert_eq!(newest("6.1.0-60-cloud-amd64"), newest("6.1-cloud"));
        assert_eq!(newest("5.10"), None);
        assert_eq!(list_for_message("here are", &["6.1".into(), "6.12".into()]), "here are 6.1, 6.12; ");
    }

    #[test]
    fn release_candidates_are_older_than_their_release() {
        let releases = ["6.18.9", "6.19.0-rc5+", "6.19.0-rc12", "6.19.0", "6.19.0-3-amd64", "6.19.1-rc1"];
        assert_eq!(sort_releases(releases.iter().rev().map(|release| release.to_string())), releases);
    }

    #[test]
    fn the_newest_of_stable_is_taken_if_no_version_is_named() {
        let kernel = |release: &str, suite: &str| {
            let package = Package { name: String::new(), version: String::new(), suite: suite.into() };
            DebianKernel { release: release.into(), package }
        };
        let kernels = [
            kernel("6.12.107+deb13-amd64", "trixie"),
            kernel("6.12.117+deb13-amd64", "trixie"),
            kernel("7.3.4+deb13-amd64", "trixie-backports"),
            kernel("7.4.1+deb14-cloud-amd64", "unstable"),
        ];
        let newest = |version, stable| Some(newest_kernel(version, &kernels, stable)?.release.as_str());
        assert_eq!(newest("", Some("trixie")), Some("6.12.117+deb13-amd64"));
        assert_eq!(newest("", None), Some("7.3.4+deb13-amd64"));
        assert_eq!(newest("7.3", Some("trixie")), Some("7.3.4+deb13-amd64"));
        assert_eq!(newest("5.10", Some("trixie")), None);
    }

    /// No package has the version 0.01.
    #[test]
    fn an_error_lists_the_available_releases() {
        let dir = tempfile::tempdir().unwrap();
        let apt_dirs = AptDirs::with_mirror(dir.path(), "file:///nowhere/debian");
        let available = ["6.1.0-53-amd64".into()];
        let error = fetch_kernel("0.01", dir.path(), &apt_dirs, &available, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("\"0.01\"") && error.contains("here are 6.1.0-53-amd64; "), "{error}");
    }
}
