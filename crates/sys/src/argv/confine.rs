//! Confines a command with Landlock: it can write to the files and devices named to it, and to nothing else.

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{ffi::OsStr, io, time::Instant};

/// The rights that fsarena knows. An older kernel enforces those that it has.
const KNOWN: ABI = ABI::V5;
/// Devices without data of their own, which every confined command may write to. mkfs.btrfs registers the members of
/// an array with the second.
const HARMLESS: [&str; 2] = ["/dev/null", "/dev/btrfs-control"];
/// Environment variables that a confined command keeps: no other may name a file to it.
const KEPT: [&str; 7] = ["PATH", "HOME", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SOURCE_DATE_EPOCH"];
/// How further variables begin that it keeps.
const KEPT_PREFIXES: [&str; 2] = ["LC_", "FSARENA_"];

/// Whether this kernel can confine commands.
pub fn available() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::WriteFile).and_then(Ruleset::create).is_ok()
}

/// Whether a confined command keeps this environment variable.
pub fn keeps(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    KEPT.contains(&name.as_ref()) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Starts a command that can write only to these paths. Returns the start time and the child.
///
/// Landlock restricts the calling thread and its children, so a separate thread starts the command.
pub fn spawn(command: &mut Command, paths: &[PathBuf]) -> io::Result<(Instant, Child)> {
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            restrict_this_thread(paths)?;
            let begun = Instant::now();
            Ok((begun, crate::limits::spawn(command)?))
        });
        starter.join().unwrap_or_else(|_| Err(io::Error::other("the thread that confines it panicked")))
    })
}

fn restrict_this_thread(paths: &[PathBuf]) -> io::Result<()> {
    let harmless = HARMLESS.iter().map(Path::new).filter(|path| path.exists());
    let paths = paths.iter().map(PathBuf::as_path).chain(harmless);
    let opened = paths.map(PathFd::new).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    let write = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let rules = opened.into_iter().map(|fd| Ok::<_, landlock::RulesetError>(PathBeneath::new(fd, write)));
    let ruleset = Ruleset::default().handle_access(AccessFs::from_write(KNOWN)).and_then(Ruleset::create);
    let restricted = ruleset.and_then(|ruleset| ruleset.add_rules(rules)?.restrict_self());
    restricted.map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use crate::argv::Argv;
    use std::path::Path;

    /// Runs a shell that may write to one file, and whether it succeeded.
    fn confined(target: &Path, script: &str) -> bool {
        let shell = Argv::new("sh").args(["-c", script, "sh"]).arg(target);
        shell.writes_only([target]).run().unwrap().status.success()
    }

    #[test]
    fn a_confined_command_writes_to_its_target_and_to_nothing_else() {
        if !super::available() {
            fsarena_testkit::skipped("this kernel has no Landlock");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let [target, victim] = ["target", "victim"].map(|name| dir.path().join(name));
        std::fs::write(&target, "old").unwrap();
        std::fs::write(&victim, "data").unwrap();
        let at = victim.display();
        assert!(confined(&target, "echo new > \"$1\" && cat \"$1\" > /dev/null"));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new\n");
        for script in [
            format!("echo new > {at}"),
            format!("echo new >> {at}"),
            format!("truncate -s 0 {at}"),
            format!("rm -f {at}"),
            format!("mv \"$1\" {at}"),
            format!("ln -sf \"$1\" {at}"),
            format!("touch {at}.new"),
            format!("mkdir {at}.dir"),
            // A node of the same device elsewhere would be a second way to it.
            format!("mknod {at}.node b 7 0"),
        ] {
            assert!(!confined(&target, &script), "{script}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "data", "{script}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        // Reading is free, and this process is not confined.
        assert!(confined(&target, &format!("cat {at}")));
        std::fs::write(&victim, "more").unwrap();
    }

    #[test]
    fn a_confined_command_keeps_no_variable_that_names_a_file() {
        let printed = |argv: Argv| argv.env("E2FSPROGS_UNDO_DIR", "here").run().unwrap().stdout;
        assert!(printed(Argv::new("env")).contains("CARGO_MANIFEST_DIR="));
        let target = Path::new("/dev/null");
        let kept = printed(Argv::new("env").writes_only([target]));
        assert!(kept.contains("PATH=") && !kept.contains("CARGO_MANIFEST_DIR="), "{kept}");
        // What fsarena itself sets stays.
        assert!(kept.contains("E2FSPROGS_UNDO_DIR=here"), "{kept}");
    }
}
