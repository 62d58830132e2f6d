//! The configuration of a kernel: whether it has code that checks or records the kernel itself, which slows some filesystems
//! more than others.

use std::io::Read;
use std::path::Path;

/// Options that check the kernel or record its execution at run time (LOCK_STAT, KCOV and gcov only record), each with its name
/// in messages. The list omits options that distributions set, such as KFENCE, DEBUG_LIST and PAGE_POISONING: they cost little
/// or need a boot parameter.
const DEBUG_OPTIONS: [(&str, &str); 24] = [
    ("KASAN", "KASAN"),
    ("KCSAN", "KCSAN"),
    ("KMSAN", "KMSAN"),
    ("PROVE_LOCKING", "lockdep (PROVE_LOCKING)"),
    ("DEBUG_LOCK_ALLOC", "lockdep (DEBUG_LOCK_ALLOC)"),
    ("LOCK_STAT", "LOCK_STAT"),
    ("DEBUG_KMEMLEAK", "kmemleak"),
    ("DEBUG_PAGEALLOC_ENABLE_DEFAULT", "DEBUG_PAGEALLOC"),
    ("SLUB_DEBUG_ON", "SLUB_DEBUG_ON"),
    ("DEBUG_OBJECTS", "DEBUG_OBJECTS"),
    ("DEBUG_VM", "DEBUG_VM"),
    ("DEBUG_SPINLOCK", "DEBUG_SPINLOCK"),
    ("DEBUG_MUTEXES", "DEBUG_MUTEXES"),
    ("DEBUG_RWSEMS", "DEBUG_RWSEMS"),
    ("DEBUG_ATOMIC_SLEEP", "DEBUG_ATOMIC_SLEEP"),
    ("DEBUG_PREEMPT", "DEBUG_PREEMPT"),
    ("KCOV", "KCOV"),
    ("GCOV_KERNEL", "gcov"),
    ("UBSAN_ALIGNMENT", "UBSAN_ALIGNMENT"),
    ("XFS_DEBUG", "XFS_DEBUG"),
    ("BTRFS_ASSERT", "BTRFS_ASSERT"),
    ("BTRFS_DEBUG", "BTRFS_DEBUG"),
    ("F2FS_CHECK_FS", "F2FS_CHECK_FS"),
    ("BCACHEFS_DEBUG", "BCACHEFS_DEBUG"),
];

/// The names of the set options of [`DEBUG_OPTIONS`], in this text of a configuration.
pub(crate) fn find_debug_options(config: &str) -> Vec<&'static str> {
    let is_set = |option: &str| {
        let sets_option =
            |line: &str| line.strip_prefix("CONFIG_").and_then(|rest| rest.strip_prefix(option)) == Some("=y");
        config.lines().any(sets_option)
    };
    let set_options = DEBUG_OPTIONS.iter().filter(|(option, _)| is_set(option));
    let mut names: Vec<&'static str> = set_options.map(|(_, name)| *name).collect();
    // PROVE_LOCKING sets the other options of lockdep.
    if names.contains(&"lockdep (PROVE_LOCKING)") {
        let of_lockdep = ["lockdep (DEBUG_LOCK_ALLOC)", "DEBUG_SPINLOCK", "DEBUG_MUTEXES", "DEBUG_RWSEMS"];
        names.retain(|name| !of_lockdep.contains(name));
    }
    names
}

/// The text of the configuration: the first of these files that can be read, else the configuration in the kernel itself
/// (CONFIG_IKCONFIG). None if neither exists.
pub(crate) fn read_config<'a>(
    files: impl IntoIterator<Item = &'a Path>,
    read_code: impl FnOnce() -> Vec<u8>,
) -> Option<String> {
    let from_file = files.into_iter().find_map(|path| std::fs::read_to_string(path).ok());
    from_file.or_else(|| extract_embedded_config(&read_code()))
}

/// The mark before the compressed configuration in a kernel (kernel/configs.c).
const CONFIG_MARK: &[u8] = b"IKCFG_ST";
/// The largest configuration, in bytes.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// The configuration in the code of a kernel.
fn extract_embedded_config(code: &[u8]) -> Option<String> {
    let start = memchr::memmem::find(code, CONFIG_MARK)? + CONFIG_MARK.len();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&code[start..]).take(MAX_CONFIG_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "# CONFIG_KCSAN is not set\nCONFIG_KASAN=y\nCONFIG_KASAN_INLINE=y\nCONFIG_PROVE_LOCKING=y\n\
         CONFIG_DEBUG_SPINLOCK=y\nCONFIG_KFENCE=y\nCONFIG_DEBUG_VM=m\n";

    #[test]
    fn only_options_that_check_at_run_time_are_named() {
        assert_eq!(find_debug_options(CONFIG), ["KASAN", "lockdep (PROVE_LOCKING)"]);
        assert_eq!(find_debug_options("CONFIG_DEBUG_SPINLOCK=y\nCONFIG_XFS_DEBUG=y"), ["DEBUG_SPINLOCK", "XFS_DEBUG"]);
        assert!(find_debug_options("CONFIG_KFENCE=y\nCONFIG_DEBUG_LIST=y\nCONFIG_PAGE_POISONING=y\n").is_empty());
    }

    #[test]
    fn the_configuration_is_read_from_a_file_or_from_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".config");
        let mut gzip = flate2::write::GzEncoder::new(b"code IKCFG_ST".to_vec(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, CONFIG.as_bytes()).unwrap();
        let code = [gzip.finish().unwrap(), b"IKCFG_ED more".to_vec()].concat();
        let read = || read_config([dir.path(), path.as_path()], || code.clone());
        assert_eq!(read().as_deref(), Some(CONFIG));
        std::fs::write(&path, "CONFIG_KCOV=y\n").unwrap();
        assert_eq!(find_debug_options(&read().unwrap()), ["KCOV"]);
        assert_eq!(
            (extract_embedded_config(b"no mark"), extract_embedded_config(b"IKCFG_ST but no gzip")),
            (None, None)
        );
    }

    /// The kernels of Debian must not be reported.
    #[test]
    fn kernels_of_debian_have_no_debug_options() {
        let caches = std::fs::read_dir(fsarena_sys::dirs::SHARED_CACHE).into_iter().flatten().flatten();
        let boots = caches.filter_map(|package| std::fs::read_dir(package.path().join("boot")).ok());
        let mut has_kernel = false;
        for file in boots.flatten().flatten().map(|entry| entry.path()) {
            if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("config-")) {
                assert!(find_debug_options(&std::fs::read_to_string(&file).unwrap()).is_empty(), "{}", file.display());
                has_kernel = true;
            }
        }
        if !has_kernel {
            fsarena_sys::testkit::record_skip("a cache of root without kernels of Debian");
        }
    }
}
