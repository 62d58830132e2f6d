//! The index of the cache. It evicts the least recently used object first.

use std::collections::HashMap;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// A place of the cache: a file number.
#[derive(Debug, Clone, Copy)]
struct Place {
    object: u64,
    bytes: u64,
    whole: bool,
    newer: u32,
    older: u32,
}

/// The index that a cache keeps in memory. File numbers are used again, lowest first as they come free.
#[derive(Debug)]
pub struct Index {
    known: HashMap<u64, u32>,
    places: Vec<Place>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
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
        Index {
            known: HashMap::new(),
            places: vec![],
            free: vec![],
            newest: NONE,
            oldest: NONE,
            bytes: 0,
            limit,
        }
    }

    /// Looks an object up; a hit makes it the newest.
    pub fn look_up(&mut self, object: u64) -> Found {
        match self.known.get(&object).copied() {
            None => Found::Missing,
            Some(number) if !self.places[number as usize].whole => Found::Coming,
            Some(number) => {
                self.unlink(number);
                self.link(number);
                Found::Hit(number)
            }
        }
    }

    /// Takes a place for an object that is not there; it counts when it is [`Index::keep`]t.
    pub fn reserve(&mut self, object: u64) -> u32 {
        let place = Place { object, bytes: 0, whole: false, newer: NONE, older: NONE };
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        };
        self.known.insert(object, number);
        number
    }

    /// Its file is written.
    pub fn keep(&mut self, number: u32, bytes: u64) {
        let place = &mut self.places[number as usize];
        (place.bytes, place.whole) = (bytes, true);
        self.bytes += bytes;
        self.link(number);
    }

    /// The oldest object, where there are more bytes than the cache has room for. Its place is free when its
    /// file is gone: [`Index::release`].
    pub fn overflow(&mut self) -> Option<u32> {
        if self.bytes <= self.limit || self.oldest == NONE {
            return None;
        }
        let number = self.oldest;
        self.unlink(number);
        let place = &mut self.places[number as usize];
        self.bytes -= place.bytes;
        place.whole = false;
        self.known.remove(&place.object);
        Some(number)
    }

    /// A file number may be used again.
    pub fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Bytes of all objects that are there.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Objects that are there.
    #[cfg(test)]
    pub fn objects(&self) -> usize {
        self.known.len()
    }

    fn link(&mut self, number: u32) {
        let newest = self.newest;
        let place = &mut self.places[number as usize];
        (place.older, place.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = number,
            newest => self.places[newest as usize].newer = number,
        }
        self.newest = number;
    }

    fn unlink(&mut self, number: u32) {
        let Place { newer, older, .. } = self.places[number as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(index: &mut Index, object: u64, bytes: u64) -> u32 {
        let number = index.reserve(object);
        index.keep(number, bytes);
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
        index.keep(number, 5);
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
