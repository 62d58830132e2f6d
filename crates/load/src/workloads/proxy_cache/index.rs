//! The index of the cache. It evicts the least recently used object first.

use hashlink::LinkedHashMap;
use std::collections::HashMap;

/// The index that a cache keeps in memory. File numbers are used again, lowest first as they come free.
#[derive(Debug, Default)]
pub struct Index {
    /// Objects that are being fetched, with their files.
    coming: HashMap<u64, u32>,
    /// Objects that are there, with their files and bytes; the least recently used comes first.
    whole: LinkedHashMap<u64, (u32, u64)>,
    files: u32,
    free: Vec<u32>,
    bytes: u64,
    limit: u64,
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The cache holds the object, in this file.
    Hit(u32),
    /// Another request is fetching the object.
    Coming,
    /// The cache does not hold the object.
    Missing,
}

impl Index {
    /// An empty index of a cache of `limit` bytes.
    pub fn new(limit: u64) -> Index {
        Index { limit, ..Index::default() }
    }

    /// Looks an object up; a hit makes it the newest.
    pub fn look_up(&mut self, object: u64) -> Found {
        match self.whole.to_back(&object) {
            Some((file, _)) => Found::Hit(*file),
            None if self.coming.contains_key(&object) => Found::Coming,
            None => Found::Missing,
        }
    }

    /// Takes a file for an object that is not there; it counts when it is [`Index::keep`]t.
    pub fn reserve(&mut self, object: u64) -> u32 {
        let file = self.free.pop().unwrap_or_else(|| {
            self.files += 1;
            self.files - 1
        });
        self.coming.insert(object, file);
        file
    }

    /// The file of an object is written.
    pub fn keep(&mut self, object: u64, bytes: u64) {
        if let Some(file) = self.coming.remove(&object) {
            self.bytes += bytes;
            self.whole.insert(object, (file, bytes));
        }
    }

    /// The file of the oldest object, where there are more bytes than the cache has room for. It is free when it is gone:
    /// [`Index::release`].
    pub fn overflow(&mut self) -> Option<u32> {
        let (_, (file, bytes)) = (self.bytes > self.limit).then(|| self.whole.pop_front())??;
        self.bytes -= bytes;
        Some(file)
    }

    /// A file number may be used again.
    pub fn release(&mut self, file: u32) {
        self.free.push(file);
    }

    /// Bytes of all objects that are there.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Objects that are there.
    #[cfg(test)]
    pub fn objects(&self) -> usize {
        self.coming.len() + self.whole.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(index: &mut Index, object: u64, bytes: u64) -> u32 {
        let number = index.reserve(object);
        index.keep(object, bytes);
        number
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut index = Index::new(25);
        let [first, second] = [1, 2].map(|object| stored(&mut index, object, 10));
        assert_eq!(index.overflow(), None);
        assert_eq!(index.look_up(1), Found::Hit(first));
        stored(&mut index, 3, 10);
        // The second was used last before the first.
        assert_eq!(index.overflow(), Some(second));
        assert_eq!((index.overflow(), index.bytes(), index.objects()), (None, 20, 2));
        assert_eq!(index.look_up(2), Found::Missing);
        index.release(second);
        assert_eq!(index.reserve(4), second);
    }

    #[test]
    fn what_is_being_fetched_is_not_fetched_twice() {
        let mut index = Index::new(100);
        let number = index.reserve(1);
        assert_eq!(index.look_up(1), Found::Coming);
        index.keep(1, 5);
        assert_eq!(index.look_up(1), Found::Hit(number));
    }

    #[test]
    fn everything_can_go() {
        let mut index = Index::new(0);
        for object in 0..5 {
            stored(&mut index, object, 1);
        }
        let gone: Vec<u32> = std::iter::from_fn(|| index.overflow()).collect();
        assert_eq!(gone, [0, 1, 2, 3, 4]);
        assert_eq!((index.bytes(), index.objects()), (0, 0));
    }
}
