//! The best level of what varies beside the filesystem, for each filesystem.

use fsarena_core::factor;
use fsarena_core::matrix;
use fsarena_core::metric::label;
use fsarena_core::record::RunRecord;
use fsarena_core::sample::Direction;
use fsarena_stats::analyse::Analysis;
use fsarena_stats::best::{self, Best};

const OPEN: &str = " (by the estimate, inconclusive)";

/// Where more than the filesystem varies, a study asks which level of it is best for which filesystem:
/// `Best scheduler by throughput: ext4 kyber, xfs bfq (by the estimate, inconclusive).`
pub fn of_each(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let several = |id: &str| record.plan.factors.get(id).is_some_and(|levels| levels.len() > 1);
    if !several(factor::FS) || analysis.metric.direction == Direction::Neutral {
        return vec![];
    }
    let sentence = |id: &String| {
        let bests = best::of(record, analysis, id);
        // Said once where it is so of all.
        let all_open = bests.iter().all(|best| !best.decided);
        let one = |best: &Best| {
            let level = if best.level.is_empty() { matrix::PLAIN } else { &best.level };
            format!("{} {level}{}", best.variant.name, if best.decided || all_open { "" } else { OPEN })
        };
        let named: Vec<String> = bests.iter().map(one).collect();
        let open = if all_open { OPEN } else { "" };
        format!("Best {id} by {}: {}{open}.", label(&analysis.metric.id), named.join(", "))
    };
    record.plan.factors.keys().filter(|id| *id != factor::FS && several(id)).map(sentence).collect()
}
