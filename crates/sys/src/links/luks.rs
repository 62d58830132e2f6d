//! LUKS2 as cryptsetup formats it by default: dm-crypt behind a real header, with the sector size that cryptsetup chooses. The
//! key is fixed, because the data is no secret.

use super::crypt::{self, key_hex};
use super::def::{LinkDef, LinkSetup, clear_superblock};
use crate::device_mapper::{DmTarget, SECTOR_BYTES};
use crate::process_output::make_memory_file;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Error, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::{fs::File, path::Path, path::PathBuf};

/// The link with the id `luks`.
pub const LINK: LinkDef = LinkDef {
    id: "luks",
    program: Some(("cryptsetup", "cryptsetup-bin")),
    accelerators: &["aesni_intel", "algif_skcipher"],
    // The header takes 16 MiB.
    sectors_below: |sectors| round_to_4k_sectors(sectors) + (16 << 20) / SECTOR_BYTES,
    make,
    ..crypt::LINK
};

/// The fields of the header about the data (LUKS2 On-Disk Format, 3).
#[derive(Debug, Deserialize, PartialEq)]
struct Header {
    segments: BTreeMap<String, Segment>,
}

/// A range of the device with encrypted data.
#[derive(Debug, Deserialize, PartialEq)]
struct Segment {
    /// Its offset in bytes.
    offset: String,
    /// The cipher: `aes-xts-plain64`.
    encryption: String,
    /// The size of a sector in bytes.
    sector_size: u64,
}

/// The first bytes of a header, and the offsets of its size and of its JSON, in bytes.
const MAGIC: &[u8] = b"LUKS\xba\xbe";
const SIZE_OFFSET: usize = 8;
const JSON_OFFSET: u64 = 4096;
/// The largest size of a header in bytes.
const MAX_HEADER_BYTES: u64 = 4 << 20;

/// Rounds a number of sectors up to whole sectors of 4096 bytes, a size that cryptsetup may choose.
fn round_to_4k_sectors(sectors: u64) -> u64 {
    sectors.next_multiple_of(8)
}

fn make(setup: &LinkSetup) -> Result<PathBuf> {
    clear_superblock(&setup.device_below)?;
    format_header(setup)?;
    let segment = read_segment(&setup.device_below)?;
    let offset: u64 = segment.offset.parse().map_err(Error::other)?;
    let arguments =
        format!("{} {} 0 {} {}", segment.encryption, key_hex(), setup.device_below.display(), offset / SECTOR_BYTES);
    let sector_option = match segment.sector_size {
        SECTOR_BYTES => String::new(),
        size => format!(" 1 sector_size:{size}"),
    };
    setup
        .mapper
        .make(&setup.name, &[DmTarget::whole(round_to_4k_sectors(setup.sectors), "crypt", arguments + &sector_option)])
}

/// Writes the header with cryptsetup(8).
fn format_header(setup: &LinkSetup) -> Result<()> {
    let mut key = make_memory_file("key")?;
    key.write_all(key_hex().as_bytes())?;
    let mut volume_key = make_memory_file("volume-key")?;
    volume_key.write_all(&crypt::key())?;
    let path_of = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let argv = (setup.command)("cryptsetup")
        .args(["luksFormat", "--batch-mode", "--type", "luks2", "--disable-locks"])
        .args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-size", "512"])
        .arg("--volume-key-file")
        .arg(path_of(&volume_key))
        .arg("--key-file")
        .arg(path_of(&key))
        .arg(&setup.device_below)
        .env("DM_DISABLE_UDEV", "1");
    argv.run_checked(&mut |_| ()).map_err(Error::other)?;
    Ok(())
}

/// Reads the description of the data from the header on a device.
fn read_segment(device: &Path) -> Result<Segment> {
    let file = File::open(device)?;
    let mut start = [0; 16];
    file.read_exact_at(&mut start, 0)?;
    let size = u64::from_be_bytes(start[SIZE_OFFSET..].try_into().map_err(Error::other)?);
    if !start.starts_with(MAGIC) || !(JSON_OFFSET..MAX_HEADER_BYTES).contains(&size) {
        return Err(Error::other("cryptsetup wrote no LUKS2 header"));
    }
    let mut json = vec![0; (size - JSON_OFFSET) as usize];
    file.read_exact_at(&mut json, JSON_OFFSET)?;
    parse_segment(&json)
}

/// Parses the first segment of a header from its JSON, which NUL bytes may follow.
fn parse_segment(json: &[u8]) -> Result<Segment> {
    let text = json.split(|byte| *byte == 0).next().unwrap_or_default();
    let header: Header = serde_json::from_slice(text)?;
    header.segments.into_values().next().ok_or_else(|| Error::other("the LUKS2 header names no data segment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_segment_is_read_from_the_header() {
        let json =
            b"{\"keyslots\":{},\"segments\":{\"0\":{\"type\":\"crypt\",\"offset\":\"16777216\",\"size\":\"dynamic\",\
            \"encryption\":\"aes-xts-plain64\",\"sector_size\":4096}}}\0\0";
        let found = parse_segment(json).unwrap();
        assert_eq!((found.offset.as_str(), found.sector_size), ("16777216", 4096));
        assert!(parse_segment(b"{\"segments\":{}}").is_err() && parse_segment(b"").is_err());
    }
}
