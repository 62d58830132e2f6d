//! Actions of a reader on a page, and checks of their effects.

use super::{driver::address, window::Window};
use serde_json::{Value, json};
use std::path::Path;

/// Opens a page and waits until its script has ended.
pub fn open(window: &Window, page: &Path) {
    window.goto(&address(page));
    // The script of the page ended without an error.
    window.wait_for("html[data-ready]");
}

/// Asserts that a page has its sections and these charts with their descriptions, and that nothing is wider than the window.
pub fn assert_complete(window: &Window, page: &Path, charts: &[&str]) {
    let shown = page.display();
    for section in ["answer", "pictures", "data", "method"] {
        let has_content = window.run_script(&format!("return !!document.querySelector('section#{section} > *')"));
        assert_eq!(has_content, json!(true), "{shown}: {section}");
    }
    let ids = window.run_script("return [...document.querySelectorAll('figure')].map(f => f.id.slice(6))");
    let ids: Vec<String> = serde_json::from_value(ids).unwrap();
    for chart in charts {
        assert!(ids.iter().any(|id| id == chart), "{shown}: {chart} of {ids:?}");
    }
    let unnamed_count = "return [...document.querySelectorAll('svg')].filter(s => !s.querySelector('title') || !s.querySelector('desc')).length";
    assert_eq!(window.run_script(unnamed_count), json!(0), "{shown}: every picture says what it shows");
    let plan = "return atob(document.querySelector('a[download]').href.split(',')[1])";
    assert!(window.run_script(plan).as_str().unwrap().contains("seed = "), "{shown}: the plan that repeats it");
    let named = "return [...document.querySelectorAll('#samples tbody tr')].every(row => {
                     const [variant, round, position] = [...row.cells].slice(1, 4).map(cell => cell.textContent);
                     return variant && variant !== 'undefined' && Number(round) >= 1 && Number(position) >= 1;
                 })";
    assert_eq!(window.run_script(named), json!(true), "{shown}: every sample has its variant and its place");
    assert_no_wider_than_the_window(window, page);
}

fn assert_no_wider_than_the_window(window: &Window, page: &Path) {
    let widths = "const r = document.documentElement; return [r.scrollWidth, r.clientWidth]";
    let widths = window.run_script(widths);
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{}: {widths}", page.display());
}

/// Asserts for the table of samples, which the script makes, and for a table of the page: a click on a header sorts, a
/// second one reverses the order, and typed words filter the rows.
pub fn assert_sorts_and_filters(window: &Window) {
    for (table, column) in [("#samples", 4), ("#data > .bar + .scroll", 1)] {
        assert_sorts(window, table, column);
        assert_filters(window, table);
    }
}

/// Asserts that clicks on the header of a column sort a table in ascending and then in descending order.
fn assert_sorts(window: &Window, table: &str, column: usize) {
    let header = format!("document.querySelector('{table} thead').rows[0].cells[{column}]");
    let click = format!(
        "{header}.querySelector('button').click();
         return [...document.querySelector('{table} tbody').rows].map(r => parseFloat(r.cells[{column}].textContent)).filter(n => !isNaN(n))"
    );
    let direction = format!("return {header}.getAttribute('aria-sort')");
    let numbers = |value: Value| -> Vec<f64> { serde_json::from_value(value).unwrap() };
    let ascending = numbers(window.run_script(&click));
    assert_eq!(window.run_script(&direction), json!("ascending"), "{table}");
    let descending = numbers(window.run_script(&click));
    assert_eq!(window.run_script(&direction), json!("descending"), "{table}");
    assert!(!ascending.is_empty() && ascending.len() == descending.len(), "{table}: {ascending:?} {descending:?}");
    if table == "#samples" {
        // The cells of this table have numbers without units. Other cells have units, which the script converts.
        assert!(ascending.windows(2).all(|pair| pair[0] <= pair[1]), "{ascending:?}");
        assert!(descending.windows(2).all(|pair| pair[0] >= pair[1]), "{descending:?}");
    }
}

/// Asserts that the filter of a table leaves the rows with the words of its first cell.
fn assert_filters(window: &Window, table: &str) {
    let row_count = format!("return [...document.querySelector('{table} tbody').rows].filter(r => !r.hidden).length");
    let type_filter = |text: &str| {
        format!(
            "const place = document.querySelector('{table}');
             const field = place.querySelector('input[type=search]') ?? place.previousElementSibling.querySelector('input');
             field.value = '{text}'; field.dispatchEvent(new Event('input'));"
        )
    };
    let unfiltered_count = window.run_script(&row_count).as_u64();
    let first_cell = format!("return document.querySelector('{table} tbody').rows[0].cells[0].textContent.trim()");
    let first_cell = window.run_script(&first_cell).as_str().unwrap().to_string();
    window.run_script(&type_filter("no such thing"));
    assert_eq!(window.run_script(&row_count), json!(0), "{table}");
    // The words of the first cell of the first row are in each row that stays.
    window.run_script(&type_filter(&first_cell));
    let visible_rows = format!(
        "return [...document.querySelector('{table} tbody').rows].filter(r => !r.hidden).map(r => r.textContent)"
    );
    let visible_rows: Vec<String> = serde_json::from_value(window.run_script(&visible_rows)).unwrap();
    // The filter ignores case: `Mount` finds `Unmount`.
    let words = first_cell.to_lowercase();
    let has_words = |row: &String| words.split_whitespace().all(|word| row.to_lowercase().contains(word));
    assert!(!words.is_empty() && !visible_rows.is_empty(), "{table}: {words}: {visible_rows:?}");
    assert!(visible_rows.iter().all(has_words), "{table}: {words}: {visible_rows:?}");
    window.run_script(&type_filter(""));
    assert_eq!(window.run_script(&row_count).as_u64(), unfiltered_count, "{table}");
}

/// Asserts that a figure shows its samples, and its commands if the page has them. Returns whether a figure has commands.
pub fn check_commands_of_figures(window: &Window, page: &Path) -> bool {
    window.run_script("document.querySelector('td[data-task] button').click()");
    assert_eq!(window.run_script("return document.getElementById('log').open"), json!(true));
    let log_length = window.run_script("return document.getElementById('log-body').textContent.length");
    assert!(log_length.as_u64() > Some(0), "{}: the log of a figure", page.display());
    let commands = "document.getElementById('log').close();
                    return [...document.querySelectorAll('td[data-task] button')].slice(0, 50).some(button => {
                        button.click();
                        const found = document.querySelectorAll('#log-body li code').length > 0;
                        document.getElementById('log').close();
                        return found;
                    })";
    window.run_script(commands) == json!(true)
}

/// Asserts that every number in the tables of figures has a button that leads to its commands; the button of a total leads to
/// those of all its variants.
pub fn assert_every_figure_has_commands(window: &Window, page: &Path) {
    let without = "return [...document.querySelectorAll('main table.figures td')]
        .filter(cell => /\\d/.test(cell.textContent) && !cell.closest('tr').querySelector(':scope > td > button.button') && !cell.querySelector('button'))
        .map(cell => cell.textContent)";
    assert_eq!(window.run_script(without), json!([]), "{}: figures without a log", page.display());
    let leads_to_commands = "return [...document.querySelectorAll('td[data-variant]:not([data-task]) button')].map(button => {
                      button.click();
                      const head = document.getElementById('log-head').textContent;
                      const rounds = document.querySelectorAll('#log-body :is(h3, h4)').length;
                      document.getElementById('log').close();
                      const variants = button.parentElement.dataset.variant.split(' ').map(variant => run.variants[variant]);
                      return rounds > 0 && head.startsWith('All tasks') && variants.every(variant => head.includes(variant));
                  })";
    let results: Vec<bool> = serde_json::from_value(window.run_script(leads_to_commands)).unwrap();
    assert!(!results.is_empty() && results.iter().all(|result| *result), "{}: {results:?}", page.display());
}

/// Asserts that every table can be copied. A copied figure has a column for its number, its unit, its letters and each end
/// of its interval.
pub fn assert_tables_can_be_copied(window: &Window, page: &Path) {
    let shown = page.display();
    let without = "return [...document.querySelectorAll('main table')].map(table => {
                       const before = table.closest('.scroll').previousElementSibling;
                       return before.textContent.includes('Copy as CSV');
                   }).filter(has => !has).length";
    assert_eq!(window.run_script(without), json!(0), "{shown}: tables that cannot be copied");
    let copied = "const clipboard = { writeText: async (text) => { window.copied = text; } };
                  Object.defineProperty(navigator, 'clipboard', { value: clipboard, configurable: true });
                  const scroll = document.querySelector('#data .scroll:has(td[data-variant] .sub)');
                  const bar = scroll.previousElementSibling;
                  [...bar.querySelectorAll('button')].find(button => button.textContent === 'Copy as CSV').click();
                  return window.copied";
    let copied = window.run_script(copied);
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

/// Asserts that all tables fit on paper, and that both measures are printed.
pub fn assert_fits_on_paper(window: &Window, page: &Path) {
    window.show_as_printed(Some(718));
    let beyond = "return [...document.querySelectorAll('main table, figure svg')]
                      .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
                      .map(one => one.caption?.textContent ?? one.closest('figure').id)";
    let (beyond, figures) = (
        window.run_script(beyond),
        window.run_script("return [...document.querySelectorAll('figure')].filter(f => !f.offsetHeight).length"),
    );
    window.show_as_printed(None);
    assert_eq!(beyond, json!([]), "{}: what runs off the paper", page.display());
    assert_eq!(figures, json!(0), "{}: pictures that are not printed", page.display());
}

/// Asserts that content wider than a telephone is marked as scrollable, and that a chart can be shown whole.
pub fn assert_scrollable_content_is_marked(window: &Window, page: &Path) {
    let shown = page.display();
    let silent = "return [...document.querySelectorAll('main .picture, main .scroll')]
                      .filter(box => box.scrollWidth > box.clientWidth + 1 && ![box.previousElementSibling, box.previousElementSibling.querySelector('.hint')].some(one => one?.matches('.hint') && one.offsetHeight > 0))
                      .map(box => box.getAttribute('aria-label'))";
    assert_eq!(window.run_script(silent), json!([]), "{shown}: wider without a hint");
    let small = "const scale = svg => svg.getBoundingClientRect().width / svg.width.baseVal.value;
                 const words = svg => [...svg.querySelectorAll('text')].map(text => parseFloat(text.getAttribute('font-size')) * scale(svg));
                 const shown = [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
                 return Math.min(...shown.flatMap(words))";
    assert!(window.run_script(small).as_f64() >= Some(8.9), "{shown}: {} px", window.run_script(small));
    let whole = "const box = [...document.querySelectorAll('.picture:not(.small)')].find(box => box.offsetHeight > 0);
                 box.previousElementSibling.querySelector('button').click();
                 return box.scrollWidth <= box.clientWidth + 1";
    assert_eq!(window.run_script(whole), json!(true), "{shown}: the whole picture");
    let cut = "return [...document.querySelectorAll('#claims table.words')].filter(t => t.rows[0].cells.length < 4)
                   .filter(t => t.getBoundingClientRect().right > innerWidth).length";
    assert_eq!(window.run_script(cut), json!(0), "{shown}: the last column is cut off");
}

/// The colours of the page and of text in a chart.
const COLOUR_SCRIPT: &str = "const f = document.querySelector('figure svg text');
                       return [getComputedStyle(document.body).backgroundColor, getComputedStyle(f).fill]";
/// The background of dark pages.
const DARK_BACKGROUND: &str = "rgb(13, 17, 23)";

/// Asserts that the button turns the page light, then dark, then back to the setting of the system.
pub fn assert_theme_switches(window: &Window) {
    let theme = "document.getElementById('theme').click(); return document.documentElement.dataset.theme ?? null";
    assert_eq!(window.run_script(theme), json!("light"));
    let light = window.run_script(COLOUR_SCRIPT);
    assert_eq!(window.run_script(theme), json!("dark"));
    let dark = window.run_script(COLOUR_SCRIPT);
    assert_eq!(dark[0], json!(DARK_BACKGROUND));
    assert!(light[0] != dark[0] && light[1] != dark[1], "{light} {dark}");
    assert_eq!(window.run_script(theme), Value::Null);
}

/// Asserts that the switch shows one of two measures. Returns whether the page has a switch.
pub fn check_measure_switch(window: &Window) -> bool {
    let shown = "return [...document.querySelectorAll('figure:not([hidden])')].map(f => f.dataset.form)";
    if window.run_script("return document.getElementById('measure')").is_null() {
        return false;
    }
    let before: Vec<String> = serde_json::from_value(window.run_script(shown)).unwrap();
    window.run_script("document.querySelector('#measure input[value=raw]').click()");
    let after: Vec<String> = serde_json::from_value(window.run_script(shown)).unwrap();
    let has_form = |list: &[String], form: &str| list.iter().any(|known| known == form);
    assert!(has_form(&before, "normalised") && !has_form(&before, "raw"), "{before:?}");
    assert!(has_form(&after, "raw") && !has_form(&after, "normalised"), "{after:?}");
    true
}

/// Asserts that on a telephone with a dark system the page is dark and fits the width of the screen; only tables and charts
/// scroll within themselves.
pub fn assert_dark_and_narrow(window: &Window, page: &Path) {
    assert_eq!(window.run_script(COLOUR_SCRIPT)[0], json!(DARK_BACKGROUND), "{}", page.display());
    let width = window.run_script("return document.documentElement.clientWidth");
    assert_eq!(width, json!(360), "{}", page.display());
    assert_no_wider_than_the_window(window, page);
}
