//! The caveat in every report of a run in guests. `examples/truth.rs` of the program measures how many differences
//! guests reproduce; the table is in docs/guide/guests.md.

use crate::preflight::Kernels;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan};
use fsarena_guest::kernel::GuestKernel;

/// Where the filesystems ran, and what their figures are worth.
pub fn caveat(guest: &GuestPlan, kernels: &Kernels) -> Note {
    let kernels = named(kernels);
    let worth = match (guest.emulator, guest.accelerator) {
        (Emulator::Exact, _) => {
            "the figures are instructions, not time: they know no caches, no memory, no device, no waiting and no \
             parallelism; the disk is memory, and copying to it is counted with the kernel; compare them with no \
             other run's than of such a guest (of 15 differences between filesystems on a machine they kept all, and with \
             another kernel 16 of 18, and turned 2: docs/guide/guests.md)"
        }
        (Emulator::Qemu, Some(Accelerator::Kvm)) => {
            "its device and its exits cost what those of no machine cost: these times are not comparable with those of \
             the machine itself"
        }
        (Emulator::Qemu, _) => {
            "times are several times those of the machine itself and not comparable with them, and only differences \
             above 1.5 times in the same table mean anything (of 15 differences between filesystems on a machine they \
             showed 6 and turned none: docs/guide/guests.md)"
        }
    };
    let text =
        format!("these filesystems ran in {}, {kernels}: {worth}", Backing::Guest(guest.clone()).executor());
    Note::new(NoteKind::Fairness, text)
}

/// The kernels; several with the levels that variants name them by.
fn named(kernels: &Kernels) -> String {
    let several = kernels.by_level.len() > 1;
    let name = |(level, kernel): (&String, &GuestKernel)| match kernel.name() {
        name if several && *level != name => format!("{name} ({level})"),
        name => name,
    };
    let names: Vec<String> = kernels.by_level.iter().map(name).collect();
    format!("{} {}", if several { "kernels" } else { "kernel" }, names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_kernels_are_told_apart_by_what_variants_call_them() {
        let kernel = |release: &str| GuestKernel {
            image: "/k".into(),
            release: release.into(),
            ..GuestKernel::default()
        };
        let mut kernels = Kernels::default();
        kernels.by_level.insert("debian:6.1".into(), kernel("6.1.0-9-amd64"));
        assert_eq!(named(&kernels), "kernel 6.1.0-9-amd64");
        kernels.by_level.insert("debian:6.12".into(), kernel("6.12.1-amd64"));
        assert_eq!(named(&kernels), "kernels 6.1.0-9-amd64 (debian:6.1), 6.12.1-amd64 (debian:6.12)");
    }
}
