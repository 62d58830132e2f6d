//! The page of each study in a real browser: small real runs, opened, sorted, filtered, in the dark, on a telephone. And
//! a folder of runs, served: two compared, one watched.

mod driver;
mod page;
mod runs;
mod served;
mod window;

use crate::common::{Place, root, stored};
use driver::{Driver, Screen};
use served::Served;

#[test]
fn pages_of_every_study_work_in_a_browser() {
    let Some(driver) = Driver::start() else { return };
    let place = Place::new();
    let stored = runs::page_of(&place, &stored::run(&place.runs()));
    let studies = runs::studies();
    let mut pages: Vec<_> = studies.iter().flat_map(runs::Made::pages).collect();
    pages.push((stored, vec!["ratios-elapsed", "raw-elapsed", "differences", "narrowing"]));
    let window = driver.window(Screen::Desk);
    let (mut switched, mut explained) = (0, 0);
    for (path, charts) in &pages {
        page::open(&window, path);
        page::is_whole(&window, path, charts);
        page::sorts_and_filters(&window);
        explained += usize::from(page::explains(&window, path));
        page::explains_every_figure(&window, path);
        page::copies(&window, path);
        page::prints(&window, path);
        page::turns_dark(&window);
        switched += usize::from(page::switches_measure(&window));
    }
    assert!(switched > 0, "some page has both measures");
    assert!(studies.is_empty() || explained >= 5, "commands behind the figures of {explained} pages");
    assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
    // The proof that such a line would have been seen.
    window.ask("console.error('seen')");
    drop(window);
    assert!(driver.console().iter().any(|line| line.contains("seen")), "{:?}", driver.console());
    let telephone = driver.window(Screen::Telephone);
    for (path, _) in &pages {
        page::open(&telephone, path);
        page::is_dark_and_narrow(&telephone, path);
        page::says_what_is_wider(&telephone, path);
    }
    drop(telephone);
    studies.iter().for_each(|made| made.place.assert_clean());
}

#[test]
fn served_runs_are_found_compared_and_watched_in_a_browser() {
    let Some(driver) = Driver::start() else { return };
    let place = Place::new();
    for _ in 0..2 {
        stored::run(&place.runs());
    }
    let served = Served::start(&place);
    let window = driver.window(Screen::Desk);
    served.lists_and_compares(&window);
    if root() {
        let args = ["run", "plan.toml", "--on", "ram", "--quiet", "--fs", "ext4,xfs", "--rounds", "6"];
        let mut running = place.fsarena(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
        served.watches(&window);
        assert!(running.wait().unwrap().success());
    }
    drop(window);
    served.lists_on_a_telephone(&driver.window(Screen::Telephone));
    assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
}
