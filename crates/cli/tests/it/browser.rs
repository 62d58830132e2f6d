//! Pages in a real browser: the report of a small real run of each study, with sorting, filtering, dark mode and a telephone's
//! screen; and the pages of `fsarena serve`.

mod driver;
mod page;
mod runs;
mod served;
mod window;

use crate::common::{Sandbox, runs_as_root, stored};
use driver::{Driver, Screen};
use served::Served;

#[test]
fn pages_of_every_study_work_in_a_browser() {
    let Some(driver) = Driver::start() else { return };
    let sandbox = Sandbox::new();
    let stored = runs::page_of(&sandbox, &stored::store_run(&sandbox.runs_dir()));
    let studies = runs::run_studies();
    let mut pages: Vec<_> = studies.iter().flat_map(runs::StudyRuns::pages).collect();
    pages.push((stored, vec!["ratios-elapsed", "raw-elapsed", "differences", "narrowing"]));
    let window = driver.window(Screen::Desk);
    let (mut switched, mut explained) = (0, 0);
    for (path, charts) in &pages {
        page::open(&window, path);
        page::assert_complete(&window, path, charts);
        page::assert_sorts_and_filters(&window);
        explained += usize::from(page::check_commands_of_figures(&window, path));
        page::assert_every_figure_has_commands(&window, path);
        page::assert_tables_can_be_copied(&window, path);
        page::assert_fits_on_paper(&window, path);
        page::assert_theme_switches(&window);
        switched += usize::from(page::check_measure_switch(&window));
    }
    assert!(switched > 0, "some page has both measures");
    assert!(studies.is_empty() || explained >= 5, "commands behind the figures of {explained} pages");
    assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
    // This line proves that the test would have seen an error.
    window.run_script("console.error('seen')");
    drop(window);
    assert!(driver.console().iter().any(|line| line.contains("seen")), "{:?}", driver.console());
    let telephone = driver.window(Screen::Telephone);
    for (path, _) in &pages {
        page::open(&telephone, path);
        page::assert_dark_and_narrow(&telephone, path);
        page::assert_scrollable_content_is_marked(&telephone, path);
    }
    drop(telephone);
    studies.iter().for_each(|runs| runs.sandbox.assert_clean());
}

#[test]
fn served_runs_are_found_compared_and_watched_in_a_browser() {
    let Some(driver) = Driver::start() else { return };
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        stored::store_run(&sandbox.runs_dir());
    }
    let served = Served::start(&sandbox);
    let window = driver.window(Screen::Desk);
    served.assert_lists_and_compares(&window);
    if runs_as_root() {
        let args = ["run", "plan.toml", "--on", "ram", "--quiet", "--fs", "ext4,xfs", "--rounds", "6"];
        let mut running = sandbox.fsarena(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
        served.assert_watches(&window);
        assert!(running.wait().unwrap().success());
    }
    drop(window);
    served.assert_lists_on_a_telephone(&driver.window(Screen::Telephone));
    assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
}
