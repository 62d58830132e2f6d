//! Values as fio writes them.

use bytesize::ByteSize;
use std::time::Duration;

/// A size: `4k` and `4KiB` are 4096 bytes, `4kB` is 4000, a plain number is bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size; write it like 4k, 64KiB or 1g");
    let binary = text.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    let whole = if binary { format!("{text}iB") } else { text.to_string() };
    match whole.parse::<ByteSize>() {
        Ok(size) if size.as_u64() > 0 => Ok(size.as_u64()),
        _ => Err(wrong()),
    }
}

/// A time in seconds: `10s`, `2m`, `500ms`; a plain number is seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && (0.0..=f64::from(u32::MAX)).contains(&seconds)
    {
        return Ok(seconds);
    }
    humantime::parse_duration(text)
        .map(|time: Duration| time.as_secs_f64())
        .map_err(|error| format!("{error}; write it like 10s or 2m"))
}

/// What follows a colon in `zipf:1.2`.
pub fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_as_in_fio() {
        let sizes = ["512", "4k", "4K", "4KiB", "4kB", "1g"].map(|text| size(text).unwrap());
        assert_eq!(sizes, [512, 4096, 4096, 4096, 4000, 1 << 30]);
        for wrong in ["", "0", "k", "-4k", "4x", "4 potatoes"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plain_number_is_seconds() {
        assert_eq!(["10", "0.7", "10s", "500ms"].map(|text| seconds(text).unwrap()), [10.0, 0.7, 10.0, 0.5]);
        assert!(["soon", "-1", "nan", "inf"].iter().all(|text| seconds(text).is_err()));
    }
}
