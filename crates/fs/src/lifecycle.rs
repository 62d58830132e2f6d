//! From mkfs to mount. Takes nothing but a [`ScratchDevice`].

use crate::Error;
use crate::def::FsDef;
use crate::safety::ScratchDevice;
use fsarena_core::cell::Arm;
use fsarena_core::event::CommandRecord;
use fsarena_core::factor;
use fsarena_sys::argv::{self, Argv};
use fsarena_sys::mount::{self, Mounted};
use fsarena_sys::undo::Journal;
use std::path::Path;
use std::time::Duration;

/// The options of one arm, complete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArmOptions {
    /// Arguments for mkfs, without those that force it and without the device.
    pub mkfs: Vec<String>,
    /// Mount options, comma-separated.
    pub mount: String,
}

/// A filesystem just made.
#[derive(Debug, Clone)]
pub struct Formatted {
    /// What mkfs said of it.
    pub said: String,
    /// The argument vector.
    pub argv: Vec<String>,
    /// How long mkfs took.
    pub elapsed: Duration,
}

/// The options of an arm: its option set, and after it the levels of `mkfs` and `mount`.
///
/// # Errors
/// Where the filesystem has no such option set, or no feature list.
pub fn options(def: &FsDef, arm: &Arm) -> Result<ArmOptions, Error> {
    let id = arm.level(factor::OPTIONS);
    let set = def.option_set(id).ok_or_else(|| {
        let known: Vec<_> = def.options.iter().map(|set| set.id).collect();
        Error::Options(format!("{} has no option set `{id}`; it has {}", def.id, known.join(", ")))
    })?;
    let mut mkfs: Vec<String> = set.mkfs.iter().map(|word| word.to_string()).collect();
    mkfs.extend(mkfs_level(def, arm.level(factor::MKFS))?);
    let further = arm.level(factor::MOUNT);
    let mount =
        set.mount.iter().copied().chain(further.split(',')).map(str::trim).filter(|word| !word.is_empty());
    Ok(ArmOptions { mkfs, mount: mount.collect::<Vec<_>>().join(",") })
}

/// The level of the factor `mkfs` as arguments: split at blanks; a bare word is a feature list.
fn mkfs_level(def: &FsDef, level: &str) -> Result<Vec<String>, Error> {
    let words: Vec<&str> = level.split_whitespace().collect();
    match (words.first(), def.feature_flag) {
        (Some(first), Some(flag)) if !first.starts_with('-') => {
            Ok(std::iter::once(flag).chain(words).map(str::to_string).collect())
        }
        (Some(first), None) if !first.starts_with('-') => Err(Error::Options(format!(
            "`{first}` is no argument of {}: it takes no feature list, so begin with an option such as `-b`",
            def.mkfs
        ))),
        _ => Ok(words.into_iter().map(str::to_string).collect()),
    }
}

/// Makes a filesystem on a scratch device, whatever was on it.
///
/// # Errors
/// Where mkfs is not installed or fails; the message has its own words.
pub fn format(
    device: &ScratchDevice,
    def: &FsDef,
    options: &ArmOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<Formatted, Error> {
    let argv = Argv::new(def.mkfs).args(def.quiet).args(def.force).args(&options.mkfs).arg(device.path());
    let finished = argv.expect(log).map_err(|error| not_installed(error, def))?;
    device.note_written()?;
    let said = if finished.stdout.trim().is_empty() { finished.stderr } else { finished.stdout };
    Ok(Formatted { said: printed(&said), argv: argv.words(), elapsed: finished.elapsed })
}

/// What a terminal would show: progress that was taken back with backspaces is gone.
fn printed(said: &str) -> String {
    let mut lines: Vec<String> = vec![];
    for line in said.trim().lines() {
        let mut shown = String::new();
        for letter in line.chars() {
            match letter {
                '\u{8}' => drop(shown.pop()),
                '\r' => shown.clear(),
                letter => shown.push(letter),
            }
        }
        lines.push(shown.trim_end().to_string());
    }
    lines.join("\n")
}

fn not_installed(error: argv::Error, def: &FsDef) -> Error {
    match error {
        argv::Error::NotFound { .. } => {
            Error::NoMkfs { program: def.mkfs, title: def.title, packages: def.packages.join(" ") }
        }
        other => other.into(),
    }
}

/// Mounts the filesystem of a scratch device on an existing directory.
///
/// # Errors
/// Where mount(8) fails; the message has its own words.
pub fn mount(
    device: &ScratchDevice,
    journal: &Journal,
    def: &FsDef,
    options: &ArmOptions,
    target: &Path,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<Mounted, Error> {
    Ok(mount::mount(journal, log, device.path(), target, def.kernel_type, &options.mount)?)
}

/// The features that the filesystem was made with, as its own tool prints them. None where no tool does,
/// or it is not installed, or it fails: a report then says nothing rather than something wrong.
pub fn describe(device: &ScratchDevice, def: &FsDef, log: &mut dyn FnMut(CommandRecord)) -> Option<String> {
    let describe = def.describe?;
    let printed = Argv::new(describe.program).args(describe.args).arg(device.path()).expect(log).ok()?.stdout;
    let wanted =
        |line: &&str| describe.lines.is_empty() || describe.lines.iter().any(|start| line.starts_with(start));
    Some(printed.lines().filter(wanted).map(str::trim_end).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems;

    fn arm(levels: &[(&str, &str)]) -> Arm {
        Arm { name: "a".into(), levels: levels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect() }
    }

    fn of(fs: &str, levels: &[(&str, &str)]) -> Result<ArmOptions, Error> {
        options(filesystems::find(fs).unwrap(), &arm(levels))
    }

    #[test]
    fn levels_follow_the_option_set() {
        let options = of(
            "ext4",
            &[("options", "no-journal"), ("mkfs", " -b  1024 "), ("mount", "noatime, nodelalloc")],
        );
        let options = options.unwrap();
        assert_eq!(options.mkfs, ["-O", "^has_journal", "-b", "1024"]);
        assert_eq!(options.mount, "noatime,nodelalloc");
        assert_eq!(of("ext4", &[]).unwrap(), ArmOptions::default());
    }

    #[test]
    fn a_bare_word_is_a_feature_list_where_there_is_one() {
        assert_eq!(of("ext4", &[("mkfs", "^has_journal")]).unwrap().mkfs, ["-O", "^has_journal"]);
        assert_eq!(
            of("btrfs", &[("mkfs", "no-holes -n 4096")]).unwrap().mkfs,
            ["-O", "no-holes", "-n", "4096"]
        );
        let error = of("xfs", &[("mkfs", "crc=0")]).unwrap_err().to_string();
        assert!(error.contains("mkfs.xfs") && error.contains("no feature list"), "{error}");
    }

    #[test]
    fn progress_taken_back_is_not_shown() {
        assert_eq!(
            printed("Tables: 0/1\u{8}\u{8}\u{8}   \u{8}\u{8}\u{8}done     \n\n10%\r100%\n"),
            "Tables: done\n\n100%"
        );
    }

    #[test]
    fn an_unknown_option_set_lists_those_there_are() {
        let error = of("ext3", &[("options", "notail")]).unwrap_err().to_string();
        assert!(error.contains("default, noatime, writeback, journal"), "{error}");
    }
}
