//! The I/O scheduler of the device.

use super::{FactorDef, SCHEDULER};

/// The factor.
pub const DEF: FactorDef = FactorDef {
    id: SCHEDULER,
    default: "",
    example: "none, mq-deadline, kyber, bfq",
    help: "I/O scheduler of every device of the variant, put back afterwards: none, mq-deadline, kyber, bfq; empty leaves it",
    check,
};

fn check(level: &str) -> Result<(), String> {
    match level.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        true => Ok(()),
        false => Err(format!("invalid I/O scheduler `{level}`; write none, mq-deadline, kyber or bfq")),
    }
}
