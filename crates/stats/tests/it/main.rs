//! Whole analyses. One program, so that it is linked once.

mod hand_computed;
mod matrix_rules;
mod published_matrix;
