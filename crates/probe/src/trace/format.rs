//! The layout of a tracepoint's record, as its `format` file in tracefs describes it.

use std::collections::BTreeMap;

/// Where the fields of a tracepoint's raw record lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    fields: BTreeMap<String, Field>,
}

/// One field: its place in the raw record, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
}

impl Format {
    /// Reads lines such as `field:unsigned int flags; offset:16; size:4; signed:0;`. Others are skipped.
    pub fn parse(text: &str) -> Format {
        Format { fields: text.lines().filter_map(field).collect() }
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

fn field(line: &str) -> Option<(String, Field)> {
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
    Some((name.to_string(), Field { offset: offset?, size: size? }))
}

impl Field {
    /// The field's value in a raw record, zero-extended; none where the record is too short, or the field
    /// is not a number of 1, 2, 4 or 8 bytes.
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

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The file of Linux 6.18.
    pub const BEGIN: &str = "name: contention_begin\nID: 408\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%p (flags=%s)\", REC->lock_addr\n";

    /// The file of its companion.
    pub const END: &str = "name: contention_end\nID: 407\nformat:\n\
        \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;\n";

    #[test]
    fn fields_are_found_where_the_kernel_puts_them() {
        let format = Format::parse(BEGIN);
        assert_eq!(format.field("lock_addr"), Some(Field { offset: 8, size: 8 }));
        assert_eq!(format.field("flags"), Some(Field { offset: 16, size: 4 }));
        assert_eq!(format.field("common_pid"), Some(Field { offset: 4, size: 4 }));
        assert_eq!(format.field("ret"), None);
    }

    #[test]
    fn pointers_and_arrays_have_bare_names() {
        let format = Format::parse(
            "\tfield:char *name;\toffset:0;\tsize:8;\n\tfield:char comm[16];\toffset:8;\tsize:16;\n",
        );
        assert_eq!(format.field("name"), Some(Field { offset: 0, size: 8 }));
        assert_eq!(format.field("comm"), Some(Field { offset: 8, size: 16 }));
        assert_eq!(format.field("comm").unwrap().read(&[0; 64]), None, "an array cannot be read as a number");
    }

    #[test]
    fn a_line_without_offset_or_size_is_no_field() {
        let format = Format::parse("field:int a;\nfield:int b;\toffset:x;\tsize:4;\nfield:int c; offset:4;");
        assert_eq!(format, Format::parse(""));
    }

    #[test]
    fn values_are_read_at_their_place_and_never_beyond_the_end() {
        let mut raw = vec![0xee; 8];
        raw.extend(0xffff_8880_1234_5678_u64.to_ne_bytes());
        raw.extend(6_u32.to_ne_bytes());
        let format = Format::parse(BEGIN);
        assert_eq!(format.field("lock_addr").unwrap().read(&raw), Some(0xffff_8880_1234_5678));
        assert_eq!(format.field("flags").unwrap().read(&raw), Some(6));
        assert_eq!(format.field("flags").unwrap().read(&raw[..19]), None);
        assert_eq!(Field { offset: usize::MAX, size: 8 }.read(&raw), None);
    }
}
