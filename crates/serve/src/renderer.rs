//! Pages that take work: made once for each state of what they show, on threads of their own, few at a time.
//!
//! However many ask, a page is made once, and all that are being made read no more than [`BUDGET`] of databases.

use axum::body::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::HashMap, fmt::Debug};
use tokio::sync::{OnceCell, Semaphore};

/// Mebibytes of databases that are read at once. In memory a run takes some three times as much.
const BUDGET: u32 = 256;
/// What the smallest page counts for: no more than four are made at once.
const LEAST: u32 = BUDGET / 4;
/// Bytes of the largest database that pages are made of.
pub const LARGEST: u64 = 1 << 30;
/// Bytes of the largest whose answer is worked out for the list.
pub const LARGEST_LISTED: u64 = 64 << 20;
/// Bytes of pages that are kept.
const KEPT: usize = 64 << 20;

/// A page, or why there is none.
pub type RenderedPage = Result<Bytes, String>;

/// Makes pages and keeps them.
pub struct Renderer {
    budget: Arc<Semaphore>,
    pages: Mutex<Pages>,
}

struct Pages {
    /// The pages by the hash of what they show, and when each was last asked for.
    kept: HashMap<blake3::Hash, (u64, Arc<OnceCell<RenderedPage>>)>,
    asked: u64,
}

impl Renderer {
    /// One that has made nothing yet.
    pub fn new() -> Renderer {
        let pages = Pages { kept: HashMap::new(), asked: 0 };
        Renderer { budget: Arc::new(Semaphore::new(BUDGET as usize)), pages: Mutex::new(pages) }
    }

    /// The page identified by `shows`, which includes the state of every run on it. Requests that arrive while the page
    /// is being made wait for the same page.
    pub async fn page(
        &self,
        shows: &impl Debug,
        bytes: u64,
        make: impl FnOnce() -> RenderedPage + Send + 'static,
    ) -> RenderedPage {
        if bytes > LARGEST {
            return Err(format!(
                "Its database has {} MiB, which is more than this page reads; `fsarena report` can.",
                bytes >> 20
            ));
        }
        // Hash the key, because it may be as long as a request.
        let cell = self.cell(name(shows));
        let made = cell.get_or_init(|| self.make(bytes, make)).await.clone();
        self.forget();
        made
    }

    async fn make(&self, bytes: u64, make: impl FnOnce() -> RenderedPage + Send + 'static) -> RenderedPage {
        let share = u32::try_from(bytes >> 20).unwrap_or(BUDGET).clamp(LEAST, BUDGET);
        let failed = |_| "This page could not be made; this is a fault of fsarena.".to_string();
        let permit = self
            .budget
            .clone()
            .acquire_many_owned(share)
            .await
            .map_err(|_| "The server ends.".to_string())?;
        let work = move || {
            let made = make();
            // Not before: who asked may be gone, but the work goes on.
            drop(permit);
            made
        };
        tokio::task::spawn_blocking(work).await.map_err(failed)?
    }

    fn cell(&self, key: blake3::Hash) -> Arc<OnceCell<RenderedPage>> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.asked += 1;
        let now = pages.asked;
        let page = pages.kept.entry(key).or_default();
        page.0 = now;
        page.1.clone()
    }

    /// Removes the least recently requested pages while the cache is over its limit.
    fn forget(&self) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |cell: &OnceCell<RenderedPage>| match cell.get() {
            Some(Ok(page)) => page.len(),
            Some(Err(why)) => why.len(),
            None => 0,
        };
        let mut all: usize = pages.kept.values().map(|(_, cell)| size(cell) + 1024).sum();
        while all > KEPT {
            let made = pages.kept.iter().filter(|(_, (_, cell))| cell.initialized());
            let Some((key, freed)) =
                made.min_by_key(|(_, (asked, _))| *asked).map(|(key, (_, cell))| (*key, size(cell) + 1024))
            else {
                return;
            };
            pages.kept.remove(&key);
            all -= freed;
        }
    }
}

/// What a page is kept by.
fn name(shows: &impl Debug) -> blake3::Hash {
    blake3::hash(format!("{shows:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn however_many_ask_a_page_is_made_once() {
        block_on(async {
            let (renderer, made) = (Arc::new(Renderer::new()), Arc::new(AtomicUsize::new(0)));
            let ask = || {
                let (renderer, made) = (renderer.clone(), made.clone());
                tokio::spawn(async move {
                    let make = move || {
                        made.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(30));
                        Ok("page".into())
                    };
                    renderer.page(&"a", 1, make).await
                })
            };
            let asked: Vec<_> = (0..50).map(|_| ask()).collect();
            for one in asked {
                assert_eq!(one.await.unwrap(), Ok("page".into()));
            }
            assert_eq!(made.load(Ordering::SeqCst), 1);
        });
    }

    #[test]
    fn no_more_than_four_are_made_at_once_and_a_fault_is_one_pages_own() {
        block_on(async {
            let (renderer, now, most) =
                (Arc::new(Renderer::new()), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let ask = |key: usize| {
                let (renderer, now, most) = (renderer.clone(), now.clone(), most.clone());
                tokio::spawn(async move {
                    let make = move || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(5));
                        now.fetch_sub(1, Ordering::SeqCst);
                        if key == 7 { panic!("a fault of the test's own") } else { Ok("page".into()) }
                    };
                    renderer.page(&key, 1, make).await
                })
            };
            let asked: Vec<_> = (0..24).map(ask).collect();
            let mut faults = 0;
            for one in asked {
                faults += usize::from(one.await.unwrap().is_err());
            }
            assert_eq!(faults, 1);
            assert!(most.load(Ordering::SeqCst) <= 4);
            assert!(renderer.page(&100, LARGEST + 1, || Ok("".into())).await.is_err());
        });
    }

    #[test]
    fn pages_that_nobody_asks_for_are_let_go() {
        block_on(async {
            let renderer = Renderer::new();
            let page = || Bytes::from(vec![b'x'; KEPT / 3]);
            for key in ["a", "b", "a", "c"] {
                renderer.page(&key, 1, move || Ok(page())).await.unwrap();
            }
            let kept = renderer.pages.lock().unwrap();
            assert_eq!(["a", "b", "c"].map(|key| kept.kept.contains_key(&name(&key))), [true, false, true]);
        });
    }
}
