//! All workloads. Each has one file with its name.

mod aged_tree;
mod amplification;
mod command;
mod coreutils;
mod dbench;
mod dbench_like;
mod dbench_tool;
mod fileio;
mod fio;
mod fio_job;
mod maildir;
mod many_files;
mod meta;
mod postgres;
mod proxy_cache;
mod read_tree;
mod recovery;
mod shared;
mod sqlite;
mod squid;
mod sysbench;
mod tree;
mod wal;
mod webproxy;

use crate::{web, workload::Workload};
use fsarena_core::sample::ReadingDef;

pub use command::SETUP_ONCE;

/// All workloads.
pub const WORKLOADS: &[&dyn Workload] = &[
    &aged_tree::AgedTree,
    &amplification::Amplification,
    &command::CommandWorkload,
    &coreutils::Coreutils,
    &dbench::DBENCH,
    &dbench_like::DBENCH_LIKE,
    &dbench_tool::DBENCH_TOOL,
    &fileio::FILEIO,
    &fio::FIO,
    &fio_job::FioJobFile,
    &maildir::Maildir,
    &many_files::ManyFiles,
    &meta::Meta,
    &postgres::Postgres,
    &proxy_cache::ProxyCache,
    &read_tree::ReadTree,
    &recovery::Recovery,
    &shared::Shared,
    &sqlite::Sqlite,
    &squid::SquidWorkload,
    &sysbench::SYSBENCH,
    &tree::Tree,
    &wal::Wal,
    &webproxy::Webproxy,
];

/// Every reading that the load engine, the player of dbench's loadfiles and the workloads can have.
pub fn reading_defs() -> impl Iterator<Item = &'static ReadingDef> {
    let player_readings = crate::dbench::reading_defs();
    fsarena_engine::readings::reading_defs()
        .chain(player_readings)
        .chain(web::READINGS)
        .chain(postgres::READINGS)
        .chain(amplification::READINGS)
}

/// Finds a workload by its name.
pub fn find_workload(id: &str) -> Option<&'static dyn Workload> {
    WORKLOADS.iter().copied().find(|workload| workload.def().id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_of_every_file_is_registered() {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/workloads")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.file_stem().unwrap().to_str().unwrap().replace('_', "-"));
            }
        }
        files.sort();
        let mut registered: Vec<_> = WORKLOADS.iter().map(|workload| workload.def().id.to_string()).collect();
        registered.sort();
        assert_eq!(files, registered, "add the file to WORKLOADS");
    }

    #[test]
    fn settings_have_unique_names_help_and_valid_defaults() {
        for workload in WORKLOADS {
            let settings = workload.def().settings;
            for (index, def) in settings.iter().enumerate() {
                assert!(def.kind.convert(def.default.into()).is_some(), "{}: the default is invalid", def.id);
                assert!(!def.help.is_empty(), "{} has no help", def.id);
                assert!(settings[..index].iter().all(|other| other.id != def.id), "{} occurs twice", def.id);
            }
        }
    }
}
