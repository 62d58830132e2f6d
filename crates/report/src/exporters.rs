//! Every exporter, one file each.

use crate::exporter::Exporter;

mod csv;
mod dbench;
mod fio;
mod github;
mod gobench;
mod html;
mod hyperfine;
mod json;
mod junit;
mod md;
mod series;
mod sysbench;
mod term;

pub(crate) use self::csv::column_name;
pub(crate) use self::json::ratio as ratio_json;

/// Every format fsarena exports to.
pub const EXPORTERS: &[&dyn Exporter] = &[
    &term::Term,
    &md::Markdown,
    &html::Html,
    &csv::Csv,
    &json::Json,
    &series::Series,
    &hyperfine::Hyperfine,
    &gobench::GoBench,
    &fio::Fio,
    &sysbench::Sysbench,
    &dbench::Dbench,
    &junit::JUnit,
    &github::GitHub,
];

/// Finds an exporter by its name.
pub fn find(id: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|exporter| exporter.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_registered() {
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/exporters"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut ids: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.id()).collect();
        files.sort();
        ids.sort();
        assert_eq!(files, ids);
    }
}
