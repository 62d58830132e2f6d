//! Axes of charts: their range, and the positions and labels of their ticks.

use fsarena_core::number::{UnitMultiple, three_digits};
use fsarena_core::sample::Unit;

/// An axis in the coordinates of the data. A logarithmic axis takes values, not their logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// The coordinates of both ends.
    pub range: (f64, f64),
    /// Whether the axis is logarithmic: equal distances are equal ratios.
    pub is_log: bool,
    /// The coordinates and labels of the ticks.
    pub ticks: Vec<(f64, String)>,
    /// Whether grid lines lead from the ticks through the plot.
    pub has_grid_lines: bool,
}

/// The approximate number of ticks of an axis.
const TICK_COUNT: f64 = 5.0;

impl Axis {
    /// An axis from zero to a value, for bars.
    pub fn from_zero(label: impl Into<String>, max: f64, unit: Unit) -> Axis {
        let max = if max > 0.0 && max.is_finite() { max * 1.02 } else { 1.0 };
        // All ticks use one multiple of the unit (s, ms …) and round numbers of it.
        let scale = UnitMultiple::of(max, unit);
        let scaled_max = max / scale.units;
        let mut ticks = vec![];
        for scaled in multiples(round_up_step(scaled_max / TICK_COUNT), 0.0, scaled_max) {
            ticks.push((scaled * scale.units, scale.with_symbol(format_trimmed(scaled))));
        }
        Axis { label: label.into(), range: (0.0, max), is_log: false, ticks, has_grid_lines: true }
    }

    /// A linear axis between two values. `label_of` returns the label of a tick; an empty label removes the tick.
    pub fn linear(label: impl Into<String>, low: f64, high: f64, label_of: impl Fn(f64) -> String) -> Axis {
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
        let ticks = multiples(round_up_step((high - low) / TICK_COUNT), low, high)
            .into_iter()
            .map(|coordinate| (coordinate, label_of(coordinate)));
        let ticks = ticks.filter(|(_, label)| !label.is_empty());
        Axis { label: label.into(), range: (low, high), is_log: false, ticks: ticks.collect(), has_grid_lines: true }
    }

    /// A logarithmic axis between two values above zero, with `(log scale)` in its label. `label_of` returns the label of a
    /// tick.
    pub fn log(label: impl Into<String>, low: f64, high: f64, label_of: impl Fn(f64) -> String) -> Axis {
        let low = if low > 0.0 { low } else { 1.0 };
        let (low, high) = if high > low { (low, high) } else { (low / 2.0, low * 2.0) };
        let decades = (high / low).log10();
        // The multiples of each power of ten that have ticks.
        let tick_digits: &[f64] = if decades > 3.0 {
            &[1.0]
        } else if decades > 1.5 {
            &[1.0, 3.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let (first_exponent, last_exponent) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let exponent_step = ((f64::from(last_exponent - first_exponent) / 8.0).ceil() as i32).max(1);
        let mut ticks: Vec<f64> = vec![];
        for exponent in (first_exponent..=last_exponent).step_by(exponent_step as usize) {
            ticks.extend(tick_digits.iter().map(|digit| digit * 10f64.powi(exponent)));
        }
        ticks.retain(|coordinate| (low * 0.999..=high * 1.001).contains(coordinate));
        // A short range contains few of these ticks. Ticks at equal differences are nearly evenly spaced there.
        if ticks.len() < 3 && high / low < 3.0 {
            ticks = multiples(round_up_step((high - low) / TICK_COUNT), low, high);
        }
        let ticks = ticks.into_iter().map(|coordinate| (coordinate, label_of(coordinate))).collect();
        Axis { label: with_log_note(label.into()), range: (low, high), is_log: true, ticks, has_grid_lines: true }
    }

    /// A logarithmic axis in a unit. All ticks use one multiple of the unit; over a range of more than a factor of 1000,
    /// each tick uses its own.
    pub fn log_in_unit(label: impl Into<String>, low: f64, high: f64, unit: Unit) -> Axis {
        let common = UnitMultiple::of((low * high).sqrt(), unit);
        let is_wide = high / low > 1000.0;
        let label_of = |coordinate: f64| {
            let scale = if is_wide { &UnitMultiple::of(coordinate * common.units, unit) } else { &common };
            scale.with_symbol(format_trimmed(coordinate * common.units / scale.units))
        };
        // Ticks are round numbers of the multiple: 8 KiB, not 8,000 bytes.
        let mut axis = Axis::log(label, low / common.units, high / common.units, label_of);
        axis.range = (axis.range.0 * common.units, axis.range.1 * common.units);
        axis.ticks.iter_mut().for_each(|(coordinate, _)| *coordinate *= common.units);
        axis
    }

    /// A logarithmic axis with ticks at exactly these values, in ascending order: thread counts, block sizes.
    pub fn log_with_ticks(label: impl Into<String>, values: &[f64], label_of: impl Fn(f64) -> String) -> Axis {
        let (low, high) = (values.first().copied().unwrap_or(1.0), values.last().copied().unwrap_or(1.0));
        let margin = (high / low).powf(0.04).max(1.05);
        let ticks = values.iter().map(|value| (*value, label_of(*value))).collect();
        let range = (low / margin, high * margin);
        Axis { label: with_log_note(label.into()), range, is_log: true, ticks, has_grid_lines: true }
    }

    /// An axis of ratios. The coordinates, also `low` and `high`, are natural logarithms of the ratios: 0 is no change. Ticks
    /// show the change in per cent or as a factor.
    pub fn of_log_ratios(label: impl Into<String>, low: f64, high: f64) -> Axis {
        // Changes that may have a tick, from no change outwards.
        const DECREASES: [f64; 14] =
            [-0.002, -0.005, -0.01, -0.02, -0.05, -0.1, -0.2, -0.35, -0.5, -0.65, -0.8, -0.9, -0.95, -0.99];
        const INCREASES: [f64; 14] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 9.0, 19.0, 99.0];
        let largest_change = low.abs().max(high.abs()).max(0.002);
        let (low, high) = (low.min(0.0) - 0.06 * largest_change, high.max(0.0) + 0.06 * largest_change);
        let min_distance = (high - low) / 9.0;
        let mut ticks: Vec<(f64, String)> = vec![(0.0, "same".into())];
        for changes in [DECREASES, INCREASES] {
            let mut last_tick = 0.0;
            for change in changes {
                let coordinate = f64::ln_1p(change);
                if (low..=high).contains(&coordinate) && (coordinate - last_tick).abs() >= min_distance {
                    ticks.push((coordinate, change_label(change)));
                    last_tick = coordinate;
                }
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        Axis { label: with_log_note(label.into()), range: (low, high), is_log: false, ticks, has_grid_lines: true }
    }

    /// A vertical axis of names from top to bottom: the n-th name, from 0, is at −(n + ½).
    pub fn of_rows(names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
        let names = names.into_iter().enumerate();
        let ticks: Vec<_> = names.map(|(row, name)| (Axis::row_centre(row), name.into())).collect();
        Axis { label: String::new(), range: (-(ticks.len() as f64), 0.0), is_log: false, ticks, has_grid_lines: false }
    }

    /// The coordinate of the n-th name of [`Axis::of_rows`], from 0.
    pub fn row_centre(row: usize) -> f64 {
        -(row as f64 + 0.5)
    }

    /// A horizontal axis of names from left to right: the n-th name, from 0, is at n + ½.
    pub fn of_columns(label: impl Into<String>, names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(column, name)| (column as f64 + 0.5, name.clone())).collect();
        Axis { label: label.into(), range: (0.0, names.len() as f64), is_log: false, ticks, has_grid_lines: false }
    }

    /// The position of a value along the axis, from 0 to 1. A value beyond an end is at that end.
    pub fn fraction_at(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.is_log { value.log10() } else { value };
        let (low, high) = (scaled(self.range.0), scaled(self.range.1));
        (scaled(value.clamp(self.range.0, self.range.1)) - low) / (high - low)
    }
}

/// Adds to the label of an axis that the axis is logarithmic.
fn with_log_note(label: String) -> String {
    format!("{label} (log scale)")
}

/// The label of a change: `+5%`, `−20%`, `×2`.
fn change_label(change: f64) -> String {
    if change >= 1.0 {
        format!("×{}", change + 1.0)
    } else if change > 0.0 {
        format!("+{}%", format_trimmed(100.0 * change))
    } else {
        format!("−{}%", format_trimmed(-100.0 * change))
    }
}

/// A number in three significant digits without trailing zeros: `0.5`, `10`.
pub fn format_trimmed(value: f64) -> String {
    let text = three_digits(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Rounds a step up to the next number of the form 1, 2 or 5 times a power of ten.
fn round_up_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
    digit * power
}

/// The multiples of a step from `low` to `high`, at most 100.
fn multiples(step: f64, low: f64, high: f64) -> Vec<f64> {
    let first_multiple = (low / step).ceil() as i64;
    // The limit ends the loop if the step is too small to change the sum.
    (0..100)
        .map(|n| (first_multiple + n) as f64 * step)
        .take_while(|multiple| *multiple <= high * (1.0 + 1e-9))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick_labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn bars_begin_at_zero_and_ticks_have_units() {
        let axis = Axis::from_zero("time", 2.3, Unit::Seconds);
        assert_eq!(axis.range.0, 0.0);
        assert_eq!(tick_labels(&axis), ["0 s", "0.5 s", "1 s", "1.5 s", "2 s"]);
        assert_eq!(tick_labels(&Axis::from_zero("size", 9e6, Unit::Bytes))[1], "2 MiB");
        assert_eq!(Axis::from_zero("nothing", 0.0, Unit::Seconds).range, (0.0, 1.0));
    }

    #[test]
    fn ticks_of_one_axis_share_a_unit_and_round_steps_of_it() {
        let axis = Axis::from_zero("throughput", 1.6e9, Unit::BytesPerSecond);
        assert_eq!(tick_labels(&axis), ["0 MB/s", "500 MB/s", "1000 MB/s", "1500 MB/s"]);
        let axis = Axis::log_in_unit("latency", 8e4, 3e7, Unit::Nanoseconds);
        assert_eq!(tick_labels(&axis), ["0.1 ms", "0.3 ms", "1 ms", "3 ms", "10 ms", "30 ms"]);
        let wide = Axis::log_in_unit("latency", 1e3, 1e9, Unit::Nanoseconds);
        assert_eq!((tick_labels(&wide)[0], *tick_labels(&wide).last().unwrap()), ("1 µs", "1 s"));
    }

    #[test]
    fn logarithmic_axes_have_ticks_by_powers_and_a_note_in_the_label() {
        let axis = Axis::log("IOPS", 80.0, 120_000.0, |value| value.to_string());
        assert!(axis.label.ends_with("(log scale)") && axis.is_log);
        assert_eq!(tick_labels(&axis), ["100", "1000", "10000", "100000"]);
        assert_eq!((axis.fraction_at(80.0), axis.fraction_at(120_000.0)), (0.0, 1.0));
        assert!((axis.fraction_at(96_000f64.sqrt() * 10.0) - 0.5).abs() < 1e-9, "equal distances are equal ratios");
        let narrow = Axis::log("time", 4.4, 7.6, |value| value.to_string());
        assert_eq!(tick_labels(&narrow), ["5", "6", "7"]);
        assert_eq!(axis.fraction_at(1.0), 0.0, "a value off the axis is at its end");
        assert_eq!(tick_labels(&Axis::log("x", 1.0, 9.0, |value| value.to_string())), ["1", "2", "5"]);
    }

    #[test]
    fn ticks_of_changes_are_percentages_and_factors() {
        let axis = Axis::of_log_ratios("B over A", -0.25, 0.8);
        assert!(tick_labels(&axis).contains(&"same") && tick_labels(&axis).contains(&"−20%"), "{axis:?}");
        assert!(tick_labels(&axis).contains(&"×2"), "{axis:?}");
        assert!(axis.ticks.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(change_label(0.005), "+0.5%");
    }

    #[test]
    fn an_empty_range_is_widened() {
        for axis in [
            Axis::linear("x", 3.0, 3.0, |value| value.to_string()),
            Axis::log("x", 0.0, 0.0, |value| value.to_string()),
        ] {
            assert!(axis.range.1 > axis.range.0, "{axis:?}");
        }
    }
}
