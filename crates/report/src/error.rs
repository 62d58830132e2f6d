//! Why a report could not be made.

use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::names::Unknown;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The report could not be written.
    #[error("the report could not be written: {0}")]
    Write(#[from] std::io::Error),
    /// A file of it could not be written.
    #[error("{path}: {source}")]
    File {
        /// The file or folder.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A question or a format that does not fit the run: the reason, and often a remedy.
    #[error("{0}")]
    Usage(String),
    /// The report could not be written as JSON.
    #[error("the report could not be put into JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The report could not be written as XML.
    #[error("the report could not be put into XML: {0}")]
    Xml(std::io::Error),
    /// The figures that ship with a study have a fault.
    #[error(transparent)]
    Published(#[from] fsarena_core::published::Error),
    /// The plan that ships with a study has a fault.
    #[error(transparent)]
    Study(#[from] fsarena_core::plan::error::PlanError),
    /// The plan could not be put into TOML.
    #[error("the plan could not be put into TOML: {0}")]
    Toml(#[from] toml::ser::Error),
    /// The published figures lack a metric.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The cells of a run or set do not form a matrix.
    #[error(transparent)]
    Matrix(#[from] fsarena_stats::matrix::cells::Error),
    /// The values of a run or set do not form a curve.
    #[error(transparent)]
    Series(#[from] fsarena_stats::scaling::SeriesError),
    /// A flame graph could not be drawn.
    #[error("a flame graph could not be drawn: {0}")]
    Flame(String),
    /// The page could not be made.
    #[error("the page could not be made: {0}")]
    Template(#[from] askama::Error),
}

impl Error {
    /// Two things that have no variant or no task in common.
    pub fn nothing_in_common(a: &str, b: &str, what: &str) -> Error {
        Error::Usage(format!("{a} and {b} cannot be compared: they have no {what} in common"))
    }

    /// A file or folder that could not be written.
    pub fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.display().to_string();
        move |source| Error::File { path, source }
    }
}

// The system's own error is taken out of those around it: a closed pipe is known for what it is.

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        if error.is_io() { Error::Write(error.into()) } else { Error::Json(error) }
    }
}

impl From<csv::Error> for Error {
    fn from(error: csv::Error) -> Error {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Error::Write(error),
            kind => Error::Write(std::io::Error::other(format!("{kind:?}"))),
        }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Matrix(error) => error.exit_code(),
            Error::Series(error) => error.exit_code(),
            Error::Unknown(_) | Error::Usage(_) | Error::File { .. } => ExitCode::Usage,
            _ => ExitCode::Internal,
        }
    }
}
