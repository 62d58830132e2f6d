//! What every report of guests must say. How many differences were kept is measured by `examples/truth.rs` of the
//! program; the table is in docs/guests.md.

use crate::preflight::Kernels;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan};
use fsarena_guest::kernel::GuestKernel;

/// Where the filesystems ran, and what their figures are worth.
pub fn caveat(guest: &GuestPlan, kernels: &Kernels) -> Note {
    let names: Vec<String> = kernels.by_level.values().map(GuestKernel::name).collect();
    let kernels = format!("kernel {}", names.join(", "));
    let worth = match (guest.emulator, guest.accelerator) {
        (Emulator::Exact, _) => {
            "the figures are instructions, not time: they know no caches, no memory, no device, no waiting and no \
             parallelism; the disk is memory, and copying to it is counted with the kernel; compare them with no \
             other run's than of such a guest (of 18 differences between filesystems on a machine they kept 16 and \
             turned 2: docs/guests.md)"
        }
        (Emulator::Uml, _) => {
            "system calls are tens of times dearer there than on the machine: these times say that something works, and \
             neither rank filesystems nor compare with those of a machine (of 18 differences between filesystems on a \
             machine they showed 4: docs/guests.md)"
        }
        (Emulator::Qemu, Some(Accelerator::Kvm)) => {
            "its device and its exits cost what those of no machine cost: these times are not comparable with those of \
             the machine itself"
        }
        (Emulator::Qemu, _) => {
            "times are several times those of the machine itself and not comparable with them, and only differences \
             above 1.5 times in the same table mean anything (of 18 differences between filesystems on a machine they \
             showed 4 and turned none: docs/guests.md)"
        }
    };
    let text =
        format!("these filesystems ran in {}, {kernels}: {worth}", Backing::Guest(guest.clone()).executor());
    Note::new(NoteKind::Fairness, text)
}
