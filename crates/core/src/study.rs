//! The plans that ship with fsarena: studies and applications. To add a study, create a folder under `studies/` and an entry in
//! [`STUDIES`].

use crate::plan::{ParsedPlan, error::PlanError, file::PlanFile};
use crate::published::{self, PublishedSet};
use std::collections::BTreeSet;

/// A plan that ships with fsarena, with the figures that its author published. Some authors published no table of figures, and
/// some studies are fsarena's own.
#[derive(Debug, Clone, Copy)]
pub struct Study {
    /// Its name: the folder under `studies/`.
    pub name: &'static str,
    /// The plan, TOML.
    pub plan_toml: &'static str,
    /// The published figures, CSV; see [`crate::published`].
    pub figures_csv: Option<&'static str>,
    /// fsarena's task for each of the author's labels of tasks in `figures_csv`: `001=touch 002=find-files`.
    pub task_labels: &'static str,
    /// The author and the place of publication.
    pub source: &'static str,
    /// The largest bandwidth of the author's device according to the author, in bytes per second.
    pub device_bytes_per_s: Option<f64>,
}

/// A study without any content, the base of the definitions.
const EMPTY: Study =
    Study { name: "", plan_toml: "", figures_csv: None, task_labels: "", source: "", device_bytes_per_s: None };

/// Every study.
pub const STUDIES: &[Study] = &[
    Study {
        name: "piszcz",
        plan_toml: include_str!("../../../studies/piszcz/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/piszcz/published.csv")),
        task_labels: "mkfs=mkfs 001=touch 002=find-files 003=rm-files 004=mkdir 005=find-dirs 006=rm-dirs \
                007=copy-in 008=copy-out 009=untar 010=tar 011=rm-tree 012=copy-10 013=create \
                014=copy-file 015=split-1000 016=split-1024 017=split-2048 018=split-4096 \
                019=split-8192 020=copy-tree 021=cat",
        source: "Justin Piszcz, \"Benchmarking Filesystems\", Linux Gazette 102 (2004) and Part II, 122 (2006)",
        ..EMPTY
    },
    Study {
        name: "peiffer",
        plan_toml: include_str!("../../../studies/peiffer/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/peiffer/published.csv")),
        task_labels: "cp=cp rm=rm",
        source: "Pierre Peiffer, ext3 with and without three phases of a patch (2005)",
        ..EMPTY
    },
    Study {
        name: "engel",
        plan_toml: include_str!("../../../studies/engel/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/engel/published.csv")),
        source: "Engel, sysbench fileio with direct I/O on ext4, XFS and btrfs (2011)",
        device_bytes_per_s: Some(650e6),
        ..EMPTY
    },
    Study {
        name: "wilton",
        plan_toml: include_str!("../../../studies/wilton/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/wilton/published.csv")),
        source: "Wilton, four Squid proxies with their caches on reiserfs, XFS, ext3 and JFS (2005)",
        ..EMPTY
    },
    Study {
        name: "gus3",
        plan_toml: include_str!("../../../studies/gus3/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/gus3/published.csv")),
        task_labels: "clients=dbench-like",
        source: "gus3, dbench on seven filesystems under three I/O schedulers (2011): charts, and relative throughput stated in words",
        ..EMPTY
    },
    Study {
        name: "vondra",
        plan_toml: include_str!("../../../studies/vondra/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/vondra/published.csv")),
        task_labels: "ro=read-only rw=simple-update",
        source: "Tomas Vondra, \"Postgres vs. File Systems: A Performance Comparison\", EDB blog, 10 October 2022: 306 runs of pgbench",
        ..EMPTY
    },
    Study {
        name: "shaikh",
        plan_toml: include_str!("../../../studies/shaikh/plan.toml"),
        figures_csv: Some(include_str!("../../../studies/shaikh/published.csv")),
        task_labels: "write=create read=read run=run",
        source: "Sohail Shaikh, \"Billion-files File Systems (BfFS): A Comparison\", arXiv 2408.01805 (2024)",
        ..EMPTY
    },
    Study {
        name: "conway",
        plan_toml: include_str!("../../../studies/conway/plan.toml"),
        source: "Conway et al., \"File Systems Fated for Senescence? Nonsense, Says Science!\", FAST 2017: grep after git pulls",
        ..EMPTY
    },
    Study {
        name: "shared",
        plan_toml: include_str!("../../../studies/shared/plan.toml"),
        source: "the phases of IOR and mdtest, which IO500 runs",
        ..EMPTY
    },
    Study {
        name: "amplification",
        plan_toml: include_str!("../../../studies/amplification/plan.toml"),
        source: "fsarena's own: counters of the device for each call",
        ..EMPTY
    },
];

impl Study {
    /// The author's labels of tasks, each with fsarena's task.
    pub fn labelled_tasks(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.task_labels.split(' ').filter_map(|pair| pair.split_once('='))
    }

    /// Parses its plan.
    ///
    /// # Errors
    /// The plan that ships with fsarena is invalid.
    pub fn parse_plan(&self) -> Result<ParsedPlan, PlanError> {
        PlanFile::parse(self.name, self.plan_toml.as_bytes())
    }

    /// Parses the published figures. An author may have published several sets of figures; each is a [`PublishedSet`].
    /// Empty if the study has no figures.
    ///
    /// # Errors
    /// The file that ships with fsarena is invalid.
    pub fn published_sets(&self) -> Result<Vec<PublishedSet>, published::PublishedError> {
        let tasks = self.labelled_tasks().map(|(label, task)| (label.to_string(), task.to_string())).collect();
        self.figures_csv.map_or(Ok(vec![]), |csv| published::parse_published(self.name, csv, &tasks))
    }
}

/// The study that `fsarena run` runs by default.
pub const DEFAULT_STUDY: &str = "piszcz";

/// Finds a study by its name.
pub fn find(name: &str) -> Option<&'static Study> {
    STUDIES.iter().find(|study| study.name == name)
}

/// An application: a plan of the workload `command` that ships with fsarena and serves as an example for own plans. To add one,
/// create a file under `apps/` and an entry in [`APPS`].
#[derive(Debug, Clone, Copy)]
pub struct App {
    /// Its name: `apps/` and the name of the file.
    pub name: &'static str,
    /// The plan, TOML.
    pub plan_toml: &'static str,
}

/// Every application.
pub const APPS: &[App] = &[
    App { name: "apps/build", plan_toml: include_str!("../../../apps/build.toml") },
    App { name: "apps/git", plan_toml: include_str!("../../../apps/git.toml") },
    App { name: "apps/node_modules", plan_toml: include_str!("../../../apps/node_modules.toml") },
    App { name: "apps/rsync", plan_toml: include_str!("../../../apps/rsync.toml") },
];

/// Finds a study or application that ships with fsarena. Returns its name for errors, and the text of its plan.
pub fn shipped_plan(name: &str) -> Option<(String, &'static str)> {
    let app = APPS.iter().find(|app| app.name == name);
    app.map(|app| (app.name.to_string(), app.plan_toml))
        .or_else(|| find(name).map(|study| (format!("study {name}"), study.plan_toml)))
}

/// Whether this is the text of a plan that ships with fsarena.
pub fn is_text_of_shipped_plan(text: &str) -> bool {
    APPS.iter().map(|app| app.plan_toml).chain(STUDIES.iter().map(|study| study.plan_toml)).any(|plan| plan == text)
}

/// The programs that the applications run, as their plans list them under `needs`.
pub fn programs_of_apps() -> BTreeSet<String> {
    let mut programs = BTreeSet::new();
    for app in APPS {
        let plan: toml::Table = toml::from_str(app.plan_toml).expect("a plan that ships with fsarena is TOML");
        // The plan of an application has one workload.
        let needs = plan["workload"][0].get("needs").and_then(toml::Value::as_array);
        programs.extend(needs.into_iter().flatten().filter_map(toml::Value::as_str).map(String::from));
    }
    programs
}

/// The names of all studies and applications that ship with fsarena.
pub fn shipped_plan_names() -> impl Iterator<Item = &'static str> {
    STUDIES.iter().map(|study| study.name).chain(APPS.iter().map(|app| app.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_studies_is_registered() {
        let folders = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        let mut names: Vec<String> = std::fs::read_dir(folders)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().join("plan.toml").exists())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut registered: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
        registered.sort_unstable();
        assert_eq!(names, registered);
    }

    #[test]
    fn every_task_label_has_a_task() {
        for study in STUDIES {
            let pairs = study.task_labels.split_whitespace().count();
            assert_eq!(study.labelled_tasks().count(), pairs, "{}", study.name);
        }
    }

    #[test]
    fn every_study_parses_and_has_the_name_of_its_folder() {
        for study in STUDIES {
            let plan = study.parse_plan().unwrap().file;
            assert_eq!(plan.name.get_ref(), study.name);
        }
    }

    #[test]
    fn every_app_is_registered_and_its_programs_are_listed() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> = paths.map(|path| format!("apps/{}", path.file_stem().unwrap().display())).collect();
        names.sort();
        assert_eq!(names, APPS.iter().map(|app| app.name).collect::<Vec<_>>());
        for app in APPS {
            let plan = PlanFile::parse(app.name, app.plan_toml.as_bytes()).unwrap().file;
            assert_eq!(format!("apps/{}", plan.name.get_ref()), app.name);
        }
        assert_eq!(programs_of_apps().into_iter().collect::<Vec<_>>(), ["gcc", "git", "make", "perl", "rsync", "tar"]);
    }
}
