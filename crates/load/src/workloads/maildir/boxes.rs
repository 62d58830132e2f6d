//! Maildirs, and what a mail server does with them.

use crate::payload::{Noise, fault, fresh_dir};
use crate::task;
use fsarena_engine::{Error, custom_load::CustomLoad};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It comes, to stay.
    Deliver,
    /// It is read, and from then on counts as seen.
    Read,
    /// It is removed.
    Expire,
}

impl Stage {
    /// In their order.
    pub const ALL: [Stage; 3] = [Stage::Deliver, Stage::Read, Stage::Expire];

    /// The kind of operation in readings, where a delivery is a commit; the name of its task, and what people read.
    pub const fn words(self) -> [&'static str; 3] {
        match self {
            Stage::Deliver => ["commit", "deliver", "Deliver messages"],
            Stage::Read => ["read", "read", "Read messages and move them to cur/"],
            Stage::Expire => ["expire", "expire", "Remove messages"],
        }
    }
}

/// The settings of the work.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Messages in all.
    pub messages: u64,
    /// Bytes of each.
    pub bytes: usize,
    /// Maildirs that they go to in turn.
    pub mailboxes: u64,
    /// Whether a message is linked to its name instead of renamed.
    pub links: bool,
    /// The seed of contents.
    pub seed: u64,
}

impl Shape {
    fn mailbox(&self, number: u64) -> String {
        format!("user{:05}", number % self.mailboxes)
    }

    /// Where a message is after a stage; before the first in `tmp/`.
    pub fn name(&self, after: Stage, number: u64) -> PathBuf {
        let mailbox = self.mailbox(number);
        PathBuf::from(match after {
            Stage::Deliver => format!("{mailbox}/new/{number:010}.fsarena"),
            _ => format!("{mailbox}/cur/{number:010}.fsarena:2,S"),
        })
    }

    fn temporary(&self, number: u64) -> PathBuf {
        PathBuf::from(format!("{}/tmp/{number:010}.fsarena", self.mailbox(number)))
    }
}

/// Makes empty Maildirs.
///
/// # Errors
/// Where that cannot be done.
pub fn prepare(root: &Path, shape: &Shape) -> Result<(), task::Error> {
    fresh_dir(root)?;
    for number in 0..shape.mailboxes {
        for part in ["tmp", "new", "cur"] {
            let dir = root.join(shape.mailbox(number)).join(part);
            std::fs::create_dir_all(&dir).map_err(Error::io("making", &dir))?;
        }
    }
    Ok(())
}

/// Maildirs in one stage of the work.
pub struct Boxes {
    root: PathBuf,
    shape: Shape,
    stage: Stage,
    noise: Noise,
    /// `new/` of each, to sync what is delivered.
    new: Vec<File>,
    /// The number of the next message.
    next: AtomicU64,
}

impl Boxes {
    /// Opens the Maildirs that [`prepare`] made.
    ///
    /// # Errors
    /// Where one is missing.
    pub fn open(root: &Path, shape: Shape, stage: Stage) -> Result<Boxes, Error> {
        let open = |number| {
            let dir = root.join(shape.mailbox(number)).join("new");
            File::open(&dir).map_err(Error::io("opening", &dir))
        };
        let (root, noise) = (root.into(), Noise::new(shape.seed, shape.bytes));
        let new = (0..shape.mailboxes).map(open).collect::<Result<_, _>>()?;
        Ok(Boxes { root, shape, stage, noise, new, next: AtomicU64::new(0) })
    }

    fn deliver(&self, number: u64) -> Result<(), Error> {
        let temporary = self.root.join(self.shape.temporary(number));
        let path = self.path(Stage::Deliver, number);
        let failed = || Error::io("delivering", &path);
        let mut file = File::create_new(&temporary).map_err(failed())?;
        file.write_all(self.noise.of(number, self.shape.bytes)).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        drop(file);
        if self.shape.links {
            std::fs::hard_link(&temporary, &path).map_err(failed())?;
            std::fs::remove_file(&temporary).map_err(failed())?;
        } else {
            std::fs::rename(&temporary, &path).map_err(failed())?;
        }
        self.new[(number % self.shape.mailboxes) as usize].sync_all().map_err(failed())
    }

    fn read(&self, buffer: &mut [u8], number: u64) -> Result<(), Error> {
        let [from, to] = [Stage::Deliver, Stage::Read].map(|stage| self.path(stage, number));
        let mut file = File::open(&from).map_err(Error::io("opening", &from))?;
        while file.read(buffer).map_err(Error::io("reading", &from))? > 0 {}
        std::fs::rename(&from, &to).map_err(Error::io("renaming", &from))
    }

    fn expire(&self, number: u64) -> Result<(), Error> {
        let path = self.path(Stage::Read, number);
        std::fs::remove_file(&path).map_err(Error::io("removing", &path))
    }

    fn path(&self, after: Stage, number: u64) -> PathBuf {
        self.root.join(self.shape.name(after, number))
    }
}

impl CustomLoad for Boxes {
    /// A buffer to read into.
    type ThreadState = Vec<u8>;
    type Request = ();

    fn thread_state(&self, _: u32) -> Result<Vec<u8>, Error> {
        Ok(vec![0; 64 << 10])
    }

    fn draw(&self, _: &mut Vec<u8>) {}

    fn perform(&self, buffer: &mut Vec<u8>, (): ()) -> Result<usize, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.stage {
            Stage::Deliver => self.deliver(number),
            Stage::Read => self.read(buffer, number),
            Stage::Expire => self.expire(number),
        }
        .map(|()| 0)
    }
}

/// Checks that every message is where a stage left it, and that nothing else is there.
///
/// # Errors
/// [`task::Error::Violation`] with the first that is missing or damaged.
pub fn verify(root: &Path, shape: &Shape, after: Stage) -> Result<(), task::Error> {
    let noise = Noise::new(shape.seed, shape.bytes);
    let expected = if after == Stage::Expire { 0 } else { shape.messages };
    for number in 0..expected {
        let path = root.join(shape.name(after, number));
        if let Some(fault) = fault(&path, noise.of(number, shape.bytes)) {
            return Err(task::Error::Violation(format!("DATA LOSS: message {} ({fault})", path.display())));
        }
    }
    let files = walkdir::WalkDir::new(root).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let found = files.count() as u64;
    if found == expected {
        return Ok(());
    }
    let text = format!("{} holds {found} files instead of {expected} messages", root.display());
    Err(task::Error::Violation(text))
}
