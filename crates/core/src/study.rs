//! The studies that ship with fsarena. A new one is a folder under `studies/` and its entry here.

/// A plan that ships with fsarena, with the figures published for it.
#[derive(Debug, Clone, Copy)]
pub struct Study {
    /// Its name: the folder under `studies/`.
    pub name: &'static str,
    /// The plan, TOML.
    pub plan: &'static str,
    /// The published figures, CSV; see [`crate::published`].
    pub published: Option<&'static str>,
    /// Who made the original, and where it was published.
    pub source: &'static str,
}

/// Every study.
pub const STUDIES: &[Study] = &[Study {
    name: "piszcz",
    plan: include_str!("../../../studies/piszcz/plan.toml"),
    published: Some(include_str!("../../../studies/piszcz/published.csv")),
    source: "Justin Piszcz, \"Benchmarking Filesystems\", Linux Gazette 102 (2004) and Part II, 122 (2006)",
}];

/// The study that `fsarena run` runs where none is named.
pub const DEFAULT: &str = "piszcz";

/// Finds a study by its name.
pub fn find(name: &str) -> Option<&'static Study> {
    STUDIES.iter().find(|study| study.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::file::PlanFile;

    #[test]
    fn every_folder_of_studies_is_registered() {
        let folders = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        let mut names: Vec<String> = std::fs::read_dir(folders)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut registered: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
        registered.sort_unstable();
        assert_eq!(names, registered);
    }

    #[test]
    fn every_study_parses_and_bears_the_name_of_its_folder() {
        for study in STUDIES {
            let (plan, _) = PlanFile::parse(study.name, study.plan.as_bytes()).unwrap();
            assert_eq!(plan.name.get_ref(), study.name);
        }
    }
}
