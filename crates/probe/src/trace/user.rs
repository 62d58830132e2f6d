//! Names addresses in programs: the mapped file, and the place in it.

use fsarena_sys::kernel::SysRoot;
use std::{collections::HashMap, path::Path};

/// A mapped piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file: String,
}

/// What the processes have mapped, read when it is first asked for: while they live.
#[derive(Debug)]
pub struct UserMaps {
    kernel: SysRoot,
    processes: HashMap<u32, Vec<Mapping>>,
}

impl UserMaps {
    /// Nothing read yet.
    pub fn new(kernel: &SysRoot) -> UserMaps {
        UserMaps { kernel: kernel.clone(), processes: HashMap::new() }
    }

    /// `libc.so.6+0x11ba41`: an offset in the file; where nothing is known to be mapped, the address.
    pub fn name(&mut self, pid: u32, address: u64) -> String {
        let known = self.processes.get(&pid).and_then(|maps| find(maps, address));
        // It may have been mapped since.
        known.or_else(|| find(self.read(pid), address)).unwrap_or_else(|| format!("{address:#x}"))
    }

    fn read(&mut self, pid: u32) -> &[Mapping] {
        let text = self.kernel.read(&format!("proc/{pid}/maps")).unwrap_or_default();
        let now: Vec<_> = text.lines().filter_map(mapping).collect();
        let known = self.processes.entry(pid).or_default();
        // A process that is gone has an empty list: what was known of it still holds.
        if !now.is_empty() {
            *known = now;
        }
        known
    }
}

fn find(maps: &[Mapping], address: u64) -> Option<String> {
    let map = maps.iter().find(|map| (map.start..map.end).contains(&address))?;
    Some(format!("{}+{:#x}", map.file, address - map.start + map.offset))
}

/// `7f00a000-7f00b000 r-xp 00001000 08:01 131 /usr/lib/libc.so.6`, where it has a name.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let _access = words.next()?;
    let offset = words.next()?;
    let file = words.nth(2)?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy().into_owned());
    Some(Mapping { start: number(start)?, end: number(end)?, offset: number(offset)?, file: name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_place_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let maps = "55550000-55560000 rw-p 00000000 00:00 0\n\
                    7f000000-7f010000 r-xp 00002000 08:01 131 /usr/lib/libc.so.6\n\
                    7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        std::fs::write(dir.path().join("proc/7/maps"), maps).unwrap();
        let mut users = UserMaps::new(&SysRoot::at(dir.path()));
        assert_eq!(users.name(7, 0x7f00_0010), "libc.so.6+0x2010");
        assert_eq!(users.name(7, 0x7fff_0004), "[vdso]+0x4");
        assert_eq!(users.name(7, 0x5555_0000), "0x55550000");
        std::fs::remove_dir_all(dir.path().join("proc/7")).unwrap();
        assert_eq!(users.name(7, 0x7f00_0011), "libc.so.6+0x2011", "known of a process that is gone");
        assert_eq!(users.name(8, 0x10), "0x10");
    }
}
