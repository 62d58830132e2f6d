//! The candidates of a bisection: lists those that remain between the ends, and makes the variant of a candidate.
//!
//! Each bisection has a clone of the repository. fsarena checks out and builds commits in this clone, as the user who
//! started fsarena. So nothing changes the repository itself, and a build can reuse the files of the previous build.
//! The files that the variant needs are copied out of the clone, because the next commit overwrites them.

use crate::baseline::copy_kernel;
use crate::error::{Result, RunError, require};
use crate::privsep;
use fsarena_core::bisect::{Bisection, Candidate, CandidateSource, VariantLevels};
use fsarena_core::event::CommandEnd;
use fsarena_core::factor;
use fsarena_guest::kernel::{self, KernelDirs};
use fsarena_sys::CommandError;
use fsarena_sys::argv::{Argv, FinishedCommand};
use fsarena_sys::process_output::describe_output;
use fsarena_sys::{Error, dirs, input, user::User};
use std::io;
use std::path::{Path, PathBuf};

/// In the template of a level, stands for a candidate of a list.
pub const LEVEL_PLACEHOLDER: &str = "{level}";
/// In the template of a level, stands for the directory with the files of a commit. The whole level must be the path of a
/// file or directory, such as `{tree}/build/mkfs`, because fsarena copies it.
pub const TREE_PLACEHOLDER: &str = "{tree}";
/// In the template of a level, begins a placeholder for the content of a file of the commit: `{file:PATH}`.
pub const FILE_PLACEHOLDER: &str = "{file:";
/// The size limit of a file that becomes part of a level, in bytes.
const MAX_LEVEL_FILE_BYTES: u64 = 4096;

/// The candidates of a bisection.
pub struct Candidates {
    source: CandidateSource,
    /// The levels of the variant of a candidate, with placeholders.
    template: VariantLevels,
    /// The directory of the bisection.
    dir: PathBuf,
    /// The clone in which commits are built. Its parent directory belongs to the user who builds.
    tree: PathBuf,
    /// The user who runs git and builds; None for the user of this process.
    user: Option<User>,
}

impl Candidates {
    /// Opens the candidates of a bisection. `dir` is the directory of the bisection, which must exist.
    ///
    /// # Errors
    /// The user is unknown, or the directory cannot be given to that user.
    pub fn open(state: &Bisection, dir: &Path) -> Result<Candidates> {
        let user = privsep::workload_user(state.user.as_deref())?.0;
        let user = Some(user).filter(|user| user.uid != User::of_process().uid);
        let dir = std::path::absolute(dir).map_err(Error::io("finding", dir))?;
        let build_dir = dir.join("build");
        if matches!(state.source, CandidateSource::Git { .. }) {
            std::fs::create_dir_all(&build_dir).map_err(Error::io("making", &build_dir))?;
        }
        if let Some(user) = user.as_ref().filter(|_| build_dir.exists()) {
            dirs::allow_passing_through(&dir).map_err(Error::io("opening", &dir))?;
            user.chown_to_user(&build_dir).map_err(Error::io("giving to its user", &build_dir))?;
        }
        Ok(Candidates {
            source: state.source.clone(),
            template: state.template.clone(),
            tree: build_dir.join("tree"),
            dir,
            user,
        })
    }

    /// The candidates that remain to be measured between `goods` and `bad`, without these. Those that halve the range
    /// best come first.
    ///
    /// # Errors
    /// git fails.
    pub fn remaining(&self, goods: &[&str], bad: &str) -> Result<Vec<String>> {
        let (repo, first_parent, paths) = match &self.source {
            CandidateSource::Git { repo, first_parent, paths, .. } => (repo, *first_parent, paths),
            CandidateSource::List(levels) => return Ok(levels_between(levels, goods, bad)),
        };
        let mut argv = self.git(repo.as_ref()).args(["rev-list", "--bisect-all"]);
        if first_parent {
            argv = argv.arg("--first-parent");
        }
        let argv = argv.arg(bad).args(goods.iter().map(|good| format!("^{good}"))).arg("--").args(paths);
        let output = run_successfully(&argv)?.stdout;
        let ids = output.lines().filter_map(|line| line.split(' ').next());
        Ok(ids.filter(|id| *id != bad).map(String::from).collect())
    }

    /// Resolves the name of a candidate: returns the id of the commit that a git revision names, or for a list the
    /// level itself.
    ///
    /// # Errors
    /// The repository has no such commit, or the list no such level.
    pub fn resolve(&self, name: &str) -> Result<String> {
        match &self.source {
            CandidateSource::Git { repo, .. } => {
                let commit = format!("{name}^{{commit}}");
                let argv =
                    self.git(repo.as_ref()).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]);
                match argv.run_checked(&mut |_| {}) {
                    Ok(finished) => Ok(finished.stdout.trim().into()),
                    Err(CommandError::Failed { output, ended, .. }) if ended != CommandEnd::Exit(1) => {
                        Err(RunError::Plan(format!("{repo}: {output}")))
                    }
                    Err(CommandError::Failed { .. }) => Err(RunError::Plan(format!(
                        "{repo} has no commit `{name}`; list them: git -C {repo} log --oneline"
                    ))),
                    Err(error) => Err(Error::from(error).into()),
                }
            }
            CandidateSource::List(levels) if levels.iter().any(|level| level == name) => Ok(name.into()),
            CandidateSource::List(levels) => {
                Err(RunError::Plan(format!("`{name}` is not in the list; it has {}", levels.join(", "))))
            }
        }
    }

    /// Checks that GOOD comes before BAD.
    ///
    /// # Errors
    /// GOOD does not come before BAD (the message has the fix), or git cannot compare them.
    pub fn check_order(&self, good: &str, bad: &str) -> Result<()> {
        match &self.source {
            CandidateSource::Git { repo, .. } => {
                let argv = self.git(repo.as_ref()).args(["merge-base", "--is-ancestor", good, bad]);
                let finished = argv.run().map_err(Error::from)?;
                // git exits with 1 if GOOD is not an ancestor, and with 128 if it cannot read the history.
                require(matches!(finished.ended(), CommandEnd::Exit(0 | 1)), || {
                    RunError::Plan(format!("{repo}: {}", describe_output(&finished.stderr)))
                })?;
                require(finished.status.success() && good != bad, || {
                    RunError::Plan(format!(
                        "GOOD ({good}) is not an ancestor of BAD ({bad}); their last common ancestor can be GOOD: git -C {repo} \
                         merge-base {good} {bad}"
                    ))
                })
            }
            CandidateSource::List(levels) => {
                let position = |id: &str| levels.iter().position(|level| level == id);
                require(position(good) < position(bad), || {
                    RunError::Plan(format!("GOOD ({good}) must come before BAD ({bad}) in the list"))
                })
            }
        }
    }

    /// The first parent of a commit; None for a commit without a parent, and for a level of a list.
    ///
    /// # Errors
    /// git cannot be started.
    pub fn first_parent(&self, id: &str) -> Result<Option<String>> {
        let CandidateSource::Git { repo, .. } = &self.source else { return Ok(None) };
        let argv = self.git(repo.as_ref()).args(["rev-parse", "--verify", "--quiet", &format!("{id}^1")]);
        let finished = argv.run().map_err(Error::from)?;
        Ok(finished.status.success().then(|| finished.stdout.trim().to_string()))
    }

    /// Makes the variant of a candidate: checks out the commit, builds it and copies the files that the variant needs.
    /// If the commit cannot be built, the returned candidate has the reason to skip it.
    ///
    /// # Errors
    /// The clone cannot be made, the directory cannot be written, or a signal ended it.
    pub fn make(&self, id: &str) -> Result<Candidate> {
        let (repo, build_commands) = match &self.source {
            CandidateSource::Git { repo, build, .. } => (repo, build),
            CandidateSource::List(_) => {
                let levels =
                    self.template.iter().map(|(factor, text)| (factor.clone(), text.replace(LEVEL_PLACEHOLDER, id)));
                return Ok(Candidate { label: id.into(), levels: levels.collect(), ..Candidate::default() });
            }
        };
        let tree = &self.tree;
        if !tree.join(".git").exists() {
            // The clone shares the objects of the repository, so it takes only the space of the checked-out files.
            let argv = self.as_user("git").args(["clone", "--quiet", "--shared", "--no-checkout", "--"]);
            run_successfully(&argv.arg(repo).arg(tree))?;
        }
        let log = run_successfully(&self.git(repo.as_ref()).args(["log", "-1", "--format=%h%x00%s", id]))?.stdout;
        let (label, subject) = log.trim_end().split_once('\0').unwrap_or((id, ""));
        let mut candidate = Candidate { label: label.into(), subject: subject.into(), ..Candidate::default() };
        let variant_dir = self.dir.join("made").join(label);
        match self.build(id, build_commands, &variant_dir) {
            Ok(levels) => candidate.levels = levels,
            Err(BuildFailure::Candidate(why)) => candidate.skip_reason = Some(why),
            Err(BuildFailure::All(error)) => return Err(*error),
        }
        Ok(candidate)
    }

    /// Checks out a commit in the clone, builds it, and returns the levels of its variant. Copies the files that these
    /// levels name to `variant_dir`.
    fn build(
        &self,
        commit: &str,
        build_commands: &[Vec<String>],
        variant_dir: &Path,
    ) -> Result<VariantLevels, BuildFailure> {
        if variant_dir.exists() {
            std::fs::remove_dir_all(variant_dir).map_err(Error::io("removing", variant_dir))?;
        }
        // The workload's user may need the files, whatever the umask is.
        dirs::make_dirs(variant_dir).map_err(Error::io("making", variant_dir))?;
        let (tree, log_file) = (&self.tree, variant_dir.with_extension("log"));
        let checkout = self.git(tree).args(["checkout", "--quiet", "--force", "--detach", commit]);
        self.run_build_command(&checkout, &log_file)?;
        for words in build_commands {
            let (program, args) =
                words.split_first().ok_or_else(|| BuildFailure::Candidate("an empty command".into()))?;
            self.run_build_command(&self.as_user(program).args(args).cwd(tree), &log_file)?;
        }
        let mut levels = VariantLevels::new();
        for (factor, text) in &self.template {
            let mut level = insert_files(text, tree).map_err(BuildFailure::Candidate)?;
            if text.contains(TREE_PLACEHOLDER) {
                level = level.replace(TREE_PLACEHOLDER, &tree.to_string_lossy());
                level = copy_from_tree(factor, Path::new(&level), &variant_dir.join(factor))?;
            }
            levels.insert(factor.clone(), level);
        }
        Ok(levels)
    }

    /// Runs one command of a build. If it fails, writes its output to `log_file`.
    fn run_build_command(&self, argv: &Argv, log_file: &Path) -> Result<(), BuildFailure> {
        let finished = match argv.run() {
            Ok(finished) => finished,
            Err(error @ CommandError::NotFound { .. }) => return Err(BuildFailure::Candidate(error.to_string())),
            Err(error) => return Err(Error::from(error).into()),
        };
        if finished.status.success() {
            return Ok(());
        }
        let output = format!("{}{}", finished.stdout, finished.stderr);
        std::fs::write(log_file, &output).map_err(Error::io("writing", log_file))?;
        let last_line = describe_output(&output).lines().next_back().unwrap_or_default().to_string();
        let words = argv.words().join(" ");
        Err(BuildFailure::Candidate(format!(
            "{words}: {}: {last_line} (all of it: {})",
            finished.ended(),
            log_file.display()
        )))
    }

    /// A git command in this repository, as the user who builds.
    fn git(&self, repo: &Path) -> Argv {
        self.as_user("git").arg("-C").arg(repo)
    }

    /// A command of the user who builds.
    fn as_user(&self, program: &str) -> Argv {
        let argv = Argv::new(program).user(self.user.clone());
        match self.user.as_ref().and_then(|user| user.home.as_ref()) {
            Some(home) => argv.env("HOME", home),
            None => argv,
        }
    }
}

/// Copies the file or directory that a level names out of the clone; of a kernel, the file that boots and the modules
/// that guests need. Returns the level that names the copy, which is in the directory `copy_dir`.
fn copy_from_tree(factor: &str, path: &Path, copy_dir: &Path) -> Result<String, BuildFailure> {
    if factor == factor::KERNEL {
        let kernel =
            kernel::find_or_fetch_kernel(&path.to_string_lossy(), &KernelDirs::of_this_machine(None), &mut |_| {});
        let kernel = kernel.map_err(|error| BuildFailure::Candidate(error.to_string()))?;
        copy_kernel(&kernel, copy_dir)?;
        return Ok(copy_dir.to_string_lossy().into_owned());
    }
    // Programs look for their files beside themselves by their own names, so the copy keeps its name. A symbolic link of the
    // commit may lead out of the clone, but the copies keep their owners and modes: what only root may read stays so.
    dirs::make_dirs(copy_dir).map_err(Error::io("making", copy_dir))?;
    let copied = Argv::new("cp").args(["-a", "--"]).arg(path).arg(copy_dir).run();
    let copied = copied.map_err(Error::from)?;
    if !copied.status.success() {
        return Err(BuildFailure::Candidate(format!("{factor}: {}", copied.stderr.trim())));
    }
    let name = path.file_name().unwrap_or_default();
    Ok(copy_dir.join(name).to_string_lossy().into_owned())
}

/// Runs a command; its failure is an error.
fn run_successfully(argv: &Argv) -> Result<FinishedCommand> {
    Ok(argv.run_checked(&mut |_| {}).map_err(Error::from)?)
}

/// Why a candidate has no variant.
enum BuildFailure {
    /// This candidate cannot be built, so it is skipped.
    Candidate(String),
    /// No candidate can be built.
    All(Box<RunError>),
}

impl<E: Into<RunError>> From<E> for BuildFailure {
    fn from(error: E) -> BuildFailure {
        BuildFailure::All(Box::new(error.into()))
    }
}

/// The levels of a list between the last good one and `bad`, those that halve the range best first.
fn levels_between(levels: &[String], goods: &[&str], bad: &str) -> Vec<String> {
    let position = |id: &str| levels.iter().position(|level| level == id).unwrap_or_default();
    let (last_good, bad) = (goods.iter().map(|good| position(good)).max().unwrap_or_default(), position(bad));
    let mut indices: Vec<usize> = (last_good + 1..bad).collect();
    // Each level after the last good one, up to `bad` itself, can be the first bad one. The middle halves these.
    indices.sort_by_key(|index| (2 * index).abs_diff(last_good + bad));
    indices.into_iter().map(|index| levels[index].clone()).collect()
}

/// Replaces each [`FILE_PLACEHOLDER`] in the text of a template with the content of its file, without white space
/// around it. The file must lie in the tree: a symbolic link of a commit could lead to a file that only root may read.
fn insert_files(text: &str, tree: &Path) -> Result<String, String> {
    let Some((before, rest)) = text.split_once(FILE_PLACEHOLDER) else { return Ok(text.into()) };
    let (path, after) = rest.split_once('}').ok_or_else(|| format!("`{text}`: a `}}` is missing"))?;
    let failed = |error: io::Error| format!("{path}: {error}");
    let (file, tree_path) = (tree.join(path).canonicalize().map_err(failed)?, tree.canonicalize().map_err(failed)?);
    if !file.starts_with(&tree_path) {
        return Err(format!("{path}: it leads out of the tree of the commit, to {}", file.display()));
    }
    let bytes = input::read(&file, MAX_LEVEL_FILE_BYTES).map_err(failed)?;
    let content = String::from_utf8_lossy(&bytes);
    Ok(format!("{before}{}{}", content.trim(), insert_files(after, tree)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_list_comes_first() {
        let levels: Vec<String> = (0..=8).map(|i| i.to_string()).collect();
        assert_eq!(levels_between(&levels, &["0"], "8"), ["4", "3", "5", "2", "6", "1", "7"]);
        assert_eq!(levels_between(&levels, &["0", "4"], "7"), ["5", "6"]);
        assert_eq!(levels_between(&levels, &["4", "0"], "5"), [""; 0]);
    }

    #[test]
    fn a_failure_of_git_is_not_a_wrong_order() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().to_string_lossy().into_owned();
        let source = CandidateSource::Git { repo, build: vec![], first_parent: false, paths: vec![] };
        let [dir, tree] = ["bisection", "tree"].map(|name| dir.path().join(name));
        let candidates = Candidates { source, template: VariantLevels::new(), dir, tree, user: None };
        // The directory is not a repository.
        let error = candidates.check_order("a", "b").unwrap_err().to_string();
        assert!(!error.contains("not an ancestor"), "{error}");
    }

    #[test]
    fn files_of_the_tree_become_part_of_a_level() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("options"), "noatime\n").unwrap();
        assert_eq!(insert_files("a,{file:options},{file:options}", tree.path()).unwrap(), "a,noatime,noatime");
        assert_eq!(insert_files("{tree}/x", tree.path()).unwrap(), "{tree}/x");
        assert!(insert_files("{file:none}", tree.path()).unwrap_err().starts_with("none: "));
        assert!(insert_files("{file:options", tree.path()).is_err());
        std::os::unix::fs::symlink("/etc/hostname", tree.path().join("link")).unwrap();
        std::os::unix::fs::symlink("options", tree.path().join("inside")).unwrap();
        assert_eq!(insert_files("{file:inside}", tree.path()).unwrap(), "noatime");
        for outside in ["{file:link}", "{file:../..}"] {
            assert!(insert_files(outside, tree.path()).is_err(), "{outside}");
        }
    }
}
