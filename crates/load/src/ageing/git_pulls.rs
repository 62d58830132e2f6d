//! Pulls the commits of a git repository one after the other, as Conway et al. do ("File Systems Fated for Senescence?
//! Nonsense, Says Science!", FAST 2017).

use super::git_history::write_fast_import_stream;
use crate::task::{Result, TaskError, failed_to};
use fsarena_core::event::CommandRecord;
use fsarena_sys::argv::Argv;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The parameters that determine the pulls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GitPulls {
    /// The seed of a generated history.
    seed: u64,
    /// The number of pulls after the first one.
    pulls: u32,
    /// The repository, and its commit that the last pull gets; None for a generated history.
    repository: Option<(PathBuf, String)>,
    /// The output of `git version`.
    #[serde(rename = "git")]
    git_version: String,
}

/// The number of pulls in a part. The filesystem is mounted again for each part.
const PULLS_PER_PART: u32 = 100;
/// The directory of the repository that pulls.
const REPOSITORY_DIR: &str = "repository";
/// Bytes that the first commit of a generated history takes, with its objects; and those of each pull.
const FIRST_COMMIT_BYTES: u64 = 160 << 20;
const BYTES_PER_PULL: u64 = 64 << 10;

/// The configuration of git. With it, git never packs by itself, uses one thread, accepts repositories of other users,
/// and does not depend on the configuration of the user.
const GIT_CONFIG: &str = "[gc]\n auto = 0\n[maintenance]\n auto = false\n[pack]\n threads = 1\n[index]\n threads = 1\n\
                      [safe]\n directory = *\n[uploadpack]\n allowAnySHA1InWant = true\n[init]\n defaultBranch = main\n\
                      [user]\n name = F\n email = f@example.org\n[core]\n autocrlf = false\n[protocol \"file\"]\n allow = always\n";

/// The environment variables that point git to a repository and to its configuration (`git rev-parse --local-env-vars`).
/// git sets some of them for hooks and for `git bisect run`, and they would lead every command to that repository.
const REPOSITORY_VARIABLES: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

impl GitPulls {
    /// The pulls of a generated history, or of a repository up to its current commit.
    ///
    /// # Errors
    /// If git is missing, or the repository has no commit.
    pub fn new(seed: u64, pulls: u32, repository: Option<PathBuf>) -> Result<GitPulls> {
        let git_version = Argv::new("git").arg("version").run_checked(&mut |_| ())?.stdout.trim().to_string();
        let Some(path) = repository else { return Ok(GitPulls { seed, pulls, repository: None, git_version }) };
        let command = Argv::new("git").args(["-c", "safe.directory=*", "-C"]).arg(&path).args(["rev-parse", "HEAD"]);
        let head = command.remove_env(REPOSITORY_VARIABLES).run_checked(&mut |_| ())?.stdout.trim().to_string();
        // The seed does not change the history of a repository, so all images have the same one.
        Ok(GitPulls { seed: 0, pulls, repository: Some((path, head)), git_version })
    }

    /// The bytes that the files take after this number of pulls. `repository_bytes` is the size of the user's
    /// repository; None for a generated history.
    pub fn space_bytes(pulls: u32, repository_bytes: Option<u64>) -> u64 {
        // Files take about three times the space of their compressed objects.
        repository_bytes.map_or(FIRST_COMMIT_BYTES, |bytes| 4 * bytes) + u64::from(pulls) * BYTES_PER_PULL
    }

    /// The number of parts.
    pub fn part_count(&self) -> u32 {
        self.pulls.div_ceil(PULLS_PER_PART)
    }

    /// Pulls the commits of a part in a directory. `source_dir` keeps the generated history for the next part.
    ///
    /// # Errors
    /// If git fails.
    pub fn perform_part(
        &self,
        part: u32,
        dir: &Path,
        source_dir: &Path,
        log: &mut dyn FnMut(CommandRecord),
    ) -> Result<()> {
        let config_path = source_dir.join("gitconfig");
        std::fs::write(&config_path, GIT_CONFIG).map_err(failed_to("write", &config_path))?;
        let git = GitCommands { config_path };
        let (source, head) = match &self.repository {
            Some((path, head)) => (path.clone(), head.clone()),
            None => (self.generate_repository(source_dir, &git)?, "main".into()),
        };
        let commits = self.list_commits(&source, &head, &git)?;
        let repository = dir.join(REPOSITORY_DIR);
        // The commit before the part, and its last commit.
        let (before, last) = (part * PULLS_PER_PART, ((part + 1) * PULLS_PER_PART).min(self.pulls));
        if part == 0 {
            git.command(dir, ["init", "-q", REPOSITORY_DIR]).run_checked(log)?;
            git.pull_command(&repository, &source, &commits[0]).run_checked(log)?;
        }
        let part_commits = &commits[before as usize + 1..=last as usize];
        for (index, commit) in part_commits.iter().enumerate() {
            let pull = git.pull_command(&repository, &source, commit);
            // The log keeps the last pull of a part.
            if index + 1 == part_commits.len() {
                pull.run_checked(log)?;
            } else {
                pull.run_checked(&mut |_| ())?;
            }
        }
        Ok(())
    }

    /// Lists the commits to pull, the oldest first.
    fn list_commits(&self, source: &Path, head: &str, git: &GitCommands) -> Result<Vec<String>> {
        let count = self.pulls + 1;
        let max_count = count.to_string();
        let listing =
            git.command(source, ["rev-list", "--first-parent", "-n", &max_count, head]).run_checked(&mut |_| ())?;
        let mut commits: Vec<String> = listing.stdout.lines().map(String::from).collect();
        commits.reverse();
        if commits.len() < count as usize {
            let (available, path) = (commits.len().saturating_sub(1), source.display());
            let reason = format!("{path} has {available} commits to pull after its first, fewer than {}", self.pulls);
            return Err(TaskError::Plan(reason));
        }
        Ok(commits)
    }

    /// Makes the repository of the generated history, unless it exists, and returns its path.
    fn generate_repository(&self, source_dir: &Path, git: &GitCommands) -> Result<PathBuf> {
        let finished_path = source_dir.join(format!("history-{}-{}.git", self.seed, self.pulls));
        if finished_path.exists() {
            return Ok(finished_path);
        }
        let path = source_dir.join("history.git");
        git.command(source_dir, ["init", "-q", "--bare", "history.git"]).run_checked(&mut |_| ())?;
        let mut import = Command::new("git");
        for name in REPOSITORY_VARIABLES {
            import.env_remove(name);
        }
        import.current_dir(&path).args(["fast-import", "--quiet", "--done"]).envs(git.environment());
        let mut child = import.stdin(Stdio::piped()).spawn().map_err(failed_to("start git in", &path))?;
        let write_result = match child.stdin.take() {
            Some(stdin) => {
                let mut stream = BufWriter::with_capacity(1 << 20, stdin);
                write_fast_import_stream(self.seed, self.pulls, &mut stream).and_then(|()| stream.flush())
            }
            None => Ok(()),
        };
        let status = child.wait().map_err(failed_to("wait for git in", &path))?;
        write_result.map_err(failed_to("write the history to", &path))?;
        if !status.success() {
            return Err(TaskError::Unfit(format!("git fast-import in {} ended: {status}", path.display())));
        }
        std::fs::rename(&path, &finished_path).map_err(failed_to("rename", &path))?;
        Ok(finished_path)
    }
}

/// Builds commands of git that use [`GIT_CONFIG`] instead of the configuration of this machine.
struct GitCommands {
    config_path: PathBuf,
}

impl GitCommands {
    /// The environment of git. It keeps times, users and the configuration of this machine out of the files.
    fn environment(&self) -> [(&'static str, PathBuf); 4] {
        let date = || PathBuf::from("1500000000 +0000");
        [
            ("GIT_CONFIG_GLOBAL", self.config_path.clone()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_COMMITTER_DATE", date()),
            ("GIT_AUTHOR_DATE", date()),
        ]
    }

    fn command<const N: usize>(&self, dir: &Path, args: [&str; N]) -> Argv {
        let argv = Argv::new("git").args(args).cwd(dir).remove_env(REPOSITORY_VARIABLES);
        self.environment().into_iter().fold(argv, |argv, (name, value)| argv.env(name, value))
    }

    fn pull_command(&self, repository: &Path, source: &Path, commit: &str) -> Argv {
        self.command(repository, ["pull", "-q", "--ff-only"]).arg(source).arg(commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ageing::tree_copy;

    #[test]
    fn pulls_of_equal_seeds_leave_equal_trees() {
        if !fsarena_sys::testkit::has_program("git") {
            return;
        }
        let tree_digest_of = |seed| {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            let (root, source_dir) = (dir.path().join("root"), dir.path().join("other"));
            for dir in [&root, &source_dir] {
                std::fs::create_dir(dir).unwrap();
            }
            let pulls = GitPulls::new(seed, 3, None).unwrap();
            assert_eq!(pulls.part_count(), 1);
            pulls.perform_part(0, &root, &source_dir, &mut |_| ()).unwrap();
            tree_copy::digest_tree(&root).unwrap()
        };
        let tree_digest = tree_digest_of(1);
        assert_eq!(tree_digest, tree_digest_of(1));
        assert!(tree_digest.files > 4000, "{tree_digest:?}");
    }
}
