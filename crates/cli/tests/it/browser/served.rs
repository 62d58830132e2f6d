//! The pages of `fsarena serve` over the runs of a sandbox.

use super::window::Window;
use crate::common::Sandbox;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A server that ends with this value.
pub struct Served {
    child: Child,
    url: String,
}

impl Served {
    /// Serves the runs of a sandbox.
    pub fn start(sandbox: &Sandbox) -> Served {
        let mut child = sandbox.fsarena(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next().expect("an address").unwrap();
        Served { child, url: url.trim_end_matches('/').to_string() }
    }

    /// Asserts that a search in the list leaves the matching runs, and that two chosen runs are compared.
    pub fn assert_lists_and_compares(&self, window: &Window) {
        window.goto(&format!("{}/", self.url));
        let runs = |count: usize| format!("#runs tbody tr:nth-child({count}):last-child");
        window.wait_for(&runs(2));
        let search = |words: &str| {
            format!(
                "const f = document.getElementById('search'); f.value = '{words}'; f.dispatchEvent(new Event('input'))"
            )
        };
        window.run_script(&search("no such run"));
        window.wait_for("#runs tbody:not(:has(tr))");
        window.run_script(&search("example"));
        window.wait_for(&runs(2));
        window.run_script("document.querySelectorAll('#runs input[name=run]').forEach(box => box.click())");
        window.run_script("document.getElementById('compare').click()");
        window.wait_for("#comparison table");
        let stderr = window.run_script("return document.getElementById('comparison').textContent");
        assert!(stderr.as_str().unwrap().contains("ext3"), "{stderr}");
        Served::assert_sorts_a_comparison(window);
    }

    /// Asserts that a comparison has its chart, and a table that sorts, filters, and has a button for CSV.
    fn assert_sorts_a_comparison(window: &Window) {
        window.wait_for("html[data-ready]");
        assert_eq!(window.run_script("return !!document.querySelector('#comparison figure svg desc')"), json!(true));
        let column = "[...document.querySelectorAll('#data table tbody')][0].rows";
        let click = format!(
            "document.querySelector('#data thead').rows[0].cells[0].querySelector('button').click();
             return [...{column}].map(row => row.cells[0].textContent)"
        );
        let names = |value: serde_json::Value| -> Vec<String> { serde_json::from_value(value).unwrap() };
        let (up, down) = (names(window.run_script(&click)), names(window.run_script(&click)));
        assert!(up.len() > 2 && up.iter().rev().eq(&down) && up != down, "{up:?} {down:?}");
        let type_in = format!(
            "const f = document.querySelector('#data .bar input'); f.value = 'untar'; f.dispatchEvent(new Event('input'));
             return [...{column}].filter(row => !row.hidden).length"
        );
        assert_eq!(window.run_script(&type_in), json!(1));
        let csv = "return document.querySelector('#data .bar button').textContent";
        assert_eq!(window.run_script(csv), json!("Copy as CSV"));
        window.run_script(
            "document.getElementById('published').value = 'published:piszcz-II';
                    document.getElementById('published').form.submit()",
        );
        window.wait_for("#comparison svg");
        window.wait_for("html[data-ready]");
        let stderr = window.run_script("return document.querySelector('h1').textContent");
        assert!(stderr.as_str().unwrap().contains("compared with published:piszcz-II"), "{stderr}");
    }

    /// Asserts that the list on a telephone shows every column of a run on the screen.
    pub fn assert_lists_on_a_telephone(&self, window: &Window) {
        window.goto(&format!("{}/", self.url));
        window.wait_for("#runs tbody tr");
        let off = "return [...document.querySelectorAll('#runs tbody :is(th, td)')]
                       .filter(cell => cell.getBoundingClientRect().right > innerWidth || cell.getBoundingClientRect().left < 0)
                       .map(cell => cell.textContent)";
        assert_eq!(window.run_script(off), json!([]));
        let named = "return [...document.querySelectorAll('#runs tbody td[data-label]')].map(cell => getComputedStyle(cell, '::before').content)";
        assert!(window.run_script(named).to_string().contains("Answer"), "{}", window.run_script(named));
    }

    /// Asserts that a run in progress is in the list, that its page shows its rounds one by one until it ends, and that its
    /// report opens.
    pub fn assert_watches(&self, window: &Window) {
        // The list updates itself only while a run in it is in progress, and this run may not have begun yet.
        let running = "return !!document.querySelector('#runs tr[data-state=running]')";
        for _ in 0..100 {
            window.goto(&format!("{}/", self.url));
            if window.run_script(running) == json!(true) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        window.wait_for("#runs tr[data-state=running]");
        let run = window.run_script("return document.querySelector('#runs tr[data-state=running]').dataset.run");
        window.goto(&format!("{}/runs/{}/live", self.url, run.as_str().unwrap()));
        window.wait_for("#live[data-state=running]");
        window.wait_for("#live:not([data-rounds='0'])");
        window.wait_for("#live[data-state=ended]");
        assert_eq!(window.run_script("return document.getElementById('ended').hidden"), json!(false));
        window.run_script("document.getElementById('report').click()");
        window.wait_for("html[data-ready]");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
