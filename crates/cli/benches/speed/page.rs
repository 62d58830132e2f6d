//! Measures how fast Chromium shows the page of a run. Skipped if Chromium is not installed.

use crate::driver::{Driver, Screen, address};
use crate::{FSARENA, command, seconds};
use std::path::{Path, PathBuf};

/// Writes the page of a run to a file, prints its size, and returns its path.
pub fn write(dir: &Path, run: &Path) -> PathBuf {
    let page = dir.join("page.html");
    let export = format!("html={}", page.display());
    let mut write = command(FSARENA, &["report", "--format", "term", "--export", &export]);
    write.arg(run);
    seconds(write);
    let size = page.metadata().expect("a page").len() as f64 / 1e6;
    println!("{:<44} {size:>10.2}", "its page, MB");
    page
}

/// Prints the medians of the first paint and of the complete page, each in a new window.
pub fn first_paint(page: &Path) {
    const TIMES: usize = 5;
    let Some(driver) = Driver::start() else { return };
    let mut paints = vec![];
    let mut ready = vec![];
    for _ in 0..TIMES {
        let window = driver.window(Screen::Desk);
        window.goto(&address(page));
        window.wait_for("html[data-ready]");
        let ask = "return [performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
                           performance.getEntriesByType('navigation')[0].domComplete]";
        let times = window.ask(ask);
        paints.extend(times[0].as_f64());
        ready.extend(times[1].as_f64());
    }
    for (what, mut times) in [("first paint of that page, ms", paints), ("all of it, ms", ready)] {
        times.sort_by(f64::total_cmp);
        let middle = times.get(times.len() / 2).map_or("unknown".into(), |ms| format!("{ms:.0}"));
        println!("{what:<44} {middle:>10}");
    }
}
