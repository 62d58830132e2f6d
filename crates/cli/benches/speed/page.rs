//! Measures how fast Chromium shows the page of a run. Skipped if Chromium is not installed.

use crate::driver::{Driver, Screen, address};
use crate::{FSARENA, command, run_to_end_s};
use std::path::{Path, PathBuf};

/// Writes the page of a run to a file, prints its size, and returns its path.
pub fn write_page(dir: &Path, run: &Path) -> PathBuf {
    let page = dir.join("page.html");
    let export = format!("html={}", page.display());
    let mut report = command(FSARENA, &["report", "--format", "term", "--export", &export]);
    report.arg(run);
    run_to_end_s(report);
    let size_mb = page.metadata().expect("a page").len() as f64 / 1e6;
    println!("{:<44} {size_mb:>10.2}", "its page, MB");
    page
}

/// Prints the medians of the first paint and of the complete page, each in a new window.
pub fn print_paint_times(page: &Path) {
    const TIMES: usize = 5;
    let Some(driver) = Driver::start() else { return };
    let mut paint_times_ms = vec![];
    let mut complete_times_ms = vec![];
    for _ in 0..TIMES {
        let window = driver.window(Screen::Desk);
        window.goto(&address(page));
        window.wait_for("html[data-ready]");
        let script = "return [performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
                           performance.getEntriesByType('navigation')[0].domComplete]";
        let times_ms = window.run_script(script);
        paint_times_ms.extend(times_ms[0].as_f64());
        complete_times_ms.extend(times_ms[1].as_f64());
    }
    for (title, mut times_ms) in
        [("first paint of that page, ms", paint_times_ms), ("all of it, ms", complete_times_ms)]
    {
        times_ms.sort_by(f64::total_cmp);
        let median = times_ms.get(times_ms.len() / 2).map_or("unknown".into(), |ms| format!("{ms:.0}"));
        println!("{title:<44} {median:>10}");
    }
}
