//! Probes: readings taken around every step.
