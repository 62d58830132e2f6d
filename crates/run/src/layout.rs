//! Which devices a variant's filesystem lies on. A run makes each of them once, and the cells of all variants that want
//! the same one share it.

use fsarena_core::factor::{self, RAW};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, factor::device::BackingDevice};
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{Error, def::FsDef, filesystems};
use std::collections::BTreeSet;

/// What carries one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// Something that fsarena makes.
    Made(BackingDevice),
    /// The device that the user named for erasing.
    Erased,
}

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A whole filesystem.
    Whole,
    /// One of several, by its number from 1.
    Member(usize),
    /// A journal or log.
    Journal,
}

/// A device that some variant wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// What carries it.
    pub on: On,
    /// What it is for.
    pub role: Role,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The devices of one variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Those with data.
    pub members: Vec<Wanted>,
    /// That of the journal, where it has one.
    pub journal: Option<Wanted>,
}

impl Wanted {
    /// The name of its image: `test.img`, `member-1-512.0MiB.img`.
    pub fn image(&self) -> String {
        let size = bytesize::ByteSize(self.bytes).to_string().replace(' ', "");
        match self.role {
            Role::Whole => "test.img".into(),
            Role::Member(number) => format!("member-{number}-{size}.img"),
            Role::Journal => format!("journal-{size}.img"),
        }
    }

    /// Whether it lies in memory.
    pub fn in_memory(&self) -> bool {
        matches!(self.on, On::Made(BackingDevice::Ram | BackingDevice::Zram))
    }
}

/// The filesystem of a variant, and its options.
///
/// # Errors
/// An unknown filesystem or option set, or options that cannot be used.
pub fn filesystem_of(variant: &Variant) -> Result<(&'static FsDef, VariantOptions), Error> {
    let def = filesystems::find(variant.level(factor::FS))?;
    Ok((def, lifecycle::variant_options(def, variant)?))
}

impl Layout {
    /// The devices of a variant whose filesystem must hold `bytes`.
    ///
    /// # Errors
    /// An unknown filesystem or option set.
    pub fn of(plan: &Plan, variant: &Variant, bytes: u64) -> Result<Layout, Error> {
        let level = factor::device::parse(variant.level(factor::DEVICE)).map_err(Error::Options)?;
        let on = level.map_or_else(|| of_run(&plan.device.backing), On::Made);
        let whole = || vec![Wanted { on, role: Role::Whole, bytes }];
        if variant.level(factor::FS) == RAW {
            return Ok(Layout { members: whole(), journal: None });
        }
        let (def, options) = filesystem_of(variant)?;
        let members = options.raid.map_or_else(whole, |raid| {
            let bytes = raid.member_bytes(bytes);
            (1..=raid.members).map(|number| Wanted { on, role: Role::Member(number), bytes }).collect()
        });
        let journal = lifecycle::journal_bytes(def, &options).map(|bytes| {
            let own = options.journal.and_then(|journal| journal.on).map(On::Made);
            // One erased device cannot carry both.
            let beside = if on == On::Erased { On::Made(BackingDevice::Loop) } else { on };
            Wanted { on: own.unwrap_or(beside), role: Role::Journal, bytes }
        });
        Ok(Layout { members, journal })
    }

    /// All of them, those with data first.
    pub fn all(&self) -> impl Iterator<Item = &Wanted> {
        self.members.iter().chain(&self.journal)
    }
}

fn of_run(backing: &Backing) -> On {
    On::Made(match backing {
        Backing::Loop { .. } | Backing::Guest(_) | Backing::Dir => BackingDevice::Loop,
        Backing::Ram => BackingDevice::Ram,
        Backing::Zram => BackingDevice::Zram,
        Backing::Erase { .. } => return On::Erased,
    })
}

/// Every device that the variants of a run want.
///
/// # Errors
/// An unknown filesystem or option set.
pub fn wanted(plan: &Plan, variants: &[Variant], bytes: u64) -> Result<BTreeSet<Wanted>, Error> {
    let layouts = variants.iter().map(|variant| Layout::of(plan, variant, bytes));
    Ok(layouts.collect::<Result<Vec<_>, _>>()?.iter().flat_map(Layout::all).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty;

    fn variant(levels: &[(&str, &str)]) -> Variant {
        Variant {
            name: "a".into(),
            levels: levels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        }
    }

    #[test]
    fn variants_share_what_they_want_alike() {
        // That plan's images lie in memory.
        let plan = empty(&["ext4"], &[]).plan;
        let variants = [
            variant(&[("fs", "ext4")]),
            variant(&[("fs", "ext4"), ("journal", "external:64MiB")]),
            variant(&[("fs", "ext3"), ("journal", "external:64MiB@loop"), ("device", "zram")]),
            variant(&[("fs", "btrfs"), ("raid", "raid0")]),
        ];
        let all: Vec<(On, Role, u64)> = wanted(&plan, &variants, 1 << 30)
            .unwrap()
            .iter()
            .map(|w| (w.on, w.role, w.bytes >> 20))
            .collect();
        use BackingDevice::{Loop, Ram, Zram};
        assert_eq!(
            all,
            [
                (On::Made(Loop), Role::Journal, 64),
                (On::Made(Ram), Role::Whole, 1024),
                (On::Made(Ram), Role::Member(1), 512),
                (On::Made(Ram), Role::Member(2), 512),
                (On::Made(Ram), Role::Journal, 64),
                (On::Made(Zram), Role::Whole, 1024),
            ]
        );
    }
}
