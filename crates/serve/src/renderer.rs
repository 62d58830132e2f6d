//! Renders expensive pages on separate threads, a few at a time, and caches them.
//!
//! A page is rendered once for each state of its runs, however many clients request it at the same time. If the client whose
//! request renders the page leaves, the next request renders it again. Pages that cannot be rendered are not cached.
//!
//! The pages that are rendered at the same time read at most [`BUDGET_MIB`] of databases; a page with larger databases is
//! rendered alone.

use axum::body::Bytes;
use fsarena_report::advice::REPORT_COMMAND;
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::HashMap, fmt::Debug};
use tokio::sync::{OnceCell, Semaphore};

/// The total size of the databases that several pages may read at the same time, in MiB. In memory a run takes about three
/// times its database.
const BUDGET_MIB: u32 = 256;
/// The share of the budget that the smallest page takes, in MiB, so that at most four pages are rendered at the same time.
const MIN_SHARE_MIB: u32 = BUDGET_MIB / 4;
/// The largest total size of the databases of a page, in bytes.
pub const MAX_PAGE_DATABASE_BYTES: u64 = 1 << 30;
/// The largest database, in bytes, of a run whose one-line answer the list shows, and which a history includes.
pub const MAX_SUMMARIZED_DATABASE_BYTES: u64 = 64 << 20;
/// The largest total size of cached pages, in bytes.
const MAX_CACHE_BYTES: usize = 64 << 20;

/// The memory that a cached page takes besides its text, in bytes; an estimate.
const ENTRY_OVERHEAD_BYTES: usize = 1024;

/// A page, or the reason why it cannot be rendered.
pub type RenderResult = Result<Bytes, String>;

/// Renders pages, and caches them.
pub struct Renderer {
    /// The free part of the budget, in MiB.
    free_mib: Arc<Semaphore>,
    pages: Mutex<Pages>,
}

/// The cached pages.
#[derive(Default)]
struct Pages {
    /// The pages by the hash of their key, each with the number of the last request for it.
    entries: HashMap<blake3::Hash, (u64, Arc<OnceCell<Bytes>>)>,
    /// The number of requests so far.
    request_count: u64,
}

impl Renderer {
    /// A renderer with an empty cache.
    pub fn new() -> Renderer {
        Renderer { free_mib: Arc::new(Semaphore::new(BUDGET_MIB as usize)), pages: Mutex::default() }
    }

    /// The page with this key, from the cache or rendered by `render`. The key must contain the stamp of every run on the page.
    /// `database_bytes` is the size of its databases. Requests that arrive meanwhile wait for the same page.
    ///
    /// # Errors
    /// The databases are larger than [`MAX_PAGE_DATABASE_BYTES`], or the page cannot be rendered.
    pub async fn page(
        &self,
        key: &impl Debug,
        database_bytes: u64,
        render: impl FnOnce() -> RenderResult + Send + 'static,
    ) -> RenderResult {
        if database_bytes > MAX_PAGE_DATABASE_BYTES {
            return Err(format!(
                "The databases for this page have {} MiB, and the server reads at most {} MiB. Use {REPORT_COMMAND} instead.",
                database_bytes >> 20,
                MAX_PAGE_DATABASE_BYTES >> 20
            ));
        }
        // Hash the key, because it may be as long as a request.
        let entry = self.entry(hash_key(key));
        let page = entry.get_or_try_init(|| self.render(database_bytes, render)).await.cloned();
        self.shrink_cache();
        page
    }

    /// Waits for a share of the budget, and renders a page on a separate thread.
    async fn render(
        &self,
        database_bytes: u64,
        render: impl FnOnce() -> RenderResult + Send + 'static,
    ) -> RenderResult {
        let share_mib = u32::try_from(database_bytes >> 20).unwrap_or(BUDGET_MIB).clamp(MIN_SHARE_MIB, BUDGET_MIB);
        let permit =
            self.free_mib.clone().acquire_many_owned(share_mib).await.map_err(|_| "The server ends.".to_string())?;
        let render_task = move || {
            let page = render();
            // Return the share here, because the thread continues even if the client has left.
            drop(permit);
            page
        };
        let joined = tokio::task::spawn_blocking(render_task).await;
        joined.map_err(|_| "This page could not be made; this is a fault of fsarena.".to_string())?
    }

    /// The cache entry of a key; adds an empty one if it is missing.
    fn entry(&self, key: blake3::Hash) -> Arc<OnceCell<Bytes>> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.request_count += 1;
        let request = pages.request_count;
        let (last_request, page) = pages.entries.entry(key).or_default();
        *last_request = request;
        page.clone()
    }

    /// Removes the least recently requested pages while the cache is over its limit. Keeps those that a request waits for.
    fn shrink_cache(&self) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);

        let entry_bytes = |page: &OnceCell<Bytes>| page.get().map_or(0, Bytes::len) + ENTRY_OVERHEAD_BYTES;
        let mut total_bytes: usize = pages.entries.values().map(|(_, page)| entry_bytes(page)).sum();
        while total_bytes > MAX_CACHE_BYTES {
            // Only requests hold further references to a page.
            let unused = pages.entries.iter().filter(|(_, (_, page))| Arc::strong_count(page) == 1);
            let Some((key, (_, page))) = unused.min_by_key(|(_, (last_request, _))| *last_request) else {
                return;
            };
            let (key, freed_bytes) = (*key, entry_bytes(page));
            pages.entries.remove(&key);
            total_bytes -= freed_bytes;
        }
    }
}

/// The hash by which the cache finds a page.
fn hash_key(key: &impl Debug) -> blake3::Hash {
    blake3::hash(format!("{key:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn a_page_is_rendered_once_for_all_requests() {
        block_on(async {
            let (renderer, render_count) = (Arc::new(Renderer::new()), Arc::new(AtomicUsize::new(0)));
            let send_request = || {
                let (renderer, render_count) = (renderer.clone(), render_count.clone());
                tokio::spawn(async move {
                    let render = move || {
                        render_count.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(30));
                        Ok("page".into())
                    };
                    renderer.page(&"a", 1, render).await
                })
            };
            let requests: Vec<_> = (0..50).map(|_| send_request()).collect();
            for request in requests {
                assert_eq!(request.await.unwrap(), Ok("page".into()));
            }
            assert_eq!(render_count.load(Ordering::SeqCst), 1);
        });
    }

    #[test]
    fn at_most_four_pages_are_rendered_at_once_and_a_panic_affects_only_one() {
        block_on(async {
            let renderer = Arc::new(Renderer::new());
            let (running, max_running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let send_request = |key: usize| {
                let (renderer, running, max_running) = (renderer.clone(), running.clone(), max_running.clone());
                tokio::spawn(async move {
                    let render = move || {
                        max_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(5));
                        running.fetch_sub(1, Ordering::SeqCst);
                        if key == 7 { panic!("a fault of the test's own") } else { Ok("page".into()) }
                    };
                    renderer.page(&key, 1, render).await
                })
            };
            let requests: Vec<_> = (0..24).map(send_request).collect();
            let mut errors = 0;
            for request in requests {
                errors += usize::from(request.await.unwrap().is_err());
            }
            assert_eq!(errors, 1);
            assert!(max_running.load(Ordering::SeqCst) <= 4);
            assert!(renderer.page(&100, MAX_PAGE_DATABASE_BYTES + 1, || Ok("".into())).await.is_err());
        });
    }

    #[test]
    fn a_page_that_could_not_be_rendered_is_rendered_at_the_next_request() {
        block_on(async {
            let renderer = Renderer::new();
            assert!(renderer.page(&"a", 1, || Err("a failed read".into())).await.is_err());
            assert_eq!(renderer.page(&"a", 1, || Ok("page".into())).await, Ok("page".into()));
        });
    }

    #[test]
    fn the_least_recently_requested_pages_leave_the_cache() {
        block_on(async {
            let renderer = Renderer::new();
            let page = || Bytes::from(vec![b'x'; MAX_CACHE_BYTES / 3]);
            for key in ["a", "b", "a", "c"] {
                renderer.page(&key, 1, move || Ok(page())).await.unwrap();
            }
            let pages = renderer.pages.lock().unwrap();
            assert_eq!(["a", "b", "c"].map(|key| pages.entries.contains_key(&hash_key(&key))), [true, false, true]);
        });
    }
}
