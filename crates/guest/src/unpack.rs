//! Decompresses kernels and modules; their first bytes identify the format.

use std::io::{Error, Read, Result};

pub(crate) const XZ: &[u8] = &[0xFD, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
const GZIP: &[u8] = &[0x1F, 0x8B, 8];

/// What unpacks these bytes; none where they are not compressed, or in another way.
///
/// # Errors
/// Where the head of what is compressed is damaged.
pub(crate) fn reader<'a>(bytes: &'a [u8]) -> Result<Option<Box<dyn Read + 'a>>> {
    Ok(match bytes {
        // One stream: behind it a bzImage has the size of what it is unpacked to.
        bytes if bytes.starts_with(XZ) => Some(Box::new(lzma_rust2::XzReader::new(bytes, false))),
        bytes if bytes.starts_with(GZIP) => Some(Box::new(flate2::read::GzDecoder::new(bytes))),
        bytes if bytes.starts_with(ZSTD) => {
            Some(Box::new(ruzstd::decoding::StreamingDecoder::new(bytes).map_err(Error::other)?))
        }
        _ => None,
    })
}
