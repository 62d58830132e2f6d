//! The suites of Debian, from oldstable to experimental. fsarena keeps their package lists and downloads in separate apt
//! directories, and apt verifies them with Debian's keys. fsarena never changes the package lists of this machine.

use crate::{Error, Result, cache::write_digest_list};
use fsarena_core::event::CommandRecord;
use fsarena_sys::{CommandError, argv::Argv, program::FETCHED_DIR};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A function that receives the record of each command that was run.
pub type OnCommand<'a> = &'a mut dyn FnMut(CommandRecord);

/// The architecture of the packages: guests are x86-64 machines.
const ARCHITECTURE: &str = "amd64";
/// The suites of the archive in which fsarena searches for packages.
const SUITES: [&str; 7] =
    ["oldstable", "oldstable-backports", "stable", "stable-backports", "testing", "unstable", "experimental"];
/// The suites of the archive of security updates in which fsarena searches for packages.
const SECURITY_SUITES: [&str; 3] = ["oldstable-security", "stable-security", "testing-security"];
/// The suite whose kernel fsarena uses if the user names no version.
const DEFAULT_SUITE: &str = "stable";
/// Debian's keys. Without this file apt uses the keys that it trusts by itself.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The apt sources file with the suites that fsarena searches, by code name.
const SOURCES_FILE: &str = "sources.list";
/// The age at which fsarena fetches the package lists again. A fetch takes 45 MB and 20 s.
const MAX_LISTS_AGE: Duration = Duration::from_secs(24 * 3600);

/// A package, in its newest version, and the suite that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name: `linux-image-6.12.117+deb13-amd64`.
    pub name: String,
    /// Its version: `6.12.117-1`.
    pub version: String,
    /// Its suite: `trixie-backports`.
    pub suite: String,
}

impl Package {
    /// Reads a line of `apt-cache madison`: `NAME | VERSION | URL SUITE/COMPONENT ARCHITECTURE Packages`.
    fn parse(line: &str) -> Option<Package> {
        let mut fields = line.split('|').map(str::trim);
        let (name, version, location) = (fields.next()?, fields.next()?, fields.next()?);
        let mut words = location.split_whitespace();
        let (suite, _) = words.nth(1)?.split_once('/')?;
        // The other lines are of source packages.
        let is_binary = words.last() == Some("Packages");
        is_binary.then(|| Package { name: name.into(), version: version.into(), suite: suite.into() })
    }

    /// `NAME=VERSION`, by which apt selects exactly this version.
    pub(crate) fn name_and_version(&self) -> String {
        format!("{}={}", self.name, self.version)
    }
}

/// The apt directories of fsarena, and the mirror that they use.
#[derive(Debug, Clone)]
pub struct AptDirs {
    dir: PathBuf,
    /// The address of the archive in tests; None to use the mirror of this machine's apt.
    mirror: Option<String>,
}

impl AptDirs {
    /// The apt directories in this cache, with the mirror that this machine's apt uses.
    pub fn in_cache(cache: &Path) -> AptDirs {
        AptDirs { dir: cache.join("apt"), mirror: None }
    }

    /// The same with a mirror at this address.
    #[cfg(test)]
    pub(crate) fn with_mirror(cache: &Path, mirror: &str) -> AptDirs {
        AptDirs { mirror: Some(mirror.into()), ..AptDirs::in_cache(cache) }
    }

    /// Fetches the package lists, unless the cached lists are less than a day old.
    ///
    /// # Errors
    /// apt is not installed, has no mirror of Debian, or could not fetch a list; the cache cannot be written. Lists that are
    /// already in the cache stay. If the mirror lacks a suite, that is an error too. If the cache has no sources file yet, the
    /// lists of the other suites are fetched before the error is returned.
    pub fn refresh(&self, log: OnCommand) -> Result<()> {
        let make_dir = |dir: &Path| std::fs::create_dir_all(dir).map_err(Error::io("making", dir));
        for dir in ["lists/partial", "cache/archives/partial"] {
            make_dir(&self.dir.join(dir))?;
        }
        // One process fetches, and others wait for its lists.
        let lock_path = self.dir.join("lock");
        let lock = File::create(&lock_path).map_err(Error::io("opening", &lock_path))?;
        lock.lock().map_err(Error::io("locking", &lock_path))?;
        let time_marker = self.dir.join("fetched");
        let age = time_marker.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age < MAX_LISTS_AGE) {
            return Ok(());
        }
        self.fetch_lists(log)?;
        File::create(&time_marker).map_err(Error::io("writing", &time_marker))?;
        Ok(())
    }

    /// Fetches the package lists in two updates, because a mirror can serve older lists for a suite name, such as `stable`, than
    /// for the code name of the same release, such as `trixie`. The first update fetches only the small lists of `contrib`, by
    /// suite name; from them apt reads the code names for the second update.
    fn fetch_lists(&self, log: OnCommand) -> Result<()> {
        let mirrors = choose_mirrors(self.mirror.as_deref(), log)?;
        let result = self.fetch_sources("suites.list", &mirrors.sources(), "contrib", log);
        // If a suite could not be fetched, keep the existing sources file, which may have all suites. If there is none,
        // write one with the suites that apt found.
        if result.is_ok() || !self.dir.join(SOURCES_FILE).is_file() {
            let targets = self.list_targets("suites.list", "$(REPO_URI) $(CODENAME) $(SUITE)", log)?;
            self.fetch_sources(SOURCES_FILE, &sources_by_code_name(&targets), "main contrib", log)?;
        }
        result
    }

    /// Writes a list of sources and fetches their package lists. Other lists stay.
    fn fetch_sources(
        &self,
        sources_file: &str,
        sources: &[SuiteSource],
        components: &str,
        log: OnCommand,
    ) -> Result<()> {
        let path = self.dir.join(sources_file);
        let keys = if Path::new(KEYRING).is_file() { format!(" signed-by={KEYRING}") } else { String::new() };
        let lines = sources.iter().map(|SuiteSource { archive, suite }| {
            format!("deb [arch={ARCHITECTURE} target=Packages{keys}] {archive} {suite} {components}\n")
        });
        std::fs::write(&path, lines.collect::<String>()).map_err(Error::io("writing", &path))?;
        let update =
            self.apt_command("apt-get", sources_file).args(["update", "-q", "-o", "APT::Get::List-Cleanup=false"]);
        update.run_checked(log)?;
        Ok(())
    }

    /// One line for each package list of the sources in `sources_file`, formatted by apt with `format`. Adjacent equal lines are
    /// merged.
    fn list_targets(&self, sources_file: &str, format: &str, log: OnCommand) -> Result<Vec<String>> {
        let targets = ["indextargets", "--format", format, "Created-By: Packages"];
        let found = self.apt_command("apt-get", sources_file).args(targets).run_checked(log)?;
        let mut lines: Vec<String> = found.stdout.lines().map(str::to_string).collect();
        lines.dedup();
        Ok(lines)
    }

    /// The code name of the stable release, under which its packages are listed. None before the first fetch of the lists.
    ///
    /// # Errors
    /// apt is not installed.
    pub fn stable_code_name(&self, log: OnCommand) -> Result<Option<String>> {
        let names = self.list_targets(SOURCES_FILE, "$(SUITE) $(CODENAME)", log)?;
        let stable = names.iter().find_map(|line| line.strip_prefix(DEFAULT_SUITE)?.strip_prefix(' '));
        Ok(stable.map(str::to_string))
    }

    /// Whether the cache has the lists of any suite.
    fn has_lists(&self) -> bool {
        let lists = std::fs::read_dir(self.dir.join("lists")).into_iter().flatten().flatten();
        lists.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
    }

    /// Returns the newest version of every package in the cached lists whose name begins with `prefix` and satisfies
    /// `is_wanted`.
    ///
    /// # Errors
    /// apt is not installed, or its lists are damaged.
    pub fn list_packages(&self, prefix: &str, is_wanted: fn(&str) -> bool, log: OnCommand) -> Result<Vec<Package>> {
        if !self.has_lists() {
            return Ok(vec![]);
        }
        let names = self.apt_command("apt-cache", SOURCES_FILE).args(["pkgnames", prefix]).run_checked(log)?.stdout;
        let names: Vec<&str> = names.lines().filter(|name| is_wanted(name)).collect();
        if names.is_empty() {
            return Ok(vec![]);
        }
        let lines = self.apt_command("apt-cache", SOURCES_FILE).arg("madison").args(&names).run_checked(log)?.stdout;
        let mut packages: Vec<Package> = vec![];
        for package in lines.lines().filter_map(Package::parse) {
            // The newest version of a package is the first.
            if packages.iter().all(|newer| newer.name != package.name) {
                packages.push(package);
            }
        }
        Ok(packages)
    }

    /// Returns `NAME=VERSION` for a package and for each dependency that must have the same version. Newer kernels are split
    /// into several such packages.
    ///
    /// # Errors
    /// apt is not installed, or no list has the package.
    pub fn list_parts(&self, package: &Package, log: OnCommand) -> Result<Vec<String>> {
        let description = self.show(package, log)?;
        let parts = parse_dependencies_of_version(&description, &package.version);
        let parts = parts.into_iter().map(|name| format!("{name}={}", package.version));
        Ok(std::iter::once(package.name_and_version()).chain(parts).collect())
    }

    /// The output of `apt-cache show` for this version of a package.
    fn show(&self, package: &Package, log: OnCommand) -> Result<String> {
        let show = self.apt_command("apt-cache", SOURCES_FILE).arg("show").arg(package.name_and_version());
        Ok(show.run_checked(log)?.stdout)
    }

    /// The names of the packages that `package` requires and that begin with one of these prefixes. Of alternatives, only the
    /// first counts.
    ///
    /// # Errors
    /// apt is not installed, or does not know the package.
    pub fn list_required(&self, package: &Package, prefixes: &[&str], log: OnCommand) -> Result<Vec<String>> {
        let description = self.show(package, log)?;
        let names = find_depends(&description).split(", ").filter_map(|name| name.split([' ', ':']).next());
        let with_prefix = names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        Ok(with_prefix.map(str::to_string).collect())
    }

    /// Returns the name of a package and the names of all libraries that it requires, directly or through other libraries.
    ///
    /// # Errors
    /// apt is not installed, or no suite has the package.
    pub fn list_libraries(&self, package: &str, log: OnCommand) -> Result<Vec<String>> {
        let mut names = vec![package.to_string()];
        let mut checked_count = 0;
        while checked_count < names.len() {
            let show = self.apt_command_for_stable("apt-cache", log)?.args(["show", "--no-all-versions"]);
            let descriptions = show.args(&names[checked_count..]).run_checked(log)?.stdout;
            checked_count = names.len();
            for library in parse_required_libraries(&descriptions) {
                if !names.contains(&library) {
                    names.push(library);
                }
            }
        }
        Ok(names)
    }

    /// Downloads packages and unpacks them into the new directory `target`, with a list of digests. Other processes see the
    /// whole directory or none.
    ///
    /// # Errors
    /// The mirror cannot be reached or no longer has a package, a signature or digest is wrong, or a directory cannot be
    /// written.
    pub fn unpack(&self, packages: &[String], target: &Path, log: OnCommand) -> Result<()> {
        let parent = target.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(Error::io("making", parent))?;
        // Unpack outside of [`FETCHED_DIR`]: fsarena takes every directory there for a complete package.
        let work_dir = tempfile::tempdir_in(&self.dir).map_err(Error::io("making a directory in", &self.dir))?;
        let work_dir = work_dir.path();
        let download =
            self.apt_command_for_stable("apt-get", log)?.args(["download", "-q"]).args(packages).cwd(work_dir);
        download.env("LC_ALL", "C").run_checked(log).map_err(download_error)?;
        let unpacked = work_dir.join("unpacked");
        for file in std::fs::read_dir(work_dir).map_err(Error::io("reading", work_dir))?.flatten() {
            if file.path().extension().is_some_and(|end| end == "deb") {
                Argv::new("dpkg").arg("-x").arg(file.path()).arg(&unpacked).run_checked(log)?;
            }
        }
        write_digest_list(&unpacked).map_err(Error::io("noting the digests of", &unpacked))?;
        match std::fs::rename(&unpacked, target) {
            // Another fsarena process has unpacked it meanwhile.
            Err(_) if target.is_dir() => Ok(()),
            result => result.map_err(Error::io("moving a package to", target)),
        }
    }

    /// Fetches a package and the libraries that its programs need, from the stable suite if that has it, and unpacks them below
    /// the cache, where `fsarena_sys::program` finds the programs. Nothing is installed.
    ///
    /// # Errors
    /// No suite has the package, apt cannot fetch it, or the cache cannot be written.
    pub fn fetch_program(&self, package: &str, cache: &Path, log: OnCommand) -> Result<()> {
        let refreshed = self.refresh(log);
        let names = match self.list_libraries(package, log) {
            Ok(names) => names,
            Err(error) => return Err(refreshed.err().unwrap_or(error)),
        };
        self.unpack(&names, &cache.join(FETCHED_DIR).join(package), log)
    }

    /// An apt program that prefers the stable suite for packages named without a version.
    fn apt_command_for_stable(&self, program: &str, log: OnCommand) -> Result<Argv> {
        let apt = self.apt_command(program, SOURCES_FILE);
        Ok(match self.stable_code_name(log)? {
            Some(stable) => apt.arg("-o").arg(format!("APT::Default-Release={stable}")),
            None => apt,
        })
    }

    /// An apt program with the options that make it use only fsarena's directories, and the sources in the file `sources_file`
    /// there.
    fn apt_command(&self, program: &str, sources_file: &str) -> Argv {
        let mut argv = Argv::new(program);
        let dir = self.dir.display();
        for option in [
            format!("Dir::Etc::sourcelist={dir}/{sources_file}"),
            "Dir::Etc::sourceparts=-".into(),
            format!("Dir::State::Lists={dir}/lists"),
            format!("Dir::Cache={dir}/cache"),
            "Acquire::Languages=none".into(),
            // Without this option apt succeeds even if it reaches no mirror.
            "APT::Update::Error-Mode=any".into(),
        ] {
            argv = argv.arg("-o").arg(option);
        }
        argv
    }
}

/// The addresses of Debian's archives.
#[derive(Debug, PartialEq, Eq)]
struct Mirrors {
    archive: String,
    /// The archive of security updates, if the sources of this machine's apt have one.
    security: Option<String>,
}

impl Mirrors {
    /// The suites in which fsarena searches for packages.
    fn sources(&self) -> Vec<SuiteSource> {
        let source = |archive: &str, suite: &&str| SuiteSource { archive: archive.into(), suite: suite.to_string() };
        let mut sources: Vec<SuiteSource> = SUITES.iter().map(|suite| source(&self.archive, suite)).collect();
        if let Some(security) = &self.security {
            sources.extend(SECURITY_SUITES.iter().map(|suite| source(security, suite)));
        }
        sources
    }
}

/// A suite of an archive.
#[derive(Debug, PartialEq, Eq)]
struct SuiteSource {
    archive: String,
    suite: String,
}

/// Parses lines `ARCHIVE CODENAME SUITE` into sources that name each release by its code name. unstable and experimental keep
/// their suite names, because not every mirror has a directory `sid` or `rc-buggy`.
fn sources_by_code_name(targets: &[String]) -> Vec<SuiteSource> {
    let mut sources = vec![];
    for line in targets {
        let [archive, code_name, suite] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let is_release = suite.contains("stable") && suite != "unstable" || suite.starts_with("testing");
        let suite = if is_release { code_name } else { suite };
        sources.push(SuiteSource { archive: archive.into(), suite: suite.into() });
    }
    sources
}

/// The mirror of this address, or the mirrors that this machine's apt uses.
fn choose_mirrors(address: Option<&str>, log: OnCommand) -> Result<Mirrors> {
    if let Some(address) = address {
        return Ok(Mirrors { archive: address.into(), security: None });
    }
    let targets = Argv::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let targets = targets.run_checked(log)?.stdout;
    find_mirrors(targets.lines()).ok_or_else(|| {
        Error::Missing(
            "the sources of apt on this machine have no mirror of Debian, so its suites cannot be searched".into(),
        )
    })
}

/// Finds the mirrors among these addresses. On every mirror, the paths end in `debian` and `debian-security`.
fn find_mirrors<'a>(addresses: impl Iterator<Item = &'a str> + Clone) -> Option<Mirrors> {
    let find = |name: &str| {
        let mut addresses = addresses.clone().map(|address| address.trim_end_matches('/'));
        addresses.find(|address| address.rsplit('/').next() == Some(name)).map(str::to_string)
    };
    Some(Mirrors { archive: find("debian")?, security: find("debian-security") })
}

/// The dependencies in the output of `apt-cache show` for one package, separated by `, `.
fn find_depends(description: &str) -> &str {
    description.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default()
}

/// Parses the output of `apt-cache show` for one package. Returns the names of the packages that it requires in exactly this
/// version.
fn parse_dependencies_of_version(description: &str, version: &str) -> Vec<String> {
    let ending = format!(" (= {version})");
    find_depends(description).split(", ").filter_map(|name| name.strip_suffix(&ending)).map(str::to_string).collect()
}

/// Parses the output of `apt-cache show` for several packages. Returns the names of the libraries that they require; of
/// alternatives, the first.
fn parse_required_libraries(descriptions: &str) -> Vec<String> {
    let mut libraries = vec![];
    for line in descriptions.lines() {
        let Some(("Depends" | "Pre-Depends", required)) = line.split_once(": ") else { continue };
        let names = required.split(", ").filter_map(|name| name.split([' ', ':']).next());
        libraries.extend(names.filter(|name| name.starts_with("lib") || name.starts_with("zlib")).map(str::to_string));
    }
    libraries
}

/// The error of a download, with the reason that apt gives.
fn download_error(error: CommandError) -> Error {
    match &error {
        CommandError::Failed { output, .. } if !error.was_ended_by_signal() => Error::Missing(download_failure(output)),
        _ => error.into(),
    }
}

/// Why apt did not download packages, from its output in English: a version that the archive no longer has, else its last line.
fn download_failure(output: &str) -> String {
    for line in output.lines() {
        // E: Version '6.10.3-1' for 'linux-image-6.10.3-amd64' was not found
        let words = line.strip_suffix("' was not found").and_then(|line| line.strip_prefix("E: Version '"));
        if let Some((version, package)) = words.and_then(|words| words.split_once("' for '")) {
            return format!("{package} {version} is not in Debian's archive any more");
        }
    }
    let last = output.trim().lines().next_back().unwrap_or_default();
    format!("apt cannot download it: {}", last.trim_start_matches("E: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_madison_is_a_package() {
        let line = "linux-image-7.3.4+deb13-amd64 | 7.3.4-1~bpo13+1 | http://deb.debian.org/debian stable-backports/main amd64 \
                    Packages";
        let package = Package::parse(line).unwrap();
        assert_eq!(
            (package.name.as_str(), package.version.as_str(), package.suite.as_str()),
            ("linux-image-7.3.4+deb13-amd64", "7.3.4-1~bpo13+1", "stable-backports")
        );
        assert_eq!(Package::parse("linux | 6.1.1-1 | http://deb.debian.org/debian stable/main Sources"), None);
        assert_eq!(Package::parse("N: nothing"), None);
    }

    #[test]
    fn mirrors_are_recognised_by_the_last_part_of_their_address() {
        let mirrors = |text: &'static str| find_mirrors(text.lines());
        assert_eq!(
            mirrors(
                "https://deb.nodesource.com/node/\nhttp://ftp.de.debian.org/debian/\nhttp://deb.debian.org/debian-security/"
            ),
            Some(Mirrors {
                archive: "http://ftp.de.debian.org/debian".into(),
                security: Some("http://deb.debian.org/debian-security".into())
            })
        );
        assert_eq!(mirrors("http://archive.ubuntu.com/ubuntu/"), None);
    }

    #[test]
    fn releases_are_listed_by_their_code_names() {
        let lines =
            ["A trixie stable", "A trixie-backports stable-backports", "A sid unstable", "A rc-buggy experimental"];
        let sources = sources_by_code_name(&lines.map(str::to_string));
        let names: Vec<&str> = sources.iter().map(|source| source.suite.as_str()).collect();
        assert_eq!(names, ["trixie", "trixie-backports", "unstable", "experimental"]);
    }

    #[test]
    fn parts_of_a_kernel_are_what_it_requires_in_its_own_version() {
        let shown = "Package: linux-image-7.3.4\nDepends: dracut | initramfs-tools (>= 0.120), linux-base-7.3.4 (= 7.3.4-1), \
                     linux-modules-7.3.4 (= 7.3.4-1), libc6 (= 2.40)\n";
        assert_eq!(parse_dependencies_of_version(shown, "7.3.4-1"), ["linux-base-7.3.4", "linux-modules-7.3.4"]);
        assert!(parse_dependencies_of_version("Package: x\n", "1").is_empty());
    }

    #[test]
    fn libraries_of_all_packages_are_required() {
        let shown = "Package: a\nDepends: libc6 (>= 2.39), python3:any, libaio1t64:any | libaio1\n\nPackage: b\nPre-Depends: \
                     zlib1g (>= 1:1.1.4)\n";
        assert_eq!(parse_required_libraries(shown), ["libc6", "libaio1t64", "zlib1g"]);
    }

    #[test]
    fn a_failed_download_has_the_reason_of_apt() {
        let gone = "Reading...\nE: Version '6.10.3-1' for 'linux-image-6.10.3-amd64' was not found\n";
        assert_eq!(download_failure(gone), "linux-image-6.10.3-amd64 6.10.3-1 is not in Debian's archive any more");
        let other = "W: a warning\nE: Unable to locate package nosuch\n";
        assert_eq!(download_failure(other), "apt cannot download it: Unable to locate package nosuch");
    }

    #[test]
    fn an_unreachable_mirror_is_an_error_and_no_package_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let apt_dirs = AptDirs::with_mirror(dir.path(), "file:///nowhere/debian");
        let mirrors = choose_mirrors(apt_dirs.mirror.as_deref(), &mut |_| {}).unwrap();
        assert_eq!(mirrors.sources().len(), SUITES.len());
        if fsarena_sys::program::find("apt-get").is_some() {
            assert!(apt_dirs.refresh(&mut |_| {}).is_err());
        }
        assert_eq!(apt_dirs.list_packages("linux-image-", |_| true, &mut |_| {}).unwrap(), []);
    }
}
