//! Settings that every workload of a web cache has.

use fsarena_core::setting::SettingDef;

/// Directories of the first level.
pub const L1: SettingDef =
    SettingDef::int("l1", 1..=256, 16).help("directories of the first level, where objects are files");

/// Directories of the second level.
pub const L2: SettingDef = SettingDef::int("l2", 1..=1024, 256).help("directories in each of them");

/// The share of requests that recur.
pub const RECURRENCE: SettingDef = SettingDef::float("recurrence", 0.0..=1.0, 0.7)
    .help("share of requests for popular objects; every other request is for a new object");

/// How unequal popular objects are.
pub const ZIPF: SettingDef = SettingDef::float("zipf", 0.0..=2.0, 0.8).help("exponent of popularity");
