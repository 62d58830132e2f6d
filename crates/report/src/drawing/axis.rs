//! Axes: where ticks stand, and what they say.

use fsarena_core::number::{Scale, three};
use fsarena_core::sample::Unit;

/// An axis. Its coordinates are those of the data; a logarithmic one maps them itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it measures, and its unit.
    pub label: String,
    /// From and to.
    pub range: (f64, f64),
    /// Whether equal distances are equal ratios.
    pub log: bool,
    /// Where ticks stand, and what they say.
    pub ticks: Vec<(f64, String)>,
    /// Whether lines lead from the ticks through the panel.
    pub grid: bool,
}

/// How many ticks an axis has, about.
const TICKS: f64 = 5.0;

impl Axis {
    /// From zero to a value, for bars.
    pub fn from_zero(label: impl Into<String>, most: f64, unit: Unit) -> Axis {
        let most = if most > 0.0 && most.is_finite() { most * 1.02 } else { 1.0 };
        // One multiple of the unit for all ticks, and round steps of that.
        let scale = Scale::of(most, unit);
        let ticks = multiples(nice(most / scale.per / TICKS), 0.0, most / scale.per).into_iter();
        let ticks = ticks.map(|at| (at * scale.per, scale.said(trimmed(at)))).collect();
        Axis { label: label.into(), range: (0.0, most), log: false, ticks, grid: true }
    }

    /// Between two values, linear. A value for which `say` returns nothing gets no tick.
    pub fn linear(label: impl Into<String>, low: f64, high: f64, say: impl Fn(f64) -> String) -> Axis {
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
        let ticks = multiples(nice((high - low) / TICKS), low, high).into_iter().map(|at| (at, say(at)));
        let ticks = ticks.filter(|(_, label)| !label.is_empty());
        Axis { label: label.into(), range: (low, high), log: false, ticks: ticks.collect(), grid: true }
    }

    /// Between two values above zero, logarithmic; the label of the axis says `log scale`.
    pub fn log(label: impl Into<String>, low: f64, high: f64, say: impl Fn(f64) -> String) -> Axis {
        let low = if low > 0.0 { low } else { 1.0 };
        let (low, high) = if high > low { (low, high) } else { (low / 2.0, low * 2.0) };
        let decades = (high / low).log10();
        let within: &[f64] = match decades {
            over if over > 3.0 => &[1.0],
            over if over > 1.5 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = ((f64::from(last - first) / 8.0).ceil() as i32).max(1);
        let ticks = (first..=last)
            .filter(|exponent| (exponent - first) % every == 0)
            .flat_map(|exponent| within.iter().map(move |digit| digit * 10f64.powi(exponent)))
            .filter(|at| (low * 0.999..=high * 1.001).contains(at));
        let mut ticks: Vec<f64> = ticks.collect();
        // Between two powers there may be hardly a tick; within a factor of two or so, distances are nearly equal.
        if ticks.len() < 3 && high / low < 3.0 {
            ticks = multiples(nice((high - low) / TICKS), low, high);
        }
        let ticks = ticks.into_iter().map(|at| (at, say(at))).collect();
        Axis { label: logarithmic(label.into()), range: (low, high), log: true, ticks, grid: true }
    }

    /// A logarithmic axis in a unit; within a factor of a thousand all ticks use one multiple of it.
    pub fn log_in(label: impl Into<String>, low: f64, high: f64, unit: Unit) -> Axis {
        let scale = Scale::of((low * high).sqrt(), unit);
        let own = high / low > 1000.0;
        let say = |at: f64| {
            let scale = if own { &Scale::of(at, unit) } else { &scale };
            scale.said(trimmed(at / scale.per))
        };
        Axis::log(label, low, high, say)
    }

    /// Logarithmic with ticks at the values that occur: threads, block sizes.
    pub fn values(label: impl Into<String>, values: &[f64], say: impl Fn(f64) -> String) -> Axis {
        let (low, high) = (values.first().copied().unwrap_or(1.0), values.last().copied().unwrap_or(1.0));
        let margin = (high / low).powf(0.04).max(1.05);
        let ticks = values.iter().map(|at| (*at, say(*at))).collect();
        let range = (low / margin, high * margin);
        Axis { label: logarithmic(label.into()), range, log: true, ticks, grid: true }
    }

    /// Ratios by their logarithm, which is the coordinate: a change of nothing is 0. Ticks show the change.
    pub fn changes(label: impl Into<String>, low: f64, high: f64) -> Axis {
        // From no difference outwards.
        const LESS: [f64; 14] =
            [-0.002, -0.005, -0.01, -0.02, -0.05, -0.1, -0.2, -0.35, -0.5, -0.65, -0.8, -0.9, -0.95, -0.99];
        const MORE: [f64; 14] =
            [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 9.0, 19.0, 99.0];
        let reach = low.abs().max(high.abs()).max(0.002);
        let (low, high) = (low.min(0.0) - 0.06 * reach, high.max(0.0) + 0.06 * reach);
        let apart = (high - low) / 9.0;
        let mut ticks: Vec<(f64, String)> = vec![(0.0, "same".into())];
        for outwards in [LESS, MORE] {
            let mut last = 0.0;
            for change in outwards {
                let at = f64::ln_1p(change);
                if (low..=high).contains(&at) && (at - last).abs() >= apart {
                    ticks.push((at, change_words(change)));
                    last = at;
                }
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        Axis { label: logarithmic(label.into()), range: (low, high), log: false, ticks, grid: true }
    }

    /// Names from top to bottom (of a vertical axis): the n-th stands at −(n + ½).
    pub fn names(names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
        let names = names.into_iter().enumerate();
        let ticks: Vec<_> = names.map(|(at, name)| (Axis::slot(at), name.into())).collect();
        Axis { label: String::new(), range: (-(ticks.len() as f64), 0.0), log: false, ticks, grid: false }
    }

    /// Where the n-th name of [`Axis::names`] stands.
    pub fn slot(at: usize) -> f64 {
        -(at as f64 + 0.5)
    }

    /// Names from left to right: the n-th stands at n + ½.
    pub fn columns(label: impl Into<String>, names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(at, name)| (at as f64 + 0.5, name.clone())).collect();
        Axis { label: label.into(), range: (0.0, names.len() as f64), log: false, ticks, grid: false }
    }

    /// How far along the axis a value lies, from 0 to 1. A value beyond an end of the axis lies at that end.
    pub fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.log { value.log10() } else { value };
        let (from, to) = (place(self.range.0), place(self.range.1));
        (place(value.clamp(self.range.0, self.range.1)) - from) / (to - from)
    }
}

fn logarithmic(label: String) -> String {
    format!("{label} (log scale)")
}

/// `+5%`, `−20%`, `×2`.
fn change_words(change: f64) -> String {
    match change {
        change if change >= 1.0 => format!("×{}", change + 1.0),
        change if change > 0.0 => format!("+{}%", trimmed(100.0 * change)),
        change => format!("−{}%", trimmed(-100.0 * change)),
    }
}

/// A number without digits that say nothing: `0.5`, `10`.
pub fn trimmed(value: f64) -> String {
    let text = three(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// The next number of 1, 2 and 5 times a power of ten.
fn nice(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let digit =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
    digit * power
}

fn multiples(step: f64, low: f64, high: f64) -> Vec<f64> {
    let first = (low / step).ceil() as i64;
    // A step that is lost in rounding would never end.
    (0..100).map(|n| (first + n) as f64 * step).take_while(|at| *at <= high * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn bars_begin_at_zero_and_ticks_have_units() {
        let axis = Axis::from_zero("time", 2.3, Unit::Seconds);
        assert_eq!(axis.range.0, 0.0);
        assert_eq!(words(&axis), ["0 s", "0.5 s", "1 s", "1.5 s", "2 s"]);
        assert_eq!(words(&Axis::from_zero("size", 9e6, Unit::Bytes))[1], "2 MiB");
        assert_eq!(Axis::from_zero("nothing", 0.0, Unit::Seconds).range, (0.0, 1.0));
    }

    #[test]
    fn ticks_of_one_axis_share_a_unit_and_round_steps_of_it() {
        let axis = Axis::from_zero("throughput", 1.6e9, Unit::BytesPerSecond);
        assert_eq!(words(&axis), ["0 MB/s", "500 MB/s", "1000 MB/s", "1500 MB/s"]);
        let axis = Axis::log_in("latency", 8e4, 3e7, Unit::Nanoseconds);
        assert_eq!(words(&axis), ["0.1 ms", "0.3 ms", "1 ms", "3 ms", "10 ms", "30 ms"]);
        let wide = Axis::log_in("latency", 1e3, 1e9, Unit::Nanoseconds);
        assert_eq!((words(&wide)[0], *words(&wide).last().unwrap()), ("1 µs", "1 s"));
    }

    #[test]
    fn logarithmic_axes_say_so() {
        let axis = Axis::log("IOPS", 80.0, 120_000.0, |at| at.to_string());
        assert!(axis.label.ends_with("(log scale)") && axis.log);
        assert_eq!(words(&axis), ["100", "1000", "10000", "100000"]);
        assert_eq!((axis.share(80.0), axis.share(120_000.0)), (0.0, 1.0));
        assert!((axis.share(96_000f64.sqrt() * 10.0) - 0.5).abs() < 1e-9, "equal distances are equal ratios");
        let narrow = Axis::log("time", 4.4, 7.6, |at| at.to_string());
        assert_eq!(words(&narrow), ["5", "6", "7"]);
        assert_eq!(axis.share(1.0), 0.0, "what is off the axis is at its end");
        assert_eq!(words(&Axis::log("x", 1.0, 9.0, |at| at.to_string())), ["1", "2", "5"]);
    }

    #[test]
    fn changes_are_told_as_people_say_them() {
        let axis = Axis::changes("B over A", -0.25, 0.8);
        assert!(words(&axis).contains(&"same") && words(&axis).contains(&"−20%"), "{axis:?}");
        assert!(words(&axis).contains(&"×2"), "{axis:?}");
        assert!(axis.ticks.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(change_words(0.005), "+0.5%");
    }

    #[test]
    fn a_range_of_nothing_is_still_a_range() {
        for axis in
            [Axis::linear("x", 3.0, 3.0, |at| at.to_string()), Axis::log("x", 0.0, 0.0, |at| at.to_string())]
        {
            assert!(axis.range.1 > axis.range.0, "{axis:?}");
        }
    }
}
