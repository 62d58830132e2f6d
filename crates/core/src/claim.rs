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
//! elapsed: xfs < ext4 by mean                   # by mean cost, not in a typical round
//! ```
//!
//! Before the colon stands the quantity: `task.metric`, or a metric alone, with the parameters that identify
//! the task. After it stands a relation between variants.
//!
//! `<` and `>` are about the **value**, not about what is better: `xfs < ext4` of a time says that xfs is
//! faster, of a throughput that it is slower. Only `best` and `worst` ask the metric which way is better.
//!
//! Another quantity on the right has the parameters of the left that it does not name itself, where it has such
//! tasks: `seqwr.iops[bs=512,threads=8]: ext4 < rndwr.iops` compares at 512 bytes and 8 threads.
//!
//! A name holds any character but blanks and `<>!"#*[]`; others are written in quotes. On the right, an
//! unquoted `task.metric` is another quantity of the variant on the left; in quotes it is a variant.

mod parse;
mod statement;

pub use parse::parse_all;
pub use statement::{Claim, ClaimError, ClaimOutcome, End, Extreme, Op, Pair, Quantity, Relation, Right};

#[cfg(test)]
mod tests;
