//! The pages of `fsarena serve` over the runs of a place.

use super::page::ask;
use crate::common::Place;
use fantoccini::{Client, Locator};
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
    pub async fn lists_and_compares(&self, window: &Client) {
        window.goto(&format!("{}/", self.url)).await.unwrap();
        let runs = |count: usize| format!("#runs tbody tr:nth-child({count}):last-child");
        there(window, &runs(2)).await;
        let search = |words: &str| {
            format!(
                "const f = document.getElementById('search'); f.value = '{words}'; f.dispatchEvent(new Event('input'))"
            )
        };
        ask(window, &search("no such run")).await;
        there(window, "#runs tbody:not(:has(tr))").await;
        ask(window, &search("example")).await;
        there(window, &runs(2)).await;
        ask(window, "document.querySelectorAll('#runs input[name=run]').forEach(box => box.click())").await;
        ask(window, "document.getElementById('compare').click()").await;
        there(window, "#comparison table").await;
        let said = ask(window, "return document.getElementById('comparison').textContent").await;
        assert!(said.as_str().unwrap().contains("ext3"), "{said}");
    }

    /// A run in progress: it is in the list, its blocks are told one by one until it ends, and its report opens.
    pub async fn watches(&self, window: &Client) {
        // The list keeps itself up to date only while something in it changes; this run may not have begun.
        let running = "return !!document.querySelector('#runs tr[data-state=running]')";
        for _ in 0..100 {
            window.goto(&format!("{}/", self.url)).await.unwrap();
            if ask(window, running).await == json!(true) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        there(window, "#runs tr[data-state=running]").await;
        let run =
            ask(window, "return document.querySelector('#runs tr[data-state=running]').dataset.run").await;
        window.goto(&format!("{}/runs/{}/live", self.url, run.as_str().unwrap())).await.unwrap();
        there(window, "#live[data-state=running]").await;
        there(window, "#live:not([data-blocks='0'])").await;
        there(window, "#live[data-state=ended]").await;
        assert_eq!(ask(window, "return document.getElementById('ended').hidden").await, json!(false));
        ask(window, "document.getElementById('report').click()").await;
        there(window, "html[data-ready]").await;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is in the page.
async fn there(window: &Client, what: &str) {
    window.wait().for_element(Locator::Css(what)).await.unwrap_or_else(|error| panic!("{what}: {error}"));
}
