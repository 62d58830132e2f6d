//! The page of each study in a real browser: small real runs, opened, sorted, filtered, in the dark, on a telephone. And
//! a folder of runs, served: two compared, one watched.

mod driver;
mod page;
mod runs;
mod served;

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let window = driver.window(Screen::Desk).await;
        let (mut switched, mut explained) = (0, 0);
        for (path, charts) in &pages {
            page::open(&window, path).await;
            page::is_whole(&window, path, charts).await;
            page::sorts_and_filters(&window).await;
            explained += usize::from(page::explains(&window, path).await);
            page::turns_dark(&window).await;
            switched += usize::from(page::switches_measure(&window).await);
        }
        assert!(switched > 0, "some page has both measures");
        assert!(studies.is_empty() || explained >= 5, "commands behind the figures of {explained} pages");
        assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
        // The proof that such a line would have been seen.
        page::ask(&window, "console.error('seen')").await;
        window.close().await.unwrap();
        assert!(driver.console().iter().any(|line| line.contains("seen")), "{:?}", driver.console());
        let telephone = driver.window(Screen::Telephone).await;
        for (path, _) in &pages {
            page::open(&telephone, path).await;
            page::is_dark_and_narrow(&telephone, path).await;
        }
        telephone.close().await.unwrap();
    });
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let window = driver.window(Screen::Desk).await;
        served.lists_and_compares(&window).await;
        if root() {
            let args = ["run", "plan.toml", "--on", "ram", "--quiet", "--fs", "ext4,xfs", "--blocks", "6"];
            let mut running = place.fsarena(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
            served.watches(&window).await;
            assert!(running.wait().unwrap().success());
        }
        window.close().await.unwrap();
    });
    assert_eq!(driver.console(), Vec::<String>::new(), "nothing is wrong on any page");
}
