//! Limits on the speed of the device.

use super::{FactorDef, LIMIT, bytes};

/// The factor.
pub const DEF: FactorDef = FactorDef {
    id: LIMIT,
    default: "",
    example: "20MB/s, 200iops, 2ms, 20MB/s+2ms",
    help: "emulated slower device, by the kernel's I/O throttling: bytes a second each way (`20MB/s`), requests a second each way (`200iops`), or the least time from one request to the next (`2ms`); joined by `+`",
    check: |level| parse(level).map(drop),
};

/// What a device may do at most, reading and writing each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Bytes a second.
    pub bytes_per_s: Option<u64>,
    /// Requests a second.
    pub requests_per_s: Option<u64>,
}

/// The meaning of a level. None stands for unlimited.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<Limit>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let wrong =
        || format!("invalid limit `{level}`; write `20MB/s`, `200iops`, `2ms`, or several joined by `+`");
    let mut limit = Limit::default();
    for part in level.split('+').map(str::trim) {
        let slot = if let Some(rate) = part.strip_suffix("/s") {
            (&mut limit.bytes_per_s, bytes(rate))
        } else if let Some(rate) = part.strip_suffix("iops") {
            (&mut limit.requests_per_s, rate.parse().ok().filter(|rate| *rate > 0))
        } else {
            (&mut limit.requests_per_s, requests(part))
        };
        let (place, value) = slot;
        if value.is_none() || place.is_some() {
            return Err(wrong());
        }
        *place = value;
    }
    Ok(Some(limit))
}

/// Requests a second of a device that takes so long for each: the throttle knows no latency, but one request
/// after another waits as long.
fn requests(latency: &str) -> Option<u64> {
    let time = humantime::parse_duration(latency).ok()?;
    let rate = (1.0 / time.as_secs_f64()).round();
    (1.0..=1e6).contains(&rate).then_some(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_requests_and_latency() {
        assert_eq!(parse("").unwrap(), None);
        let limit = parse("20MB/s+2ms").unwrap().unwrap();
        assert_eq!((limit.bytes_per_s, limit.requests_per_s), (Some(20_000_000), Some(500)));
        assert_eq!(parse("150iops").unwrap().unwrap().requests_per_s, Some(150));
        for wrong in ["fast", "0MB/s", "0iops", "2ms+100iops", "1MB/s+1MB/s", "5s", "20MB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
