//! Claims: statements about a run that can be true or false.
//!
//! ```text
//! untar.elapsed: xfs < ext4
//! untar.elapsed: xfs < ext4 by 5%
//! rm.system: patched == base within 0.5%
//! rm.system: patched <= base within 1%          # no regression worth caring about
//! rndwr.iops[bs=4096,threads=1]: ext4 > btrfs
//! geomean.elapsed: best is xfs
//! untar.elapsed: worst is not "ext2/mkfs=-b 1024"
//! seqwr.iops: ext4 < rndwr.iops                 # two workloads, one variant
//! throughput[clients=5]: xfs >= 0.97 * ext2 within 3%
//! elapsed: xfs < ext4 by mean                   # compares mean costs; without `by mean`, a typical round
//! ```
//!
//! The text before the colon is the quantity: `task.metric`, or a metric alone, with the parameters that identify
//! the task. The tasks `total` and `geomean` stand for all tasks together; a metric alone is of the task that has it. The
//! text after the colon is a relation between variants.
//!
//! `by 5%` requires a difference of at least 5%. `within 0.5%` is a tolerance: `==` holds if the values differ by at most
//! 0.5%, and `<=` if the left value is at most 0.5% larger. A factor such as `0.97 *` first scales the value on the right.
//!
//! `<` and `>` compare the **values**: `xfs < ext4` of a time means that xfs is faster, of a throughput that it is
//! slower. Only `best` and `worst` depend on which direction of the metric is better.
//!
//! If the quantity on the right does not name a parameter, it has the value of the quantity on the left, provided that a task
//! with this value exists: `seqwr.iops[bs=512,threads=8]: ext4 < rndwr.iops` compares both at 512 bytes and 8 threads.
//!
//! A name may have any character except blanks and `<>!"#*[]`; other names need quotes. On the right, an
//! unquoted `task.metric` is another quantity of the variant on the left; in quotes it is a variant.

mod parse;
mod statement;

pub use parse::parse_claims;
pub use statement::{
    BestOrWorst, Claim, ClaimError, ClaimOperator, ClaimOutcome, ExtremeRelation, PairRelation, Quantity, Relation,
    RightSide,
};

#[cfg(test)]
mod tests;
