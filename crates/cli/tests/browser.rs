//! The page of each study in a real browser: small real runs, opened, sorted, filtered, in the dark, on a telephone.

mod browser {
    pub mod driver;
}
mod common;
#[path = "common/stored.rs"]
mod stored;

use browser::driver::{Driver, address};
use common::{Place, root};
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A run of each study that ends in a moment, and what to expect in its page.
const RUNS: [(&str, &[&str]); 3] = [
    ("piszcz", &["--fs", "ext4,xfs", "--set", "driver=native"]),
    ("peiffer", &["--fs", "ext4,xfs"]),
    ("engel", &["--fs", "ext4,raw", "--bs", "4096", "--threads", "1,2", "--modes", "rndrd,seqwr"]),
];

/// The pages of real runs where root can make them; always one of a run from the store.
fn pages(place: &Place) -> Vec<PathBuf> {
    stored::run(&place.runs());
    if root() {
        for (study, args) in RUNS {
            let fixed = ["run", study, "--scale", "tiny", "--blocks", "2", "--on", "ram", "--quiet"];
            let output = place.output(&[&fixed[..], args].concat());
            // Claims may well be open after two blocks.
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 3 | 4)), "{study}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let runs = std::fs::read_dir(place.runs()).unwrap();
    let mut pages = vec![];
    for run in runs.map(|run| run.unwrap().path()) {
        let page = run.join("report.html");
        if !page.exists() {
            let to = format!("html={}", page.display());
            place.expect(0, &["report", run.to_str().unwrap(), "--format", "csv", "--export", &to]);
        }
        pages.push(page);
    }
    pages.sort();
    pages
}

async fn ask(window: &Client, script: &str) -> Value {
    window.execute(script, vec![]).await.unwrap_or_else(|error| panic!("{script}: {error}"))
}

async fn open(window: &Client, page: &std::path::Path) {
    window.goto(&address(page)).await.unwrap();
    window.wait().for_element(Locator::Css("html[data-ready]")).await.expect("the page's script ends well");
}

/// What a reader does on any page.
async fn use_page(window: &Client, page: &std::path::Path) {
    open(window, page).await;
    let shown = page.display();
    assert!(
        ask(window, "return document.querySelectorAll('figure svg text').length").await.as_u64() > Some(20),
        "{shown}"
    );
    sorts(window).await;
    filters(window).await;
    explains(window).await;
    dark(window).await;
    let unnamed = "return [...document.querySelectorAll('svg')].filter(s => !s.querySelector('title') || !s.querySelector('desc')).length";
    assert_eq!(ask(window, unnamed).await, json!(0), "{shown}: every picture says what it shows");
}

/// A click on a header sorts the samples by that column, a second one the other way round.
async fn sorts(window: &Client) {
    let click = "document.querySelectorAll('#samples thead th')[4].querySelector('button').click();
                 return [...document.querySelectorAll('#samples tbody tr')].map(r => r.cells[4].textContent).filter(t => t).map(Number)";
    let numbers = |value: &Value| -> Vec<f64> { serde_json::from_value(value.clone()).unwrap() };
    let up = numbers(&ask(window, click).await);
    let down = numbers(&ask(window, click).await);
    assert!(up.len() > 3 && up.windows(2).all(|two| two[0] <= two[1]), "{up:?}");
    assert!(down.windows(2).all(|two| two[0] >= two[1]), "{down:?}");
    let told =
        ask(window, "return document.querySelectorAll('#samples thead th')[4].getAttribute('aria-sort')")
            .await;
    assert_eq!(told, json!("descending"));
}

/// Typing leaves the rows that hold the words; the rest comes back with them gone.
async fn filters(window: &Client) {
    let rows = "return document.querySelectorAll('#samples tbody tr').length";
    let all = ask(window, rows).await;
    let field = window.find(Locator::Css("#samples input[type=search]")).await.unwrap();
    field.send_keys("no such thing").await.unwrap();
    assert_eq!(ask(window, rows).await, json!(0));
    field.clear().await.unwrap();
    field.send_keys("x").await.unwrap();
    ask(window, "const f = document.querySelector('#samples input'); f.value = ''; f.dispatchEvent(new Event('input'))").await;
    assert_eq!(ask(window, rows).await, all);
}

/// A figure shows its samples and commands; Escape closes them.
async fn explains(window: &Client) {
    ask(window, "document.querySelector('td[data-step] button').click()").await;
    assert_eq!(ask(window, "return document.getElementById('log').open").await, json!(true));
    let told = ask(window, "return document.querySelectorAll('#log-body li code').length").await;
    assert!(told.as_u64() > Some(0), "the commands behind a figure");
    ask(window, "document.getElementById('log').close()").await;
}

async fn dark(window: &Client) {
    let colours = "const f = document.querySelector('figure svg text');
                   return [getComputedStyle(document.body).backgroundColor, getComputedStyle(f).fill]";
    let theme =
        "document.getElementById('theme').click(); return document.documentElement.dataset.theme ?? null";
    assert_eq!(ask(window, theme).await, json!("light"));
    let light = ask(window, colours).await;
    assert_eq!(ask(window, theme).await, json!("dark"));
    let dark = ask(window, colours).await;
    assert_eq!(dark[0], json!("rgb(13, 17, 23)"));
    assert!(light[0] != dark[0] && light[1] != dark[1], "{light} {dark}");
    assert_eq!(ask(window, theme).await, Value::Null);
}

/// The switch shows one of two measures.
async fn measures(window: &Client) -> bool {
    let shown = "return [...document.querySelectorAll('figure:not([hidden])')].map(f => f.dataset.variant)";
    if ask(window, "return document.getElementById('measure')").await.is_null() {
        return false;
    }
    let before: Vec<String> = serde_json::from_value(ask(window, shown).await).unwrap();
    ask(window, "document.querySelector('#measure input[value=raw]').click()").await;
    let after: Vec<String> = serde_json::from_value(ask(window, shown).await).unwrap();
    let has = |list: &[String], variant: &str| list.iter().any(|one| one == variant);
    assert!(has(&before, "normalised") && !has(&before, "raw"), "{before:?}");
    assert!(has(&after, "raw") && !has(&after, "normalised"), "{after:?}");
    true
}

/// On a narrow screen nothing but tables and pictures, each within itself, is wider than the screen.
async fn narrow(window: &Client, page: &std::path::Path) {
    open(window, page).await;
    let widths = ask(window, "return [document.documentElement.scrollWidth, innerWidth]").await;
    assert!(widths[0].as_f64() <= widths[1].as_f64(), "{}: {widths}", page.display());
    assert!(widths[1].as_u64() < Some(500), "{widths}");
}

#[test]
fn pages_of_every_study_work_in_a_browser() {
    let Some(driver) = Driver::start() else { return };
    let place = Place::new();
    let pages = pages(&place);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let window = driver.window(false).await;
        let mut switched = 0;
        for page in &pages {
            use_page(&window, page).await;
            switched += usize::from(measures(&window).await);
        }
        assert!(switched > 0, "some page has both measures");
        assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
        // The proof that such a line would have been seen.
        ask(&window, "console.error('seen')").await;
        window.close().await.unwrap();
        assert!(driver.console().iter().any(|line| line.contains("seen")), "{:?}", driver.console());
        let telephone = driver.window(true).await;
        for page in &pages {
            narrow(&telephone, page).await;
        }
        telephone.close().await.unwrap();
    });
}
