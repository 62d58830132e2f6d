//! The tolerances of the rules. All are ratios unless they say otherwise.

/// More than this times the bare device: something else answered.
pub const ABOVE_DEVICE: f64 = 1.05;
/// Less than this times the bare device: the filesystem is the limit.
pub const BELOW_DEVICE: f64 = 0.70;
/// Sequential below this times random.
pub const SEQUENTIAL: f64 = 0.95;
/// Bandwidth that falls below this as blocks grow, or operations a second that rise above its inverse.
pub const MONOTONE: f64 = 0.95;
/// Throughput below this times that at the next smaller thread count.
pub const SCALING: f64 = 0.95;
/// No gain from threads: less than this over a range of threads of at least [`RANGE`].
pub const GAIN: f64 = 1.25;
/// The range of threads over which a rule expects a gain: the largest count over the smallest.
pub const RANGE: f64 = 4.0;
/// The device has more to give: something else moves at least this much more.
pub const HEADROOM: f64 = 1.25;
/// Far behind: below this times every other variant.
pub const BEHIND: f64 = 0.5;
/// A cliff: from one block size to the next smaller one the share of every other variant's throughput falls
/// below this times the quotient of the block sizes. A mere limit on operations a second, against variants
/// that are limited by bandwidth, halves the share with the block size.
pub const CLIFF: f64 = 0.8;
/// Residuals of the median polish that stand out, in standard deviations of the bulk: 1.4826·MAD.
pub const RESIDUAL: f64 = 3.5;
/// A residual is worth a look only where the cell is also below this times what its neighbours along either
/// axis make one expect.
pub const PIT: f64 = 0.8;
/// From this share of the device's throughput on, a cell is at the ceiling, and what it does there is the
/// device's doing.
pub const CEILING: f64 = 0.9;
/// Without enough replicates a cell that no neighbour joins may be one bad measurement. It counts only
/// where it is off by this ratio (or its inverse).
pub const ALONE: f64 = 0.8;
/// The share of false ones that e-BH allows among what it selects.
pub const ALPHA: f64 = 0.05;
