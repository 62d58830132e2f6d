//! `fsarena selftest --exact`: the same cells again and again in guests that count instructions.

use crate::{failure::Outcome, flags::ListFormat, output, progress::Progress, running::handle_signals};
use fsarena_core::{exit::ExitCode, metric::reading};
use fsarena_report::repeats::{PROMISED, Spread, by_filesystem, words};
use fsarena_run::{Keep, Request, again::unstored, selftest};
use serde_json::json;

/// Repeats cells, and says by how much they vary.
pub fn run(seed: u64, repeats: usize, quiet: bool, format: ListFormat) -> Outcome {
    handle_signals()?;
    let request = Request::new(selftest::exact(seed, repeats)?, Keep::Nothing(std::env::temp_dir()));
    let record = unstored(request, &mut [&mut Progress::new(quiet)])?;
    let spreads = Spread::all_of(&record, reading::KERNEL_INSTRUCTIONS);
    let all = Spread::median(&spreads);
    match format {
        ListFormat::Json => {
            let report = json!({
                "repeats": repeats, "promised_percent": PROMISED, "median_percent": all, "tasks": spreads,
            });
            output::json(&report)?
        }
        ListFormat::Term => {
            output::rows(&by_filesystem(&spreads), ListFormat::Term)?;
            output::text(words(&spreads, repeats, all))?
        }
    };
    Ok(if all.is_some_and(|all| all <= PROMISED) { ExitCode::Done } else { ExitCode::Refuted })
}
