//! Reports: exporters of an analysed run.
