//! Statistics: pure functions of samples.

pub mod analyse;
pub mod bca;
pub mod comparison;
pub mod composite;
pub mod conclusion;
pub mod ebh;
pub mod evalue;
pub mod grid;
pub mod judge;
pub mod letters;
pub mod matrix;
pub mod pairs;
pub mod power;
pub mod rank;
pub mod ranksets;
pub mod ratio;
pub mod recompute;
mod select;
pub mod sequential;
pub mod shift;
pub mod sign;
pub mod simulate;
pub mod simultaneous;
pub mod table;
pub mod verdict;
pub mod walsh;
pub mod weights;
