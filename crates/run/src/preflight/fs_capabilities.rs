//! Checks whether filesystems support the files and the direct I/O that the workloads need.

use crate::error::{Result, RunError};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::{available::install_command, def::FsDef, filesystems};
use fsarena_load::workload::{Demands, name_bytes};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::path::Path;

/// Refuses a variant whose filesystem does not support the files or the direct I/O of the workloads.
///
/// # Errors
/// The first such variant, with the reason and what to do.
pub fn check<'a>(variants: impl Iterator<Item = &'a Variant>, demands: &Demands) -> Result<()> {
    for variant in variants {
        let def = filesystems::find(variant.level(factor::FS))?;
        let (why, alternative) = match unsupported_file(def, demands) {
            Some(why) => (why, format!(", or take another tree ({})", setting("tree", ""))),
            None if demands.direct_io && !def.traits.direct_io => (direct_io_refusal(), String::new()),
            None => continue,
        };
        let why = format!("{} {why}; leave {} out ({}){alternative}", def.title, def.id, setting("fs", ""));
        return Err(RunError::in_variant(variant, why));
    }
    Ok(())
}

/// The error that the mkfs of a filesystem is not installed, with what to install.
pub fn missing_mkfs_error(def: &FsDef) -> RunError {
    RunError::Missing(format!("{} is not installed: {}", def.mkfs, install_command([def])))
}

/// Why a filesystem does not support a file of the workloads; None if it supports all.
fn unsupported_file(def: &FsDef, demands: &Demands) -> Option<String> {
    let Demands { symlink, foreign_owner, case_clash, reserved_name, longest_name, .. } = demands;
    let traits = def.traits;
    // Whether the filesystem supports an entry of the tree, the entry, and the reason if it does not.
    let entries = [
        (traits.unix, symlink, "has no symbolic links, and the tree has one:"),
        (traits.unix, foreign_owner, "keeps no owners, and the tree has a file that is not root's:"),
        (
            traits.case_sensitive,
            case_clash,
            "does not distinguish names by case, and the tree has two such names in one directory:",
        ),
        (traits.any_name, reserved_name, "does not allow this name of the tree:"),
    ];
    for (is_supported, entry, why) in entries {
        if let Some(entry) = entry
            && !is_supported
        {
            return Some(format!("{why} {}", entry.display()));
        }
    }
    if let Some(longest) = longest_name
        && name_bytes(longest) > traits.name_bytes
    {
        let (limit, longest) = (traits.name_bytes, longest.display());
        return Some(format!("has names of at most {limit} bytes, and the tree has a longer one: {longest}"));
    }
    None
}

fn direct_io_refusal() -> String {
    let flag = setting("set", "direct=false");
    format!("has no direct I/O, which the workload requires; take `{flag}`, which goes through the page cache")
}

/// Refuses a directory whose filesystem lacks direct I/O, if the workloads require it.
///
/// # Errors
/// The missing feature, with what to do.
pub fn check_direct_io(path: &Path, demands: &Demands) -> Result<()> {
    if !demands.direct_io {
        return Ok(());
    }
    // Only EINVAL shows that direct I/O is missing. Other errors are ignored, because not every filesystem supports
    // O_TMPFILE.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match open(path, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::INVAL) => Err(RunError::Plan(format!("{path:?}: its filesystem {}", direct_io_refusal()))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(fs: &str, demands: &Demands) -> String {
        let variant = Variant { name: fs.into(), levels: [(factor::FS.to_string(), fs.to_string())].into() };
        check([&variant].into_iter(), demands).err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn filesystems_refuse_files_that_they_do_not_support() {
        let path = |name: &str| Some(std::path::PathBuf::from(name));
        let link = Demands { symlink: path("tree/l"), ..Demands::default() };
        assert!(why("vfat", &link).contains("symbolic links, and the tree has one: tree/l;"));
        assert_eq!(why("minix", &link), "");
        let owned = Demands { foreign_owner: path("tree/f"), ..Demands::default() };
        assert!(why("exfat", &owned).contains("owners") && why("hfsplus", &owned).is_empty());
        let twin = Demands { case_clash: path("tree/F"), ..Demands::default() };
        assert!(why("hfsplus", &twin).contains("case") && why("ext4", &twin).is_empty());
        let long = Demands { longest_name: path(&"n".repeat(61)), ..Demands::default() };
        let direct = Demands { direct_io: true, ..Demands::default() };
        assert!(why("reiser4", &direct).contains("no direct I/O") && why("reiserfs", &direct).is_empty());
        assert!(why("minix", &long).contains("at most 60 bytes") && why("vfat", &long).is_empty());
    }

    #[test]
    fn the_error_names_the_variant_and_what_to_do() {
        let levels = [(factor::FS.to_string(), "vfat".to_string())].into();
        let variant = Variant { name: "vfat".into(), levels };
        let demands = Demands { reserved_name: Some("tree/a:b".into()), ..Demands::default() };
        let error = check([&variant].into_iter(), &demands).unwrap_err().to_string();
        assert!(
            error.starts_with("variant vfat: FAT32 does not allow this name of the tree: tree/a:b; leave"),
            "{error}"
        );
        assert!(check([&variant].into_iter(), &Demands::default()).is_ok());
    }
}
