//! The real binary as a user without privileges.

use super::{Sandbox, install, program, text};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::{os::unix::process::CommandExt, process::Command};

/// The id of the user nobody, and of its group.
const NOBODY_ID: u32 = 65534;

/// The user nobody, with a home in a sandbox and a copy of the binary: other users may not have access to the directories
/// above the original.
pub struct Nobody {
    pub home: PathBuf,
    program: PathBuf,
    /// The directory of shims, which comes first on its `PATH`: see [`Sandbox::shim`].
    shims: PathBuf,
}

impl Nobody {
    /// Makes the home and the copy. Needs root.
    pub fn within(sandbox: &Sandbox) -> Nobody {
        let (home, copied_program) = (sandbox.dir.join("nobody"), sandbox.dir.join("fsarena"));
        std::fs::set_permissions(&sandbox.dir, PermissionsExt::from_mode(0o755)).unwrap();
        install(&program(), &copied_program);
        let nobody = Nobody { home, program: copied_program, shims: sandbox.dir.join("shims") };
        nobody.dir("");
        nobody
    }

    /// Makes a directory in its home. The user owns it.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.home.join(name);
        std::fs::create_dir(&dir).unwrap();
        chown(&dir, Some(NOBODY_ID), Some(NOBODY_ID)).unwrap();
        dir
    }

    /// The command that runs fsarena in its home.
    pub fn fsarena(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // A login shell of an ordinary user has no sbin.
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.shims.display());
        command.env_clear().env("PATH", path).env("HOME", &self.home);
        command.args(args).current_dir(&self.home).uid(NOBODY_ID).gid(NOBODY_ID);
        command
    }

    /// Runs fsarena in its home and asserts its exit code. Returns its standard output and standard error.
    #[track_caller]
    pub fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.fsarena(args).output().unwrap();
        let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{printed}\n{stderr}");
        (printed, stderr)
    }
}
