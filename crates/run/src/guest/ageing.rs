//! The work of a guest that ages a filesystem.

use super::host_programs::HostPrograms;
use crate::ageing::{AgeStep, AgeWork};
use std::path::Path;

/// The silence of a guest that ages a filesystem, in seconds, before fsarena ends it. It says nothing until a part of the history
/// is done.
const PATIENCE_S: f64 = 3600.0;
/// The same where a command of the user ages it.
const COMMAND_PATIENCE_S: f64 = 25.0 * 3600.0;

/// What a guest does that ages a filesystem.
pub struct Ageing<'a> {
    /// The step that its agent performs.
    pub step: &'a AgeStep,
    /// The disk with the copies of trees and histories.
    pub stage: &'a Path,
    /// The programs of this machine, and the rights of the agent.
    pub programs: Option<&'a HostPrograms>,
    /// The number of the guest.
    pub number: u32,
}

impl Ageing<'_> {
    /// Whether its step starts programs of this machine.
    pub fn starts_programs(&self) -> bool {
        matches!(self.step, AgeStep::Part { work: AgeWork::Git(_) | AgeWork::Command { .. }, .. })
    }

    /// How long the guest may say nothing, in seconds.
    pub fn patience_s(&self) -> f64 {
        match self.step {
            AgeStep::Part { work: AgeWork::Command { .. }, .. } => COMMAND_PATIENCE_S,
            _ => PATIENCE_S,
        }
    }
}
