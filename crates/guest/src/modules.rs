//! The kernel modules that a guest needs, in the order in which they must be loaded.
//!
//! `modules.dep` is made when a kernel is installed and is not in its package. The section `.modinfo` of each
//! module (`depends=`, `softdep=`) and the list of built-in modules are enough.

use crate::{Error, Result, cache, vmlinux};
use fsarena_sys::none_if_missing;
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{io::Read, sync::OnceLock};
use walkdir::WalkDir;

/// The largest size of a decompressed module, in bytes. The largest real modules have some 10 MB.
const MAX_MODULE_BYTES: u64 = 256 << 20;

/// The modules of one kernel.
#[derive(Debug, Clone, Default)]
pub struct Modules {
    dir: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    /// A digest of the state of all files, computed once: every cell needs it, and there are thousands of files.
    digest: OnceLock<String>,
}

/// A module for a guest.
#[derive(Debug, Clone)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// The ELF file, decompressed.
    pub elf: Vec<u8>,
}

/// The modules that a module names as its dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Dependencies {
    /// Modules without which it cannot be loaded.
    required: Vec<String>,
    /// Modules that it requests but does not require.
    optional: Vec<String>,
}

impl Modules {
    /// Finds the modules below a directory that has `modules.builtin` or `kernel/` in it. If it has none, all modules count
    /// as built in.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(dir: &Path) -> Result<Modules> {
        Modules::from_files(dir, files_below(dir)?)
    }

    /// The modules among these files, and those that the `modules.builtin` of a directory lists.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(crate) fn from_files(dir: &Path, files: Vec<PathBuf>) -> Result<Modules> {
        let list = dir.join("modules.builtin");
        let built_in = none_if_missing(std::fs::read_to_string(&list)).map_err(Error::io("reading", &list))?;
        let built_in = built_in.unwrap_or_default();
        let files = files.into_iter().filter_map(|path| Some((module_name(&path)?, path))).collect();
        let built_in = built_in.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Modules { dir: dir.to_path_buf(), files, built_in, digest: OnceLock::new() })
    }

    /// Adds the modules below another directory, except those whose names are known already.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn add_dir(&mut self, dir: &Path) -> Result<()> {
        for path in files_below(dir)? {
            if let Some(name) = module_name(&path) {
                self.files.entry(name).or_insert(path);
            }
        }
        Ok(())
    }

    /// A digest of the state of all files at the first call: after `make modules_install` other files may have the same
    /// names.
    pub(crate) fn digest_of_files(&self) -> &str {
        let file_digests = || self.files.values().map(|path| cache::digest_state(path).unwrap_or_default());
        self.digest.get_or_init(|| cache::digest_parts(file_digests()))
    }

    /// Whether this kernel has a module, built in or as a file.
    pub fn has(&self, name: &str) -> bool {
        let name = with_underscores(name);
        self.built_in.contains(&name) || self.files.contains_key(&name)
    }

    /// The names of the modules that are built in.
    pub fn built_in(&self) -> impl Iterator<Item = &str> {
        self.built_in.iter().map(String::as_str)
    }

    /// Whether fsarena found any module of this kernel.
    pub fn is_known(&self) -> bool {
        !self.built_in.is_empty() || !self.files.is_empty()
    }

    /// Returns the modules to load for the requested ones, each after all of its dependencies.
    ///
    /// `crc32c` is the name of the module to load for the checksum crc32c, which several modules implement.
    ///
    /// # Errors
    /// A module, or one that it depends on, is neither built in nor a file; or a file is not a module.
    pub fn load_order(&self, requested: &[&str], crc32c: &str) -> Result<Vec<Module>> {
        let mut order = LoadOrder::new(self, crc32c, vec![]);
        for name in requested {
            order.add_module(&with_underscores(name))?;
        }
        Ok(order.modules_to_load)
    }

    /// Adds to a load order the further modules that can be loaded, each after all of its dependencies. Reads no file of a
    /// module that is in the order already: decompressing one takes up to half a second.
    pub fn extend_load_order(&self, modules_to_load: Vec<Module>, further: &[&str], crc32c: &str) -> Vec<Module> {
        let mut order = LoadOrder::new(self, crc32c, modules_to_load);
        for name in further {
            // A module whose dependency is missing cannot be loaded; the dependencies that it has do no harm.
            let _ = order.add_module(&with_underscores(name));
        }
        order.modules_to_load
    }
}

/// A list of modules to load, while it is made.
struct LoadOrder<'a> {
    modules: &'a Modules,
    crc32c: &'a str,
    /// The modules that were added, or are being added, or could not be added.
    visited: BTreeSet<String>,
    /// The modules that could not be added.
    failed: BTreeSet<String>,
    modules_to_load: Vec<Module>,
}

impl<'a> LoadOrder<'a> {
    /// A list that begins with these modules.
    fn new(modules: &'a Modules, crc32c: &'a str, modules_to_load: Vec<Module>) -> LoadOrder<'a> {
        let visited = modules_to_load.iter().map(|module| module.name.clone()).collect();
        LoadOrder { modules, crc32c, visited, failed: BTreeSet::new(), modules_to_load }
    }

    /// Adds a module after all of its dependencies.
    fn add_module(&mut self, name: &str) -> Result<()> {
        let name = if name == "crc32c" { with_underscores(self.crc32c) } else { name.to_string() };
        if self.failed.contains(&name) {
            let why = format!("this kernel has no module {name}, or lacks a module that {name} requires");
            return Err(Error::invalid_file(&self.modules.dir, why));
        }
        if self.modules.built_in.contains(&name) || !self.visited.insert(name.clone()) {
            return Ok(());
        }
        let added = self.add_with_dependencies(&name);
        if added.is_err() {
            self.failed.insert(name);
        }
        added
    }

    fn add_with_dependencies(&mut self, name: &str) -> Result<()> {
        let Some(path) = self.modules.files.get(name) else {
            return Err(Error::invalid_file(&self.modules.dir, format!("this kernel has no module {name}")));
        };
        let elf = read_module(path)?;
        let dependencies = parse_dependencies(&read_modinfo(path, &elf)?);
        for optional in &dependencies.optional {
            // The module works without it.
            let _ = self.add_module(optional);
        }
        for required in &dependencies.required {
            self.add_module(required)?;
        }
        self.modules_to_load.push(Module { name: name.to_string(), elf });
        Ok(())
    }
}

/// All files below a directory, in the order of their names.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    for entry in WalkDir::new(dir).sort_by_file_name() {
        files.push(entry.map_err(|error| Error::invalid_file(dir, error.to_string()))?.into_path());
    }
    Ok(files)
}

/// The name of the module in a file: `ext4` for `kernel/fs/ext4/ext4.ko.xz`. None if the file is not a module.
fn module_name(path: &Path) -> Option<String> {
    let (stem, extension) = path.file_name()?.to_str()?.split_once(".ko")?;
    ["", ".xz", ".zst", ".gz"].contains(&extension).then(|| with_underscores(stem))
}

/// The name of a module with underscores; the kernel treats dashes the same.
fn with_underscores(name: &str) -> String {
    name.replace('-', "_")
}

fn read_module(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(Error::io("reading", path))?;
    let Some(mut reader) = vmlinux::decompressing_reader(&bytes).map_err(Error::io("decompressing", path))? else {
        return Ok(bytes);
    };
    read_limited(path, &mut reader, MAX_MODULE_BYTES)
}

/// Reads everything up to a limit, because a small file can unpack to more than fits in memory.
fn read_limited(path: &Path, reader: &mut dyn Read, limit: u64) -> Result<Vec<u8>> {
    let mut elf = Vec::new();
    let length = reader.take(limit + 1).read_to_end(&mut elf).map_err(Error::io("decompressing", path))?;
    if length as u64 > limit {
        return Err(Error::invalid_file(path, format!("not a kernel module: it unpacks to more than {limit} bytes")));
    }
    Ok(elf)
}

/// The `name=value` strings of the section `.modinfo`.
fn read_modinfo(path: &Path, elf: &[u8]) -> Result<Vec<String>> {
    let not_a_module = |error: object::Error| Error::invalid_file(path, format!("not a kernel module: {error}"));
    let file = object::File::parse(elf).map_err(not_a_module)?;
    let section = file.section_by_name(".modinfo").ok_or_else(|| Error::invalid_file(path, "not a kernel module"))?;
    let bytes = section.data().map_err(not_a_module)?;
    let strings = bytes.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    Ok(strings.map(|text| String::from_utf8_lossy(text).into_owned()).collect())
}

fn parse_dependencies(modinfo: &[String]) -> Dependencies {
    let mut dependencies = Dependencies::default();
    for line in modinfo {
        if let Some(names) = line.strip_prefix("depends=") {
            dependencies.required.extend(names.split(',').filter(|name| !name.is_empty()).map(with_underscores));
        }
        if let Some(words) = line.strip_prefix("softdep=") {
            // `pre: a b post: c`: the modules after `post:` are requested as well; their order does not matter here.
            let names = words.split_whitespace().filter(|word| !word.ends_with(':'));
            dependencies.optional.extend(names.map(with_underscores));
        }
    }
    dependencies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn dependencies_are_read_from_modinfo() {
        let info = strings(&["license=GPL", "softdep=pre: crc32c post: x-y", "depends=jbd2,crc16", "depends="]);
        let dependencies = parse_dependencies(&info);
        assert_eq!(dependencies.required, ["jbd2", "crc16"]);
        assert_eq!(dependencies.optional, ["crc32c", "x_y"]);
    }

    #[test]
    fn only_files_of_modules_have_a_module_name() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("kernel/crypto/crc32c-intel.ko").as_deref(), Some("crc32c_intel"));
        assert_eq!(name("kernel/fs/xfs/xfs.ko.xz").as_deref(), Some("xfs"));
        assert_eq!(name("kernel/fs/jfs/jfs.ko.zst").as_deref(), Some("jfs"));
        assert_eq!((name("modules.dep"), name("a.ko.sig")), (None, None));
    }

    #[test]
    fn built_in_modules_need_no_file_and_missing_ones_are_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let modules = Modules::open(dir.path()).unwrap();
        assert!(modules.has("ext4") && !modules.has("jfs") && modules.is_known());
        assert!(modules.load_order(&["ext4"], "crc32c_generic").unwrap().is_empty());
        let error = modules.load_order(&["jfs"], "crc32c_generic").unwrap_err().to_string();
        assert!(error.contains("no module jfs"), "{error}");
        assert!(modules.extend_load_order(vec![], &["jfs", "ext4"], "crc32c_generic").is_empty());
    }

    /// An ELF file whose section `.modinfo` has this text.
    fn module_file(modinfo: &str) -> Vec<u8> {
        const SECTION_NAMES: &[u8] = b"\0.modinfo\0.shstrtab\0";
        let contents = [modinfo.as_bytes(), SECTION_NAMES].concat();
        let headers_offset = (64 + contents.len()).next_multiple_of(8);
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        file.extend([1u16, 62].map(u16::to_le_bytes).concat());
        file.extend(1u32.to_le_bytes());
        file.extend([0, 0, headers_offset as u64].map(u64::to_le_bytes).concat());
        file.extend(0u32.to_le_bytes());
        file.extend([64u16, 0, 0, 64, 3, 2].map(u16::to_le_bytes).concat());
        file.extend(&contents);
        // The first header is empty.
        file.resize(headers_offset + 64, 0);
        let sections = [(1u32, 1u32, 64, modinfo.len()), (10, 3, 64 + modinfo.len(), SECTION_NAMES.len())];
        for (name, kind, offset, size) in sections {
            file.extend([name, kind].map(u32::to_le_bytes).concat());
            file.extend([0, 0, offset as u64, size as u64, 0, 1, 0].map(u64::to_le_bytes).concat());
        }
        file
    }

    #[test]
    fn a_module_is_left_out_if_a_module_that_it_requires_cannot_be_loaded() {
        let dir = tempfile::tempdir().unwrap();
        for (name, modinfo) in [
            ("needs_missing", "depends=missing\0"),
            ("first", "depends=needs_missing\0"),
            ("second", "license=GPL\0depends=needs_missing\0"),
            ("softly", "softdep=pre: needs_missing missing\0depends=\0"),
            ("third", "depends=softly,missing\0"),
            ("last", "depends=softly\0"),
        ] {
            std::fs::write(dir.path().join(format!("{name}.ko")), module_file(modinfo)).unwrap();
        }
        let modules = Modules::open(dir.path()).unwrap();
        let names = |order: Vec<Module>| order.into_iter().map(|module| module.name).collect::<Vec<_>>();
        let extended = |further: &[&str]| names(modules.extend_load_order(vec![], further, "crc32c_generic"));
        assert_eq!(extended(&["first", "second", "last", "third"]), ["softly", "last"]);
        assert_eq!(extended(&["softly", "needs_missing", "third"]), ["softly"]);
        assert_eq!(names(modules.load_order(&["softly"], "crc32c_generic").unwrap()), ["softly"]);
        assert!(modules.load_order(&["last", "second"], "crc32c_generic").is_err());
    }

    #[test]
    fn modules_are_decompressed_in_every_format() {
        let dir = tempfile::tempdir().unwrap();
        let write_and_read = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            read_module(&path).unwrap()
        };
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, b"\x7fELF").unwrap();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(&b"\x7fELF"[..], level);
        assert_eq!(write_and_read("a.ko.zst", &zstd), b"\x7fELF");
        assert_eq!(write_and_read("a.ko.gz", &gzip.finish().unwrap()), b"\x7fELF");
        assert_eq!(write_and_read("a.ko", b"\x7fELF"), b"\x7fELF");
        let bomb = read_limited(Path::new("b.ko.gz"), &mut std::io::repeat(0), 1 << 20).unwrap_err().to_string();
        assert!(bomb.contains("more than 1048576 bytes"), "{bomb}");
    }

    #[test]
    fn a_file_that_is_not_a_module_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("jfs.ko"), "text").unwrap();
        let modules = Modules::open(dir.path()).unwrap();
        let error = modules.load_order(&["jfs"], "crc32c_generic").unwrap_err().to_string();
        assert!(error.contains("jfs.ko") && error.contains("not a kernel module"), "{error}");
    }
}
