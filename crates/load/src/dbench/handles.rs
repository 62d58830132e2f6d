//! The files that a client has open, by the numbers that a loadfile gives them.

use rustix::fd::OwnedFd;

/// Files that one client can have open, as in the real dbench.
pub const MOST: usize = 200;

/// An open file, and the name it was opened by.
#[derive(Debug)]
pub struct Open {
    /// The file.
    pub file: OwnedFd,
    /// Its path, with a zero at the end.
    pub name: Vec<u8>,
}

/// Open files. As in the real dbench, a number that is used twice means the file in the first free place.
#[derive(Debug, Default)]
pub struct Handles {
    numbers: Vec<Option<i64>>,
    open: Vec<Option<Open>>,
}

impl Handles {
    /// Keeps a file under a number.
    ///
    /// # Errors
    /// Returns the file if the table is full.
    pub fn keep(&mut self, number: i64, file: Open) -> Result<(), Open> {
        let free = self.numbers.iter().position(Option::is_none).unwrap_or(self.numbers.len());
        if free == MOST {
            return Err(file);
        }
        if free == self.numbers.len() {
            self.numbers.push(None);
            self.open.push(None);
        }
        (self.numbers[free], self.open[free]) = (Some(number), Some(file));
        Ok(())
    }

    /// The file of a number.
    #[inline]
    pub fn get(&self, number: i64) -> Option<&Open> {
        let place = self.numbers.iter().position(|kept| *kept == Some(number))?;
        self.open[place].as_ref()
    }

    /// Takes the file of a number out.
    pub fn take(&mut self, number: i64) -> Option<Open> {
        let place = self.numbers.iter().position(|kept| *kept == Some(number))?;
        self.numbers[place] = None;
        self.open[place].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(name: &str) -> Open {
        Open { file: tempfile::tempfile().unwrap().into(), name: name.into() }
    }

    #[test]
    fn places_are_used_again_and_their_number_is_bounded() {
        let mut handles = Handles::default();
        for number in 0..MOST as i64 {
            handles.keep(number, open("a")).unwrap();
        }
        assert!(handles.keep(999, open("b")).is_err());
        assert!(handles.take(7).is_some() && handles.take(7).is_none() && handles.get(7).is_none());
        // The same number twice: the first place counts.
        handles.keep(100, open("c")).unwrap();
        assert_eq!(handles.get(100).unwrap().name, b"c");
        handles.take(100).unwrap();
        assert_eq!(handles.get(100).unwrap().name, b"a");
    }
}
