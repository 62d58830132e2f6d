//! fio: its job files, its options and its output.
//!
//! This file reads job files: sections, `[global]` ones, included files, comments and variables, as fio reads them
//! (`__parse_jobs_ini` in its `init.c`). Refuses what would leave the filesystem under test.
//!
//! [`JobFile::text`] is the same file without includes and variables, so that a stored run can be repeated anywhere.

pub mod job;
pub mod options;
pub(crate) mod output;

use crate::fio::job::{FioJob, JobFileError, JobOption};
use crate::fio::options::Rule;
use fsarena_core::names::nearest;
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt::Write, io, path::Path};

/// Largest size of a job file with its included files, in bytes.
pub const MAX_JOB_FILE_BYTES: usize = 256 << 10;
/// Longest line in bytes. fio reads a longer line as two.
const MAX_LINE_BYTES: usize = 4000;
/// Most files that include each other.
const MAX_DEPTH: usize = 16;
/// Most sections.
const MAX_SECTIONS: usize = 1000;
/// fio's keywords for numbers of this machine.
pub const KEYWORDS: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];

/// Where included files and variables come from.
pub struct Surroundings<'a> {
    /// Reads an included file.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    /// The value of an environment variable, or of one of [`KEYWORDS`]; None if it is not set.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// A section: the options of a job, or the defaults of later jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    name: String,
    at: String,
    options: Vec<JobOption>,
}

impl Section {
    /// Whether it has defaults. fio compares only the first six letters.
    fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }

    /// Appends its lines, without waiting for jobs that are not among these: they ran in an earlier group.
    fn write(&self, jobs: &BTreeSet<String>, text: &mut String) {
        let _ = writeln!(text, "[{}]", self.name);
        for option in &self.options {
            match &option.value {
                Some(job) if option.name == "wait_for" && !jobs.contains(job) => {}
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
    /// Reads a text with its includes and variables. `path` is the path of the file, for its includes and for errors.
    ///
    /// # Errors
    /// The first line that fio or fsarena refuses.
    pub fn read(path: &Path, text: &str, around: &Surroundings) -> Result<JobFile, JobFileError> {
        let mut reader = Reader { around, sections: vec![], bytes: 0 };
        reader.read_file(path, text, 0)?;
        let file = JobFile { sections: reader.sections };
        file.check(path)?;
        Ok(file)
    }

    /// Parses a text without includes and variables, as [`JobFile::text`] writes it. `name` names it in errors.
    ///
    /// # Errors
    /// Those of [`JobFile::read`], and an include or a variable.
    pub fn parse(name: &str, text: &str) -> Result<JobFile, JobFileError> {
        let read = |_: &Path| Err(io::Error::other("a job in a plan includes no file; write its lines here"));
        JobFile::read(Path::new(name), text, &Surroundings { read: &read, variable: &|_| None })
    }

    /// The file as fio gets it: without comments, included files, variables, and options that change only what fio prints.
    pub fn text(&self) -> String {
        self.text_of(&|_| true)
    }

    /// The file with only some of its jobs, and all global sections.
    pub fn text_of_jobs(&self, jobs: &[FioJob]) -> String {
        self.text_of(&|section| jobs.iter().any(|job| job.section == section))
    }

    /// The file with only the sections of some jobs, and all global ones. `is_chosen` gets the index of a section.
    fn text_of(&self, is_chosen: &dyn Fn(usize) -> bool) -> String {
        let jobs = self.jobs().into_iter().filter(|job| is_chosen(job.section));
        let chosen: BTreeSet<String> = jobs.map(|job| job.name).collect();
        let mut text = String::new();
        for (at, section) in self.sections.iter().enumerate() {
            if section.is_global() || is_chosen(at) {
                section.write(&chosen, &mut text);
            }
        }
        text
    }

    /// The jobs in their order, each with its options and the defaults above it.
    pub fn jobs(&self) -> Vec<FioJob> {
        let (mut defaults, mut jobs) = (BTreeMap::new(), vec![]);
        for (index, section) in self.sections.iter().enumerate() {
            let mut all = if section.is_global() { std::mem::take(&mut defaults) } else { defaults.clone() };
            for option in &section.options {
                let name = options::canonical(&option.name);
                // Each of these options is the opposite of the other.
                for (one, other) in [("direct", "buffered"), ("buffered", "direct")] {
                    if name == one {
                        all.remove(other);
                    }
                }
                all.insert(name.to_string(), option.clone());
            }
            if section.is_global() {
                defaults = all;
            } else {
                jobs.push(FioJob::new(&section.name, &section.at, index, all));
            }
        }
        jobs
    }

    /// The jobs in groups that run one after another. A job with `stonewall` begins a group.
    pub fn groups(&self) -> Vec<Vec<FioJob>> {
        let mut groups: Vec<Vec<FioJob>> = vec![];
        for job in self.jobs() {
            match groups.last_mut() {
                Some(group) if !job.is_on("stonewall") => group.push(job),
                _ => groups.push(vec![job]),
            }
        }
        groups
    }

    /// Checks what single lines do not show: that there are jobs, their names, and what relates jobs to each other.
    fn check(&self, path: &Path) -> Result<(), JobFileError> {
        let groups = self.groups();
        if groups.is_empty() {
            let why = "has no job; add a section, such as [job], with its options".into();
            return Err(JobFileError { at: path.display().to_string(), why });
        }
        let mut seen: Vec<String> = vec![];
        for job in groups.iter().flatten() {
            job.check()?;
            if let Some(other) = job.value("wait_for").filter(|other| !seen.iter().any(|name| name == other))
            {
                return job.fault(
                    "wait_for",
                    &format!("names no job above it; name one of its sections, not `{other}`"),
                );
            }
            if groups.len() > 1 && job.is_on("exitall") && job.value("exit_what") == Some("all") {
                return job.fault(
                    "exit_what",
                    "would end the jobs after the next stonewall too; use exit_what=stonewall",
                );
            }
            seen.push(job.name.clone());
        }
        Ok(())
    }
}

/// Whether a text looks like a job file: it has a section and a common option of fio.
pub fn looks_like_job_file(text: &str) -> bool {
    let lines = || text.lines().map(str::trim);
    let common = ["rw", "readwrite", "ioengine", "bs", "iodepth", "numjobs"];
    let is_option = |line: &str| {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        common.contains(&name)
    };
    lines().any(|line| line.starts_with('[') && line.ends_with(']')) && lines().any(is_option)
}

/// Reads lines into sections.
struct Reader<'a> {
    around: &'a Surroundings<'a>,
    sections: Vec<Section>,
    /// Size of all files so far.
    bytes: usize,
}

impl Reader<'_> {
    fn read_file(&mut self, path: &Path, text: &str, depth: usize) -> Result<(), JobFileError> {
        let fault = |at: String, why: &str| Err(JobFileError { at, why: why.into() });
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_JOB_FILE_BYTES {
            return fault(
                path.display().to_string(),
                "too large for a job file; the limit is 256 KiB with its includes",
            );
        }
        for (number, line) in text.lines().enumerate() {
            let at = format!("{}:{}", path.display(), number + 1);
            if line.len() > MAX_LINE_BYTES {
                return fault(at, "the line is longer than 4000 bytes");
            }
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.chars().any(|letter| letter.is_control() && letter != '\t') {
                return fault(at, "the line has a control character; remove it");
            }
            if line.is_empty() {
                continue;
            }
            if line.starts_with('[') {
                if depth > 0 {
                    return fault(
                        at,
                        "an included file has no sections: its options belong to the section that includes it",
                    );
                }
                self.begin_section(line, at)?;
            } else if self.sections.is_empty() {
                return fault(
                    at,
                    "this option is outside of a section; write [global] or a name, such as [job], above it",
                );
            } else if let Some(included) = line.strip_prefix("include") {
                self.include(path, included, at, depth)?;
            } else {
                self.read_option(line, at)?;
            }
        }
        Ok(())
    }

    fn begin_section(&mut self, line: &str, at: String) -> Result<(), JobFileError> {
        let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) else {
            return Err(JobFileError { at, why: format!("`{line}` does not end with `]`") });
        };
        if self.sections.len() == MAX_SECTIONS {
            return Err(JobFileError { at, why: format!("the file has more than {MAX_SECTIONS} sections") });
        }
        self.sections.push(Section { name: name.into(), at, options: vec![] });
        Ok(())
    }

    /// Reads an included file. As in fio, a relative name is below the current directory, or else beside the file that includes
    /// it.
    fn include(&mut self, path: &Path, included: &str, at: String, depth: usize) -> Result<(), JobFileError> {
        let name = included.strip_prefix([' ', '\t', '=']).map_or("", str::trim);
        if name.is_empty() {
            return Err(JobFileError { at, why: "write `include FILE`".into() });
        }
        if depth == MAX_DEPTH {
            return Err(JobFileError { at, why: format!("more than {MAX_DEPTH} files include each other") });
        }
        let beside = path.parent().unwrap_or(Path::new("")).join(name);
        let (found, text) = match (self.around.read)(Path::new(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (beside.clone(), (self.around.read)(&beside))
            }
            read => (name.into(), read),
        };
        let text = text.map_err(|error| JobFileError { at, why: format!("include {name}: {error}") })?;
        self.read_file(&found, &text, depth + 1)
    }

    fn read_option(&mut self, line: &str, at: String) -> Result<(), JobFileError> {
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (line, None),
        };
        let fault = |why: String| JobFileError { at: at.clone(), why };
        let Some(rule) = options::rule(name) else {
            let near = nearest(name, options::names());
            let near = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
            return Err(fault(format!(
                "Unknown option `{name}`.{near} fsarena passes only options to fio that it knows to stay in the filesystem under test"
            )));
        };
        let value = value.map(|value| self.expand(value)).transpose().map_err(fault)?;
        if let Err(why) = options::check(rule, value.as_deref().unwrap_or_default()) {
            let written = value.map_or(String::new(), |value| format!("={value}"));
            return Err(fault(format!("{name}{written} {why}")));
        }
        if let (Some(section), true) = (self.sections.last_mut(), rule != Rule::Dropped) {
            section.options.push(JobOption { name: name.into(), value, at });
        }
        Ok(())
    }

    /// Replaces variables and keywords in a value.
    fn expand(&self, value: &str) -> Result<String, String> {
        let (mut expanded, mut rest) = (String::new(), value);
        while let Some((before, (name, after))) =
            rest.split_once("${").and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            let Some(found) = (self.around.variable)(name) else {
                return Err(format!(
                    "the environment variable {name} is not set; set it before the command: `{name}=VALUE fsarena run FILE`, \
                     with sudo `sudo {name}=VALUE fsarena run FILE`"
                ));
            };
            if found.chars().any(|letter| letter.is_control() || matches!(letter, '#' | ';' | '$')) {
                return Err(format!(
                    "the value of {name} has one of the characters # ; $ or a control character"
                ));
            }
            expanded.push_str(before);
            expanded.push_str(&found);
            rest = after;
        }
        expanded.push_str(rest);
        for keyword in KEYWORDS.into_iter().filter(|keyword| value.contains(*keyword)) {
            if value.contains(['+', '-', '*', '/']) {
                return Err(format!("fio calculates `{value}` with another program; write the result"));
            }
            let found = (self.around.variable)(keyword);
            let found = found.ok_or_else(|| format!("`{keyword}` is unknown here; write the number"))?;
            expanded = expanded.replace(keyword, &found);
        }
        // fio itself would expand what is left.
        if expanded.contains("${") || KEYWORDS.iter().any(|keyword| expanded.contains(*keyword)) {
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

    /// Reads a file with these included files and variables.
    fn read(text: &str, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<JobFile, String> {
        let found = |all: &[(&str, &str)], name: &str| {
            all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let read = |path: &Path| found(files, path.to_str().unwrap()).ok_or_else(missing);
        let around = Surroundings { read: &read, variable: &|name| found(variables, name) };
        JobFile::read(Path::new("jobs/a.fio"), text, &around).map_err(|error| error.to_string())
    }

    const SEVERAL: &str = "; comment\n# comment\n[global]\nioengine = libaio\nsize=${SIZE}   ; 64 MiB\nnumjobs=$ncpus\ngroup_reporting\n\n\
        [seq write]\nrw=write\ninclude more.fio\n\n[global]\nbs=64k\ntime_based\n[reader]\nstonewall\nreadwrite=randread\n\
        [writer]\nrw=randwrite\nbuffered=0\n";

    #[test]
    fn a_job_file_is_read_as_fio_reads_it() {
        let files = [
            ("jobs/more.fio", "# more\nend_fsync=1\ninclude sub/deep.fio\n"),
            ("jobs/sub/deep.fio", "direct=1"),
        ];
        let file = read(SEVERAL, &files, &[("SIZE", "64m"), ("$ncpus", "2")]).unwrap();
        let text = "[global]\nioengine=libaio\nsize=64m\nnumjobs=2\n[seq write]\nrw=write\nend_fsync=1\ndirect=1\n[global]\nbs=64k\n\
                    time_based\n[reader]\nstonewall\nreadwrite=randread\n[writer]\nrw=randwrite\nbuffered=0\n";
        assert_eq!(file.text(), text);
        assert_eq!(JobFile::parse("a.fio", text).unwrap().text(), text);
        let groups = file.groups();
        let names: Vec<Vec<&str>> =
            groups.iter().map(|group| group.iter().map(|job| job.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["seq write"], vec!["reader", "writer"]]);
        // A global section has defaults only for the jobs below it.
        assert_eq!((groups[0][0].value("bs"), groups[1][0].value("bs")), (None, Some("64k")));
        assert_eq!((groups[1][0].value("rw"), groups[1][1].value("size")), (Some("randread"), Some("64m")));
        let second = file.text_of(&|section| section >= 3);
        assert!(second.starts_with("[global]\nioengine") && !second.contains("seq write"), "{second}");
    }

    #[test]
    fn faults_name_the_file_and_the_line() {
        let job = |line: &str| format!("[job]\nsize=1m\n{line}\n");
        for (text, words) in [
            (
                job("filename=/dev/sdb"),
                "jobs/a.fio:3: filename=/dev/sdb would leave the filesystem under test",
            ),
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
            let why = read(&text, &files, &[("BAD", "1m\nexec_prerun=reboot")]).unwrap_err();
            assert!(why.contains(words), "{text}: {words}\n{why}");
        }
    }

    #[test]
    fn job_files_are_told_from_plans() {
        assert!(looks_like_job_file("[global]\n rw = randread\n"));
        assert!(!looks_like_job_file("name = \"a\"\n[[workload]]\nuse = \"tree\"\n"));
        assert!(!looks_like_job_file("rw=read\n"));
    }
}
