//! Applications: plans of the workload `command` that ship with fsarena, and serve as examples for own plans. To add one, create
//! a file under `apps/` and an entry here.

use crate::study;
use std::collections::BTreeSet;

/// A plan of an application.
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
    let plan_of_app = APPS.iter().find(|app| app.name == name).map(|app| (app.name.to_string(), app.plan_toml));
    plan_of_app.or_else(|| study::find(name).map(|study| (format!("study {name}"), study.plan_toml)))
}

/// Whether this is the text of a plan that ships with fsarena.
pub fn is_shipped_text(text: &str) -> bool {
    APPS.iter()
        .map(|app| app.plan_toml)
        .chain(study::STUDIES.iter().map(|study| study.plan_toml))
        .any(|plan| plan == text)
}

/// The programs that the applications run, as their plans list them under `needs`.
pub fn programs_of_apps() -> BTreeSet<String> {
    let mut programs = BTreeSet::new();
    for app in APPS {
        for program in needed_programs(app).unwrap_or_default() {
            programs.extend(program.as_str().map(String::from));
        }
    }
    programs
}

/// The list `needs` of an application's workload. The plan of an application has one workload.
fn needed_programs(app: &App) -> Option<Vec<toml::Value>> {
    let plan: toml::Table = toml::from_str(app.plan_toml).ok()?;
    let workload = plan.get("workload")?.as_array()?.first()?;
    workload.get("needs")?.as_array().cloned()
}

/// The names of all studies and applications that ship with fsarena.
pub fn shipped_plan_names() -> impl Iterator<Item = &'static str> {
    study::STUDIES.iter().map(|study| study.name).chain(APPS.iter().map(|app| app.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::file::PlanFile;

    #[test]
    fn every_plan_file_is_registered_and_all_programs_are_listed() {
        let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let files = std::fs::read_dir(files).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.map(|file| format!("apps/{}", file.file_stem().unwrap().display())).collect();
        files.sort();
        assert_eq!(files, APPS.iter().map(|app| app.name).collect::<Vec<_>>());
        for app in APPS {
            let plan = PlanFile::parse(app.name, app.plan_toml.as_bytes()).unwrap().file;
            assert_eq!(format!("apps/{}", plan.name.get_ref()), app.name);
        }
        assert_eq!(programs_of_apps().into_iter().collect::<Vec<_>>(), ["gcc", "git", "make", "perl", "rsync", "tar"]);
    }
}
