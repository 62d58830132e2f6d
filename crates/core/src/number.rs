//! Formats numbers for reports. All numbers are rounded alike: to three significant digits, or to more if three would move a
//! number across a threshold that it is compared with.

use crate::sample::Unit;

/// The minus sign, U+2212, which reports use instead of a hyphen.
const MINUS: &str = "−";
/// The threshold for ratios: 1 means no difference.
const NO_CHANGE: &[f64] = &[1.0];

/// Replaces the hyphen of a negative number with a minus sign.
fn with_minus_sign(number: &str) -> String {
    number.replace('-', MINUS)
}

/// Formats a number with three significant digits and without an exponent: `0.0123`, `1.23`, `123`, `12300`.
pub fn three_digits(value: f64) -> String {
    three_digits_beside(value, &[])
}

/// Formats a number with three significant digits, or with as many as are needed to stay on the value's own side of each edge:
/// with the edge 1, 1.0004 becomes `1.0004`, not `1.00`.
pub fn three_digits_beside(value: f64, edges: &[f64]) -> String {
    with_at_least_digits(value, 3, edges)
}

/// Formats a number with at least `min_digits` significant digits, and more if rounding would move it across an edge.
fn with_at_least_digits(value: f64, min_digits: usize, edges: &[f64]) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { value.to_string() };
    }
    let mut digits = min_digits;
    // Round before counting decimals, so that 9.996 becomes 10.0 and not 10.00.
    let mut rounded = round_to_digits(value, digits);
    while digits < 17 && edges.iter().any(|edge| rounded.total_cmp(edge) != value.total_cmp(edge)) {
        digits += 1;
        rounded = round_to_digits(value, digits);
    }
    let exponent = rounded.abs().log10().floor() as i32;
    with_minus_sign(&format!("{rounded:.*}", (digits as i32 - 1 - exponent).max(0) as usize))
}

/// Rounds to significant digits.
fn round_to_digits(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// Formats a fraction in per cent with two significant digits: `40%`, `0.77%`, `−4.9%`. Uses three digits if they are exact
/// (`12.5%`) or the value is at least 100% (`147%`).
pub fn percent(fraction: f64) -> String {
    percent_beside(fraction, &[])
}

/// Formats an interval of fractions in per cent: `8–15%`, or `−1% to 4%` if it has values below zero.
pub fn percent_range(low: f64, high: f64) -> String {
    let ends = [low, high].map(percent);
    if low < 0.0 { ends.join(" to ") } else { format!("{}–{}", ends[0].trim_end_matches('%'), ends[1]) }
}

/// The same as [`percent`], but never rounds across 100% or across one of these edges, which are fractions.
fn percent_beside(fraction: f64, edges: &[f64]) -> String {
    let value = 100.0 * fraction;
    let edges: Vec<f64> = edges.iter().chain(NO_CHANGE).map(|edge| 100.0 * edge).collect();
    let is_exact_in_three = (round_to_digits(value, 3) - value).abs() <= 1e-9 * value.abs();
    let digits_before_point = if value.abs() >= 1.0 { value.abs().log10().floor() as usize + 1 } else { 1 };
    let min_digits = if is_exact_in_three || value.abs() >= 100.0 { digits_before_point.max(3) } else { 2 };
    let text = with_at_least_digits(value, min_digits, &edges);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}%")
}

/// Formats a difference in per cent with its sign: `+12.3%`, `−4%`. Rounding never moves it across one of these edges.
pub fn signed_percent(fraction: f64, edges: &[f64]) -> String {
    let sign = if fraction < 0.0 { "" } else { "+" };
    format!("{sign}{}", percent_beside(fraction, edges))
}

/// Formats the difference of a ratio from one: 1.123 is `+12.3%`, 0.96 is `−4%`.
pub fn percent_change(ratio: f64) -> String {
    signed_percent(ratio - 1.0, &[])
}

/// Formats the interval of a ratio: `1.10–1.14`. Rounding never moves an end across 1.
pub fn ratio_interval(low: f64, high: f64) -> String {
    format!("{}–{}", three_digits_beside(low, NO_CHANGE), three_digits_beside(high, NO_CHANGE))
}

/// Formats a ratio with its interval: `1.12 [1.10–1.14]`. Rounding never moves a number across 1.
pub fn ratio_with_interval(value: f64, low: f64, high: f64) -> String {
    format!("{} [{}]", three_digits_beside(value, NO_CHANGE), ratio_interval(low, high))
}

/// Formats a value with a suitable multiple of its unit: `0.512 s`, `12.3 ms`, `4.00 MiB`, `95.2%`. Sizes use powers of 1024.
/// Byte rates use powers of 1000, like dbench and the makers of disks.
pub fn with_unit(value: f64, unit: Unit) -> String {
    let multiple = UnitMultiple::of(value, unit);
    let value = value / multiple.units;
    // A whole count needs no decimals.
    let is_whole =
        multiple.units == 1.0 && value.fract() == 0.0 && !matches!(unit, Unit::Seconds | Unit::Percent | Unit::Ratio);
    multiple.with_symbol(if is_whole { with_minus_sign(&value.to_string()) } else { three_digits(value) })
}

/// Formats the ends of an interval in the same multiple of the unit: `738 MB/s` and `1160 MB/s`. If one is at least a thousand
/// times the other, each has its own multiple.
pub fn interval_ends(low: f64, high: f64, unit: Unit) -> (String, String) {
    let multiple = UnitMultiple::of(if low == 0.0 { high } else { low }, unit);
    if low > 0.0 && high / low >= 1000.0 {
        return (with_unit(low, unit), with_unit(high, unit));
    }
    (
        multiple.with_symbol(three_digits(low / multiple.units)),
        multiple.with_symbol(three_digits(high / multiple.units)),
    )
}

/// A multiple of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitMultiple {
    /// How many units make one of this multiple: 0.001 for `ms` of seconds.
    pub units: f64,
    /// Its symbol: `ms`, `MB/s`, `%`.
    pub symbol: String,
}

impl UnitMultiple {
    /// The multiple that is most readable for a value.
    pub fn of(value: f64, unit: Unit) -> UnitMultiple {
        match unit {
            Unit::Nanoseconds => {
                let multiple = multiple_of_seconds(value / 1e9);
                UnitMultiple { units: multiple.units * 1e9, ..multiple }
            }
            Unit::Seconds => multiple_of_seconds(value),
            Unit::Bytes => multiple_with_prefix(value, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi"], "B"),
            // At most MB/s: dbench and published tables do not use GB/s.
            Unit::BytesPerSecond => multiple_with_prefix(value, 1000.0, &["", "k", "M"], "B/s"),
            Unit::Count => multiple_with_prefix(value, 1000.0, &["", "k", "M", "G", "T", "P"], ""),
            Unit::PerSecond => multiple_with_prefix(value, 1000.0, &["", "k", "M", "G", "T", "P"], "/s"),
            Unit::Percent => UnitMultiple { units: 1.0, symbol: "%".into() },
            Unit::Ratio => UnitMultiple { units: 1.0, symbol: "×".into() },
        }
    }

    /// Appends the symbol to a formatted number.
    pub fn with_symbol(&self, number: String) -> String {
        match self.symbol.as_str() {
            "" => number,
            "%" | "×" => format!("{number}{}", self.symbol),
            symbol => format!("{number} {symbol}"),
        }
    }
}

fn multiple_of_seconds(value: f64) -> UnitMultiple {
    let (units, symbol) = match value.abs() {
        0.0 => (1.0, "s"),
        v if v < 1e-4 => (1e-6, "µs"),
        v if v < 0.1 => (1e-3, "ms"),
        v if v < 1e4 => (1.0, "s"),
        _ => (3600.0, "h"),
    };
    UnitMultiple { units, symbol: symbol.into() }
}

fn multiple_with_prefix(value: f64, step: f64, prefixes: &[&str], unit: &str) -> UnitMultiple {
    let (mut units, mut prefix) = (1.0, 0);
    // Three digits print 999.5 as 1000, so it already takes the next prefix.
    while value.abs() / units >= step - 0.5 && prefix + 1 < prefixes.len() {
        units *= step;
        prefix += 1;
    }
    UnitMultiple { units, symbol: format!("{}{unit}", prefixes[prefix]) }
}

/// Formats an ordinal number: `1st`, `2nd`, `3rd`, `11th`.
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

/// Formats a count with its noun: `1 round`, `2 rounds`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Parses a percentage such as `1%` as a fraction. None if the text is not a percentage.
pub fn parse_percentage(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    Some(percent / 100.0)
}

/// Formats an effect and its interval: `−4.9%` and `−5.4% to −4.3%`. If the interval reaches a factor of two, as factors:
/// `3.10×` and `3.02–3.19`. `effect` and the ends of the interval are ratios minus one. Rounding never moves a number across
/// zero or one of `edges`, so that the text agrees with the verdict next to it.
pub fn effect_and_interval(effect: f64, (low, high): (f64, f64), edges: &[f64]) -> (String, String) {
    let edges: Vec<f64> = edges.iter().copied().chain([0.0]).collect();
    if high >= 1.0 {
        let edges: Vec<f64> = edges.iter().map(|edge| 1.0 + edge).collect();
        let [value, low, high] = [effect, low, high].map(|effect| three_digits_beside(1.0 + effect, &edges));
        return (format!("{value}×"), format!("{low}–{high}"));
    }
    let [value, low, high] = [effect, low, high].map(|effect| signed_percent(effect, &edges));
    (value, format!("{low} to {high}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let formatted = [0.0, 0.012_345, 0.999_6, 9.996, 1.0, 12.34, 999.5, 12_345.0, -3.001].map(three_digits);
        assert_eq!(formatted, ["0", "0.0123", "1.00", "10.0", "1.00", "12.3", "1000", "12300", "−3.00"]);
        assert_eq!(three_digits(f64::NAN), "NaN");
    }

    #[test]
    fn ends_near_one_are_not_rounded_to_one() {
        assert_eq!(ratio_interval(1.002, 1.02), "1.002–1.02");
        assert_eq!(ratio_interval(0.98, 1.000_1), "0.980–1.0001");
        assert_eq!(ratio_with_interval(1.000_4, 0.999_999, 1.001), "1.0004 [0.999999–1.001]");
    }

    #[test]
    fn with_unit_selects_a_readable_multiple() {
        assert_eq!(with_unit(0.512_3, Unit::Seconds), "0.512 s");
        assert_eq!(with_unit(12_345_678.0, Unit::Nanoseconds), "12.3 ms");
        assert_eq!(with_unit(0.000_012, Unit::Seconds), "12.0 µs");
        assert_eq!(with_unit(86_400.0, Unit::Seconds), "24.0 h");
        assert_eq!(with_unit(512.0, Unit::Bytes), "512 B");
        assert_eq!(with_unit(4_194_304.0, Unit::Bytes), "4.00 MiB");
        assert_eq!(with_unit(1023.9, Unit::Bytes), "1.00 KiB");
        assert_eq!(with_unit(7.0, Unit::Count), "7");
        assert_eq!(with_unit(1_234.0, Unit::PerSecond), "1.23 k/s");
        assert_eq!(with_unit(1.2e9, Unit::BytesPerSecond), "1200 MB/s", "10^6 bytes are a MB, as dbench has it");
        assert_eq!(with_unit(95.24, Unit::Percent), "95.2%");
        assert_eq!(with_unit(1.5, Unit::Ratio), "1.50×");
    }

    #[test]
    fn ends_of_an_interval_share_a_unit() {
        let interval = |low, high, unit| {
            let (low, high) = interval_ends(low, high, unit);
            format!("{low}–{high}")
        };
        assert_eq!(interval(738e6, 1.16e9, Unit::BytesPerSecond), "738 MB/s–1160 MB/s");
        assert_eq!(interval(0.09, 0.11, Unit::Seconds), "90.0 ms–110 ms");
        assert_eq!(interval(0.0, 0.002, Unit::Seconds), "0 ms–2.00 ms");
        assert_eq!(interval(1e-6, 2.0, Unit::Seconds), "1.00 µs–2.00 s");
    }

    #[test]
    fn change_uses_the_minus_sign() {
        assert_eq!([percent_change(0.96), percent_change(1.123)], ["−4%", "+12.3%"]);
    }

    #[test]
    fn percentages_have_two_or_three_digits_without_trailing_zeros() {
        assert_eq!([0.01, 0.005, 0.07, 1.0, 0.0077, 1.47].map(percent), ["1%", "0.5%", "7%", "100%", "0.77%", "147%"]);
        assert_eq!([0.125, 0.1453, 0.9961, 14.7].map(percent), ["12.5%", "15%", "99.6%", "1470%"]);
        assert_eq!(percent_beside(0.010_004, &[0.01]), "1.0004%");
        assert_eq!([signed_percent(0.0, &[]), signed_percent(-0.2, &[0.0])], ["+0%", "−20%"]);
        assert_eq!([percent_range(0.08, 0.15), percent_range(-0.01, 0.04)], ["8–15%", "−1% to 4%"]);
    }

    /// Parses a formatted number.
    fn parse_formatted(text: &str) -> f64 {
        text.replace(MINUS, "-").trim_end_matches('%').parse().unwrap()
    }

    proptest::proptest! {
        /// A rounded end of an interval is on the same side of each threshold of a verdict (no difference, and the margin
        /// either way) as the end itself, so that the text never contradicts the verdict next to it.
        #[test]
        fn a_rounded_end_never_crosses_an_edge(end in -6.0f64..6.0, scale in 0i32..9, margin in 1u32..200) {
            let margin = f64::from(margin) / 1000.0;
            let edges = [1.0, 1.0 + margin, 1.0 / (1.0 + margin)];
            for centre in edges {
                let end = centre + end / 10f64.powi(scale);
                let printed = parse_formatted(&three_digits_beside(end, &edges));
                for edge in edges {
                    proptest::prop_assert_eq!(printed.total_cmp(&edge), end.total_cmp(&edge), "{} {}", end, printed);
                }
                let change = end - 1.0;
                let printed = parse_formatted(&signed_percent(change, &[0.0, margin, -margin]));
                for edge in [0.0, 100.0 * margin, -100.0 * margin] {
                    proptest::prop_assert_eq!(printed.partial_cmp(&edge), (100.0 * change).partial_cmp(&edge));
                }
            }
        }
    }

    #[test]
    fn plural_adds_an_s_except_for_one() {
        assert_eq!([plural(1, "round"), plural(3, "round")], ["1 round", "3 rounds"]);
    }
}
