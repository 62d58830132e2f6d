//! The runner: blocks to events, settling, stopping, and the executors behind the seam.
