//! Grids over a workload setting: values of the setting, evenly spaced on a logarithmic scale, at each of which a run
//! measures the work.

use crate::cell::{TaskId, WorkloadPlan};
use crate::setting::{SettingDef, SettingValue, parse_size};

/// The default number of values per decade: 1,000, 3,200, 10,000.
pub const VALUES_PER_DECADE: u32 = 2;

/// The most values of a grid.
pub const MAX_VALUES: usize = 200;

/// How to write a grid, for error messages.
pub const GRID_SYNTAX: &str =
    "write it FROM..TO such as 1e3..1e6, with /3 for three values per decade, or as a list of values";

/// Parses a grid: `1e3..1e6` has [`VALUES_PER_DECADE`] values per decade, `1e3..1e6/3` three; `1000,5000` has these two. Values
/// between the ends of a range are whole numbers with two significant digits. Numbers can be sizes: `4k..1m`.
///
/// # Errors
/// The text is not a grid of 2 to [`MAX_VALUES`] ascending numbers.
///
/// ```
/// use fsarena_core::setting_grid::parse_grid;
/// assert_eq!(parse_grid("1e3..1e5").unwrap(), [1000, 3200, 10_000, 32_000, 100_000]);
/// assert_eq!(parse_grid("1..100/1").unwrap(), [1, 10, 100]);
/// assert_eq!(parse_grid("4k,64k").unwrap(), [4096, 65_536]);
/// ```
pub fn parse_grid(text: &str) -> Result<Vec<i64>, String> {
    let syntax_error = || format!("cannot read the grid `{text}`; {GRID_SYNTAX}");
    let values = match text.split_once("..") {
        None => text.split(',').map(parse_number).collect::<Option<Vec<_>>>().ok_or_else(syntax_error)?,
        Some((first, rest)) => {
            let (last, per_decade) = match rest.split_once('/') {
                Some((last, count)) => (last, count.parse().ok().filter(|count| *count > 0)),
                None => (rest, Some(VALUES_PER_DECADE)),
            };
            let range = parse_number(first).zip(parse_number(last)).zip(per_decade);
            let ((first, last), per_decade) = range.ok_or_else(syntax_error)?;
            values_between(first, last, per_decade)
        }
    };
    if !(2..=MAX_VALUES).contains(&values.len()) || !values.is_sorted_by(|a, b| a < b) {
        return Err(format!("the grid `{text}` has to have 2 to {MAX_VALUES} ascending values; {GRID_SYNTAX}"));
    }
    Ok(values)
}

/// Parses a whole number above 0 and below 10¹⁵, which a float represents exactly: `1000`, `1e3` or `1k`.
fn parse_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let value: f64 = text.parse().ok().or_else(|| Some(parse_size(text).ok()? as f64))?;
    (value.fract() == 0.0 && (1.0..1e15).contains(&value)).then_some(value as i64)
}

/// The values from `first` to `last`, both included, evenly spaced by their logarithms. Empty if there would be too many.
fn values_between(first: i64, last: i64, per_decade: u32) -> Vec<i64> {
    let decades = (last as f64 / first as f64).log10();
    let steps = (decades * f64::from(per_decade)).round().max(1.0);
    if steps > MAX_VALUES as f64 {
        return vec![];
    }
    let value_at = |step: u32| round_to_two_digits(first as f64 * 10f64.powf(decades * f64::from(step) / steps));
    let mut values = vec![first];
    values.extend((1..steps as u32).map(value_at).filter(|value| (first + 1..last).contains(value)));
    values.push(last);
    values.dedup();
    values
}

/// A number rounded to two significant digits.
fn round_to_two_digits(value: f64) -> i64 {
    let unit = 10f64.powf((value.log10() + 1e-9).floor() - 1.0).max(1.0);
    ((value / unit).round() * unit) as i64
}

impl WorkloadPlan {
    /// The workload at every value of a grid over one of its settings. If the setting is a list, the result is one workload
    /// with the values as its list, because each item of a list makes a task. Otherwise the result is one workload for each
    /// value, and the ids of its tasks have the value as a parameter.
    pub fn expand_grid(&self, setting: &SettingDef, values: &[i64]) -> Vec<WorkloadPlan> {
        let with_value = |value: SettingValue| {
            let mut workload = self.clone();
            workload.settings.0.insert(setting.id.into(), value);
            workload
        };
        if matches!(SettingValue::from(setting.default), SettingValue::List(_)) {
            return vec![with_value(SettingValue::List(
                values.iter().map(|value| SettingValue::Int(*value)).collect(),
            ))];
        }
        let mut workloads = vec![];
        for value in values {
            let mut workload = with_value(SettingValue::Int(*value));
            if !workload.grid_settings.iter().any(|id| id == setting.id) {
                workload.grid_settings.push(setting.id.into());
            }
            workloads.push(workload);
        }
        workloads
    }

    /// Adds the settings of the grid to the parameters of a task, so that the tasks at each value of the grid are distinct.
    pub fn add_grid_params(&self, task: &mut TaskId) {
        for id in &self.grid_settings {
            if let Some(value) = self.settings.0.get(id) {
                task.params.insert(id.clone(), value.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_evenly_spaced_by_logarithms() {
        assert_eq!(parse_grid("1e3..1e6/3").unwrap().len(), 10);
        assert_eq!(parse_grid("1e4..1e5/3").unwrap(), [10_000, 22_000, 46_000, 100_000]);
        assert_eq!(parse_grid("20..50").unwrap(), [20, 50]);
        assert_eq!(parse_grid("1..8/4").unwrap(), [1, 2, 3, 5, 8]);
        assert_eq!(parse_grid("4k..16k").unwrap(), [4096, 16_384]);
    }

    #[test]
    fn a_text_that_is_not_a_grid_is_refused() {
        for wrong in ["", "1e3", "1e3..", "5..1", "0..10", "1..10/0", "1,1", "a..b", "1.5..3", "1..1e14/100", "7..7"] {
            assert!(parse_grid(wrong).is_err_and(|error| error.contains("FROM..TO")), "{wrong}");
        }
        assert!(parse_grid("16EiB,100").is_err(), "more than a whole number can be");
    }
}
