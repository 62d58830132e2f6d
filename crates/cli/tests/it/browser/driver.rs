//! Headless Chromium, driven through chromedriver.

use super::window::Window;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running chromedriver, and the directory with the log of its browser. Ended when dropped.
pub struct Driver {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
}

/// The screen of a window.
#[derive(Clone, Copy)]
pub enum Screen {
    /// A desk: 1200 by 900, light.
    Desk,
    /// A telephone: 360 wide, with a system that is dark.
    Telephone,
}

impl Driver {
    /// Starts chromedriver. If Debian's packages are not installed, notes that the test is skipped and returns None; in CI
    /// they must be installed.
    pub fn start() -> Option<Driver> {
        if !["chromedriver", "chromium"].into_iter().all(fsarena_sys::testkit::has_program) {
            assert!(std::env::var_os("CI").is_none(), "CI has to have chromium and chromium-driver");
            return None;
        }
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok());
        let dir = tempfile::tempdir().expect("a directory for the browser");
        Some(Driver { child, port: port.expect("chromedriver says its port"), dir })
    }

    /// Opens a window.
    pub fn window(&self, screen: Screen) -> Window {
        let mut options = json!({"args": self.flags(screen)});
        if let Screen::Telephone = screen {
            options["mobileEmulation"] = json!({"deviceMetrics": {"width": 360, "height": 800, "pixelRatio": 2.0}});
        }
        Window::open(self.port, json!({"goog:chromeOptions": options}))
    }

    fn flags(&self, screen: Screen) -> Vec<String> {
        let profile = tempfile::tempdir_in(self.dir.path()).expect("a profile").keep();
        let fixed = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1200,900",
            "--enable-logging",
        ];
        let mut flags: Vec<String> = fixed.map(String::from).to_vec();
        if let Screen::Telephone = screen {
            flags.push("--blink-settings=preferredColorScheme=0".into());
        }
        flags.push(format!("--user-data-dir={}", profile.display()));
        flags.push(format!("--log-file={}", self.log().display()));
        flags
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("chromium.log")
    }

    /// The lines that pages wrote to the console: errors of scripts, and content that the policy of a page refused.
    pub fn console(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().filter(|line| line.contains(":CONSOLE")).map(String::from).collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `file:` address of a file.
pub fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}
