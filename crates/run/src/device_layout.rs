//! The devices below the filesystem of each variant. A run makes each device once; all variants with the same device
//! specification share it.

use bytesize::ByteSize;
use fsarena_core::factor::{self, RAW};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, factor::device::BackingDevice};
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{Error, def::FsDef, filesystems};
use fsarena_sys::links;
use std::collections::BTreeSet;

/// The kind of storage that a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceStorage {
    /// A device that fsarena makes.
    Made(BackingDevice),
    /// The device that the user named for erasing.
    Erased,
}

/// The use of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceRole {
    /// It has a whole filesystem.
    Whole,
    /// It is below the links of a stack.
    Stacked,
    /// It is one of several devices of a filesystem, with its number, from 1.
    Member(usize),
    /// It has the journal or log of a filesystem.
    Journal,
}

/// The specification of a device that a variant needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceSpec {
    /// The kind of its storage.
    pub storage: DeviceStorage,
    /// Its use.
    pub role: DeviceRole,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The devices below the filesystem of one variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLayout {
    /// The devices with data; none for a filesystem in memory.
    pub members: Vec<DeviceSpec>,
    /// The separate device of the journal, if there is one.
    pub journal: Option<DeviceSpec>,
    /// Whether links of a stack lie between the devices with data and the filesystem.
    pub is_stacked: bool,
}

impl DeviceSpec {
    /// The file name of its image: `test.img`, `member-1-512.0MiB.img`. Images of different sizes have different names.
    pub fn image_name(&self) -> String {
        let rounded = ByteSize(self.bytes).to_string().replace(' ', "");
        let is_exact = rounded.parse() == Ok(ByteSize(self.bytes));
        let size = if is_exact { rounded } else { format!("{}B", self.bytes) };
        match self.role {
            DeviceRole::Whole => "test.img".into(),
            DeviceRole::Stacked => format!("stack-{size}.img"),
            DeviceRole::Member(number) => format!("member-{number}-{size}.img"),
            DeviceRole::Journal => format!("journal-{size}.img"),
        }
    }
}

/// Returns the definition of the filesystem of a variant, and its options.
///
/// # Errors
/// An unknown filesystem or option set, or options that cannot be used.
pub fn filesystem_of(variant: &Variant) -> Result<(&'static FsDef, VariantOptions), Error> {
    let def = filesystems::find(variant.level(factor::FS))?;
    Ok((def, lifecycle::variant_options(def, variant)?))
}

impl DeviceLayout {
    /// The devices of a variant whose filesystem has the size `bytes`.
    ///
    /// # Errors
    /// An unknown filesystem or option set.
    pub fn of(plan: &Plan, variant: &Variant, bytes: u64) -> Result<DeviceLayout, Error> {
        let storage = match factor::device::parse_device(variant.level(factor::DEVICE)).map_err(Error::Options)? {
            Some(device) => DeviceStorage::Made(device),
            None => default_storage(&plan.device.backing),
        };
        let links = links::parse_level(variant.level(factor::STACK)).map_err(Error::Options)?;
        let role = if links.is_empty() { DeviceRole::Whole } else { DeviceRole::Stacked };
        let bytes = links::bytes_below(&links, bytes);
        let whole = DeviceSpec { storage, role, bytes };
        if variant.level(factor::FS) == RAW {
            return Ok(DeviceLayout { members: vec![whole], journal: None, is_stacked: !links.is_empty() });
        }
        let (def, options) = filesystem_of(variant)?;
        if def.traits.volatile {
            return Ok(DeviceLayout { members: vec![], journal: None, is_stacked: false });
        }
        let members = match options.raid {
            None => vec![whole],
            Some(raid) => {
                // In guests md assembles the array, for every filesystem.
                let is_md = matches!(plan.device.backing, Backing::Guest(_));
                let bytes = raid.member_bytes(bytes, is_md);
                let member = |number| DeviceSpec { storage, role: DeviceRole::Member(number), bytes };
                (1..=raid.member_count).map(member).collect()
            }
        };
        let journal = lifecycle::journal_bytes(def, &options).map(|bytes| {
            let storage = match options.journal.and_then(|journal| journal.device) {
                Some(device) => DeviceStorage::Made(device),
                // The filesystem fills the erased device, so the journal needs another one.
                None if storage == DeviceStorage::Erased => DeviceStorage::Made(BackingDevice::Loop),
                None => storage,
            };
            DeviceSpec { storage, role: DeviceRole::Journal, bytes }
        });
        Ok(DeviceLayout { members, journal, is_stacked: !links.is_empty() })
    }

    /// All devices: the devices with data, then the device of the journal.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceSpec> {
        self.members.iter().chain(&self.journal)
    }
}

/// The storage of the devices of a variant that names no backing device.
fn default_storage(backing: &Backing) -> DeviceStorage {
    DeviceStorage::Made(match backing {
        Backing::Loop { .. } | Backing::Guest(_) | Backing::Dir => BackingDevice::Loop,
        Backing::Ram => BackingDevice::Ram,
        Backing::Zram => BackingDevice::Zram,
        Backing::Erase { .. } => return DeviceStorage::Erased,
    })
}

/// The devices that the variants of a run need, each once. `bytes` is the size of a filesystem.
///
/// # Errors
/// An unknown filesystem or option set.
pub fn all_devices(plan: &Plan, variants: &[Variant], bytes: u64) -> Result<BTreeSet<DeviceSpec>, Error> {
    let layouts = variants.iter().map(|variant| DeviceLayout::of(plan, variant, bytes));
    Ok(layouts.collect::<Result<Vec<_>, _>>()?.iter().flat_map(DeviceLayout::devices).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_record;

    fn variant(levels: &[(&str, &str)]) -> Variant {
        Variant { name: "a".into(), levels: levels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect() }
    }

    #[test]
    fn images_of_almost_equal_sizes_have_different_names() {
        let storage = DeviceStorage::Made(BackingDevice::Loop);
        let name = |bytes| DeviceSpec { storage, role: DeviceRole::Stacked, bytes }.image_name();
        assert_eq!([name(1 << 30), name((1 << 30) + 4096)], ["stack-1.0GiB.img", "stack-1073745920B.img"]);
    }

    #[test]
    fn variants_with_equal_specifications_share_a_device() {
        // The images of this plan lie in memory.
        let plan = empty_record(&["ext4"], &[]).plan;
        let variants = [
            variant(&[("fs", "ext4")]),
            variant(&[("fs", "ext4"), ("journal", "external:64MiB")]),
            variant(&[("fs", "ext3"), ("journal", "external:64MiB@loop"), ("device", "zram")]),
            variant(&[("fs", "btrfs"), ("raid", "raid0")]),
            // It needs no device.
            variant(&[("fs", "tmpfs")]),
        ];
        let devices = all_devices(&plan, &variants, 1 << 30).unwrap();
        let storage_role_and_mib: Vec<(DeviceStorage, DeviceRole, u64)> =
            devices.iter().map(|device| (device.storage, device.role, device.bytes >> 20)).collect();
        use BackingDevice::{Loop, Ram, Zram};
        assert_eq!(
            storage_role_and_mib,
            [
                (DeviceStorage::Made(Loop), DeviceRole::Journal, 64),
                (DeviceStorage::Made(Ram), DeviceRole::Whole, 1024),
                (DeviceStorage::Made(Ram), DeviceRole::Member(1), 512),
                (DeviceStorage::Made(Ram), DeviceRole::Member(2), 512),
                (DeviceStorage::Made(Ram), DeviceRole::Journal, 64),
                (DeviceStorage::Made(Zram), DeviceRole::Whole, 1024),
            ]
        );
    }
}
