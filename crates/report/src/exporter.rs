//! [`Exporter`], a format to which fsarena can export a report.

use crate::{error::Error, report::Report};
use fsarena_core::setting_text::setting;
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use std::{fs::File, path::Path};

/// A function that prints a report to a stream.
type PrintFunction = fn(&Report, &mut dyn Write) -> Result<(), Error>;
/// A function that writes a report to a file or folder with this path.
type WriteFunction = fn(&Report, &Path) -> Result<(), Error>;

/// Writes a JSON document, indented.
///
/// # Errors
/// If writing to `out` fails.
pub(crate) fn write_json(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Creates a file if it is missing, and writes to it through a buffer. If `write` fails before its first output, an existing file
/// keeps its content.
///
/// # Errors
/// If the file cannot be written, or `write` fails.
pub(crate) fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Result<(), Error> {
    let file = File::options().write(true).create(true).truncate(false).open(path).map_err(Error::file(path))?;
    let mut out = BufWriter::new(ReplacedFile { file, is_emptied: false });
    write(&mut out)?;
    out.flush().map_err(Error::file(path))
}

/// A file whose old content is removed before the first output.
struct ReplacedFile {
    file: File,
    /// Whether the old content has been removed.
    is_emptied: bool,
}

impl ReplacedFile {
    fn remove_old_content(&mut self) -> io::Result<()> {
        // Pipes and devices have no content to remove.
        if !self.is_emptied && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.is_emptied = true;
        Ok(())
    }
}

impl Write for ReplacedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.remove_old_content()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.remove_old_content()?;
        self.file.flush()
    }
}

/// A format to which fsarena can export a report.
#[derive(Debug)]
pub struct Exporter {
    /// The name of the format on the command line.
    pub id: &'static str,
    /// The help text, one line.
    pub help: &'static str,
    /// The name of the file in this format that fsarena writes into the directory of every run; `None` if it writes none.
    pub file_in_run_dir: fn(&Report) -> Option<&'static str>,
    /// Whether the format shows the commands of the run, so that fsarena must read the command log, which takes time.
    pub shows_commands: bool,
    /// The link by which Markdown reports refer to this folder, after [`write`](Self::write) has written charts into it; `None`
    /// if the format has no folder of charts.
    pub charts_folder_link: fn(&Path) -> Option<String>,
    /// The part of the run that the format leaves out because it is too large, in words; `None` if it leaves out nothing.
    pub describe_omissions: fn(&Report) -> Option<String>,
    /// Prints the report to a stream; `None` if the format is a folder of files.
    pub(crate) export: Option<PrintFunction>,
    /// Writes the report to a path, for a format of more than one file; `None` to write what `export` prints.
    pub(crate) write: Option<WriteFunction>,
}

impl Exporter {
    /// A format of one file, which can also go to standard output.
    pub const fn new(id: &'static str, help: &'static str, export: PrintFunction) -> Exporter {
        Exporter {
            id,
            help,
            file_in_run_dir: |_| None,
            shows_commands: false,
            charts_folder_link: |_| None,
            describe_omissions: |_| None,
            export: Some(export),
            write: None,
        }
    }

    /// A format of a folder of files. `write` must create the folder if it is missing.
    pub const fn folder(id: &'static str, help: &'static str, write: WriteFunction) -> Exporter {
        Exporter { export: None, write: Some(write), ..Exporter::new(id, help, |_, _| Ok(())) }
    }

    /// Whether the format is a folder of files.
    pub fn writes_folder(&self) -> bool {
        self.export.is_none()
    }

    /// Prints the report to `out`.
    ///
    /// # Errors
    /// If writing fails, or the format is a folder of files.
    pub fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        let Some(export) = self.export else {
            let id = self.id;
            return Err(Error::Usage(format!(
                "`{id}` writes a folder of files. Name the folder: {}",
                setting("export", &format!("{id}=FOLDER"))
            )));
        };
        export(report, out)
    }

    /// Writes the report to a file, or to a folder, which it creates if it is missing.
    ///
    /// # Errors
    /// If the file or folder cannot be written.
    pub fn write(&self, report: &Report, path: &Path) -> Result<(), Error> {
        if let Some(write) = self.write {
            return write(report, path);
        }
        write_file(path, |out| self.export(report, out))
    }
}
