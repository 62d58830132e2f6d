//! The candidates of a bisection: which remain between the ends, and how one becomes a variant.
//!
//! A commit is checked out into a clone of the repository that belongs to the bisection, and built there by the user who started
//! fsarena, so nothing touches the repository itself and a build can reuse the one before. What the variant needs of the tree is
//! copied away, because the next commit overwrites it.

use crate::baseline::copy_kernel;
use crate::error::{Result, RunError, require};
use crate::privsep;
use fsarena_core::bisect::{Bisection, Candidate, History, Levels};
use fsarena_core::event::CommandEnd;
use fsarena_core::factor;
use fsarena_guest::kernel::{self, KernelDirs};
use fsarena_sys::CommandError;
use fsarena_sys::argv::{Argv, FinishedCommand};
use fsarena_sys::process_output::or_printed_nothing;
use fsarena_sys::{Error, dirs, input, user::User};
use std::path::{Path, PathBuf};

/// In a template: the level of a candidate of a list.
pub const LEVEL_PLACEHOLDER: &str = "{level}";
/// In a template: the directory with the tree of a commit.
pub const TREE_PLACEHOLDER: &str = "{tree}";
/// In a template: the content of a file of the tree, whose path and `}` follow.
pub const FILE_PLACEHOLDER: &str = "{file:";
/// The largest file of a tree that can be part of a level, in bytes.
const MAX_LEVEL_BYTES: u64 = 4096;

/// The candidates of a bisection.
pub struct Candidates {
    history: History,
    template: Levels,
    /// The directory of the bisection.
    dir: PathBuf,
    /// The clone in which commits are built. Only its parent belongs to the user who builds.
    tree: PathBuf,
    /// The user who runs git and builds; None for the user of this process.
    user: Option<User>,
}

impl Candidates {
    /// The candidates of a bisection in this directory, which must exist.
    ///
    /// # Errors
    /// The user is unknown, or the directory cannot be given to that user.
    pub fn of(state: &Bisection, dir: &Path) -> Result<Candidates> {
        let user = privsep::workload_user(state.user.as_deref())?.0;
        let user = Some(user).filter(|user| user.uid != User::of_process().uid);
        let dir = std::path::absolute(dir).map_err(Error::io("finding", dir))?;
        let build = dir.join("build");
        if matches!(state.history, History::Git { .. }) {
            std::fs::create_dir_all(&build).map_err(Error::io("making", &build))?;
        }
        if let Some(user) = user.as_ref().filter(|_| build.exists()) {
            dirs::allow_passing_through(&dir).map_err(Error::io("opening", &dir))?;
            user.chown_to_user(&build).map_err(Error::io("giving to its user", &build))?;
        }
        Ok(Candidates {
            history: state.history.clone(),
            template: state.template.clone(),
            tree: build.join("tree"),
            dir,
            user,
        })
    }

    /// The candidates that can be the first bad one if these are good and `bad` is bad, without `bad` itself. The one that halves
    /// them best comes first.
    ///
    /// # Errors
    /// git fails.
    pub fn remaining(&self, goods: &[&str], bad: &str) -> Result<Vec<String>> {
        let (repo, first_parent, paths) = match &self.history {
            History::Git { repo, first_parent, paths, .. } => (repo, *first_parent, paths),
            History::List(levels) => return Ok(between(levels, goods, bad)),
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

    /// The commit that a revision names; for a list the level itself.
    ///
    /// # Errors
    /// The repository has no such commit, or the list no such level.
    pub fn find(&self, name: &str) -> Result<String> {
        match &self.history {
            History::Git { repo, .. } => {
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
            History::List(levels) if levels.iter().any(|level| level == name) => Ok(name.into()),
            History::List(levels) => {
                Err(RunError::Plan(format!("`{name}` is not in the list; it has {}", levels.join(", "))))
            }
        }
    }

    /// Checks that GOOD comes before BAD.
    ///
    /// # Errors
    /// It does not, with what to do.
    pub fn check_order(&self, good: &str, bad: &str) -> Result<()> {
        match &self.history {
            History::Git { repo, .. } => {
                let argv = self.git(repo.as_ref()).args(["merge-base", "--is-ancestor", good, bad]);
                let is_before = argv.run().map_err(Error::from)?.status.success() && good != bad;
                require(is_before, || {
                    RunError::Plan(format!(
                        "GOOD ({good}) is not an ancestor of BAD ({bad}); their last common ancestor can be GOOD: git -C {repo} \
                         merge-base {good} {bad}"
                    ))
                })
            }
            History::List(levels) => {
                let position = |id: &str| levels.iter().position(|level| level == id);
                require(position(good) < position(bad), || {
                    RunError::Plan(format!("GOOD ({good}) must come before BAD ({bad}) in the list"))
                })
            }
        }
    }

    /// The first parent of a commit; None for a level, and for a commit without one.
    ///
    /// # Errors
    /// git cannot be started.
    pub fn first_parent(&self, id: &str) -> Result<Option<String>> {
        let History::Git { repo, .. } = &self.history else { return Ok(None) };
        let argv = self.git(repo.as_ref()).args(["rev-parse", "--verify", "--quiet", &format!("{id}^1")]);
        let finished = argv.run().map_err(Error::from)?;
        Ok(finished.status.success().then(|| finished.stdout.trim().to_string()))
    }

    /// Makes the variant of a candidate: checks the commit out, builds it and keeps what the variant needs. If that fails, the
    /// candidate has the reason to skip it.
    ///
    /// # Errors
    /// The clone cannot be made, the directory cannot be written, or a signal ended it.
    pub fn make(&self, id: &str) -> Result<Candidate> {
        let (repo, build) = match &self.history {
            History::Git { repo, build, .. } => (repo, build),
            History::List(_) => {
                let levels =
                    self.template.iter().map(|(factor, text)| (factor.clone(), text.replace(LEVEL_PLACEHOLDER, id)));
                return Ok(Candidate { label: id.into(), levels: levels.collect(), ..Candidate::default() });
            }
        };
        let tree = &self.tree;
        if !tree.join(".git").exists() {
            // Its objects are those of the repository, so it takes only the space of the files.
            let argv = self.as_user("git").args(["clone", "--quiet", "--shared", "--no-checkout", "--"]);
            run_successfully(&argv.arg(repo).arg(tree))?;
        }
        let log = run_successfully(&self.git(repo.as_ref()).args(["log", "-1", "--format=%h%x00%s", id]))?.stdout;
        let (label, subject) = log.trim_end().split_once('\0').unwrap_or((id, ""));
        let mut candidate = Candidate { label: label.into(), subject: subject.into(), ..Candidate::default() };
        let variant_dir = self.dir.join("made").join(label);
        match self.build(id, tree, build, &variant_dir) {
            Ok(levels) => candidate.levels = levels,
            Err(BuildFailure::Candidate(why)) => candidate.skipped = Some(why),
            Err(BuildFailure::All(error)) => return Err(*error),
        }
        Ok(candidate)
    }

    /// Checks out a commit in `tree`, builds it, and returns the levels of its variant. What they need of the tree goes to
    /// `variant_dir`.
    fn build(&self, id: &str, tree: &Path, build: &[Vec<String>], variant_dir: &Path) -> Result<Levels, BuildFailure> {
        if variant_dir.exists() {
            std::fs::remove_dir_all(variant_dir).map_err(Error::io("removing", variant_dir))?;
        }
        std::fs::create_dir_all(variant_dir).map_err(Error::io("making", variant_dir))?;
        let checkout = self.git(tree).args(["checkout", "--quiet", "--force", "--detach", id]);
        self.run_build_step(&checkout, &variant_dir.with_extension("log"))?;
        for words in build {
            let (program, args) =
                words.split_first().ok_or_else(|| BuildFailure::Candidate("an empty command".into()))?;
            self.run_build_step(&self.as_user(program).args(args).cwd(tree), &variant_dir.with_extension("log"))?;
        }
        let mut levels = Levels::new();
        for (id, text) in &self.template {
            let mut level = insert_files(text, tree).map_err(BuildFailure::Candidate)?;
            if text.contains(TREE_PLACEHOLDER) {
                level = level.replace(TREE_PLACEHOLDER, &tree.to_string_lossy());
                level = self.copy_out(id, Path::new(&level), &variant_dir.join(id))?;
            }
            levels.insert(id.clone(), level);
        }
        Ok(levels)
    }

    /// Runs one command of a build, whose output goes to a file.
    fn run_build_step(&self, argv: &Argv, log: &Path) -> Result<(), BuildFailure> {
        let finished = match argv.run() {
            Ok(finished) => finished,
            Err(error @ CommandError::NotFound { .. }) => {
                return Err(BuildFailure::Candidate(error.to_string()));
            }
            Err(error) => return Err(Error::from(error).into()),
        };
        if finished.status.success() {
            return Ok(());
        }
        let output = format!("{}{}", finished.stdout, finished.stderr);
        std::fs::write(log, &output).map_err(Error::io("writing", log))?;
        let last = or_printed_nothing(&output).lines().next_back().unwrap_or_default().to_string();
        let words = argv.words().join(" ");
        Err(BuildFailure::Candidate(format!("{words}: {}: {last} (all of it: {})", finished.ended(), log.display())))
    }

    /// Copies what a level of a factor names in the tree: of a kernel the file that boots and the modules that guests need.
    /// Returns the level that names the copy.
    fn copy_out(&self, id: &str, path: &Path, to: &Path) -> Result<String, BuildFailure> {
        if id == factor::KERNEL {
            let found = kernel::find(&path.to_string_lossy(), &KernelDirs::of_this_machine(None), &mut |_| {});
            let found = found.map_err(|error| BuildFailure::Candidate(error.to_string()))?;
            copy_kernel(&found, to)?;
        } else {
            // Programs look for their files beside themselves by their own names, so these stay.
            std::fs::create_dir_all(to).map_err(Error::io("making", to))?;
            let copied = Argv::new("cp").args(["-a", "--"]).arg(path).arg(to).run();
            let copied = copied.map_err(Error::from)?;
            if !copied.status.success() {
                return Err(BuildFailure::Candidate(format!("{id}: {}", copied.stderr.trim())));
            }
            let name = path.file_name().unwrap_or_default();
            return Ok(to.join(name).to_string_lossy().into_owned());
        }
        Ok(to.to_string_lossy().into_owned())
    }

    /// git in this repository.
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

/// Runs a command that must succeed.
fn run_successfully(argv: &Argv) -> Result<FinishedCommand> {
    Ok(argv.run_checked(&mut |_| {}).map_err(Error::from)?)
}

/// Why a candidate has no variant.
enum BuildFailure {
    /// The candidate itself fails, so it is skipped.
    Candidate(String),
    /// No candidate can be made.
    All(Box<RunError>),
}

impl From<Error> for BuildFailure {
    fn from(error: Error) -> BuildFailure {
        BuildFailure::All(Box::new(error.into()))
    }
}

impl From<RunError> for BuildFailure {
    fn from(error: RunError) -> BuildFailure {
        BuildFailure::All(Box::new(error))
    }
}

/// The levels of a list between the last good one and `bad`, from the middle outwards.
fn between(levels: &[String], goods: &[&str], bad: &str) -> Vec<String> {
    let position = |id: &str| levels.iter().position(|level| level == id).unwrap_or_default();
    let (last_good, bad) = (goods.iter().map(|good| position(good)).max().unwrap_or_default(), position(bad));
    let mut inner: Vec<usize> = (last_good + 1..bad).collect();
    // Half of those from the first one to `bad`, which can each be the first bad one, are before the middle.
    inner.sort_by_key(|at| (2 * at).abs_diff(last_good + bad));
    inner.into_iter().map(|at| levels[at].clone()).collect()
}

/// A text of a template with the contents of the files that it names, without blanks around them.
fn insert_files(text: &str, tree: &Path) -> Result<String, String> {
    let Some((before, rest)) = text.split_once(FILE_PLACEHOLDER) else { return Ok(text.into()) };
    let (path, after) = rest.split_once('}').ok_or_else(|| format!("`{text}`: a `}}` is missing"))?;
    let bytes = input::read(&tree.join(path), MAX_LEVEL_BYTES).map_err(|error| format!("{path}: {error}"))?;
    let content = String::from_utf8_lossy(&bytes);
    Ok(format!("{before}{}{}", content.trim(), insert_files(after, tree)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_list_comes_first() {
        let levels: Vec<String> = (0..=8).map(|i| i.to_string()).collect();
        assert_eq!(between(&levels, &["0"], "8"), ["4", "3", "5", "2", "6", "1", "7"]);
        assert_eq!(between(&levels, &["0", "4"], "7"), ["5", "6"]);
        assert_eq!(between(&levels, &["4", "0"], "5"), [""; 0]);
    }

    #[test]
    fn files_of_the_tree_become_part_of_a_level() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("options"), "noatime\n").unwrap();
        assert_eq!(insert_files("a,{file:options},{file:options}", tree.path()).unwrap(), "a,noatime,noatime");
        assert_eq!(insert_files("{tree}/x", tree.path()).unwrap(), "{tree}/x");
        assert!(insert_files("{file:none}", tree.path()).unwrap_err().starts_with("none: "));
        assert!(insert_files("{file:options", tree.path()).is_err());
    }
}
