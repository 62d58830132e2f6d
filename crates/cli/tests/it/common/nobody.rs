//! The real binary as a user without privileges.

use super::{Place, install, program, text};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::{os::unix::process::CommandExt, process::Command};

/// The user and the group that own nothing.
const NOBODY: u32 = 65534;

/// A home in a place, and a copy of the binary: the directories above the original need not
/// be open to everybody.
pub struct Nobody {
    pub home: PathBuf,
    fsarena: PathBuf,
    /// Stand-ins for programs, which come first on its `PATH`: see [`Place::shim`].
    shims: PathBuf,
}

impl Nobody {
    /// Needs the rights of root.
    pub fn within(place: &Place) -> Nobody {
        let (home, fsarena) = (place.dir.join("nobody"), place.dir.join("fsarena"));
        std::fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755)).unwrap();
        install(&program(), &fsarena);
        let nobody = Nobody { home, fsarena, shims: place.dir.join("shims") };
        nobody.dir("");
        nobody
    }

    /// A directory in its home.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.home.join(name);
        std::fs::create_dir(&dir).unwrap();
        chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
        dir
    }

    /// The command in its home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.fsarena);
        // What a login shell of an ordinary user has: no sbin.
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.shims.display());
        command.env_clear().env("PATH", path).env("HOME", &self.home);
        command.args(args).current_dir(&self.home).uid(NOBODY).gid(NOBODY);
        command
    }

    /// Runs it in its home and expects this exit code. What it printed, and what it said.
    #[track_caller]
    pub fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.command(args).output().unwrap();
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{printed}\n{said}");
        (printed, said)
    }
}
