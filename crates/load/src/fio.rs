//! fio: its job files, its options and its output.
//!
//! This file reads job files: sections, `[global]` ones, included files, comments and variables, as fio reads them
//! (`__parse_jobs_ini` in its `init.c`), and refuses options that would leave the filesystem under test.
//!
//! [`JobFile::text`] is the same file without includes and variables, so that a stored run can be repeated anywhere.

pub mod job;
pub mod options;
pub(crate) mod output;

use crate::fio::job::{FioJob, JobFileError, JobOption};
use crate::fio::options::OptionRule;
use fsarena_core::names::nearest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt::Write, io};

/// Largest size of a job file with its included files, in bytes.
pub const MAX_JOB_FILE_BYTES: usize = 256 << 10;
/// Longest line in bytes. fio reads a longer line as two.
const MAX_LINE_BYTES: usize = 4000;
/// Largest number of files that include one another, each within the one before.
const MAX_INCLUDE_DEPTH: usize = 16;
/// Largest number of sections.
const MAX_SECTIONS: usize = 1000;
/// Keywords that fio replaces by numbers of this machine.
pub const MACHINE_KEYWORDS: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];

/// The functions that get included files and variables.
pub struct JobFileEnvironment<'a> {
    /// Reads an included file.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<String>,
    /// Returns the value of an environment variable, or of one of [`MACHINE_KEYWORDS`]; None if it is not set.
    pub look_up_variable: &'a dyn Fn(&str) -> Option<String>,
}

/// A section: the options of a job, or the defaults of later jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    name: String,
    location: String,
    options: Vec<JobOption>,
}

impl Section {
    /// Whether it has defaults. fio compares only the first six letters.
    fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }

    /// Appends its lines. Leaves out `wait_for` for a job that is not in `jobs`, because it ran in an earlier group.
    fn append_to(&self, jobs: &[FioJob], text: &mut String) {
        let _ = writeln!(text, "[{}]", self.name);
        for option in &self.options {
            match &option.value {
                Some(awaited) if option.name == "wait_for" && jobs.iter().all(|job| job.name != *awaited) => {}
                Some(value) => drop(writeln!(text, "{}={value}", option.name)),
                None => drop(writeln!(text, "{}", option.name)),
            }
        }
    }
}

/// A checked job file. None of its jobs can leave the working directory of fio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    sections: Vec<Section>,
}

impl JobFile {
    /// Parses a text with its includes and variables. `path` is the path of the file, for its includes and for errors.
    ///
    /// # Errors
    /// The first line that fio or fsarena refuses.
    pub fn parse_with_includes(
        path: &Path,
        text: &str,
        environment: &JobFileEnvironment,
    ) -> Result<JobFile, JobFileError> {
        let mut reader = JobFileReader { environment, sections: vec![], bytes: 0 };
        reader.read_file(path, text, 0)?;
        let file = JobFile { sections: reader.sections };
        file.check_jobs(path)?;
        Ok(file)
    }

    /// Parses a text without includes and variables, as [`JobFile::text`] writes it. `name` names it in errors.
    ///
    /// # Errors
    /// Those of [`JobFile::parse_with_includes`], and an include or a variable.
    pub fn parse(name: &str, text: &str) -> Result<JobFile, JobFileError> {
        let refuse_include = |_: &Path| Err(io::Error::other("a job in a plan includes no file; write its lines here"));
        let environment = JobFileEnvironment { read_file: &refuse_include, look_up_variable: &|_| None };
        JobFile::parse_with_includes(Path::new(name), text, &environment)
    }

    /// The file as fio gets it: without comments, included files, variables, and options that change only what fio
    /// prints.
    pub fn text(&self) -> String {
        self.text_with_jobs(&self.jobs())
    }

    /// The file with only some of its jobs, and all global sections.
    pub fn text_with_jobs(&self, jobs: &[FioJob]) -> String {
        let mut text = String::new();
        for (index, section) in self.sections.iter().enumerate() {
            if section.is_global() || jobs.iter().any(|job| job.section_index == index) {
                section.append_to(jobs, &mut text);
            }
        }
        text
    }

    /// The jobs in their order, each with its options and the defaults above it.
    pub fn jobs(&self) -> Vec<FioJob> {
        let (mut defaults, mut jobs) = (BTreeMap::new(), vec![]);
        for (index, section) in self.sections.iter().enumerate() {
            let mut options = if section.is_global() { std::mem::take(&mut defaults) } else { defaults.clone() };
            for option in &section.options {
                let name = options::canonical_name(&option.name);
                // Each of these options is the opposite of the other.
                for (switch, opposite) in [("direct", "buffered"), ("buffered", "direct")] {
                    if name == switch {
                        options.remove(opposite);
                    }
                }
                options.insert(name.to_string(), option.clone());
            }
            if section.is_global() {
                defaults = options;
            } else {
                jobs.push(FioJob::new(&section.name, &section.location, index, options));
            }
        }
        jobs
    }

    /// The jobs in groups that run one after another. A job with `stonewall` begins a group.
    pub fn job_groups(&self) -> Vec<Vec<FioJob>> {
        let mut job_groups: Vec<Vec<FioJob>> = vec![];
        for job in self.jobs() {
            match job_groups.last_mut() {
                Some(group) if !job.is_on("stonewall") => group.push(job),
                _ => job_groups.push(vec![job]),
            }
        }
        job_groups
    }

    /// Checks what no single line shows: that there are jobs, their names, and how they refer to each other.
    fn check_jobs(&self, path: &Path) -> Result<(), JobFileError> {
        let job_groups = self.job_groups();
        if job_groups.is_empty() {
            let problem = "has no job; add a section, such as [job], with its options";
            return refuse(path.display().to_string(), problem);
        }
        let mut earlier_jobs: Vec<&str> = vec![];
        for job in job_groups.iter().flatten() {
            job.check_names_and_clones()?;
            if let Some(awaited) = job.value("wait_for").filter(|awaited| !earlier_jobs.contains(awaited)) {
                let reason = format!("names no job above it; name one of its sections, not `{awaited}`");
                return job.refuse_option("wait_for", &reason);
            }
            if job_groups.len() > 1 && job.is_on("exitall") && job.value("exit_what") == Some("all") {
                let reason = "would end the jobs after the next stonewall too; use exit_what=stonewall";
                return job.refuse_option("exit_what", reason);
            }
            earlier_jobs.push(job.name.as_str());
        }
        Ok(())
    }
}

/// Returns the error of a job file at a location.
fn refuse<T>(location: String, problem: impl Into<String>) -> Result<T, JobFileError> {
    Err(JobFileError { location, problem: problem.into() })
}

/// Whether a text looks like a job file: it has a section and a common option of fio.
pub fn looks_like_job_file(text: &str) -> bool {
    let lines = || text.lines().map(str::trim);
    let common_options = ["rw", "readwrite", "ioengine", "bs", "iodepth", "numjobs"];
    let is_option = |line: &str| {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        common_options.contains(&name)
    };
    lines().any(|line| line.starts_with('[') && line.ends_with(']')) && lines().any(is_option)
}

/// Reads lines into sections.
struct JobFileReader<'a> {
    environment: &'a JobFileEnvironment<'a>,
    sections: Vec<Section>,
    /// Size of all files so far.
    bytes: usize,
}

impl JobFileReader<'_> {
    fn read_file(&mut self, path: &Path, text: &str, depth: usize) -> Result<(), JobFileError> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_JOB_FILE_BYTES {
            let problem = "too large for a job file; the limit is 256 KiB with its includes";
            return refuse(path.display().to_string(), problem);
        }
        for (index, line) in text.lines().enumerate() {
            let location = format!("{}:{}", path.display(), index + 1);
            if line.len() > MAX_LINE_BYTES {
                return refuse(location, "the line is longer than 4000 bytes");
            }
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.chars().any(|letter| letter.is_control() && letter != '\t') {
                return refuse(location, "the line has a control character; remove it");
            }
            if line.is_empty() {
                continue;
            }
            if line.starts_with('[') {
                if depth > 0 {
                    let problem =
                        "an included file has no sections: its options belong to the section that includes it";
                    return refuse(location, problem);
                }
                self.add_section(line, location)?;
            } else if self.sections.is_empty() {
                let problem = "this option is outside of a section; write [global] or a name, such as [job], above it";
                return refuse(location, problem);
            } else if let Some(after_include) = line.strip_prefix("include") {
                self.read_included_file(path, after_include, location, depth)?;
            } else {
                self.read_option(line, location)?;
            }
        }
        Ok(())
    }

    fn add_section(&mut self, line: &str, location: String) -> Result<(), JobFileError> {
        let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) else {
            return refuse(location, format!("`{line}` does not end with `]`"));
        };
        if self.sections.len() == MAX_SECTIONS {
            return refuse(location, format!("the file has more than {MAX_SECTIONS} sections"));
        }
        self.sections.push(Section { name: name.into(), location, options: vec![] });
        Ok(())
    }

    /// Reads the file of an `include` line in the file `path`; `after_include` is the rest of that line. As in fio, a
    /// relative name is below the current directory, or else beside `path`.
    fn read_included_file(
        &mut self,
        path: &Path,
        after_include: &str,
        location: String,
        depth: usize,
    ) -> Result<(), JobFileError> {
        let name = after_include.strip_prefix([' ', '\t', '=']).map_or("", str::trim);
        if name.is_empty() {
            return refuse(location, "write `include FILE`");
        }
        if depth == MAX_INCLUDE_DEPTH {
            return refuse(location, format!("more than {MAX_INCLUDE_DEPTH} files include each other"));
        }
        let mut included_path = PathBuf::from(name);
        let mut text = (self.environment.read_file)(&included_path);
        if text.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            included_path = path.parent().unwrap_or(Path::new("")).join(name);
            text = (self.environment.read_file)(&included_path);
        }
        let text = text.map_err(|error| JobFileError { location, problem: format!("include {name}: {error}") })?;
        self.read_file(&included_path, &text, depth + 1)
    }

    fn read_option(&mut self, line: &str, location: String) -> Result<(), JobFileError> {
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (line, None),
        };
        let option_error = |problem: String| JobFileError { location: location.clone(), problem };
        let Some(rule) = options::find_rule(name) else {
            let suggestion = nearest(name, options::accepted_names());
            let suggestion = suggestion.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
            return Err(option_error(format!(
                "Unknown option `{name}`.{suggestion} fsarena passes only options to fio that it knows to stay in the filesystem under test"
            )));
        };
        let value = value.map(|value| self.expand_variables(value)).transpose().map_err(option_error)?;
        if let Err(reason) = options::check_value(rule, value.as_deref().unwrap_or_default()) {
            let shown_value = value.map_or(String::new(), |value| format!("={value}"));
            return Err(option_error(format!("{name}{shown_value} {reason}")));
        }
        if let (Some(section), true) = (self.sections.last_mut(), rule != OptionRule::Dropped) {
            section.options.push(JobOption { name: name.into(), value, location });
        }
        Ok(())
    }

    /// Replaces variables and keywords in a value.
    fn expand_variables(&self, value: &str) -> Result<String, String> {
        let (mut expanded, mut rest) = (String::new(), value);
        while let Some((before, (name, after))) =
            rest.split_once("${").and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            let Some(replacement) = (self.environment.look_up_variable)(name) else {
                return Err(format!(
                    "the environment variable {name} is not set; set it before the command: `{name}=VALUE fsarena run FILE`, \
                     with sudo `sudo {name}=VALUE fsarena run FILE`"
                ));
            };
            if replacement.chars().any(|letter| letter.is_control() || matches!(letter, '#' | ';' | '$')) {
                return Err(format!("the value of {name} has one of the characters # ; $ or a control character"));
            }
            expanded.push_str(before);
            expanded.push_str(&replacement);
            rest = after;
        }
        expanded.push_str(rest);
        for keyword in MACHINE_KEYWORDS.into_iter().filter(|keyword| value.contains(*keyword)) {
            if value.contains(['+', '-', '*', '/']) {
                return Err(format!("fio calculates `{value}` with another program; write the result"));
            }
            let replacement = (self.environment.look_up_variable)(keyword);
            let replacement = replacement.ok_or_else(|| format!("`{keyword}` is unknown here; write the number"))?;
            expanded = expanded.replace(keyword, &replacement);
        }
        // fio itself would expand the variables that are left.
        if expanded.contains("${") || MACHINE_KEYWORDS.iter().any(|keyword| expanded.contains(*keyword)) {
            return Err(format!("`{expanded}` still has a variable"));
        }
        if expanded.len() > MAX_LINE_BYTES {
            return Err(format!("the value is longer than {MAX_LINE_BYTES} bytes"));
        }
        Ok(expanded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a job file with these included files and variables.
    fn parse_with(text: &str, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<JobFile, String> {
        let find_value = |pairs: &[(&str, &str)], name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        };
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let read_file = |path: &Path| find_value(files, path.to_str().unwrap()).ok_or_else(not_found);
        let environment =
            JobFileEnvironment { read_file: &read_file, look_up_variable: &|name| find_value(variables, name) };
        JobFile::parse_with_includes(Path::new("jobs/a.fio"), text, &environment).map_err(|error| error.to_string())
    }

    const JOBS_WITH_INCLUDES: &str = "; comment\n# comment\n[global]\nioengine = libaio\nsize=${SIZE}   ; 64 MiB\nnumjobs=$ncpus\ngroup_reporting\n\n\
        [seq write]\nrw=write\ninclude more.fio\n\n[global]\nbs=64k\ntime_based\n[reader]\nstonewall\nreadwrite=randread\n\
        [writer]\nrw=randwrite\nbuffered=0\n";

    #[test]
    fn a_job_file_is_read_as_fio_reads_it() {
        let files =
            [("jobs/more.fio", "# more\nend_fsync=1\ninclude sub/deep.fio\n"), ("jobs/sub/deep.fio", "direct=1")];
        let file = parse_with(JOBS_WITH_INCLUDES, &files, &[("SIZE", "64m"), ("$ncpus", "2")]).unwrap();
        let text = "[global]\nioengine=libaio\nsize=64m\nnumjobs=2\n[seq write]\nrw=write\nend_fsync=1\ndirect=1\n[global]\nbs=64k\n\
                    time_based\n[reader]\nstonewall\nreadwrite=randread\n[writer]\nrw=randwrite\nbuffered=0\n";
        assert_eq!(file.text(), text);
        assert_eq!(JobFile::parse("a.fio", text).unwrap().text(), text);
        let job_groups = file.job_groups();
        let names: Vec<Vec<&str>> =
            job_groups.iter().map(|group| group.iter().map(|job| job.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["seq write"], vec!["reader", "writer"]]);
        // A global section has defaults only for the jobs below it.
        assert_eq!((job_groups[0][0].value("bs"), job_groups[1][0].value("bs")), (None, Some("64k")));
        assert_eq!((job_groups[1][0].value("rw"), job_groups[1][1].value("size")), (Some("randread"), Some("64m")));
        let second_group = file.text_with_jobs(&job_groups[1]);
        assert!(
            second_group.starts_with("[global]\nioengine") && !second_group.contains("seq write"),
            "{second_group}"
        );
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let job = |line: &str| format!("[job]\nsize=1m\n{line}\n");
        for (text, expected) in [
            (job("filename=/dev/sdb"), "jobs/a.fio:3: filename=/dev/sdb would leave the filesystem under test"),
            (job("exec_prerun=reboot"), "a.fio:3: exec_prerun=reboot runs a command"),
            (job("exec_prerun = reboot"), "exec_prerun=reboot runs a command"),
            (job("rw=${MODE}"), "a.fio:3: the environment variable MODE is not set"),
            (job("size=8*$mb_memory"), "write the result"),
            (job("iodept=4"), "Unknown option `iodept`. Did you mean `iodepth`?"),
            (job("include"), "write `include FILE`"),
            (job("include other.fio"), "a.fio:3: include other.fio"),
            (job("includeother.fio"), "write `include FILE`"),
            (job("include /etc/section.fio"), "/etc/section.fio:1: an included file has no sections"),
            (job("include self.fio"), "more than 16 files"),
            (job(&format!("description={}", "x".repeat(4000))), "longer than 4000 bytes"),
            (job("rw=re\u{1}ad"), "control character"),
            (job("size=${BAD}"), "the value of BAD has"),
            (job("wait_for=other"), "names no job above it"),
            (job("[/dev/sdb]"), "a.fio:3: fio takes the name `/dev/sdb`"),
            (job("name=/dev/sdb"), "fio takes the name `/dev/sdb`"),
            (job("[open"), "does not end with `]`"),
            (job("numjobs=many"), "a.fio:3: numjobs=many"),
            ("rw=read\n".into(), "a.fio:1: this option is outside of a section"),
            ("[global]\nrw=read\n".into(), "has no job"),
            ("[a]\nexitall\nexit_what=all\n[b]\nstonewall\n".into(), "a.fio:3: exit_what=all would end"),
        ] {
            let files = [("self.fio", "include self.fio"), ("/etc/section.fio", "[x]")];
            let error = parse_with(&text, &files, &[("BAD", "1m\nexec_prerun=reboot")]).unwrap_err();
            assert!(error.contains(expected), "{text}: {expected}\n{error}");
        }
    }

    #[test]
    fn job_files_are_distinguished_from_plans() {
        assert!(looks_like_job_file("[global]\n rw = randread\n"));
        assert!(!looks_like_job_file("name = \"a\"\n[[workload]]\nuse = \"tree\"\n"));
        assert!(!looks_like_job_file("rw=read\n"));
    }
}
