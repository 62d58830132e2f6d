//! The trait that every exporter implements. A new one is one file in `exporters/` and one line in the registry.

use crate::error::Error;
use crate::report::Report;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Where an exporter writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output, or one file.
    File,
    /// A folder of files.
    Folder,
}

/// A format that a run can be exported to.
pub trait Exporter: Sync {
    /// The name on the command line.
    fn id(&self) -> &'static str;

    /// One line for people.
    fn help(&self) -> &'static str;

    /// Where it writes.
    fn output(&self) -> Output {
        Output::File
    }

    /// The name of the file that the directory of every run has in this format; none where it has none.
    fn kept_as(&self, _: &Report) -> Option<&'static str> {
        None
    }

    /// Whether it shows the commands of the run. Reading them takes time that other formats need not spend.
    fn shows_commands(&self) -> bool {
        false
    }

    /// The link to charts that [`write`](Self::write) puts into `path`, for reports that refer to charts.
    fn charts_link(&self, _path: &Path) -> Option<String> {
        None
    }

    /// The part of the run that this format leaves out because it is too large, in words.
    fn lacks(&self, _: &Report) -> Option<String> {
        None
    }

    /// Prints the report.
    ///
    /// # Errors
    /// When `out` fails, or when the format requires a folder.
    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error>;

    /// Writes the report to a file, or to a folder that is made if it is missing.
    ///
    /// # Errors
    /// When the file or folder cannot be written.
    fn write(&self, report: &Report, path: &Path) -> Result<(), Error> {
        let mut out = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        self.export(report, &mut out)?;
        out.flush().map_err(Error::file(path))
    }
}

impl fmt::Debug for dyn Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
