//! How fsarena touches the system: commands, loop devices, mounts, the undo journal, kernel readers.

pub mod argv;
