//! The error type of this crate.

use fsarena_core::exit::{ExitCode, HasExitCode, is_resource_shortage};
use fsarena_core::names::UnknownName;

/// Why fsarena could not make or write a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The report could not be written.
    #[error("the report could not be written: {0}")]
    Write(#[from] std::io::Error),
    /// A file or folder of the report could not be written.
    #[error("{path}: {source}")]
    File {
        /// The file or folder.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The requested report or format does not fit the run. The text gives the reason and often a remedy.
    #[error("{0}")]
    Usage(String),
    /// The report could not be written as JSON.
    #[error("the report could not be put into JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The report could not be written as XML.
    #[error("the report could not be put into XML: {0}")]
    Xml(std::io::Error),
    /// The figures that ship with a study are invalid.
    #[error(transparent)]
    Published(#[from] fsarena_core::published::PublishedError),
    /// The plan that ships with a study is invalid.
    #[error(transparent)]
    Study(#[from] fsarena_core::plan::error::PlanError),
    /// The plan could not be put into TOML.
    #[error("the plan could not be put into TOML: {0}")]
    Toml(#[from] toml::ser::Error),
    /// A format, a metric or another name is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The cells of a run or set do not form a matrix.
    #[error(transparent)]
    Matrix(#[from] fsarena_stats::matrix::cells::MatrixError),
    /// The values of a run or set do not form a curve.
    #[error(transparent)]
    Series(#[from] fsarena_stats::scaling::SeriesError),
    /// A flame graph could not be drawn.
    #[error("a flame graph could not be drawn: {0}")]
    FlameGraph(String),
    /// The page could not be made.
    #[error("the page could not be made: {0}")]
    Template(#[from] askama::Error),
}

impl Error {
    /// The error for two runs or sets that cannot be compared, because they share no `item`, such as `variant` or `task`.
    pub fn nothing_in_common(a: &str, b: &str, item: &str) -> Error {
        Error::Usage(format!("{a} and {b} cannot be compared: they have no {item} in common"))
    }

    /// Returns a function that turns an I/O error into [`Error::File`] with this path.
    pub fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.display().to_string();
        move |source| Error::File { path, source }
    }
}

// The conversions keep an I/O error as `Write`, so that callers can recognise a closed pipe.

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        if error.is_io() { Error::Write(error.into()) } else { Error::Json(error) }
    }
}

impl From<csv::Error> for Error {
    fn from(error: csv::Error) -> Error {
        let message = error.to_string();
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Error::Write(error),
            _ => Error::Write(std::io::Error::other(message)),
        }
    }
}

impl HasExitCode for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Matrix(error) => error.exit_code(),
            Error::Series(error) => error.exit_code(),
            Error::File { source, .. } if is_resource_shortage(source) => ExitCode::Missing,
            Error::Unknown(_) | Error::Usage(_) | Error::File { .. } => ExitCode::Usage,
            // An I/O error of standard output has this code too: the program derives its exit code from the source.
            _ => ExitCode::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_lack_of_the_machine_and_a_wrong_path_wrong_usage() {
        let exit_code = |error_number| {
            let source = std::io::Error::from_raw_os_error(error_number);
            Error::File { path: "out.html".into(), source }.exit_code()
        };
        // ENOSPC and ENOENT on Linux.
        assert_eq!((exit_code(28), exit_code(2)), (ExitCode::Missing, ExitCode::Usage));
    }
}
