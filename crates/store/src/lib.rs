//! The run store: one SQLite file a run.
