//! The same work on each of many things, by a few threads.

use std::thread;

/// Threads that read folders and databases.
const READERS: usize = 4;

/// What becomes of each, in order.
pub fn map<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let part = items.len().div_ceil(READERS).max(1);
    thread::scope(|scope| {
        let readers: Vec<_> = (items.chunks(part))
            .map(|part| scope.spawn(|| part.iter().map(&each).collect::<Vec<_>>()))
            .collect();
        let results = readers.into_iter().map(|reader| reader.join().expect("what reads does not panic"));
        results.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thing_is_done_once_and_in_order() {
        for count in [0, 1, 3, 4, 5, 1_001] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |item| item * 2), (0..count).map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
