//! `fsarena selftest --exact`: the same cells again and again in guests that count instructions.

use crate::{failure::Outcome, flags::ListFormat, output, progress::Progress, running::handle_signals};
use fsarena_core::row::Row;
use fsarena_core::{exit::ExitCode, metric::reading, number};
use fsarena_report::repeats::Spread;
use fsarena_run::{Keep, Request, again::unstored, selftest};
use serde_json::json;

/// The most that kernel instructions may vary between repeats of a cell, in per cent: the median over the tasks.
const PROMISED: f64 = 0.05;

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

#[derive(serde::Serialize)]
struct Line {
    filesystem: String,
    tasks: usize,
    median: String,
    worst: String,
    worst_task: String,
}

fn by_filesystem(spreads: &[Spread]) -> Vec<Line> {
    let line = |of: &[Spread]| {
        let worst = of.iter().max_by(|a, b| a.percent.total_cmp(&b.percent))?;
        Some(Line {
            filesystem: worst.filesystem.clone(),
            tasks: of.len(),
            median: number::percent(Spread::median(of)? / 100.0),
            worst: number::percent(worst.percent / 100.0),
            worst_task: worst.task.clone(),
        })
    };
    spreads.chunk_by(|a, b| a.filesystem == b.filesystem).filter_map(line).collect()
}

fn words(spreads: &[Spread], repeats: usize, all: Option<f64>) -> String {
    let Some(all) = all else { return "Nothing was counted.\n".into() };
    let same = spreads.iter().filter(|one| one.percent == 0.0).count();
    let end = if all <= PROMISED { "as promised" } else { "which is MORE than promised" };
    format!(
        "\nKernel instructions of {repeats} repeats of a cell differ by {} (median over {} tasks), {end} (at most {PROMISED}%); \
         {same} tasks took the very same number each time.\n",
        number::percent(all / 100.0),
        spreads.len(),
    )
}

impl Row for Line {
    const COLUMNS: &'static [&'static str] =
        &["filesystem", "tasks", "median: MEDIAN SPREAD", "worst", "worst_task"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filesystem_is_a_line() {
        let of =
            |fs: &str, task: &str, counts: &[f64]| Spread::of(&(fs.into(), task.into()), counts).unwrap();
        let spreads =
            [of("ext4", "a", &[1.0, 1.0]), of("ext4", "b", &[1.0, 3.0]), of("xfs", "a", &[5.0, 5.0])];
        let lines = by_filesystem(&spreads);
        assert_eq!((lines.len(), lines[0].worst_task.as_str(), lines[0].tasks), (2, "b", 2));
        assert!(words(&spreads, 2, Some(0.0)).contains("2 tasks took the very same"));
        assert!(words(&spreads, 2, Some(1.0)).contains("MORE"));
    }
}
