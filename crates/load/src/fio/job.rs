//! One job of a job file: its options with all defaults, the space for its files, and how it makes its writes durable.

use std::collections::BTreeMap;

/// Largest number of clones of a job (`numjobs`): fio's own limit of all jobs.
const MAX_CLONES: u32 = 4096;

/// Longest name of a job in bytes: names of files begin with it.
const MAX_NAME_BYTES: usize = 200;

/// The error of a job file, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct JobFileError {
    /// The file and its line: `job.fio:12`.
    pub location: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// An option of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOption {
    /// Its name as written, which may be an alias.
    pub name: String,
    /// Its value; None without `=`.
    pub value: Option<String>,
    /// The file and line.
    pub location: String,
}

/// A job with its options by name; aliases have the name of their option.
#[derive(Debug, Clone)]
pub struct FioJob {
    /// The name in fio's output: that of its section, or that of the option `name`.
    pub name: String,
    /// The index of its section in the file.
    pub(super) section_index: usize,
    /// The name of its section, which begins the names of its files.
    section_name: String,
    location: String,
    options: BTreeMap<String, JobOption>,
}

/// The space that the files of a job need.
#[derive(Debug, PartialEq, Eq)]
pub struct FileNeeds {
    /// A text that is equal for jobs with the same files.
    pub file_set_key: String,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files.
    pub count: u64,
}

impl FioJob {
    pub(super) fn new(
        section_name: &str,
        location: &str,
        section_index: usize,
        options: BTreeMap<String, JobOption>,
    ) -> FioJob {
        let explicit_name = options.get("name").and_then(|option| option.value.clone());
        FioJob {
            name: explicit_name.unwrap_or_else(|| section_name.into()),
            section_index,
            section_name: section_name.into(),
            location: location.into(),
            options,
        }
    }

    /// The value of an option by its name; None without the option or without a value.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.value.as_deref()
    }

    /// Whether an option is set to another value than 0.
    pub fn is_on(&self, name: &str) -> bool {
        self.options.get(name).is_some_and(|option| !matches!(option.value.as_deref(), Some("0" | "none" | "")))
    }

    /// Returns the error that an option of this job has an invalid value. `reason` follows the name and the value.
    pub(super) fn refuse_option<T>(&self, name: &str, reason: &str) -> Result<T, JobFileError> {
        let option = self.options.get(name);
        let location = option.map_or(&self.location, |option| &option.location).clone();
        Err(JobFileError { location, problem: format!("{name}={} {reason}", self.value(name).unwrap_or_default()) })
    }

    /// Checks its names and number of clones. fio names files after the section, even if the option `name` sets another
    /// name.
    pub(super) fn check_names_and_clones(&self) -> Result<(), JobFileError> {
        let name_location = self.options.get("name").map_or(&self.location, |option| &option.location);
        for (name, location) in [(&self.section_name, &self.location), (&self.name, name_location)] {
            if let Some(problem) = find_name_problem(name) {
                return Err(JobFileError { location: location.clone(), problem });
            }
        }
        self.clone_count().map(drop)
    }

    /// The number of its clones, which run at the same time.
    pub fn clone_count(&self) -> Result<u32, JobFileError> {
        let Some(text) = self.value("numjobs") else { return Ok(1) };
        match text.parse() {
            Ok(clones) if (1..=MAX_CLONES).contains(&clones) => Ok(clones),
            _ => self.refuse_option("numjobs", "is not a number from 1 to 4096"),
        }
    }

    /// The space that its files need.
    ///
    /// # Errors
    /// A size whose bytes are unknown before the run, such as a percentage.
    pub fn file_needs(&self) -> Result<FileNeeds, JobFileError> {
        let clones = u64::from(self.clone_count()?);
        let file_names = self.value("filename");
        let count = match file_names {
            Some(names) => names.split(':').count() as u64,
            // As every number of fio, it can have a suffix: `1k` is 1024.
            None => self.value("nrfiles").and_then(parse_size).unwrap_or(1),
        };
        let option_bytes = |name: &str| self.value(name).and_then(parse_largest_size).unwrap_or(0);
        let filesize_bytes = self.size_option("filesize")?.map(|bytes| bytes.saturating_mul(count));
        let bytes = filesize_bytes.or(self.size_option("size")?).unwrap_or(0).saturating_add(option_bytes("offset"));
        let bytes = if self.is_on("file_append") { bytes.saturating_mul(2) } else { bytes };
        // Clones share named files.
        let file_sets = if file_names.is_some() { 1 } else { clones };
        let increments = option_bytes("offset_increment").saturating_mul(clones);
        let text = |name| self.value(name).unwrap_or_default();
        let generated_names = || format!("[{}]{}", self.section_name, text("filename_format"));
        Ok(FileNeeds {
            file_set_key: format!("{}/{}", text("directory"), file_names.map_or_else(generated_names, String::from)),
            bytes: bytes.saturating_mul(file_sets).saturating_add(increments),
            count: count.saturating_mul(file_sets),
        })
    }

    /// The largest size that an option sets, in bytes; None without the option.
    fn size_option(&self, name: &str) -> Result<Option<u64>, JobFileError> {
        let Some(text) = self.value(name) else { return Ok(None) };
        match parse_largest_size(text) {
            Some(bytes) => Ok(Some(bytes)),
            None => self.refuse_option(
                name,
                "leaves the size of the files open, and fsarena makes a filesystem with room for them; write bytes, such as 1g",
            ),
        }
    }

    /// The directories that must exist before fio starts.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.value("directory").into_iter().flat_map(|dirs| dirs.split(':'))
    }

    /// Whether it opens its files with `O_DIRECT`.
    pub fn uses_direct_io(&self) -> bool {
        self.is_on("direct") || self.is_on("atomic") || self.value("buffered") == Some("0")
    }

    /// The options that make its writes durable: `direct=1 fsync=32`; empty without any. None if the job does not
    /// write.
    pub fn durability_options(&self) -> Option<String> {
        const OPTIONS: [&str; 9] = [
            "atomic",
            "sync",
            "fsync",
            "fdatasync",
            "sync_file_range",
            "write_barrier",
            "end_fsync",
            "end_syncfs",
            "fsync_on_close",
        ];
        let mode = self.value("rw").unwrap_or("read");
        if !mode.contains("write") && !mode.starts_with("rw") && !mode.starts_with("randrw") {
            return None;
        }
        let mut options = vec![];
        if self.uses_direct_io() {
            options.push("direct=1".to_string());
        }
        for name in OPTIONS.into_iter().filter(|name| self.is_on(name)) {
            options.push(format!("{name}={}", self.value(name).unwrap_or("1")));
        }
        Some(options.join(" "))
    }

    /// Its main options in fio's words, for titles: `rw=randread bs=4k iodepth=32`.
    pub fn main_options(&self) -> String {
        const TITLE_OPTIONS: [&str; 7] = ["rw", "bs", "size", "numjobs", "iodepth", "ioengine", "direct"];
        let options = TITLE_OPTIONS.iter().filter_map(|name| Some(format!("{name}={}", self.value(name)?)));
        options.collect::<Vec<_>>().join(" ")
    }
}

/// Describes what is wrong with a job's name; None if it can be the name of a file.
fn find_name_problem(name: &str) -> Option<String> {
    if name.is_empty() || name.trim() != name {
        return Some("the name of a job is empty, or begins or ends with a blank".into());
    }
    if name.contains('/') || name == "." || name == ".." {
        return Some(format!(
            "fio takes the name `{name}` for a file or device outside of the filesystem under test; name the job without `/`"
        ));
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("the name of a job is longer than {MAX_NAME_BYTES} bytes"));
    }
    name.contains(['[', ']', '$']).then(|| format!("the name `{name}` has one of the characters [ ] $"))
}

/// Parses a size such as `4k` or `1GiB`, or a range of sizes such as `64m-1g`, and returns the largest in bytes. A
/// prefix counts as a power of 1024. None for other texts.
fn parse_largest_size(text: &str) -> Option<u64> {
    text.split([':', '-', ',']).map(|size| parse_size(size.trim())).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Parses one size such as `4k` or `1GiB` to bytes.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digit_count = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digit_count);
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1024u64.checked_pow(power)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::JobFile;

    fn job(lines: &str) -> FioJob {
        JobFile::parse("a.fio", &format!("[job]\n{lines}\n")).unwrap().jobs().remove(0)
    }

    #[test]
    fn sizes_are_those_of_fio() {
        let sizes = ["512", "4k", "4K", "4KiB", "1m", "1g", "64k-1m"].map(|text| parse_largest_size(text).unwrap());
        assert_eq!(sizes, [512, 4096, 4096, 4096, 1 << 20, 1 << 30, 1 << 20]);
        assert!(["50%", "", "x", "(2*8k)", "99999999999p", "2z"].iter().all(|text| parse_largest_size(text).is_none()));
    }

    #[test]
    fn file_needs_cover_all_clones_and_files() {
        let needs = |lines: &str| job(lines).file_needs().map(|needs| (needs.bytes, needs.count)).unwrap();
        assert_eq!(needs("size=1m\nnumjobs=4"), (4 << 20, 4));
        assert_eq!(needs("size=1m\nnumjobs=4\nfilename=a:b"), (1 << 20, 2));
        assert_eq!(needs("filesize=4k-16k\nnrfiles=10\nnumjobs=2"), (2 * 10 * 16384, 20));
        assert_eq!(needs("filesize=1m\nnrfiles=1k"), (1 << 30, 1024));
        assert_eq!(needs("size=1m\noffset=1m\noffset_increment=1m\nnumjobs=2\nfilename=a"), (4 << 20, 1));
        assert_eq!(needs("rw=read"), (0, 1));
        let error = job("rw=read\nsize=50%").file_needs().unwrap_err();
        assert_eq!(error.location, "a.fio:3");
    }

    #[test]
    fn jobs_share_files_of_one_name_in_one_directory() {
        let keys = |text: &str| -> Vec<String> {
            let jobs = JobFile::parse("a.fio", text).unwrap().jobs();
            jobs.iter().map(|job| job.file_needs().unwrap().file_set_key).collect()
        };
        let share = |text: &str| keys(text)[0] == keys(text)[1];
        assert!(share("[a]\nfilename=f\n[b]\nfilename=f"));
        assert!(!share("[a]\nfilename=f\ndirectory=x\n[b]\nfilename=f\ndirectory=y"));
        // fio names the files after the section.
        assert!(!share("[a]\nname=n\n[b]\nname=n") && share("[a]\nname=m\n[a]\nname=n"));
        assert!(!share("[a]\n[a]\nfilename_format=x.$filenum"));
    }

    #[test]
    fn only_options_that_are_on_make_writes_durable() {
        let durability = |lines: &str| job(lines).durability_options();
        assert_eq!(durability("rw=randread\nfsync=1"), None);
        assert_eq!(durability("size=1m"), None);
        assert_eq!(durability("rw=write").as_deref(), Some(""));
        assert_eq!(durability("rw=randrw\nfsync=0\ndirect=1").as_deref(), Some("direct=1"));
        assert_eq!(
            durability("rw=write\nbuffered=0\nend_fsync=1\nsync=dsync").as_deref(),
            Some("direct=1 sync=dsync end_fsync=1")
        );
    }
}
