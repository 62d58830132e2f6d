//! The pages of `fsarena serve` over the runs of a place.

use super::window::Window;
use crate::common::Place;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A server that ends with this value.
pub struct Served {
    child: Child,
    url: String,
}

impl Served {
    /// Serves the runs of a place.
    pub fn start(place: &Place) -> Served {
        let mut child = place.fsarena(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next().expect("an address").unwrap();
        Served { child, url: url.trim_end_matches('/').to_string() }
    }

    /// The list: a search leaves what it finds, and two chosen runs are compared.
    pub fn lists_and_compares(&self, window: &Window) {
        window.goto(&format!("{}/", self.url));
        let runs = |count: usize| format!("#runs tbody tr:nth-child({count}):last-child");
        window.wait_for(&runs(2));
        let search = |words: &str| {
            format!(
                "const f = document.getElementById('search'); f.value = '{words}'; f.dispatchEvent(new Event('input'))"
            )
        };
        window.ask(&search("no such run"));
        window.wait_for("#runs tbody:not(:has(tr))");
        window.ask(&search("example"));
        window.wait_for(&runs(2));
        window.ask("document.querySelectorAll('#runs input[name=run]').forEach(box => box.click())");
        window.ask("document.getElementById('compare').click()");
        window.wait_for("#comparison table");
        let said = window.ask("return document.getElementById('comparison').textContent");
        assert!(said.as_str().unwrap().contains("ext3"), "{said}");
        Served::sorts_a_comparison(window);
    }

    /// The comparison has its picture; its table sorts, filters, and has a button for CSV.
    fn sorts_a_comparison(window: &Window) {
        window.wait_for("html[data-ready]");
        assert_eq!(window.ask("return !!document.querySelector('#comparison figure svg desc')"), json!(true));
        let column = "[...document.querySelectorAll('#data table tbody')][0].rows";
        let click = format!(
            "document.querySelector('#data thead').rows[0].cells[0].querySelector('button').click();
             return [...{column}].map(row => row.cells[0].textContent)"
        );
        let names = |value: serde_json::Value| -> Vec<String> { serde_json::from_value(value).unwrap() };
        let (up, down) = (names(window.ask(&click)), names(window.ask(&click)));
        assert!(up.len() > 2 && up.iter().rev().eq(&down) && up != down, "{up:?} {down:?}");
        let type_in = format!(
            "const f = document.querySelector('#data .bar input'); f.value = 'untar'; f.dispatchEvent(new Event('input'));
             return [...{column}].filter(row => !row.hidden).length"
        );
        assert_eq!(window.ask(&type_in), json!(1));
        let csv = "return document.querySelector('#data .bar button').textContent";
        assert_eq!(window.ask(csv), json!("Copy as CSV"));
        window.ask(
            "document.getElementById('published').value = 'published:piszcz-II';
                    document.getElementById('published').form.submit()",
        );
        window.wait_for("#comparison svg");
        window.wait_for("html[data-ready]");
        let said = window.ask("return document.querySelector('h1').textContent");
        assert!(said.as_str().unwrap().contains("compared with published:piszcz-II"), "{said}");
    }

    /// The list on a telephone shows every column of a run on the screen.
    pub fn lists_on_a_telephone(&self, window: &Window) {
        window.goto(&format!("{}/", self.url));
        window.wait_for("#runs tbody tr");
        let off = "return [...document.querySelectorAll('#runs tbody :is(th, td)')]
                       .filter(cell => cell.getBoundingClientRect().right > innerWidth || cell.getBoundingClientRect().left < 0)
                       .map(cell => cell.textContent)";
        assert_eq!(window.ask(off), json!([]));
        let named = "return [...document.querySelectorAll('#runs tbody td[data-label]')].map(cell => getComputedStyle(cell, '::before').content)";
        assert!(window.ask(named).to_string().contains("Answer"), "{}", window.ask(named));
    }

    /// A run in progress: it is in the list, its rounds are told one by one until it ends, and its report opens.
    pub fn watches(&self, window: &Window) {
        // The list keeps itself up to date only while something in it changes; this run may not have begun.
        let running = "return !!document.querySelector('#runs tr[data-state=running]')";
        for _ in 0..100 {
            window.goto(&format!("{}/", self.url));
            if window.ask(running) == json!(true) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        window.wait_for("#runs tr[data-state=running]");
        let run = window.ask("return document.querySelector('#runs tr[data-state=running]').dataset.run");
        window.goto(&format!("{}/runs/{}/live", self.url, run.as_str().unwrap()));
        window.wait_for("#live[data-state=running]");
        window.wait_for("#live:not([data-rounds='0'])");
        window.wait_for("#live[data-state=ended]");
        assert_eq!(window.ask("return document.getElementById('ended').hidden"), json!(false));
        window.ask("document.getElementById('report').click()");
        window.wait_for("html[data-ready]");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
