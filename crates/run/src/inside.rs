//! What fsarena does where it is the first process of a guest: it boots, then it is the agent.

use crate::agent;
use crate::protocol::{Guest, Line};
use fsarena_core::event::{CellEvent, Note, NoteKind};
use fsarena_guest::inside::{self, Booted};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::mount;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use fsarena_guest::inside::is_here;

/// Runs the cell that the guest was booted for, and ends the guest.
pub fn main() -> ! {
    if let Err(error) = inside::boot().and_then(work) {
        // Nobody else may be listening: the console is kept, and its end is shown.
        println!("fsarena: the guest cannot work: {error}");
    }
    inside::power_off()
}

fn work(booted: Booted) -> std::io::Result<()> {
    let Booted { orders, mut voice, test, other } = booted;
    let mut guest: Guest = serde_json::from_value(orders.request)?;
    say(&mut voice, &about(&Kernel::host()))?;
    let request = &mut guest.request;
    for dir in [&request.other, &request.root] {
        // The root lies below a mount point of its own, which is made with it and is covered by the mount.
        std::fs::create_dir_all(dir)?;
    }
    mount::by_call(&other, &request.other, &guest.other_type, "")
        .map_err(|error| std::io::Error::other(format!("mounting the other disk: {error}")))?;
    request.device = numbers(&test);
    if let Some(mount) = &mut request.mount {
        mount.source = test;
    }
    let text = serde_json::to_vec(request)?;
    agent::serve(text.as_slice(), voice)?;
    // Unmounted as well as the filesystem under test: whoever comes next finds it whole.
    Ok(rustix::mount::unmount(&guest.request.other, rustix::mount::UnmountFlags::empty())?)
}

fn numbers(disk: &Path) -> Option<(u32, u32)> {
    let rdev = std::fs::metadata(disk).ok()?.rdev();
    Some((rustix::fs::major(rdev), rustix::fs::minor(rdev)))
}

fn say(voice: &mut dyn Write, note: &Note) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(&Line::Event(CellEvent::Note(note.clone())))?;
    text.push(b'\n');
    voice.write_all(&text)?;
    voice.flush()
}

/// What tells this kernel from others, and what biases its figures.
fn about(kernel: &Kernel) -> Note {
    let release = kernel.fact("proc/sys/kernel/osrelease").unwrap_or_default();
    let version = kernel.fact("proc/sys/kernel/version").unwrap_or_default();
    let crypto = kernel.read("proc/crypto").unwrap_or_default();
    let crc32c = crc32c_driver(&crypto).unwrap_or("none yet");
    let text = format!("guest kernel {release} {version}; CRC32C by {crc32c}");
    Note::new(NoteKind::Options, text).step("kernel")
}

/// The implementation that the kernel prefers for CRC32C: that of the highest priority in `/proc/crypto`.
fn crc32c_driver(crypto: &str) -> Option<&str> {
    let field = |block: &'_ str, name: &str| -> Option<String> {
        let line = block.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let best =
        crypto.split("\n\n").filter(|block| field(block, "name").as_deref() == Some("crc32c")).max_by_key(
            |block| field(block, "priority").and_then(|text| text.parse::<i64>().ok()).unwrap_or(0),
        )?;
    best.lines().find(|line| line.starts_with("driver"))?.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_crc32c_is_named() {
        let crypto = "name         : crc32c\ndriver       : crc32c-generic\npriority     : 100\n\n\
                      name         : crc32c\ndriver       : crc32c-intel\npriority     : 200\n\n\
                      name         : sha1\ndriver       : sha1-generic\npriority     : 900\n";
        assert_eq!(crc32c_driver(crypto), Some("crc32c-intel"));
        assert_eq!(crc32c_driver(""), None);
    }
}
