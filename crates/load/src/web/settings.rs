//! Settings that every workload of a web cache has.

use fsarena_core::setting::{Default, Kind, SettingDef};

/// Directories of the first level.
pub const L1: SettingDef = SettingDef {
    id: "l1",
    kind: Kind::Int { min: 1, max: 256 },
    default: Default::Int(16),
    help: "directories of the first level, where objects are files",
};

/// Directories of the second level.
pub const L2: SettingDef = SettingDef {
    id: "l2",
    kind: Kind::Int { min: 1, max: 1024 },
    default: Default::Int(256),
    help: "directories in each of them",
};

/// The share of requests that recur.
pub const RECURRENCE: SettingDef = SettingDef {
    id: "recurrence",
    kind: Kind::Float { min: 0.0, max: 1.0 },
    default: Default::Float(0.7),
    help: "share of requests for popular objects; every other request is for a new object",
};

/// How unequal popular objects are.
pub const ZIPF: SettingDef = SettingDef {
    id: "zipf",
    kind: Kind::Float { min: 0.0, max: 2.0 },
    default: Default::Float(0.8),
    help: "exponent of popularity",
};
