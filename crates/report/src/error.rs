//! Why a report could not be made.

use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::names::Unknown;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be written.
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
    /// A format has several files.
    #[error("`{0}` writes a folder of files. Name the folder: --export {0}=FOLDER")]
    Folder(&'static str),
    /// It could not be put into JSON.
    #[error("the report could not be put into JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// It could not be written as XML.
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
    /// Two things have no variant or no task in common.
    #[error("{a} and {b} cannot be compared: they have no {what} in common")]
    NothingInCommon {
        /// The one.
        a: String,
        /// The other.
        b: String,
        /// `variant` or `task`.
        what: &'static str,
    },
    /// A run cannot be compared as a watch.
    #[error("{run} {what}")]
    Watch {
        /// The run.
        run: String,
        /// The problem and its remedy.
        what: String,
    },
    /// A format has no place for what a run measured.
    #[error("{run} has no {what}, which is what {format} tells; `--format csv` has all that it measured")]
    Lacks {
        /// The run.
        run: String,
        /// What it has none of.
        what: &'static str,
        /// The format.
        format: &'static str,
    },
    /// A run of which nothing can be said to be better.
    #[error(
        "run {0} ran in User Mode Linux, whose times say that something works and rank nothing: no claim can be \
         judged by it, and it is compared with nothing"
    )]
    RanksNothing(String),
    /// Figures of different executors.
    #[error(
        "{a} ran in {in_a} and {b} in {in_b}: figures of different executors are not compared; run both in the same"
    )]
    Executors {
        /// The one.
        a: String,
        /// Where it ran.
        in_a: &'static str,
        /// The other.
        b: String,
        /// Where that ran.
        in_b: &'static str,
    },
    /// A claim is about something that the run lacks.
    #[error("--claim `{claim}`: {missing}")]
    Claim {
        /// The claim.
        claim: String,
        /// What the run lacks.
        missing: String,
    },
    /// A weight names no task, or is none.
    #[error("--weight: {what}")]
    Weight {
        /// The problem.
        what: String,
    },
    /// The run or set has no tasks by block size and threads.
    #[error(
        "{0} holds no matrix of block sizes and threads; a run of study engel does, or of any plan with the \
         workload fileio, sysbench or fio"
    )]
    NoMatrix(String),
    /// Its cells do not form a matrix.
    #[error(transparent)]
    Matrix(#[from] fsarena_stats::matrix::cells::Error),
    /// It holds no curve of throughput over clients.
    #[error("{0}: a curve is throughput by number of clients, as a run of gus3 measures it")]
    NoCurve(String),
    /// Its values do not form a curve.
    #[error(transparent)]
    Series(#[from] fsarena_stats::scaling::series::Error),
    /// A chart could not be drawn.
    #[error(transparent)]
    Chart(#[from] fsarena_charts::Error),
    /// A flame graph could not be drawn.
    #[error("a flame graph could not be drawn: {0}")]
    Flame(String),
    /// The page could not be made.
    #[error("the page could not be made: {0}")]
    Template(#[from] askama::Error),
}

impl Error {
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
            Error::Unknown(_)
            | Error::NoMatrix(_)
            | Error::NoCurve(_)
            | Error::NothingInCommon { .. }
            | Error::Watch { .. }
            | Error::Lacks { .. }
            | Error::RanksNothing(_)
            | Error::Executors { .. }
            | Error::Claim { .. }
            | Error::Weight { .. }
            | Error::File { .. }
            | Error::Folder(_) => ExitCode::Usage,
            _ => ExitCode::Internal,
        }
    }
}
