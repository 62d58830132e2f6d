//! The runs of a directory at a glance.

use crate::read::status;
use crate::rows::Source;
use crate::{Error, Result, RunDir, log, schema};
use fsarena_core::record::RunStatus;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What a listing says of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Its id.
    pub id: String,
    /// Its directory.
    pub path: PathBuf,
    /// The study or plan it came from; empty where the run cannot be read.
    pub study: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// How it stands; `why` is `running` while it is written, and the reason where it cannot be read.
    pub status: RunStatus,
    /// What was compared.
    pub arms: Vec<String>,
}

/// Every run in `runs_root`, newest first. A run that cannot be read is listed with the reason.
///
/// # Errors
/// Where the directory cannot be read.
pub fn list(runs_root: &Path) -> Result<Vec<RunSummary>> {
    Ok(RunDir::all(runs_root)?
        .iter()
        .map(|run| summary(run).unwrap_or_else(|error| unreadable(run, &error)))
        .collect())
}

fn summary(run: &RunDir) -> Result<RunSummary> {
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let source = Source {
        db: &db,
        path: &path,
    };
    let mut summary = None;
    source.each(
        "run",
        "SELECT study, started, complete, why FROM run",
        |row| {
            summary = Some(RunSummary {
                id: run.id(),
                path: run.path().into(),
                study: row.text(0)?,
                started: row.text(1)?,
                status: status(
                    row.int(2)? != 0,
                    row.text(3)?,
                    log::is_locked(&run.command_log()),
                ),
                arms: vec![],
            });
            Ok(())
        },
    )?;
    let mut summary =
        summary.ok_or_else(|| Error::damaged(&path, "damaged: table run is empty"))?;
    source.each("arm", "SELECT name FROM arm ORDER BY id", |row| {
        summary.arms.push(row.text(0)?);
        Ok(())
    })?;
    Ok(summary)
}

fn unreadable(run: &RunDir, error: &Error) -> RunSummary {
    RunSummary {
        id: run.id(),
        path: run.path().into(),
        study: String::new(),
        started: String::new(),
        status: RunStatus {
            complete: false,
            why: error.to_string(),
        },
        arms: vec![],
    }
}
