//! The memory that the load may use.

use super::{FactorDef, MEMORY, bytes};
use bytesize::ByteSize;

/// The factor.
pub const DEF: FactorDef = FactorDef {
    id: MEMORY,
    default: "",
    example: "64MiB, 1GiB",
    help: "memory of the load by a cgroup limit, page cache that it fills included: `256MiB`; empty for no limit",
    check: |level| parse(level).map(drop),
};

/// The minimum, in bytes: the measuring process itself needs it.
const LEAST: u64 = 32 << 20;

/// The meaning of a level, in bytes. None stands for unlimited.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<u64>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    match bytes(level) {
        Some(bytes) if bytes >= LEAST => Ok(Some(bytes)),
        Some(_) => {
            Err(format!("`{level}` is too little: the measuring process itself needs {}", ByteSize(LEAST)))
        }
        None => Err(format!("invalid size `{level}`; write it like `256MiB`")),
    }
}
