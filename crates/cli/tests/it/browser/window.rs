//! A window of a browser: a session of WebDriver (<https://www.w3.org/TR/webdriver2/>), of which tests need five commands,
//! and one of Chromium's own.

use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The time after which a page that hangs fails its test. Nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two checks of a page.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A window of the browser. Closed when dropped.
pub struct Window {
    agent: ureq::Agent,
    session: String,
}

impl Window {
    /// Opens a window with these capabilities, through the driver that listens on this port of loopback.
    pub fn open(port: u16, capabilities: Value) -> Window {
        let config = ureq::Agent::config_builder();
        let config = config.timeout_global(Some(TIMEOUT)).http_status_as_error(false).proxy(None).build();
        let agent = ureq::Agent::from(config);
        let sessions = format!("http://127.0.0.1:{port}/session");
        let made = send(&agent, &sessions, &json!({"capabilities": {"alwaysMatch": capabilities}}));
        let id = made["sessionId"].as_str().unwrap_or_else(|| panic!("a browser: {made}"));
        Window { session: format!("{sessions}/{id}"), agent }
    }

    /// Opens an address and waits until it is loaded.
    #[track_caller]
    pub fn goto(&self, address: &str) {
        self.command("url", &json!({"url": address}));
    }

    /// Runs a script in the page and returns its result.
    #[track_caller]
    pub fn run_script(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until the page has an element that this selector finds.
    #[track_caller]
    pub fn wait_for(&self, selector: &str) {
        let there = format!("return !!document.querySelector({})", json!(selector));
        let begun = Instant::now();
        while self.run_script(&there) != json!(true) {
            assert!(begun.elapsed() < TIMEOUT, "waited in vain for {selector}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Shows the page as printed on paper `width` CSS pixels wide, or on the screen again without a width.
    #[allow(dead_code)] // the benchmark that shares this file has no paper
    #[track_caller]
    pub fn show_as_printed(&self, width: Option<u32>) {
        let chromium_command = |cmd: &str, params: Value| {
            self.command("goog/cdp/execute", &json!({"cmd": cmd, "params": params}));
        };
        let media = if width.is_some() { "print" } else { "" };
        chromium_command("Emulation.setEmulatedMedia", json!({"media": media}));
        match width {
            Some(width) => chromium_command(
                "Emulation.setDeviceMetricsOverride",
                json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false}),
            ),
            None => chromium_command("Emulation.clearDeviceMetricsOverride", json!({})),
        }
    }

    #[track_caller]
    fn command(&self, command: &str, body: &Value) -> Value {
        send(&self.agent, &format!("{}/{command}", self.session), body)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
    }
}

/// Posts `body` and returns the value of the answer. Panics on an error.
#[track_caller]
fn send(agent: &ureq::Agent, url: &str, body: &Value) -> Value {
    let mut response = agent.post(url).send_json(body).unwrap_or_else(|error| panic!("{url}: {error}"));
    let mut answer: Value = response.body_mut().read_json().unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(response.status().is_success(), "{url}: {body}\n{}", answer["value"]["message"]);
    answer["value"].take()
}
