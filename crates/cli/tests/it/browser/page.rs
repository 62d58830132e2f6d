//! What a reader does with a page, and what has to come of it.

use super::driver::address;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use std::path::Path;

/// What a script gives in the page.
pub async fn ask(window: &Client, script: &str) -> Value {
    window.execute(script, vec![]).await.unwrap_or_else(|error| panic!("{script}: {error}"))
}

/// Opens a page and waits until its script is through.
pub async fn open(window: &Client, page: &Path) {
    window.goto(&address(page)).await.unwrap();
    window.wait().for_element(Locator::Css("html[data-ready]")).await.expect("the page's script ends well");
}

/// It has its sections, its charts, which say what they show, and nothing is wider than the window.
pub async fn is_whole(window: &Client, page: &Path, charts: &[&str]) {
    let shown = page.display();
    for section in ["answer", "pictures", "data", "method"] {
        let there = ask(window, &format!("return !!document.querySelector('section#{section} > *')")).await;
        assert_eq!(there, json!(true), "{shown}: {section}");
    }
    let found = ask(window, "return [...document.querySelectorAll('figure')].map(f => f.id.slice(6))").await;
    let found: Vec<String> = serde_json::from_value(found).unwrap();
    for chart in charts {
        assert!(found.iter().any(|id| id == chart), "{shown}: {chart} of {found:?}");
    }
    let unnamed = "return [...document.querySelectorAll('svg')].filter(s => !s.querySelector('title') || !s.querySelector('desc')).length";
    assert_eq!(ask(window, unnamed).await, json!(0), "{shown}: every picture says what it shows");
    let plan = "return atob(document.querySelector('a[download]').href.split(',')[1])";
    assert!(
        ask(window, plan).await.as_str().unwrap().contains("seed = "),
        "{shown}: the plan that repeats it"
    );
    let named = "return [...document.querySelectorAll('#samples tbody tr')].every(row => {
                     const [arm, block, position] = [...row.cells].slice(1, 4).map(cell => cell.textContent);
                     return arm && arm !== 'undefined' && Number(block) >= 1 && Number(position) >= 1;
                 })";
    assert_eq!(ask(window, named).await, json!(true), "{shown}: every sample has its arm and its place");
    assert_no_wider_than_the_window(window, page).await;
}

async fn assert_no_wider_than_the_window(window: &Client, page: &Path) {
    let widths = "const r = document.documentElement; return [r.scrollWidth, r.clientWidth]";
    let widths = ask(window, widths).await;
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{}: {widths}", page.display());
}

/// The table of samples, which the script makes, and a table that is in the page: a click on a header sorts, a second
/// one the other way round, and typing leaves the rows that hold the words.
pub async fn sorts_and_filters(window: &Client) {
    for (table, column) in [("#samples", 4), ("#data > .bar + .scroll", 1)] {
        sorts(window, table, column).await;
        filters(window, table).await;
    }
}

async fn sorts(window: &Client, table: &str, column: usize) {
    let head = format!("document.querySelector('{table} thead').rows[0].cells[{column}]");
    let click = format!(
        "{head}.querySelector('button').click();
         return [...document.querySelector('{table} tbody').rows].map(r => parseFloat(r.cells[{column}].textContent)).filter(n => !isNaN(n))"
    );
    let told = format!("return {head}.getAttribute('aria-sort')");
    let numbers = |value: Value| -> Vec<f64> { serde_json::from_value(value).unwrap() };
    let up = numbers(ask(window, &click).await);
    assert_eq!(ask(window, &told).await, json!("ascending"), "{table}");
    let down = numbers(ask(window, &click).await);
    assert_eq!(ask(window, &told).await, json!("descending"), "{table}");
    assert!(!up.is_empty() && up.len() == down.len(), "{table}: {up:?} {down:?}");
    if table == "#samples" {
        // These are bare numbers; what people read has units, which the script knows.
        assert!(up.windows(2).all(|two| two[0] <= two[1]), "{up:?}");
        assert!(down.windows(2).all(|two| two[0] >= two[1]), "{down:?}");
    }
}

async fn filters(window: &Client, table: &str) {
    let rows =
        format!("return [...document.querySelector('{table} tbody').rows].filter(r => !r.hidden).length");
    let typed = |text: &str| {
        format!(
            "const place = document.querySelector('{table}');
             const field = place.querySelector('input[type=search]') ?? place.previousElementSibling.querySelector('input');
             field.value = '{text}'; field.dispatchEvent(new Event('input'));"
        )
    };
    let all = ask(window, &rows).await.as_u64();
    ask(window, &typed("no such thing")).await;
    assert_eq!(ask(window, &rows).await, json!(0), "{table}");
    ask(window, &typed("x")).await;
    let some = ask(window, &rows).await.as_u64();
    ask(window, &typed("")).await;
    assert_eq!(ask(window, &rows).await.as_u64(), all, "{table}");
    assert!(some <= all, "{table}: {some:?} {all:?}");
}

/// A figure shows its samples, and where its commands are kept, those. Whether some figure of the page has commands.
pub async fn explains(window: &Client, page: &Path) -> bool {
    ask(window, "document.querySelector('td[data-step] button').click()").await;
    assert_eq!(ask(window, "return document.getElementById('log').open").await, json!(true));
    let told = ask(window, "return document.getElementById('log-body').textContent.length").await;
    assert!(told.as_u64() > Some(0), "{}: what is behind a figure", page.display());
    let commands = "document.getElementById('log').close();
                    return [...document.querySelectorAll('td[data-step] button')].slice(0, 50).some(button => {
                        button.click();
                        const found = document.querySelectorAll('#log-body li code').length > 0;
                        document.getElementById('log').close();
                        return found;
                    })";
    ask(window, commands).await == json!(true)
}

/// The colours of the page and of text in a chart.
const COLOURS: &str = "const f = document.querySelector('figure svg text');
                       return [getComputedStyle(document.body).backgroundColor, getComputedStyle(f).fill]";
const DARK: &str = "rgb(13, 17, 23)";

/// The button turns the page light, dark, and back to what the system has.
pub async fn turns_dark(window: &Client) {
    let theme =
        "document.getElementById('theme').click(); return document.documentElement.dataset.theme ?? null";
    assert_eq!(ask(window, theme).await, json!("light"));
    let light = ask(window, COLOURS).await;
    assert_eq!(ask(window, theme).await, json!("dark"));
    let dark = ask(window, COLOURS).await;
    assert_eq!(dark[0], json!(DARK));
    assert!(light[0] != dark[0] && light[1] != dark[1], "{light} {dark}");
    assert_eq!(ask(window, theme).await, Value::Null);
}

/// The switch shows one of two measures. Whether the page has one.
pub async fn switches_measure(window: &Client) -> bool {
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

/// On a telephone whose system is dark the page is dark, and only tables and pictures, each within itself, are wider
/// than the screen.
pub async fn is_dark_and_narrow(window: &Client, page: &Path) {
    assert_eq!(ask(window, COLOURS).await[0], json!(DARK), "{}", page.display());
    let width = ask(window, "return document.documentElement.clientWidth").await;
    assert_eq!(width, json!(360), "{}", page.display());
    assert_no_wider_than_the_window(window, page).await;
}
