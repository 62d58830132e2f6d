//! What a reader does with a page, and what has to come of it.

use super::{driver::address, window::Window};
use serde_json::{Value, json};
use std::path::Path;

/// Opens a page and waits until its script is through.
pub fn open(window: &Window, page: &Path) {
    window.goto(&address(page));
    // The page's script ends well.
    window.wait_for("html[data-ready]");
}

/// It has its sections, its charts, which say what they show, and nothing is wider than the window.
pub fn is_whole(window: &Window, page: &Path, charts: &[&str]) {
    let shown = page.display();
    for section in ["answer", "pictures", "data", "method"] {
        let there = window.ask(&format!("return !!document.querySelector('section#{section} > *')"));
        assert_eq!(there, json!(true), "{shown}: {section}");
    }
    let found = window.ask("return [...document.querySelectorAll('figure')].map(f => f.id.slice(6))");
    let found: Vec<String> = serde_json::from_value(found).unwrap();
    for chart in charts {
        assert!(found.iter().any(|id| id == chart), "{shown}: {chart} of {found:?}");
    }
    let unnamed = "return [...document.querySelectorAll('svg')].filter(s => !s.querySelector('title') || !s.querySelector('desc')).length";
    assert_eq!(window.ask(unnamed), json!(0), "{shown}: every picture says what it shows");
    let plan = "return atob(document.querySelector('a[download]').href.split(',')[1])";
    assert!(window.ask(plan).as_str().unwrap().contains("seed = "), "{shown}: the plan that repeats it");
    let named = "return [...document.querySelectorAll('#samples tbody tr')].every(row => {
                     const [variant, round, position] = [...row.cells].slice(1, 4).map(cell => cell.textContent);
                     return variant && variant !== 'undefined' && Number(round) >= 1 && Number(position) >= 1;
                 })";
    assert_eq!(window.ask(named), json!(true), "{shown}: every sample has its variant and its place");
    assert_no_wider_than_the_window(window, page);
}

fn assert_no_wider_than_the_window(window: &Window, page: &Path) {
    let widths = "const r = document.documentElement; return [r.scrollWidth, r.clientWidth]";
    let widths = window.ask(widths);
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{}: {widths}", page.display());
}

/// The table of samples, which the script makes, and a table that is in the page: a click on a header sorts, a second
/// one the other way round, and typing leaves the rows that hold the words.
pub fn sorts_and_filters(window: &Window) {
    for (table, column) in [("#samples", 4), ("#data > .bar + .scroll", 1)] {
        sorts(window, table, column);
        filters(window, table);
    }
}

fn sorts(window: &Window, table: &str, column: usize) {
    let head = format!("document.querySelector('{table} thead').rows[0].cells[{column}]");
    let click = format!(
        "{head}.querySelector('button').click();
         return [...document.querySelector('{table} tbody').rows].map(r => parseFloat(r.cells[{column}].textContent)).filter(n => !isNaN(n))"
    );
    let told = format!("return {head}.getAttribute('aria-sort')");
    let numbers = |value: Value| -> Vec<f64> { serde_json::from_value(value).unwrap() };
    let up = numbers(window.ask(&click));
    assert_eq!(window.ask(&told), json!("ascending"), "{table}");
    let down = numbers(window.ask(&click));
    assert_eq!(window.ask(&told), json!("descending"), "{table}");
    assert!(!up.is_empty() && up.len() == down.len(), "{table}: {up:?} {down:?}");
    if table == "#samples" {
        // These are bare numbers; what people read has units, which the script knows.
        assert!(up.windows(2).all(|two| two[0] <= two[1]), "{up:?}");
        assert!(down.windows(2).all(|two| two[0] >= two[1]), "{down:?}");
    }
}

fn filters(window: &Window, table: &str) {
    let rows = format!("return [...document.querySelector('{table} tbody').rows].filter(r => !r.hidden).length");
    let typed = |text: &str| {
        format!(
            "const place = document.querySelector('{table}');
             const field = place.querySelector('input[type=search]') ?? place.previousElementSibling.querySelector('input');
             field.value = '{text}'; field.dispatchEvent(new Event('input'));"
        )
    };
    let all = window.ask(&rows).as_u64();
    let first = format!("return document.querySelector('{table} tbody').rows[0].cells[0].textContent.trim()");
    let first = window.ask(&first).as_str().unwrap().to_string();
    window.ask(&typed("no such thing"));
    assert_eq!(window.ask(&rows), json!(0), "{table}");
    // What the first row says in its first cell is in each row that stays.
    window.ask(&typed(&first));
    let kept = format!(
        "return [...document.querySelector('{table} tbody').rows].filter(r => !r.hidden).map(r => r.textContent)"
    );
    let kept: Vec<String> = serde_json::from_value(window.ask(&kept)).unwrap();
    // The filter is blind to case: `Mount` finds `Unmount`.
    let first = first.to_lowercase();
    let found = |row: &String| first.split_whitespace().all(|word| row.to_lowercase().contains(word));
    assert!(!first.is_empty() && !kept.is_empty() && kept.iter().all(found), "{table}: {first}: {kept:?}");
    window.ask(&typed(""));
    assert_eq!(window.ask(&rows).as_u64(), all, "{table}");
}

/// A figure shows its samples, and where its commands are kept, those. Whether some figure of the page has commands.
pub fn explains(window: &Window, page: &Path) -> bool {
    window.ask("document.querySelector('td[data-task] button').click()");
    assert_eq!(window.ask("return document.getElementById('log').open"), json!(true));
    let told = window.ask("return document.getElementById('log-body').textContent.length");
    assert!(told.as_u64() > Some(0), "{}: what is behind a figure", page.display());
    let commands = "document.getElementById('log').close();
                    return [...document.querySelectorAll('td[data-task] button')].slice(0, 50).some(button => {
                        button.click();
                        const found = document.querySelectorAll('#log-body li code').length > 0;
                        document.getElementById('log').close();
                        return found;
                    })";
    window.ask(commands) == json!(true)
}

/// Every number of the tables of figures leads to commands by a button, and that of a total to those of all its variants.
pub fn explains_every_figure(window: &Window, page: &Path) {
    let without = "return [...document.querySelectorAll('main table.figures td')]
        .filter(cell => /\\d/.test(cell.textContent) && !cell.closest('tr').querySelector(':scope > td > button.button') && !cell.querySelector('button'))
        .map(cell => cell.textContent)";
    assert_eq!(window.ask(without), json!([]), "{}: figures without a log", page.display());
    let of_all = "return [...document.querySelectorAll('td[data-variant]:not([data-task]) button')].map(button => {
                      button.click();
                      const head = document.getElementById('log-head').textContent;
                      const rounds = document.querySelectorAll('#log-body :is(h3, h4)').length;
                      document.getElementById('log').close();
                      const variants = button.parentElement.dataset.variant.split(' ').map(variant => run.variants[variant]);
                      return rounds > 0 && head.startsWith('All tasks') && variants.every(variant => head.includes(variant));
                  })";
    let told: Vec<bool> = serde_json::from_value(window.ask(of_all)).unwrap();
    assert!(!told.is_empty() && told.iter().all(|told| *told), "{}: {told:?}", page.display());
}

/// Every table can be copied. Of figures a number, its unit, its letters and the ends of its interval have columns each.
pub fn copies(window: &Window, page: &Path) {
    let shown = page.display();
    let without = "return [...document.querySelectorAll('main table')].map(table => {
                       const before = table.closest('.scroll').previousElementSibling;
                       return before.textContent.includes('Copy as CSV');
                   }).filter(has => !has).length";
    assert_eq!(window.ask(without), json!(0), "{shown}: tables that cannot be copied");
    let copied = "const clipboard = { writeText: async (text) => { window.copied = text; } };
                  Object.defineProperty(navigator, 'clipboard', { value: clipboard, configurable: true });
                  const scroll = document.querySelector('#data .scroll:has(td[data-variant] .sub)');
                  const bar = scroll.previousElementSibling;
                  [...bar.querySelectorAll('button')].find(button => button.textContent === 'Copy as CSV').click();
                  return window.copied";
    let copied = window.ask(copied);
    let mut reader = csv::Reader::from_reader(copied.as_str().expect("it was copied").as_bytes());
    let names = reader.headers().unwrap().clone();
    for part in [" low", " high"] {
        assert!(names.iter().any(|name| name.ends_with(part)), "{shown}: {names:?}");
    }
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let ends = names.iter().zip(0..).filter(|(name, _)| name.ends_with(" low") || name.ends_with(" high"));
    for (name, at) in ends {
        let bare = |row: &csv::StringRecord| row[at].is_empty() || row[at].parse::<f64>().is_ok();
        assert!(rows.iter().all(bare), "{shown}: {name} of {rows:?}");
    }
}

/// On paper all tables fit, and both measures are printed.
pub fn prints(window: &Window, page: &Path) {
    window.paper(Some(718));
    let beyond = "return [...document.querySelectorAll('main table, figure svg')]
                      .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
                      .map(one => one.caption?.textContent ?? one.closest('figure').id)";
    let (beyond, figures) = (
        window.ask(beyond),
        window.ask("return [...document.querySelectorAll('figure')].filter(f => !f.offsetHeight).length"),
    );
    window.paper(None);
    assert_eq!(beyond, json!([]), "{}: what runs off the paper", page.display());
    assert_eq!(figures, json!(0), "{}: pictures that are not printed", page.display());
}

/// Content wider than a telephone is marked as scrollable, and a picture can be shown whole.
pub fn says_what_is_wider(window: &Window, page: &Path) {
    let shown = page.display();
    let silent = "return [...document.querySelectorAll('main .picture, main .scroll')]
                      .filter(box => box.scrollWidth > box.clientWidth + 1 && ![box.previousElementSibling, box.previousElementSibling.querySelector('.hint')].some(one => one?.matches('.hint') && one.offsetHeight > 0))
                      .map(box => box.getAttribute('aria-label'))";
    assert_eq!(window.ask(silent), json!([]), "{shown}: wider without a hint");
    let small = "const scale = svg => svg.getBoundingClientRect().width / svg.width.baseVal.value;
                 const words = svg => [...svg.querySelectorAll('text')].map(text => parseFloat(text.getAttribute('font-size')) * scale(svg));
                 const shown = [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
                 return Math.min(...shown.flatMap(words))";
    assert!(window.ask(small).as_f64() >= Some(8.9), "{shown}: {} px", window.ask(small));
    let whole = "const box = [...document.querySelectorAll('.picture:not(.small)')].find(box => box.offsetHeight > 0);
                 box.previousElementSibling.querySelector('button').click();
                 return box.scrollWidth <= box.clientWidth + 1";
    assert_eq!(window.ask(whole), json!(true), "{shown}: the whole picture");
    let cut = "return [...document.querySelectorAll('#claims table.words')].filter(t => t.rows[0].cells.length < 4)
                   .filter(t => t.getBoundingClientRect().right > innerWidth).length";
    assert_eq!(window.ask(cut), json!(0), "{shown}: the last column is cut off");
}

/// The colours of the page and of text in a chart.
const COLOURS: &str = "const f = document.querySelector('figure svg text');
                       return [getComputedStyle(document.body).backgroundColor, getComputedStyle(f).fill]";
const DARK: &str = "rgb(13, 17, 23)";

/// The button turns the page light, dark, and back to what the system has.
pub fn turns_dark(window: &Window) {
    let theme = "document.getElementById('theme').click(); return document.documentElement.dataset.theme ?? null";
    assert_eq!(window.ask(theme), json!("light"));
    let light = window.ask(COLOURS);
    assert_eq!(window.ask(theme), json!("dark"));
    let dark = window.ask(COLOURS);
    assert_eq!(dark[0], json!(DARK));
    assert!(light[0] != dark[0] && light[1] != dark[1], "{light} {dark}");
    assert_eq!(window.ask(theme), Value::Null);
}

/// The switch shows one of two measures. Whether the page has one.
pub fn switches_measure(window: &Window) -> bool {
    let shown = "return [...document.querySelectorAll('figure:not([hidden])')].map(f => f.dataset.form)";
    if window.ask("return document.getElementById('measure')").is_null() {
        return false;
    }
    let before: Vec<String> = serde_json::from_value(window.ask(shown)).unwrap();
    window.ask("document.querySelector('#measure input[value=raw]').click()");
    let after: Vec<String> = serde_json::from_value(window.ask(shown)).unwrap();
    let has = |list: &[String], form: &str| list.iter().any(|one| one == form);
    assert!(has(&before, "normalised") && !has(&before, "raw"), "{before:?}");
    assert!(has(&after, "raw") && !has(&after, "normalised"), "{after:?}");
    true
}

/// On a telephone whose system is dark the page is dark, and only tables and pictures, each within itself, are wider
/// than the screen.
pub fn is_dark_and_narrow(window: &Window, page: &Path) {
    assert_eq!(window.ask(COLOURS)[0], json!(DARK), "{}", page.display());
    let width = window.ask("return document.documentElement.clientWidth");
    assert_eq!(width, json!(360), "{}", page.display());
    assert_no_wider_than_the_window(window, page);
}
