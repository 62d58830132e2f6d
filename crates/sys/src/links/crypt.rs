//! Encryption by dm-crypt with the cipher and key size that LUKS takes by default, and a fixed key: nothing is kept secret.

use super::def::{LinkDef, LinkSite, nothing};
use crate::device_mapper::Target;
use std::{io::Result, path::PathBuf};

/// The link.
pub const LINK: LinkDef = LinkDef {
    id: "crypt",
    targets: &["crypt"],
    modules: &["dm_mod", "dm_crypt", "xts"],
    faster: &["aesni_intel"],
    below: |sectors| sectors,
    make,
    formatted: nothing,
};

/// The cipher.
const CIPHER: &str = "aes-xts-plain64";
/// The bytes of the key: two of AES-256.
const KEY_BYTES: usize = 64;

fn make(site: &LinkSite) -> Result<PathBuf> {
    // The two halves of a key of XTS differ.
    let key: String = (0..KEY_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let words = format!("{CIPHER} {key} 0 {} 0", site.below.display());
    site.mapper.make(&site.name, &[Target::whole(site.sectors, "crypt", words)])
}
