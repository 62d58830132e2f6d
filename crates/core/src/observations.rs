//! Converts a stored run into the input of the statistics: values by task, variant and round.
//!
//! The statistics crate does not read a [`RunRecord`](crate::record::RunRecord). This module gives it a [`Grid`] for each
//! metric and a [`ClaimSeries`] for each claim.

mod claims;
mod grid;
mod images;
mod validity;
mod values;

pub use claims::{ClaimSeries, ComparedSeries, Rival, claim_series, claim_series_among};
pub use grid::{Grid, MetricSeries, combine_tasks};
pub use images::RoundsByImage;
pub use validity::{InvalidReason, invalid_figures, invalid_reason, never_steady};
pub use values::{
    ReadingSeries, ReadingTotal, VariantValues, bare_devices, dropped_rounds, has_data, reading_series, reading_totals,
    rounds, rounds_left_out, values_by_task, variant_orders,
};
