//! Baselines: variants that were measured and saved under a name. A later run measures a baseline again, to compare
//! another variant with it.
//!
//! A baseline is a directory below `baselines/` in the directory of runs. `baseline.json` has the plan, the variant,
//! the digests of everything that the figures of the variant depend on, and these figures. The report of a later run
//! shows them beside the new figures. If the user built the kernel, the directory also has a copy of it with the
//! modules that guests need, because the next build overwrites the original.

use crate::digests::{digest_file, digest_guest_modules};
use crate::error::{Result, RunError};
use crate::guest::guest_modules;
use crate::json_files::{check_format, dirs_with_file, read_json, write_json};
use crate::preflight::guests;
use crate::work;
use fsarena_core::cell::Variant;
use fsarena_core::names::unknown_name;
use fsarena_core::observations::MetricSeries;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::{Backing, ParsedPlan, Plan};
use fsarena_core::plan::{RecalledBaseline, StoredFigures};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, record::RunRecord};
use fsarena_fs::filesystems;
use fsarena_guest::kernel::{DEBIAN, GuestKernel};
use fsarena_guest::{cache, emulator::QEMU};
use fsarena_sys::{Error, kernel::SysRoot, none_if_missing, program};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directory of baselines in a directory of runs.
const BASELINES_DIR: &str = "baselines";
/// The file of a baseline.
const FILE_NAME: &str = "baseline.json";
/// The directory of its kernel, with the layout that `make install` and `make modules_install` use.
const KERNEL_DIR: &str = "kernel";
/// The largest file of a baseline, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The version of the format of the file.
const FORMAT: u32 = 1;

/// A saved baseline: the contents of `baseline.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`FORMAT`].
    format: u32,
    /// Its name.
    pub name: String,
    /// The id of the run that measured it.
    pub run: String,
    /// When that run began.
    #[serde(rename = "measured")]
    pub measured_at: String,
    /// The variant.
    pub variant: Variant,
    /// The plan of the run, as TOML.
    plan: String,
    /// The release of the kernel of its guests; None if it ran in the kernel of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_release: Option<String>,
    /// Everything that the figures depend on.
    #[serde(rename = "state")]
    dependencies: Dependencies,
    /// The figures of the variant.
    figures: Vec<StoredFigures>,
}

/// What the figures of a variant depend on: each part with its digest or version. Equal figures can be expected only if
/// all parts are equal.
type Dependencies = BTreeMap<String, String>;

/// The names of the parts that differ, or that only one of the two has.
fn differing_parts(first: &Dependencies, second: &Dependencies) -> Vec<String> {
    let names = first.keys().chain(second.keys().filter(|name| !first.contains_key(*name)));
    names.filter(|name| first.get(*name) != second.get(*name)).cloned().collect()
}

/// Checks the name of a baseline, which is also the name of its directory.
///
/// # Errors
/// The name is empty, begins with a dot, or has other characters than letters, digits, `.`, `_`, `+` and `-`.
pub fn check_baseline_name(name: &str) -> std::result::Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(format!("`{name}` cannot name a baseline: use letters, digits and . _ + -"))
}

/// A variant that a run will save as a baseline, and its dependencies before the run.
#[derive(Debug)]
pub struct BaselineToSave {
    name: String,
    variant: Variant,
    dependencies: Dependencies,
}

impl BaselineToSave {
    /// Records the dependencies of a variant before a run.
    ///
    /// # Errors
    /// A kernel or a program that cannot be read.
    pub fn before_run(name: &str, plan: &Plan, variant: &Variant) -> Result<BaselineToSave> {
        let dependencies = find_dependencies(plan, variant)?;
        Ok(BaselineToSave { name: name.into(), variant: variant.clone(), dependencies })
    }

    /// Saves the baseline after the run, and replaces one of the same name. Returns its directory.
    ///
    /// # Errors
    /// A dependency of the variant changed during the run, the run has no figures of the variant, or the directory
    /// cannot be written.
    pub fn save(self, runs_dir: &Path, record: &RunRecord) -> Result<PathBuf> {
        let changed = differing_parts(&self.dependencies, &find_dependencies(&record.plan, &self.variant)?);
        if !changed.is_empty() {
            return Err(RunError::Plan(format!(
                "--save-baseline {}: {} changed during the run, so a later run cannot measure the same",
                self.name,
                changed.join(", ")
            )));
        }
        let figures = collect_figures(record, &self.variant);
        if figures.is_empty() {
            let (name, variant) = (&self.name, &self.variant.name);
            return Err(RunError::Plan(format!("--save-baseline {name}: the run has no figures of {variant}")));
        }
        let plan = toml::to_string(&record.plan).map_err(|error| RunError::Plan(error.to_string()))?;
        let kernel = guest_kernel(&record.plan, &self.variant)?;
        let baseline = Baseline {
            format: FORMAT,
            name: self.name.clone(),
            run: record.id.clone(),
            measured_at: record.started.clone(),
            variant: self.variant,
            plan,
            kernel_release: kernel.map(|kernel| kernel.release),
            dependencies: self.dependencies,
            figures,
        };
        baseline.write(&runs_dir.join(BASELINES_DIR), &record.plan)
    }
}

impl Baseline {
    /// Writes the baseline into its directory below `baselines_dir`. It has another name at first, so that an earlier
    /// baseline of the same name stays until the new one is complete.
    fn write(&self, baselines_dir: &Path, plan: &Plan) -> Result<PathBuf> {
        let new_dir = baselines_dir.join(format!(".new-{}", self.name));
        remove_dir_if_present(&new_dir)?;
        let written = self.write_files(&new_dir, plan).and_then(|()| self.replace_earlier(&new_dir, baselines_dir));
        if written.is_err() {
            // The directory may have a large copy of a kernel. If this fails, the next save under that name removes it.
            let _ = std::fs::remove_dir_all(&new_dir);
        }
        written
    }

    /// Writes the files of the baseline into a new directory.
    fn write_files(&self, new_dir: &Path, plan: &Plan) -> Result<()> {
        std::fs::create_dir_all(new_dir).map_err(Error::io("making", new_dir))?;
        if let Some(kernel) = guest_kernel(plan, &self.variant)?
            && !is_packaged(self.variant.level(factor::KERNEL))
        {
            copy_kernel(&kernel, &new_dir.join(KERNEL_DIR))?;
        }
        write_json(&new_dir.join(FILE_NAME), self)
    }

    /// Renames the directory of the complete baseline to its final name, and removes an earlier baseline of that name.
    /// After a crash, the earlier or the new baseline is complete, the earlier one at worst as `.old-NAME`.
    ///
    /// It does not exchange the two directories in one step, because network filesystems do not support that.
    fn replace_earlier(&self, new_dir: &Path, baselines_dir: &Path) -> Result<PathBuf> {
        let (dir, earlier_dir) = (baselines_dir.join(&self.name), baselines_dir.join(format!(".old-{}", self.name)));
        if dir.is_dir() {
            remove_dir_if_present(&earlier_dir)?;
            std::fs::rename(&dir, &earlier_dir).map_err(Error::io("renaming", &dir))?;
        }
        std::fs::rename(new_dir, &dir).map_err(Error::io("writing", &dir))?;
        remove_dir_if_present(&earlier_dir)?;
        Ok(dir)
    }

    /// Reads a baseline.
    ///
    /// # Errors
    /// No baseline has this name, or its file is damaged.
    pub fn open(runs_dir: &Path, name: &str) -> Result<Baseline> {
        check_baseline_name(name).map_err(RunError::Plan)?;
        let file = runs_dir.join(BASELINES_DIR).join(name).join(FILE_NAME);
        let Some(baseline) = read_json::<Baseline>(&file, MAX_FILE_BYTES)? else {
            let names = baseline_names(runs_dir);
            let unknown = unknown_name("baseline", name, names.iter().map(String::as_str));
            return Err(RunError::Plan(format!("{unknown}. Save one: {}", setting("save_baseline", name))));
        };
        check_format(&file, baseline.format, FORMAT)?;
        Ok(baseline)
    }

    /// The levels with which a run can measure the variant again. If the user built the kernel of its guests, the level
    /// of the kernel is the path of the copy in the baseline, else it names the exact release of the packaged kernel.
    ///
    /// # Errors
    /// The current directory cannot be read.
    pub fn levels(&self, runs_dir: &Path) -> Result<BTreeMap<String, String>> {
        let mut levels = self.variant.levels.clone();
        let kernel_copy = runs_dir.join(BASELINES_DIR).join(&self.name).join(KERNEL_DIR);
        if kernel_copy.is_dir() {
            let kernel_copy = std::path::absolute(&kernel_copy).map_err(Error::io("finding", &kernel_copy))?;
            levels.insert(factor::KERNEL.into(), kernel_copy.display().to_string());
        } else if let Some(release) = &self.kernel_release {
            levels.insert(factor::KERNEL.into(), format!("{DEBIAN}:{release}"));
        }
        Ok(levels)
    }

    /// Parses the plan of the run that measured it.
    ///
    /// # Errors
    /// The stored plan is damaged.
    pub fn parse_plan(&self) -> Result<ParsedPlan> {
        Ok(PlanFile::parse(&format!("baseline {}", self.name), self.plan.as_bytes())?)
    }

    /// The data on this baseline for a run that measures it again. `plan` is the plan of that run, and `variant` is the
    /// variant in it that repeats the baseline.
    ///
    /// # Errors
    /// A kernel or a program that cannot be read.
    pub fn recall(&self, plan: &Plan, variant: &Variant) -> Result<RecalledBaseline> {
        Ok(RecalledBaseline {
            name: self.name.clone(),
            variant: variant.name.clone(),
            measured_at: self.measured_at.clone(),
            changed: differing_parts(&self.dependencies, &find_dependencies(plan, variant)?),
            figures: self.figures.clone(),
        })
    }
}

/// Removes a directory with everything in it, if it exists.
fn remove_dir_if_present(dir: &Path) -> Result<()> {
    Ok(none_if_missing(std::fs::remove_dir_all(dir)).map(drop).map_err(Error::io("removing", dir))?)
}

/// The names of the baselines in a directory of runs, sorted.
pub fn baseline_names(runs_dir: &Path) -> Vec<String> {
    let mut names = dirs_with_file(&runs_dir.join(BASELINES_DIR), FILE_NAME);
    names.retain(|name| check_baseline_name(name).is_ok());
    names
}

/// Whether the level of a kernel names a packaged kernel, which fsarena can find or fetch again by its release.
pub(crate) fn is_packaged(level: &str) -> bool {
    level.is_empty() || level.split(':').next() == Some(DEBIAN)
}

/// The kernel that guests of a variant boot; None if the plan has no guests.
fn guest_kernel(plan: &Plan, variant: &Variant) -> Result<Option<GuestKernel>> {
    let Backing::Guest(guest) = &plan.device.backing else { return Ok(None) };
    let level = variant.level(factor::KERNEL);
    let filesystems: Vec<_> = filesystems::find(variant.level(factor::FS)).into_iter().collect();
    let mut kernels = guests::find_kernels(guest, [level].into_iter(), &filesystems)?;
    Ok(kernels.by_level.remove(level))
}

/// Finds everything that the figures of a variant depend on, with the digests as they are now.
fn find_dependencies(plan: &Plan, variant: &Variant) -> Result<Dependencies> {
    let mut parts = Dependencies::new();
    parts.insert("fsarena".to_string(), digest_file(Path::new("/proc/self/exe"))?);
    // Leave out the level of the kernel: in a later run it is the path of the copy. The kernel has a separate digest.
    let levels: Vec<_> = variant.levels.iter().filter(|(id, _)| *id != factor::KERNEL).collect();
    let work = (&plan.workloads, plan.scale, plan.seed, &plan.device.size, levels);
    let work = serde_json::to_vec(&work).map_err(|error| RunError::Plan(error.to_string()))?;
    parts.insert("the work".into(), cache::digest(&work[..]).unwrap_or_default());
    if let Ok(def) = filesystems::find(variant.level(factor::FS))
        && let Some(path) = mkfs_program(variant).or_else(|| program::find(def.mkfs))
    {
        parts.insert(def.mkfs.into(), digest_file(&path)?);
    }
    match (&plan.device.backing, guest_kernel(plan, variant)?) {
        (Backing::Guest(guest), Some(kernel)) => {
            parts.insert("the kernel".into(), digest_file(&kernel.code)?);
            parts.insert("its modules".into(), digest_guest_modules(&kernel.modules));
            parts.insert("the memory of guests".into(), guest.memory.to_string());
            if let Some(path) = program::find(QEMU) {
                parts.insert("QEMU".into(), digest_file(&path)?);
            }
        }
        _ => {
            let host = fsarena_sys::host::collect_facts(&SysRoot::host());
            parts.insert("the kernel".into(), host.kernel);
        }
    }
    Ok(parts)
}

/// The mkfs program that a variant names.
fn mkfs_program(variant: &Variant) -> Option<PathBuf> {
    Some(variant.level(factor::MKFS_PROGRAM)).filter(|level| !level.is_empty()).map(PathBuf::from)
}

/// Copies a kernel and those of its modules that guests need to a directory, from which guests can boot it.
pub(crate) fn copy_kernel(kernel: &GuestKernel, copy_dir: &Path) -> Result<()> {
    let release = if kernel.release.is_empty() { "unknown" } else { &kernel.release };
    let (boot, modules_dir) = (copy_dir.join("boot"), copy_dir.join("lib/modules").join(release));
    let modules = modules_dir.join("kernel");
    for dir in [&boot, &modules] {
        std::fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
    }
    let image = boot.join(format!("vmlinuz-{release}"));
    std::fs::copy(&kernel.image, &image).map_err(Error::io("copying", &kernel.image))?;
    let write = |path: PathBuf, bytes: &[u8]| std::fs::write(&path, bytes).map_err(Error::io("writing", &path));
    write(boot.join(format!("config-{release}")), kernel.config.as_bytes())?;
    for module in guest_modules(&kernel.modules) {
        write(modules.join(format!("{}.ko", module.name)), &module.elf)?;
    }
    let built_in = kernel.modules.built_in().map(|name| format!("kernel/{name}.ko\n"));
    write(modules_dir.join("modules.builtin"), built_in.collect::<String>().as_bytes())?;
    Ok(())
}

/// The values of a variant in each round, by task and main metric.
fn collect_figures(record: &RunRecord, variant: &Variant) -> Vec<StoredFigures> {
    let Some(variant_index) = record.variant_index(&variant.name) else { return vec![] };
    let mut figures = vec![];
    for metric in work::default_metrics(record) {
        let Ok(MetricSeries { grid, .. }) = MetricSeries::of(record, &metric) else { continue };
        let grid = grid.by_round();
        for (task, info) in grid.tasks.iter().enumerate().filter(|(_, info)| info.in_totals) {
            let all_rounds = grid.rounds.iter().copied().zip(grid.values[task][variant_index].iter().copied());
            let values: Vec<(u32, f64)> = all_rounds.filter(|(_, value)| value.is_finite()).collect();
            if !values.is_empty() {
                figures.push(StoredFigures {
                    task: info.id.to_string(),
                    metric: metric.clone(),
                    unit: grid.metric.unit,
                    values,
                });
            }
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_guest::modules::Modules;

    #[test]
    fn names_that_cannot_be_directories_are_refused() {
        assert!(check_baseline_name("v6.18-rc1+x_2").is_ok());
        for wrong in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a=b", &"x".repeat(101)] {
            assert!(check_baseline_name(wrong).is_err(), "{wrong}");
        }
    }

    /// A baseline `old` of this run.
    fn baseline_of(record: &RunRecord, run: &str) -> Baseline {
        Baseline {
            format: 1,
            name: "old".into(),
            run: run.into(),
            measured_at: String::new(),
            variant: record.variants[0].clone(),
            plan: String::new(),
            kernel_release: None,
            dependencies: Dependencies::new(),
            figures: vec![],
        }
    }

    #[test]
    fn a_baseline_replaces_an_earlier_one_also_after_a_crash() {
        let runs_dir = tempfile::tempdir().unwrap();
        let dir = runs_dir.path().join(BASELINES_DIR);
        let record = crate::testing::empty_record(&["ext4"], &[]);
        // The directories that a crash can leave.
        for left in [".new-old", ".old-old"] {
            std::fs::create_dir_all(dir.join(left)).unwrap();
        }
        for run in ["first", "second"] {
            baseline_of(&record, run).write(&dir, &record.plan).unwrap();
            assert_eq!(Baseline::open(runs_dir.path(), "old").unwrap().run, run);
            assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_baseline_that_cannot_be_written_leaves_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let record = crate::testing::empty_record(&["ext4"], &[]);
        let baseline = baseline_of(&record, "");
        // A file is at the place of its directory.
        std::fs::write(dir.path().join("old"), "").unwrap();
        assert!(baseline.write(dir.path(), &record.plan).is_err());
        assert!(!dir.path().join(".new-old").exists());
        std::fs::remove_file(dir.path().join("old")).unwrap();
        let written = baseline.write(dir.path(), &record.plan).unwrap();
        assert!(written.join(FILE_NAME).is_file());
    }

    #[test]
    fn differing_parts_are_named() {
        let dependencies = |parts: &[(&str, &str)]| -> Dependencies {
            parts.iter().map(|(name, digest)| (name.to_string(), digest.to_string())).collect()
        };
        let (one, other) =
            (dependencies(&[("mkfs.xfs", "1"), ("QEMU", "2")]), dependencies(&[("mkfs.xfs", "3"), ("fsarena", "4")]));
        assert_eq!(differing_parts(&one, &other), ["QEMU", "mkfs.xfs", "fsarena"]);
        assert!(differing_parts(&one, &one).is_empty());
    }

    #[test]
    fn a_copied_kernel_is_found_like_an_installed_one() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("bzImage");
        std::fs::write(&image, "kernel").unwrap();
        let built = dir.path().join("modules");
        std::fs::create_dir(&built).unwrap();
        std::fs::write(built.join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let kernel = GuestKernel {
            image,
            release: "6.18.0-mine".into(),
            modules: Modules::open(&built).unwrap(),
            config: "CONFIG_KASAN=y\n".into(),
            ..GuestKernel::default()
        };
        let copy = dir.path().join("copy");
        copy_kernel(&kernel, &copy).unwrap();
        assert_eq!(std::fs::read_to_string(copy.join("boot/vmlinuz-6.18.0-mine")).unwrap(), "kernel");
        assert_eq!(std::fs::read_to_string(copy.join("boot/config-6.18.0-mine")).unwrap(), kernel.config);
        assert!(Modules::open(&copy.join("lib/modules/6.18.0-mine")).unwrap().has("ext4"));
    }
}
