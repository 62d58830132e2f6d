//! filebench's fileset: entries that exist or not, drawn at random, one user at a time for what changes them.

use rand::{RngExt, rngs::Xoshiro256PlusPlus};
use std::sync::Mutex;

/// Which entries exist. Those that are being made or deleted are in neither list.
struct Lists {
    /// How many read each entry.
    readers: Vec<u32>,
    here: Vec<u32>,
    gone: Vec<u32>,
}

/// The set.
pub struct FileSet(Mutex<Lists>);

impl FileSet {
    /// A set of `entries` entries, of which the first `existing` exist.
    pub fn new(entries: u32, existing: u32) -> FileSet {
        let lists = Lists {
            readers: vec![0; entries as usize],
            here: (0..existing).collect(),
            gone: (existing..entries).collect(),
        };
        FileSet(Mutex::new(lists))
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, Lists> {
        // A panic ends the whole load, so a poisoned lock does no harm.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes an existing entry without readers, to delete it. Returns none if every entry has readers.
    pub fn take_existing(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let mut lists = self.lists();
        let (count, start) = (lists.here.len(), draw(&lists.here, rng)?);
        let free = |at: &usize| lists.readers[lists.here[*at] as usize] == 0;
        let at = (start..count).chain(0..start).find(free)?;
        Some(lists.here.swap_remove(at))
    }

    /// Takes an entry that does not exist, to create it.
    pub fn take_missing(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let mut lists = self.lists();
        let at = draw(&lists.gone, rng)?;
        Some(lists.gone.swap_remove(at))
    }

    /// Gives a taken entry back, existing or not.
    pub fn give(&self, number: u32, exists: bool) {
        let mut lists = self.lists();
        if exists { lists.here.push(number) } else { lists.gone.push(number) }
    }

    /// Takes an existing entry to read it; others may read it too.
    pub fn read(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let mut lists = self.lists();
        let number = lists.here[draw(&lists.here, rng)?];
        lists.readers[number as usize] += 1;
        Some(number)
    }

    /// Ends reading.
    pub fn done(&self, number: u32) {
        self.lists().readers[number as usize] -= 1;
    }

    /// The entries that exist.
    pub fn existing(&self) -> Vec<u32> {
        self.lists().here.clone()
    }
}

/// A place in a list, drawn evenly.
fn draw(list: &[u32], rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
    (!list.is_empty()).then(|| rng.random_range(0..list.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn what_is_read_is_not_deleted_and_what_is_taken_is_not_read() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let set = FileSet::new(3, 2);
        let reading = set.read(&mut rng).unwrap();
        let deleted = set.take_existing(&mut rng).unwrap();
        assert_ne!(reading, deleted);
        assert_eq!(set.take_existing(&mut rng), None);
        assert_eq!(set.read(&mut rng), Some(reading));
        set.done(reading);
        set.done(reading);
        assert_eq!(set.take_existing(&mut rng), Some(reading));
        assert_eq!(set.read(&mut rng), None);
        assert_eq!(set.take_missing(&mut rng), Some(2));
        assert_eq!(set.take_missing(&mut rng), None);
        set.give(deleted, false);
        set.give(2, true);
        assert_eq!((set.take_missing(&mut rng), set.existing()), (Some(deleted), vec![2]));
    }
}
