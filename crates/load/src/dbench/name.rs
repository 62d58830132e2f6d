//! The names of files in the program that a loadfile compiles to. Each name is stored once, as pieces of text between
//! which the names of clients and random strings are inserted.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The name of the client in a loadfile. Every client replaces it by its own name.
const CLIENT_PLACEHOLDER: &[u8] = b"client1";
/// Number of random strings that a loadfile can store.
pub const MAX_RANDOM_STRINGS: usize = 10;
/// The current random strings of a client by their numbers.
pub type RandomStrings = [Vec<u8>; MAX_RANDOM_STRINGS];

/// The id of a name. Operations without a name have [`NameId::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameId(u32);

impl NameId {
    /// No name.
    pub const NONE: NameId = NameId(u32::MAX);
}

/// A piece of a name's text, as a range of [`NameTable::text`], and the insertion that follows it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct NamePiece {
    start: u32,
    end: u32,
    insertion: Insertion,
}

/// The insertion that follows a piece of text: nothing, the name of the client, or a random string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Insertion {
    Nothing,
    Client,
    RandomString(u8),
}

/// All names of a program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NameTable {
    /// The text of all pieces.
    text: Vec<u8>,
    /// The pieces of all names.
    pieces: Vec<NamePiece>,
    /// The end of each name's pieces, which begin where those of the previous name end.
    pub(super) piece_ends: Vec<u32>,
}

impl NameTable {
    /// Bytes that the names take in memory.
    pub fn memory_bytes(&self) -> usize {
        self.text.len() + size_of_val(self.pieces.as_slice()) + size_of_val(self.piece_ends.as_slice())
    }

    /// Whether the name has a random string, so that it is known only during a run.
    pub fn is_random(&self, name: NameId) -> bool {
        self.pieces_of(name).iter().any(|piece| matches!(piece.insertion, Insertion::RandomString(_)))
    }

    /// Appends a name to a buffer, with the name of the client and the random strings.
    pub fn append_name(&self, name: NameId, client_name: &[u8], strings: &RandomStrings, buffer: &mut Vec<u8>) {
        for piece in self.pieces_of(name) {
            buffer.extend_from_slice(&self.text[piece.start as usize..piece.end as usize]);
            match piece.insertion {
                Insertion::Nothing => {}
                Insertion::Client => buffer.extend_from_slice(client_name),
                Insertion::RandomString(number) => buffer.extend_from_slice(&strings[usize::from(number)]),
            }
        }
    }

    fn pieces_of(&self, NameId(index): NameId) -> &[NamePiece] {
        let index = index as usize;
        let start = if index == 0 { 0 } else { self.piece_ends[index - 1] };
        &self.pieces[start as usize..self.piece_ends[index] as usize]
    }
}

/// Builds the names of a program.
#[derive(Debug, Default)]
pub struct NameTableBuilder {
    names: NameTable,
    ids: HashMap<Box<[u8]>, NameId>,
}

impl NameTableBuilder {
    /// Adds a name with `/` between its parts, unless it is in the table already, and returns its id. With
    /// `has_strings`, the loadfile stores random strings, and `$3` in the name stands for the string with number 3.
    ///
    /// # Errors
    /// If the name leads out of the directory of the run, has an invalid `$`, or there are too many names.
    pub fn intern(&mut self, name: &[u8], has_strings: bool) -> Result<NameId, String> {
        // A name with `$` is not reused, because its meaning depends on `has_strings`. Such names are rare.
        let inserts_string = has_strings && name.contains(&b'$');
        if !inserts_string && let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        check_name(name)?;
        let id = NameId(u32::try_from(self.names.piece_ends.len()).map_err(|_| "too many names".to_string())?);
        self.split_into_pieces(name, inserts_string)?;
        self.names.piece_ends.push(self.names.pieces.len() as u32);
        if !inserts_string {
            self.ids.insert(name.into(), id);
        }
        Ok(id)
    }

    /// Returns all names.
    pub fn finish(self) -> NameTable {
        self.names
    }

    fn split_into_pieces(&mut self, name: &[u8], inserts_string: bool) -> Result<(), String> {
        let mut rest = name;
        let mut position = 0;
        while position < rest.len() {
            if rest[position..].starts_with(CLIENT_PLACEHOLDER) {
                self.push_piece(&rest[..position], Insertion::Client);
                (rest, position) = (&rest[position + CLIENT_PLACEHOLDER.len()..], 0);
            } else if inserts_string && rest[position] == b'$' {
                let Some(digit @ b'0'..=b'9') = rest.get(position + 1) else {
                    return Err("after $ comes the number of a random string, 0 to 9".into());
                };
                self.push_piece(&rest[..position], Insertion::RandomString(digit - b'0'));
                (rest, position) = (&rest[position + 2..], 0);
            } else {
                position += 1;
            }
        }
        self.push_piece(rest, Insertion::Nothing);
        Ok(())
    }

    fn push_piece(&mut self, text: &[u8], insertion: Insertion) {
        let start = self.names.text.len() as u32;
        self.names.text.extend_from_slice(text);
        self.names.pieces.push(NamePiece { start, end: self.names.text.len() as u32, insertion });
    }
}

/// Checks that a name stays below the directory of the run.
///
/// # Errors
/// If the name has `..` as a part or does not begin with a slash.
pub fn check_name(name: &[u8]) -> Result<(), String> {
    match name {
        [b'/', ..] if name.split(|byte| *byte == b'/').any(|part| part == b"..") => {
            Err(format!("`{}` leads out of the directory", String::from_utf8_lossy(name)))
        }
        [b'/', ..] => Ok(()),
        // The user sees a loadfile, which has `\` in place of `/`.
        _ => Err(format!("the name `{}` does not begin with \\ in the loadfile", String::from_utf8_lossy(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a name to a table, and returns it with `/mnt` before it, as client 42 composes it.
    fn composed_name(name: &str, has_strings: bool) -> Result<String, String> {
        let mut names = NameTableBuilder::default();
        names.intern(b"/before", false).unwrap();
        let id = names.intern(name.as_bytes(), has_strings)?;
        let mut strings = RandomStrings::default();
        strings[3] = b"abc".to_vec();
        let mut buffer = b"/mnt".to_vec();
        names.finish().append_name(id, b"client42", &strings, &mut buffer);
        Ok(String::from_utf8(buffer).unwrap())
    }

    #[test]
    fn the_name_of_the_client_replaces_client1() {
        assert_eq!(composed_name("/clients/client1/a", false).unwrap(), "/mnt/clients/client42/a");
        assert_eq!(composed_name("/client1/client1", false).unwrap(), "/mnt/client42/client42");
        assert_eq!(composed_name("/clients", false).unwrap(), "/mnt/clients");
    }

    #[test]
    fn random_strings_replace_dollar_numbers_if_any_are_stored() {
        assert_eq!(composed_name("/client1/$3.dat", true).unwrap(), "/mnt/client42/abc.dat");
        assert_eq!(composed_name("/a$3", false).unwrap(), "/mnt/a$3");
        assert!(composed_name("/a$b", true).is_err());
        assert!(composed_name("/a$", true).is_err());
    }

    #[test]
    fn names_that_lead_out_of_the_directory_are_refused() {
        assert!(composed_name("/a/../../etc", false).unwrap_err().contains("leads out"));
        assert!(composed_name("a", false).unwrap_err().contains("does not begin"));
        assert_eq!(composed_name("/a..b/...", false).unwrap(), "/mnt/a..b/...");
    }

    #[test]
    fn equal_names_have_one_id() {
        let mut names = NameTableBuilder::default();
        let first = names.intern(b"/a", false).unwrap();
        assert_ne!(names.intern(b"/b", false).unwrap(), first);
        assert_eq!(names.intern(b"/a", false).unwrap(), first);
        assert_eq!(names.finish().piece_ends.len(), 2);
    }
}
