//! Encryption by dm-crypt with the default cipher and key size of LUKS, and a fixed key, because the data is no secret.

use super::def::{LinkDef, LinkSetup, nothing_to_finish};
use crate::device_mapper::DmTarget;
use std::{io::Result, path::PathBuf};

/// The link with the id `crypt`.
pub const LINK: LinkDef = LinkDef {
    id: "crypt",
    program: None,
    targets: &["crypt"],
    modules: &["dm_mod", "dm_crypt", "xts"],
    accelerators: &["aesni_intel"],
    sectors_below: |sectors| sectors,
    make,
    finish_after_mkfs: nothing_to_finish,
};

/// The cipher.
const CIPHER: &str = "aes-xts-plain64";
/// The bytes of the key: two AES-256 keys.
const KEY_BYTES: usize = 64;

/// The fixed key. XTS requires that its two halves differ.
pub(super) fn key() -> [u8; KEY_BYTES] {
    std::array::from_fn(|byte| byte as u8)
}

/// The key in hexadecimal, as tables have it.
pub(super) fn key_hex() -> String {
    key().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn make(setup: &LinkSetup) -> Result<PathBuf> {
    let arguments = format!("{CIPHER} {} 0 {} 0", key_hex(), setup.device_below.display());
    setup.mapper.make(&setup.name, &[DmTarget::whole(setup.sectors, "crypt", arguments)])
}
