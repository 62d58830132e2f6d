//! Decodes the records that the kernel writes into perf ring buffers (perf_event_open(2), "MMAP layout"), the fields of
//! tracepoint records, which a `format` file in tracefs describes, and call chains.

use std::collections::HashMap;

// enum perf_event_type of include/uapi/linux/perf_event.h.
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_FORK: u32 = 7;
const PERF_RECORD_SAMPLE: u32 = 9;

/// Decodes the records of one event. The samples of every event begin with TID and TIME. All events have `sample_id_all`, so
/// their other records end with TID and TIME.
#[derive(Debug, Clone, Copy)]
pub enum Decoder {
    /// `lock:contention_begin`, sampled with CALLCHAIN and RAW.
    Begin {
        /// The lock's address.
        lock: RecordField,
        /// The kernel's LCB_F_* flags, which state the kind of the lock. See [`super::LockKind`].
        flags: RecordField,
    },
    /// `lock:contention_end`, sampled with RAW.
    End {
        /// The lock's address.
        lock: RecordField,
        /// 0 if the task took the lock, a negative error number if it gave up.
        ret: RecordField,
    },
    /// A clock, sampled with CALLCHAIN.
    Cpu,
}

/// An event of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// The time in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The CPU of the event.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kind of an event, and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A task begins to wait for a lock.
    Begin { lock: u64, flags: u32, chain: ChainId },
    /// A task stops waiting for a lock: it has the lock, or gave up.
    End { lock: u64, gave_up: bool },
    /// A task was running when the clock ticked.
    Cpu { chain: ChainId },
    /// A process or thread starts; `pid` of the event is its process, and `parent` the process that started it.
    Fork { parent: u32 },
    /// The buffer was full, so the kernel dropped this number of records before this one.
    Lost { records: u64 },
}

/// A record that is cut short or contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedRecord;

impl Decoder {
    /// Decodes the body of a record from a buffer of `cpu`, and adds its call chain to `chains`. None for types of records
    /// that the trace does not use.
    pub fn decode(
        self,
        cpu: u32,
        record_type: u32,
        body: &[u8],
        chains: &mut CallChains,
    ) -> Result<Option<TraceEvent>, MalformedRecord> {
        let reader = RecordReader(body);
        let event = match record_type {
            PERF_RECORD_SAMPLE => self.decode_sample(cpu, reader, chains),
            PERF_RECORD_FORK => decode_fork(cpu, reader),
            PERF_RECORD_LOST => decode_lost(cpu, reader),
            _ => return Ok(None),
        };
        event.map(Some).ok_or(MalformedRecord)
    }

    fn decode_sample(self, cpu: u32, mut reader: RecordReader, chains: &mut CallChains) -> Option<TraceEvent> {
        let (pid, tid, time_ns) = (reader.read_u32()?, reader.read_u32()?, reader.read_u64()?);
        let kind = match self {
            Decoder::Begin { lock, flags } => {
                let (chain, raw) = (reader.read_chain()?, reader.read_raw()?);
                EventKind::Begin { lock: lock.read(raw)?, flags: flags.read(raw)? as u32, chain: chains.intern(chain) }
            }
            Decoder::End { lock, ret } => {
                let raw = reader.read_raw()?;
                EventKind::End { lock: lock.read(raw)?, gave_up: ret.read(raw)? != 0 }
            }
            Decoder::Cpu => EventKind::Cpu { chain: chains.intern(reader.read_chain()?) },
        };
        Some(TraceEvent { time_ns, cpu, pid, tid, kind })
    }
}

fn decode_fork(cpu: u32, mut reader: RecordReader) -> Option<TraceEvent> {
    let (pid, parent, tid, _parent_tid, time_ns) =
        (reader.read_u32()?, reader.read_u32()?, reader.read_u32()?, reader.read_u32()?, reader.read_u64()?);
    Some(TraceEvent { time_ns, cpu, pid, tid, kind: EventKind::Fork { parent } })
}

fn decode_lost(cpu: u32, mut reader: RecordReader) -> Option<TraceEvent> {
    let (_event_id, records) = (reader.read_u64()?, reader.read_u64()?);
    let (pid, tid, time_ns) = (reader.read_u32()?, reader.read_u32()?, reader.read_u64()?);
    Some(TraceEvent { time_ns, cpu, pid, tid, kind: EventKind::Lost { records } })
}

/// Reads the fields of a record one after the other. The slice has the bytes that are not read yet.
struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn read_u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn read_u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads a count, and returns the bytes of that number of addresses.
    fn read_chain(&mut self) -> Option<&'a [u8]> {
        let bytes = self.read_u64()?.checked_mul(8)?;
        self.take(usize::try_from(bytes).ok()?)
    }

    /// Reads a length, and returns that number of bytes.
    fn read_raw(&mut self) -> Option<&'a [u8]> {
        let length = self.read_u32()?;
        self.take(length as usize)
    }
}

/// The offset and size of a field in the raw record of a tracepoint, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordField {
    offset: usize,
    size: usize,
}

impl RecordField {
    /// Finds a field by its name in the text of a tracepoint's file `format`.
    pub fn find(format: &str, name: &str) -> Option<RecordField> {
        format.lines().filter_map(RecordField::parse).find_map(|(field, found)| (field == name).then_some(found))
    }

    /// Parses a line such as `field:unsigned int flags; offset:16; size:4; signed:0;`. Returns the name and the field; None for
    /// other lines.
    fn parse(line: &str) -> Option<(&str, RecordField)> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
        let (mut offset, mut size) = (None, None);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", value)) => offset = value.parse().ok(),
                Some(("size", value)) => size = value.parse().ok(),
                _ => {}
            }
        }
        Some((name, RecordField { offset: offset?, size: size? }))
    }

    /// The field's value in a raw record, zero-extended; None if the record is too short, or the field does not have 1, 2, 4 or
    /// 8 bytes.
    pub fn read(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match self.size {
            1 => bytes[0].into(),
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

// Marks between the parts of a chain (enum perf_callchain_context). Every value at or above CONTEXT_MAX is a mark.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;

/// The id of a chain in [`CallChains`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(usize);

/// All distinct chains of a trace, so that an event stores only an id. A contended lock has few distinct chains.
#[derive(Debug, Default)]
pub struct CallChains {
    ids: HashMap<Box<[u8]>, ChainId>,
    /// The kernel addresses of each chain, innermost frame first, by id.
    chains: Vec<Vec<u64>>,
}

impl CallChains {
    /// Returns the id of a chain, and adds the chain if it is new. `bytes` are addresses of 8 bytes with context marks.
    pub fn intern(&mut self, bytes: &[u8]) -> ChainId {
        if let Some(id) = self.ids.get(bytes) {
            return *id;
        }
        let id = ChainId(self.chains.len());
        self.ids.insert(bytes.into(), id);
        self.chains.push(kernel_addresses(bytes));
        id
    }

    /// The addresses of the chain with an id that [`CallChains::intern`] returned, innermost frame first.
    pub fn get(&self, id: ChainId) -> &[u64] {
        &self.chains[id.0]
    }
}

/// The kernel addresses of a chain, without context marks. The events request no other frames, so addresses before the first mark
/// count as kernel addresses.
fn kernel_addresses(bytes: &[u8]) -> Vec<u64> {
    let mut addresses = vec![];
    let mut context = CONTEXT_KERNEL;
    for address in bytes.chunks_exact(8) {
        let address = u64::from_ne_bytes(address.try_into().expect("chunks of eight bytes"));
        if address >= CONTEXT_MAX {
            context = address;
        } else if context == CONTEXT_KERNEL {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoders() -> [Decoder; 3] {
        let field = |format, name| RecordField::find(format, name).unwrap();
        [
            Decoder::Begin { lock: field(BEGIN, "lock_addr"), flags: field(BEGIN, "flags") },
            Decoder::End { lock: field(END, "lock_addr"), ret: field(END, "ret") },
            Decoder::Cpu,
        ]
    }

    /// Decodes a record of CPU 3, without keeping its call chain.
    fn decode(decoder: Decoder, record_type: u32, body: &[u8]) -> Result<Option<TraceEvent>, MalformedRecord> {
        decoder.decode(3, record_type, body, &mut CallChains::default())
    }

    /// A task and a time as a record has them.
    fn task_and_time(pid: u32, tid: u32, time_ns: u64) -> Vec<u8> {
        [&pid.to_ne_bytes()[..], &tid.to_ne_bytes(), &time_ns.to_ne_bytes()].concat()
    }

    /// Addresses as the kernel writes them.
    pub fn addresses(chain: &[u64]) -> Vec<u8> {
        chain.iter().flat_map(|address| address.to_ne_bytes()).collect()
    }

    /// A call chain as a record has it: the number of addresses, and the addresses.
    fn counted_chain(chain: &[u64]) -> Vec<u8> {
        [(chain.len() as u64).to_ne_bytes().to_vec(), addresses(chain)].concat()
    }

    /// The raw record of either tracepoint, with the padding that makes it end on 8 bytes.
    fn raw(lock: u64, word: u32) -> Vec<u8> {
        let record = [&[0; 8][..], &lock.to_ne_bytes(), &word.to_ne_bytes()].concat();
        [&(record.len() as u32 + 4).to_ne_bytes()[..], &record, &[0; 4]].concat()
    }

    #[test]
    fn contention_begin_is_decoded_with_lock_flags_and_chain() {
        let chain = [u64::MAX - 127, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020];
        let body = [task_and_time(10, 11, 5_000), counted_chain(&chain), raw(0xdead_0008, 2)].concat();
        let mut chains = CallChains::default();
        let event = decoders()[0].decode(3, PERF_RECORD_SAMPLE, &body, &mut chains).unwrap().unwrap();
        assert_eq!((event.cpu, event.pid, event.tid, event.time_ns), (3, 10, 11, 5_000));
        let id = chains.intern(&addresses(&chain));
        assert_eq!(event.kind, EventKind::Begin { lock: 0xdead_0008, flags: 2, chain: id });
        assert_eq!(chains.get(id), &chain[1..]);
    }

    #[test]
    fn contention_end_is_decoded_with_its_result() {
        for (ret, gave_up) in [(0, false), (-4_i32 as u32, true)] {
            let body = [task_and_time(10, 11, 6_000), raw(0xdead_0008, ret)].concat();
            let event = decode(decoders()[1], PERF_RECORD_SAMPLE, &body).unwrap().unwrap();
            assert_eq!(event.kind, EventKind::End { lock: 0xdead_0008, gave_up });
        }
    }

    #[test]
    fn lost_and_fork_records_are_decoded_with_their_time() {
        let body = [addresses(&[99, 1234]), task_and_time(1, 2, 7_000)].concat();
        let event = decode(decoders()[1], PERF_RECORD_LOST, &body).unwrap().unwrap();
        assert_eq!((event.time_ns, event.kind), (7_000, EventKind::Lost { records: 1234 }));

        let body = [task_and_time(20, 10, 0)[..8].to_vec(), task_and_time(20, 10, 8_000), task_and_time(10, 10, 8_000)]
            .concat();
        let event = decode(decoders()[0], PERF_RECORD_FORK, &body).unwrap().unwrap();
        assert_eq!((event.pid, event.time_ns, event.kind), (20, 8_000, EventKind::Fork { parent: 10 }));
    }

    #[test]
    fn a_record_shorter_than_its_chain_is_malformed() {
        let body = [task_and_time(1, 1, 1), addresses(&[u64::MAX])].concat();
        assert_eq!(decode(decoders()[2], PERF_RECORD_SAMPLE, &body), Err(MalformedRecord));
        let body = [task_and_time(1, 1, 1), addresses(&[1 << 40, 0, 0])].concat();
        assert_eq!(decode(decoders()[0], PERF_RECORD_SAMPLE, &body), Err(MalformedRecord));
    }

    #[test]
    fn other_record_types_are_skipped() {
        assert_eq!(decode(decoders()[0], 5, &[]), Ok(None));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(record_type in 0_u32..12, body in proptest::collection::vec(any::<u8>(), 0..256)) {
            for decoder in decoders() {
                let _ = decode(decoder, record_type, &body);
            }
        }

        /// Bytes with a valid beginning reach later parts of the decoder.
        #[test]
        fn a_record_cut_anywhere_never_panics(length in 0_usize..80, junk in any::<[u8; 8]>(), junk_offset in 0_usize..72) {
            let mut body = [task_and_time(10, 11, 5), counted_chain(&[1, 2, 3]), raw(7, 2)].concat();
            let junk_offset = junk_offset.min(body.len() - 8);
            body[junk_offset..junk_offset + 8].copy_from_slice(&junk);
            body.truncate(length);
            for decoder in decoders() {
                let _ = decode(decoder, PERF_RECORD_SAMPLE, &body);
            }
        }
    }

    /// The `format` file of `contention_begin` in Linux 6.18.
    pub const BEGIN: &str = "name: contention_begin\nID: 408\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%p (flags=%s)\", REC->lock_addr\n";

    /// The `format` file of `contention_end`.
    pub const END: &str = "name: contention_end\nID: 407\nformat:\n\
        \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;\n";

    #[test]
    fn fields_of_a_format_file_are_parsed() {
        assert_eq!(RecordField::find(BEGIN, "lock_addr"), Some(RecordField { offset: 8, size: 8 }));
        assert_eq!(RecordField::find(BEGIN, "flags"), Some(RecordField { offset: 16, size: 4 }));
        assert_eq!(RecordField::find(BEGIN, "common_pid"), Some(RecordField { offset: 4, size: 4 }));
        assert_eq!(RecordField::find(BEGIN, "ret"), None);
    }

    #[test]
    fn names_of_pointer_and_array_fields_are_parsed() {
        let format = "\tfield:char *name;\toffset:0;\tsize:8;\n\tfield:char comm[16];\toffset:8;\tsize:16;\n";
        assert_eq!(RecordField::find(format, "name"), Some(RecordField { offset: 0, size: 8 }));
        assert_eq!(RecordField::find(format, "comm"), Some(RecordField { offset: 8, size: 16 }));
        let array = RecordField::find(format, "comm").unwrap();
        assert_eq!(array.read(&[0; 64]), None, "an array cannot be read as a number");
    }

    #[test]
    fn a_field_line_without_offset_or_size_is_skipped() {
        let format = "field:int a;\nfield:int b;\toffset:x;\tsize:4;\nfield:int c; offset:4;";
        assert!(["a", "b", "c"].iter().all(|name| RecordField::find(format, name).is_none()));
    }

    #[test]
    fn values_are_read_at_their_place_and_never_beyond_the_end() {
        let mut raw = vec![0xee; 8];
        raw.extend(0xffff_8880_1234_5678_u64.to_ne_bytes());
        raw.extend(6_u32.to_ne_bytes());
        let field = |name| RecordField::find(BEGIN, name).unwrap();
        assert_eq!(field("lock_addr").read(&raw), Some(0xffff_8880_1234_5678));
        assert_eq!(field("flags").read(&raw), Some(6));
        assert_eq!(field("flags").read(&raw[..19]), None);
        assert_eq!(RecordField { offset: usize::MAX, size: 8 }.read(&raw), None);
    }

    #[test]
    fn context_marks_separate_kernel_and_user_frames() {
        let user = -512_i64 as u64;
        let bytes = addresses(&[CONTEXT_KERNEL, 0xffff_ffff_8100_0000, user, 0x5000, 0x6000]);
        assert_eq!(kernel_addresses(&bytes), [0xffff_ffff_8100_0000]);
    }

    #[test]
    fn equal_chains_get_the_same_id() {
        let mut chains = CallChains::default();
        let a = chains.intern(&addresses(&[CONTEXT_KERNEL, 1]));
        let b = chains.intern(&addresses(&[CONTEXT_KERNEL, 2]));
        assert_eq!(chains.intern(&addresses(&[CONTEXT_KERNEL, 1])), a);
        assert_ne!(a, b);
        assert_eq!(chains.get(b), [2]);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_interned_as_a_chain(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut chains = CallChains::default();
            let id = chains.intern(&bytes);
            prop_assert!(chains.get(id).len() <= bytes.len() / 8);
        }
    }
}
