//! Statistics: pure functions of samples.
