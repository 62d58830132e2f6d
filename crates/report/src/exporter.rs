//! The trait every exporter implements. A new one is one file in `exporters/` and its line there.

use crate::error::Error;
use crate::report::Report;
use std::io::Write;

/// A format that a run can be exported to.
pub trait Exporter: Sync {
    /// The name on the command line.
    fn id(&self) -> &'static str;

    /// One line for people.
    fn help(&self) -> &'static str;

    /// The file name extension, without the dot.
    fn extension(&self) -> &'static str;

    /// What of the report this format leaves out because there is too much of it, in words.
    fn lacks(&self, _: &Report) -> Option<String> {
        None
    }

    /// Writes the report.
    ///
    /// # Errors
    /// Where `out` fails.
    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error>;
}
