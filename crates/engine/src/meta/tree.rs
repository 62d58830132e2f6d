//! The directories of a metadata job, and the names in them.

use super::super::error::{Error, Result};
use super::job::{Job, Sharing};
use super::operation::{Names, Operation};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ffi::CStr, os::unix::ffi::OsStrExt};

/// The directory below the one given; all is made and removed in it.
const TOP: &str = "fsarena-meta";

/// Directories that are there, and what names lie in them.
pub struct Tree {
    top: PathBuf,
    /// The directories that hold names, thread by thread where they are private; each ends in a zero byte.
    leaves: Vec<Vec<u8>>,
    /// How many of them a thread uses.
    per_thread: usize,
    private: bool,
    /// Names for each thread.
    pub names: u32,
    /// The number of the first thread in names.
    first: u32,
    /// What files hold.
    pub content: Vec<u8>,
    /// Whether files have their second name now.
    renamed: AtomicBool,
}

impl Tree {
    /// Makes the directories.
    ///
    /// # Errors
    /// Where the directory given is not empty, or one cannot be made.
    pub fn make(job: &Job, dir: &Path) -> Result<Tree> {
        let mut found = std::fs::read_dir(dir).map_err(Error::io("listing", dir))?;
        if found.next().is_some() {
            let why = "it is not empty; metadata jobs need a directory of their own".into();
            return Err(Error::Files { path: dir.into(), why });
        }
        let tree = Tree::of_client(job, dir, 0);
        tree.make_leaves()?;
        Ok(tree)
    }

    /// The directories of one client among several, without making them.
    pub fn of_client(job: &Job, dir: &Path, client: u32) -> Tree {
        let top = dir.join(TOP);
        let private = job.sharing == Sharing::Private;
        let roots = if private { job.threads } else { 1 };
        let first = client * job.threads;
        let mut leaves = vec![];
        for root in 0..roots {
            let root = if private { first + root } else { root };
            grow(&top.join(format!("t{root}")), job.depth, job.fan_out, &mut leaves);
        }
        let per_thread = leaves.len() / roots as usize;
        let content = vec![b'x'; job.bytes as usize];
        let renamed = AtomicBool::new(false);
        Tree { top, leaves, per_thread, private, names: job.names, first, content, renamed }
    }

    /// Makes the directories; other clients may have made some of them.
    ///
    /// # Errors
    /// Where one cannot be made.
    pub fn make_leaves(&self) -> Result {
        self.leaves.iter().try_for_each(|leaf| {
            let path = Path::new(std::ffi::OsStr::from_bytes(&leaf[..leaf.len() - 1]));
            std::fs::create_dir_all(path).map_err(Error::io("making", path))
        })
    }

    /// Removes them with all that is in them.
    ///
    /// # Errors
    /// Where something cannot be removed.
    pub fn remove(&self) -> Result {
        std::fs::remove_dir_all(&self.top).map_err(Error::io("removing", &self.top))
    }

    /// Notes what a finished phase did to the names.
    pub fn note(&self, operation: Operation) {
        match operation {
            Operation::Rename => drop(self.renamed.fetch_xor(true, Ordering::Relaxed)),
            Operation::Create => self.renamed.store(false, Ordering::Relaxed),
            _ => {}
        }
    }

    /// A writer of a thread's names for an operation.
    pub fn writer(&self, thread: u32, operation: Operation) -> Writer<'_> {
        let first = if self.private { thread as usize * self.per_thread } else { 0 };
        let (now, other) = match self.renamed.load(Ordering::Relaxed) {
            false => (b'f', b'r'),
            true => (b'r', b'f'),
        };
        let letters = match operation {
            Operation::Mkdir | Operation::StatDir | Operation::Rmdir => [b'd', b'd'],
            Operation::Link => [now, b'l'],
            Operation::Symlink => [now, b's'],
            _ => [now, other],
        };
        let leaves = &self.leaves[first..first + self.per_thread];
        let (thread, content) = (self.first + thread, self.content.as_slice());
        let two = matches!(operation, Operation::Rename | Operation::Link | Operation::Symlink);
        Writer { leaves, thread, letters, two, content, buffers: [vec![0], vec![0]] }
    }
}

fn grow(dir: &Path, depth: u32, fan_out: u32, leaves: &mut Vec<Vec<u8>>) {
    match depth {
        0 => leaves.push([dir.as_os_str().as_bytes(), b"\0"].concat()),
        _ => (0..fan_out).for_each(|child| grow(&dir.join(format!("D{child}")), depth - 1, fan_out, leaves)),
    }
}

/// Writes names into buffers that it keeps, so that nothing is allocated while operations are timed.
pub struct Writer<'a> {
    leaves: &'a [Vec<u8>],
    thread: u32,
    letters: [u8; 2],
    /// Whether the operation takes a second name.
    two: bool,
    content: &'a [u8],
    buffers: [Vec<u8>; 2],
}

impl Writer<'_> {
    /// The thread's so-manieth name, its second name where the operation takes one, and their directory. Neighbours
    /// lie in different directories.
    #[inline(always)]
    pub fn names(&mut self, number: u32) -> super::operation::Names<'_> {
        let leaf = &self.leaves[number as usize % self.leaves.len()];
        let [name, second] = &mut self.buffers;
        write(name, leaf, self.letters[0], self.thread, number);
        if self.two {
            write(second, leaf, self.letters[1], self.thread, number);
        }
        Names { name: text(name), second: text(second), directory: text(leaf), content: self.content }
    }
}

#[inline(always)]
fn write(buffer: &mut Vec<u8>, leaf: &[u8], letter: u8, thread: u32, number: u32) {
    buffer.clear();
    buffer.extend_from_slice(&leaf[..leaf.len() - 1]);
    buffer.extend_from_slice(&[b'/', letter, b'.']);
    digits(thread, buffer);
    buffer.push(b'.');
    digits(number, buffer);
    buffer.push(0);
}

fn text(buffer: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(buffer).expect("a path that the system took, and one zero byte at its end")
}

/// Appends a number; formatting machinery would take longer than some system calls.
fn digits(mut number: u32, to: &mut Vec<u8>) {
    let mut reversed = [0u8; 10];
    let mut length = 0;
    loop {
        reversed[length] = b'0' + (number % 10) as u8;
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    to.extend(reversed[..length].iter().rev());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_and_apart() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job { threads: 2, depth: 1, fan_out: 3, ..Job::default() };
        let tree = Tree::make(&job, dir.path()).unwrap();
        let top = dir.path().to_str().unwrap();
        let mut writer = tree.writer(1, Operation::Link);
        let names = writer.names(1204);
        assert_eq!(names.name.to_str().unwrap(), format!("{top}/fsarena-meta/t1/D1/f.1.1204"));
        assert_eq!(names.second.to_str().unwrap(), format!("{top}/fsarena-meta/t1/D1/l.1.1204"));
        assert_eq!(names.directory.to_str().unwrap(), format!("{top}/fsarena-meta/t1/D1"));
        tree.note(Operation::Rename);
        assert!(tree.writer(0, Operation::Stat).names(0).name.to_str().unwrap().ends_with("t0/D0/r.0.0"));
        tree.remove().unwrap();
    }

    #[test]
    fn digits_are_right() {
        for number in [0, 7, 10, 99, 100, 1_234_567, u32::MAX] {
            let mut text = vec![];
            digits(number, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), number.to_string());
        }
    }
}
