//! The machine that a sample came from.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A machine in one boot. Facts are text because reports print them and nothing computes with them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// `uname -r`.
    pub kernel: String,
    /// Everything needed to repeat a run: CPU model, cores, memory, governor, tool versions, …
    pub facts: BTreeMap<String, String>,
}

/// The fact that tells which build of fsarena measured: the beginning of the BLAKE3 hash of its file.
pub const BUILD: &str = "fsarena_build";

/// The fact that tells where the images of the filesystems lie: `/data on vda (ext4)`.
pub const IMAGES: &str = "images_in";
