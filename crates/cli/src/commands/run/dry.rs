//! `--dry-run`: nothing is made.

use crate::failure::{Failure, Outcome, printing};
use crate::progress::lines::expected;
use fsarena_core::{cell::Variant, exit::ExitCode, plan::Plan};
use fsarena_run::preflight::Check;
use fsarena_stats::judge::meaning;
use std::io::Write;

/// The plan as resolved, and what it needs.
pub fn print_plan(plan: &Plan, variants: &[Variant], check: &Check) -> Outcome {
    let text = toml::to_string(plan).map_err(|error| Failure::new(ExitCode::Internal, error.to_string()))?;
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let mut out = std::io::stdout().lock();
    let variants = if variants.len() == 1 { "variant" } else { "variants" };
    writeln!(out, "# {} {variants}: {}", names.len(), names.join(", ")).map_err(printing)?;
    for omission in &plan.omitted {
        writeln!(out, "# {omission}").map_err(printing)?;
    }
    for claim in &plan.claims {
        let meaning = meaning(claim, plan.stop.margin());
        writeln!(out, "# claim: {claim}\n#   {meaning}").map_err(printing)?;
    }
    writeln!(out, "# {}; {}\n\n{text}", expected(&plan.stop), check.describe()).map_err(printing)?;
    Ok(ExitCode::Done)
}
