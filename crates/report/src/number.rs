//! Numbers for people: three significant digits, and always the unit.

use fsarena_core::sample::Unit;

/// Three significant digits, without an exponent: `0.0123`, `1.23`, `123`, `12300`.
pub fn three(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { value.to_string() };
    }
    // Rounded first, so that 9.996 becomes 10.0 and not 10.00.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let exponent = rounded.abs().log10().floor() as i32;
    format!("{rounded:.*}", (2 - exponent).max(0) as usize)
}

/// The ends of an interval of a ratio: `1.10–1.14`. Near 1 with a digit more, for there the question is on
/// which side of it an end lies.
pub fn interval(low: f64, high: f64) -> String {
    let end = |value: f64| match three(value) {
        text if text == "1.00" && (value - 1.0).abs() >= 0.000_5 => format!("{value:.3}"),
        text => text,
    };
    format!("{}–{}", end(low), end(high))
}

/// A value with its unit, in the multiple that reads best: `0.512 s`, `12.3 ms`, `4.00 MiB`, `95.2%`.
pub fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => seconds(value / 1e9),
        Unit::Seconds => seconds(value),
        Unit::Bytes => binary(value, "B"),
        Unit::BytesPerSecond => binary(value, "B/s"),
        Unit::Count => thousands(value, ""),
        Unit::PerSecond => thousands(value, "/s"),
        Unit::Percent => format!("{}%", three(value)),
        Unit::Ratio => format!("{}×", three(value)),
    }
}

fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0 s".into(),
        v if v < 1e-4 => format!("{} µs", three(value * 1e6)),
        v if v < 0.1 => format!("{} ms", three(value * 1e3)),
        v if v < 1e4 => format!("{} s", three(value)),
        _ => format!("{} h", three(value / 3600.0)),
    }
}

fn binary(value: f64, unit: &str) -> String {
    scaled(value, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi"], unit)
}

fn thousands(value: f64, unit: &str) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P"], unit)
}

fn scaled(value: f64, step: f64, prefixes: &[&str], unit: &str) -> String {
    let (mut value, mut prefix) = (value, 0);
    // 999.5 would be printed as 1000.
    while value.abs() >= step - 0.5 && prefix + 1 < prefixes.len() {
        value /= step;
        prefix += 1;
    }
    let number = if prefix == 0 && value.fract() == 0.0 { value.to_string() } else { three(value) };
    format!("{number} {}{unit}", prefixes[prefix]).trim_end().to_string()
}

/// `1st`, `2nd`, `3rd`, `11th`.
pub fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `1 block`, `2 blocks`.
pub fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let shown = [0.0, 0.012_345, 0.999_6, 9.996, 1.0, 12.34, 999.5, 12_345.0, -3.001].map(three);
        assert_eq!(shown, ["0", "0.0123", "1.00", "10.0", "1.00", "12.3", "1000", "12300", "-3.00"]);
        assert_eq!(three(f64::NAN), "NaN");
    }

    #[test]
    fn ends_near_one_show_their_side() {
        assert_eq!(interval(1.002, 1.02), "1.002–1.02");
        assert_eq!(interval(0.98, 1.000_1), "0.980–1.00");
    }

    #[test]
    fn units() {
        assert_eq!(with_unit(0.512_3, Unit::Seconds), "0.512 s");
        assert_eq!(with_unit(12_345_678.0, Unit::Nanoseconds), "12.3 ms");
        assert_eq!(with_unit(0.000_012, Unit::Seconds), "12.0 µs");
        assert_eq!(with_unit(86_400.0, Unit::Seconds), "24.0 h");
        assert_eq!(with_unit(512.0, Unit::Bytes), "512 B");
        assert_eq!(with_unit(4_194_304.0, Unit::Bytes), "4.00 MiB");
        assert_eq!(with_unit(1023.9, Unit::Bytes), "1.00 KiB");
        assert_eq!(with_unit(7.0, Unit::Count), "7");
        assert_eq!(with_unit(1_234.0, Unit::PerSecond), "1.23 k/s");
        assert_eq!(with_unit(95.24, Unit::Percent), "95.2%");
        assert_eq!(with_unit(1.5, Unit::Ratio), "1.50×");
    }

    #[test]
    fn plurals() {
        assert_eq!([plural(1, "block"), plural(3, "block")], ["1 block", "3 blocks"]);
    }
}
