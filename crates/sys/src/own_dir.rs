//! Directories that fsarena keeps something in for the user who runs it.

use std::path::PathBuf;

/// The directory that the variable `own` names, else root's, else `fsarena` in the one that the variable `xdg` names, else
/// `fsarena` in this directory of `$HOME`. None without a home.
pub fn find(own: &str, of_root: &str, xdg: &str, below_home: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_root = || rustix::process::geteuid().is_root().then(|| of_root.into());
    let home = || variable("HOME").filter(|home| home.is_dir()).map(|home| home.join(below_home));
    let of_user = || variable(xdg).or_else(home).map(|dir| dir.join("fsarena"));
    variable(own).or_else(of_root).or_else(of_user)
}
