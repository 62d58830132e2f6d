//! The tolerances of the rules. All are ratios, unless their comment gives another unit.

/// A cell above this times the bare device was served by something else, such as a cache.
pub const ABOVE_DEVICE: f64 = 1.05;
/// In a cell below this times the bare device, the filesystem is the limit.
pub const BELOW_DEVICE: f64 = 0.70;
/// Sequential throughput below this times random throughput breaks a rule.
pub const SEQUENTIAL: f64 = 0.95;
/// With larger blocks, bandwidth below this times that of the smaller blocks breaks a rule, and so do operations per second
/// above its inverse.
pub const MONOTONE: f64 = 0.95;
/// Throughput below this times the throughput at the next smaller thread count breaks a rule.
pub const SCALING: f64 = 0.95;
/// More threads gain nothing if throughput stays below this times that of the smallest thread count, over a range of threads
/// of at least [`RANGE`].
pub const GAIN: f64 = 1.25;
/// The range of threads over which a rule expects a gain: the largest count divided by the smallest.
pub const RANGE: f64 = 4.0;
/// The device can do more if another cell exceeds the throughput by this ratio.
pub const HEADROOM: f64 = 1.25;
/// A cell below this times every other variant is far behind.
pub const BEHIND: f64 = 0.5;
/// A cliff: from one block size to the next smaller one, the throughput relative to every other variant falls below this times
/// the quotient of the block sizes. The quotient allows for a plain limit on operations per second, which halves the relative
/// throughput together with the block size if the other variants are limited by bandwidth.
pub const CLIFF: f64 = 0.8;
/// The smallest residual of the median polish that is flagged, in standard deviations (1.4826·MAD).
pub const RESIDUAL: f64 = 3.5;
/// A residual is flagged only if the cell is also below this times the value interpolated between its neighbours, along both
/// axes.
pub const PIT: f64 = 0.8;
/// From this share of the device's bandwidth on, the device limits a cell, and rules do not apply to it.
pub const CEILING: f64 = 0.9;
/// With few rounds, a flagged cell without flagged neighbours may be a single bad measurement. It is kept only if its ratio is
/// below this or above its inverse.
pub const ALONE: f64 = 0.8;
/// The expected share of false findings among those that e-BH selects is at most this.
pub const ALPHA: f64 = 0.05;
