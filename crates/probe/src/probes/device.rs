//! Requests, bytes and flushes that reached the device under test.

use crate::probe::{OpenedProbe, Probe, ProbeReading, ProbeTarget, Sampling};
use crate::probe::{TextGauge, Unavailable, parse_counter};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Fold, ReadingDef, Unit};

/// The unit of the kernel's counters in bytes, whatever the sector size of the device is.
const SECTOR_BYTES: f64 = 512.0;
/// The unit of the kernel's times, in nanoseconds.
const MILLISECOND_NS: f64 = 1e6;

/// A field of the file, and the reading that has its value.
struct StatField {
    /// The index of the field, from 0.
    index: usize,
    /// The factor that converts the field to the unit of the reading.
    factor: f64,
    reading: ProbeReading,
}

const FIELDS: &[StatField] = &[
    synced_field(0, 1.0, "device_reads", Unit::Count, "read requests that the device completed"),
    synced_field(1, 1.0, "device_read_merges", Unit::Count, "reads merged with others in the queue"),
    synced_field(2, SECTOR_BYTES, reading::DEVICE_READ_BYTES, Unit::Bytes, "bytes read from the device"),
    synced_field(4, 1.0, reading::DEVICE_WRITES, Unit::Count, "write requests that the device completed"),
    synced_field(5, 1.0, "device_write_merges", Unit::Count, "writes merged with others in the queue"),
    synced_field(6, SECTOR_BYTES, reading::DEVICE_WRITTEN_BYTES, Unit::Bytes, "bytes written to the device"),
    synced_field(
        9,
        MILLISECOND_NS,
        "device_busy_ns",
        Unit::Nanoseconds,
        "time with at least one request in flight (io_ticks, which the kernel counts in milliseconds)",
    ),
    synced_field(
        10,
        MILLISECOND_NS,
        "device_queue_ns",
        Unit::Nanoseconds,
        "time of all requests in the queue and in flight, added up (time_in_queue, which the kernel counts in milliseconds)",
    ),
    synced_field(11, 1.0, "device_discards", Unit::Count, "discard requests that the device completed"),
    synced_field(13, SECTOR_BYTES, "device_discard_bytes", Unit::Bytes, "bytes discarded"),
    synced_field(15, 1.0, reading::DEVICE_FLUSHES, Unit::Count, "cache flushes that the device completed"),
    returned_field(2, "device_read_to_return_bytes", "bytes read from the device until the command returned"),
    returned_field(6, "device_write_to_return_bytes", "bytes written to the device until the command returned"),
];

/// The definition of an amount that is counted for the whole machine, not for a process.
const fn amount_def(id: &'static str, unit: Unit) -> ReadingDef {
    ReadingDef::lower(id, unit).tasks(Fold::Sum).machine()
}

/// A field that is read for the growth until the data is synced.
const fn synced_field(index: usize, factor: f64, id: &'static str, unit: Unit, help: &'static str) -> StatField {
    StatField { index, factor, reading: Sampling::GrowthUntilSynced.reading(amount_def(id, unit).help(help)) }
}

/// A field in sectors that is read for the growth until the work has returned.
const fn returned_field(index: usize, id: &'static str, help: &'static str) -> StatField {
    let reading = Sampling::GrowthUntilReturn.reading(amount_def(id, Unit::Bytes).help(help));
    StatField { index, factor: SECTOR_BYTES, reading }
}

const READINGS: [ProbeReading; FIELDS.len()] = {
    let mut readings = [FIELDS[0].reading; FIELDS.len()];
    let mut i = 0;
    while i < FIELDS.len() {
        readings[i] = FIELDS[i].reading;
        i += 1;
    }
    readings
};

/// `/sys/dev/block/MAJOR:MINOR/stat` (Documentation/block/stat.rst).
pub const PROBE: Probe = Probe {
    id: "device",
    help: "requests, bytes, merges, flushes and discards that reached the device under test, until the data was synced",
    readings: &READINGS,
    open,
};

fn open(target: &ProbeTarget) -> Result<OpenedProbe, Unavailable> {
    let Some((major, minor)) = target.device else {
        return Err(Unavailable::new("no block device is known below the directory under test"));
    };
    let dir = format!("sys/dev/block/{major}:{minor}");
    // Without I/O statistics the counters do not change, which would look like an idle device. A partition has the queue of its
    // disk.
    for queue in [format!("{dir}/queue"), format!("{dir}/../queue")] {
        if target.kernel.read_trimmed(&format!("{queue}/iostats")).as_deref() == Some("0") {
            let why = format!("I/O statistics of device {major}:{minor} are switched off");
            return Err(Unavailable::new(why).with_fix(format!("echo 1 > /{queue}/iostats")));
        }
    }
    TextGauge::open(&target.kernel, &format!("{dir}/stat"), parse).map(OpenedProbe::new)
}

/// Old kernels have 11 fields, without discards, or 15, without flushes; missing values stay NaN.
fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    let mut fields = [f64::NAN; 17];
    let mut field_count = 0;
    for (field, word) in fields.iter_mut().zip(text.split_ascii_whitespace()) {
        *field = parse_counter(word)?;
        field_count += 1;
    }
    for (value, field) in out.iter_mut().zip(FIELDS) {
        *value = fields[field.index] * field.factor;
    }
    (field_count >= 11).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{kernel_with, read_once};

    #[test]
    fn all_fields_of_the_stat_file_are_parsed() {
        let mut out = [f64::NAN; FIELDS.len()];
        parse("  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", &mut out).unwrap();
        assert_eq!(out, [1.0, 2.0, 1536.0, 5.0, 6.0, 3584.0, 10e6, 11e6, 12.0, 7168.0, 16.0, 1536.0, 3584.0]);
    }

    #[test]
    fn an_old_kernel_has_no_discards_and_no_flushes() {
        let mut out = [f64::NAN; FIELDS.len()];
        parse("1 2 3 4 5 6 7 8 9 10 11", &mut out).unwrap();
        assert_eq!((out[7], out[8].is_nan(), out[10].is_nan()), (11e6, true, true));
        assert_eq!(parse("1 2 3", &mut out), None);
        assert_eq!(parse("1 2 3 4 5 6 7 8 9 10 -11", &mut out), None);
    }

    #[test]
    fn the_probe_reads_the_device_of_its_target() {
        let (_dir, kernel) = kernel_with(&[("sys/dev/block/7:3/stat", "1 0 8 0 0 0 0 0 0 0 0\n")]);
        let mut opened = (PROBE.open)(&ProbeTarget { kernel, device: Some((7, 3)) })
            .unwrap_or_else(|unavailable| panic!("{}", unavailable.why));
        assert_eq!(read_once(opened.gauge.as_mut(), FIELDS.len())[2], 4096.0);
    }

    #[test]
    fn disabled_io_statistics_make_the_probe_unavailable() {
        let files = [("sys/dev/block/7:3/stat", "0 0 0 0 0 0 0 0 0 0 0\n"), ("sys/dev/block/7:3/queue/iostats", "0\n")];
        let (_dir, kernel) = kernel_with(&files);
        let unavailable = (PROBE.open)(&ProbeTarget { kernel: kernel.clone(), device: Some((7, 3)) }).err().unwrap();
        assert!(unavailable.fix.unwrap().contains("echo 1"));
        assert!((PROBE.open)(&ProbeTarget { kernel, device: None }).is_err());
    }

    #[test]
    fn a_partition_of_a_disk_without_io_statistics_has_none() {
        let disk = "sys/devices/pci/block/sda";
        let (root, kernel) = kernel_with(&[
            (&format!("{disk}/queue/iostats"), "0\n"),
            (&format!("{disk}/sda1/stat"), "0 0 0 0 0 0 0 0 0 0 0\n"),
        ]);
        root.make_link("sys/dev/block/8:1", "../../devices/pci/block/sda/sda1");
        let unavailable = (PROBE.open)(&ProbeTarget { kernel, device: Some((8, 1)) }).err().unwrap();
        assert_eq!(unavailable.fix.as_deref(), Some("echo 1 > /sys/dev/block/8:1/../queue/iostats"));
    }
}
