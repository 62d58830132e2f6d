//! The cache on disk: what Squid's ufs does with its files.

use super::index::{Found, Index};
use crate::web::contents::{self, Object};
use crate::web::requests::{Demand, Draws};
use fsarena_core::schedule::mix;
use fsarena_engine::Error;
use fsarena_engine::act::Actor;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Squid reads and writes objects by pages of this size (`SM_PAGE_SIZE`).
const PAGE: usize = 4096;
/// A record of `swap.state` (`StoreSwapLogData` on a 64-bit machine).
const LOG_RECORD: [u8; 72] = [0x5a; 72];
/// Noise that objects are cut from, so that nothing compresses them.
const NOISE: usize = 256 << 10;

/// How the kinds of operations are counted.
pub const KINDS: [&str; 3] = ["hit", "store", "pass"];

/// A cache, the world whose objects it keeps, and what was counted.
pub struct Cache {
    dir: PathBuf,
    levels: (u32, u32),
    world: u64,
    demand: Demand,
    index: Mutex<Index>,
    /// Whether there is a log, and the file while a task appends to it.
    log: Option<Mutex<Option<File>>>,
    noise: Vec<u8>,
    /// The number of the next object that the filling stores.
    filled: AtomicU64,
    /// Bytes given to clients.
    pub served: AtomicU64,
    /// Objects thrown out.
    pub replaced: AtomicU64,
}

/// The private state of a thread.
pub struct Own {
    draws: Draws,
    buffer: Vec<u8>,
}

impl Cache {
    /// Makes the directories of an empty cache, as `squid -z` does.
    ///
    /// # Errors
    /// Where one cannot be made.
    pub fn make(
        dir: &Path,
        levels: (u32, u32),
        limit: u64,
        log: bool,
        world: u64,
        demand: Demand,
    ) -> Result<Cache, Error> {
        for first in 0..levels.0 {
            for second in 0..levels.1 {
                let path = dir.join(format!("{first:02X}/{second:02X}"));
                std::fs::create_dir_all(&path).map_err(Error::io("making", &path))?;
            }
        }
        let mut noise = vec![0; NOISE];
        crate::payload::Payload::new(mix(world, 1), 0).fill(&mut noise);
        Ok(Cache {
            dir: dir.into(),
            levels,
            world,
            demand,
            index: Mutex::new(Index::new(limit)),
            log: log.then(Mutex::default),
            noise,
            filled: AtomicU64::new(0),
            served: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
        })
    }

    /// The file of a number: `UFSSwapDir::swapSubDir` spreads L2 numbers over a directory before the next.
    fn path(&self, number: u32) -> PathBuf {
        let (first, second) = self.levels;
        let above = number / second;
        self.dir.join(format!("{:02X}/{:02X}/{number:08X}", above / second % first, above % second))
    }

    /// How many of the most popular objects that may be cached fill it.
    pub fn to_fill(world: u64, popular: u64, limit: u64) -> u64 {
        let mut bytes = 0;
        let fits = |number: &u64| {
            let object = contents::object(world, *number);
            bytes += if object.cachable { object.bytes } else { 0 };
            bytes <= limit
        };
        (0..popular).take_while(fits).count() as u64
    }

    fn request(&self, own: &mut Own, number: u64) -> Result<usize, Error> {
        let object = contents::object(self.world, number);
        self.served.fetch_add(object.bytes, Ordering::Relaxed);
        if !object.cachable {
            return Ok(2);
        }
        let mut index = self.index();
        let place = match index.look_up(number) {
            Found::Hit(place) => {
                drop(index);
                return if self.read(own, place)? { Ok(0) } else { Ok(2) };
            }
            Found::Coming => return Ok(2),
            Found::Missing => index.reserve(number),
        };
        drop(index);
        self.write(place, object, number)?;
        self.index().keep(place, object.bytes);
        self.note()?;
        self.make_room()?;
        Ok(1)
    }

    /// Whether the object was still there: it may be thrown out between lookup and open.
    fn read(&self, own: &mut Own, place: u32) -> Result<bool, Error> {
        let path = self.path(place);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(Error::io("opening", &path))?,
        };
        while file.read(&mut own.buffer).map_err(Error::io("reading", &path))? > 0 {}
        Ok(true)
    }

    fn write(&self, place: u32, object: Object, number: u64) -> Result<(), Error> {
        let path = self.path(place);
        let mut file = File::create(&path).map_err(Error::io("making", &path))?;
        let (mut left, mut at) = (object.bytes as usize, (mix(self.world, number) as usize) % (NOISE - PAGE));
        while left > 0 {
            let now = left.min(PAGE);
            file.write_all(&self.noise[at..at + now]).map_err(Error::io("writing", &path))?;
            at = (at + PAGE) % (NOISE - PAGE);
            left -= now;
        }
        Ok(())
    }

    fn make_room(&self) -> Result<(), Error> {
        loop {
            let Some(place) = self.index().overflow() else { return Ok(()) };
            let path = self.path(place);
            std::fs::remove_file(&path).map_err(Error::io("removing", &path))?;
            self.index().release(place);
            self.replaced.fetch_add(1, Ordering::Relaxed);
            self.note()?;
        }
    }

    /// Opens the log for a task. Between tasks it is closed, so that the filesystem can be remounted.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(&self) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        let path = self.dir.join("swap.state");
        let file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io("opening", &path))?;
        *log.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// Closes it.
    pub fn close(&self) {
        if let Some(log) = &self.log {
            *log.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Appends to the log, where there is one.
    fn note(&self) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        match &mut *log.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => {
                file.write_all(&LOG_RECORD).map_err(Error::io("appending to", &self.dir.join("swap.state")))
            }
            None => Ok(()),
        }
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        // A thread that panicked has ended the whole load.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand(&self, thread: u32) -> Own {
        Own { draws: self.demand.draws(self.world, thread.into()), buffer: vec![0; PAGE] }
    }
}

/// Fills a cache with the most popular objects, in their order.
pub struct Filling<'a>(pub &'a Cache);

impl Actor for Filling<'_> {
    type Own = Own;
    type Request = ();

    fn own(&self, thread: u32) -> Result<Own, Error> {
        Ok(self.0.hand(thread))
    }

    fn draw(&self, _: &mut Own) {}

    fn act(&self, own: &mut Own, (): ()) -> Result<usize, Error> {
        self.0.request(own, self.0.filled.fetch_add(1, Ordering::Relaxed))
    }
}

/// Serves requests at the given demand.
pub struct Serving<'a>(pub &'a Cache);

impl Actor for Serving<'_> {
    type Own = Own;
    type Request = u64;

    fn own(&self, thread: u32) -> Result<Own, Error> {
        Ok(self.0.hand(thread))
    }

    fn draw(&self, own: &mut Own) -> u64 {
        self.0.demand.next(&mut own.draws)
    }

    fn act(&self, own: &mut Own, number: u64) -> Result<usize, Error> {
        self.0.request(own, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_engine::Bound;
    use fsarena_engine::act::{self, Acting};

    fn acting(operations: u64) -> Acting<'static> {
        let bound = Bound::Operations(operations);
        Acting { threads: 4, kinds: &KINDS, rate: None, bound, interval_ms: 100, seed: 1 }
    }

    #[test]
    fn a_full_cache_serves_what_it_has_and_never_grows() {
        const LIMIT: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let demand = Demand::new(400, 0.8, 0.8);
        let cache = Cache::make(dir.path(), (4, 8), LIMIT, true, 7, demand).unwrap();
        cache.open().unwrap();
        let count = Cache::to_fill(7, 400, LIMIT);
        assert!((40..400).contains(&count), "{count}");
        act::run(&acting(count), &Filling(&cache)).unwrap();
        let full = cache.index().bytes();
        assert!(full <= LIMIT && full > LIMIT / 2, "{full}");

        let outcome = act::run(&acting(1000), &Serving(&cache)).unwrap();
        let count = |kind| outcome.kind(kind).map_or(0, |found| found.count);
        assert_eq!(count("hit") + count("store") + count("pass"), 1000);
        assert!(count("hit") > 200 && count("store") > 50, "{} {}", count("hit"), count("store"));
        assert!(cache.replaced.load(Ordering::Relaxed) > 0);
        assert!(cache.index().bytes() <= LIMIT);
        // What lies there is what the index says, and each change is in the log.
        let (mut files, mut bytes) = (0, 0);
        for entry in walkdir::WalkDir::new(dir.path()).into_iter().flatten() {
            if entry.file_type().is_file() && entry.file_name() != "swap.state" {
                (files, bytes) = (files + 1, bytes + entry.metadata().unwrap().len());
            }
        }
        let (objects, kept) = {
            let index = cache.index();
            (index.objects(), index.bytes())
        };
        assert_eq!((files, bytes), (objects, kept));
        let log = dir.path().join("swap.state").metadata().unwrap().len();
        assert!(log > 72 * files as u64 && log.is_multiple_of(72));
    }

    #[test]
    fn files_spread_as_squid_spreads_them() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::make(dir.path(), (16, 256), 1, false, 1, Demand::new(1, 0.8, 0.5)).unwrap();
        for (number, path) in [(0, "00/00/00000000"), (256, "00/01/00000100"), (65_536, "01/00/00010000")] {
            assert_eq!(cache.path(number), dir.path().join(path));
        }
    }
}
