//! Directories that fsarena keeps something in for the user who runs it.

use std::path::PathBuf;

/// The directory that the variable `own` names, else root's, else `fsarena` in the one that the variable `xdg` names, else
/// the one for a user who has set none of these.
pub fn find(own: &str, of_root: &str, xdg: &str, of_user: impl FnOnce() -> PathBuf) -> PathBuf {
    let of_root = || rustix::process::geteuid().is_root().then(|| of_root.into());
    let in_xdg = || variable(xdg).map(|dir| dir.join("fsarena"));
    variable(own).or_else(of_root).or_else(in_xdg).unwrap_or_else(of_user)
}

/// The home directory that `$HOME` names, whether it exists or not.
pub fn home() -> Option<PathBuf> {
    variable("HOME")
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
