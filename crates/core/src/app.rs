//! Applications: plans of the workload `command` that ship with fsarena, each also the example to start one's own from.
//! A new one is a file under `apps/` and its entry here.

use crate::study;
use std::collections::BTreeSet;

/// A plan of an application.
#[derive(Debug, Clone, Copy)]
pub struct App {
    /// Its name: `apps/` and the name of the file.
    pub name: &'static str,
    /// The plan, TOML.
    pub plan: &'static str,
}

/// Every application.
pub const APPS: &[App] = &[
    App { name: "apps/build", plan: include_str!("../../../apps/build.toml") },
    App { name: "apps/git", plan: include_str!("../../../apps/git.toml") },
    App { name: "apps/node_modules", plan: include_str!("../../../apps/node_modules.toml") },
    App { name: "apps/rsync", plan: include_str!("../../../apps/rsync.toml") },
];

/// The plan that ships under this name: what errors call it, and its text.
pub fn plan(name: &str) -> Option<(String, &'static str)> {
    let app = APPS.iter().find(|app| app.name == name).map(|app| (app.name.to_string(), app.plan));
    app.or_else(|| study::find(name).map(|study| (format!("study {name}"), study.plan)))
}

/// Whether a plan ships with fsarena, by its text.
pub fn ships(text: &str) -> bool {
    APPS.iter()
        .map(|app| app.plan)
        .chain(study::STUDIES.iter().map(|study| study.plan))
        .any(|plan| plan == text)
}

/// The programs that the applications run, each with the name of its package.
pub fn programs() -> BTreeSet<String> {
    let needs = |app: &App| {
        let plan: toml::Table = toml::from_str(app.plan).ok()?;
        let workload = plan.get("workload")?.as_array()?.first()?.clone();
        Some(workload.get("needs")?.as_array()?.clone())
    };
    let all = APPS.iter().filter_map(needs).flatten();
    all.filter_map(|program| Some(program.as_str()?.to_string())).collect()
}

/// The names of all plans that ship with fsarena.
pub fn names() -> impl Iterator<Item = &'static str> {
    study::STUDIES.iter().map(|study| study.name).chain(APPS.iter().map(|app| app.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::file::PlanFile;

    #[test]
    fn every_file_is_registered_and_bears_its_name() {
        let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let files = std::fs::read_dir(files).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> =
            files.map(|file| format!("apps/{}", file.file_stem().unwrap().display())).collect();
        files.sort();
        assert_eq!(files, APPS.iter().map(|app| app.name).collect::<Vec<_>>());
        for app in APPS {
            let plan = PlanFile::parse(app.name, app.plan.as_bytes()).unwrap().file;
            assert_eq!(format!("apps/{}", plan.name.get_ref()), app.name);
        }
        assert_eq!(
            programs().into_iter().collect::<Vec<_>>(),
            ["gcc", "git", "make", "perl", "rsync", "tar"]
        );
    }
}
