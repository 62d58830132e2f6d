//! What the rounds of a run say of single clients: who was slow, and whose reads a cache answered.

use crate::merge::Part;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::metric::DataPath;
use std::collections::BTreeMap;

/// A client is a straggler below this share of the median rate.
const STRAGGLES: f64 = 2.0 / 3.0;

/// Observations of the clients over all rounds.
#[derive(Debug, Default)]
pub struct Seen {
    tasks: BTreeMap<(String, String), OfTask>,
}

#[derive(Debug, Default)]
struct OfTask {
    rounds: u32,
    /// By rank and host: rounds in which it straggled, and its smallest share of the median rate.
    stragglers: BTreeMap<(usize, String), (u32, f64)>,
    /// Clients that read, over all rounds, and those that a cache answered, by host.
    readers: u32,
    cached: BTreeMap<String, u32>,
}

impl Seen {
    /// Notes what the clients of one round did; the parts by rank.
    pub fn note(&mut self, variant: &str, parts: &[Part]) {
        let task = parts[0].sample.task.id.to_string();
        let seen = self.tasks.entry((task, variant.to_string())).or_default();
        seen.rounds += 1;
        let mut rates: Vec<f64> = parts.iter().map(Part::rate).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        for (rank, part) in parts.iter().enumerate() {
            let share = part.rate() / median;
            if share < STRAGGLES {
                let straggler =
                    seen.stragglers.entry((rank, part.machine.host.clone())).or_insert((0, share));
                *straggler = (straggler.0 + 1, straggler.1.min(share));
            }
            if let Some(fetched) = part.fetched() {
                seen.readers += 1;
                if DataPath::of(fetched) == DataPath::Cache {
                    *seen.cached.entry(part.machine.host.clone()).or_default() += 1;
                }
            }
        }
    }

    /// The notes of the report.
    pub fn remarks(&self) -> Vec<Note> {
        self.tasks.iter().flat_map(|((task, variant), seen)| seen.remarks(task, variant)).collect()
    }
}

impl OfTask {
    fn remarks(&self, task: &str, variant: &str) -> Vec<Note> {
        let stragglers = self.stragglers.iter().map(|((rank, host), (rounds, share))| {
            let text = format!(
                "rank {rank} on {host} straggled in {rounds} of {} rounds: at least {:.0}% of the median client's rate",
                self.rounds,
                100.0 * share
            );
            Note::new(NoteKind::Remark, text)
        });
        let hosts: Vec<&str> = self.cached.keys().map(String::as_str).collect();
        let cached = (!hosts.is_empty()).then(|| {
            let text = format!(
                "a cache of {} answered {} of {} clients: their bytes did not come from the device or the server",
                hosts.join(", "),
                self.cached.values().sum::<u32>(),
                self.readers
            );
            Note::new(NoteKind::Fairness, text)
                .fix("run ranks on more machines, or read past the page cache (--set direct=true)")
        });
        stragglers.chain(cached).map(|note| note.task(task).variant(variant)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Offset, merge::tests::sample, message::Machine};
    use fsarena_core::metric::reading;

    #[test]
    fn stragglers_and_caches_are_named_by_host() {
        let machines = ["a", "b", "c"].map(|host| Machine { host: host.into(), boot: String::new() });
        let mut seen = Seen::default();
        for slow in [4.0, 1.0] {
            let samples = [(1.0, 1e6), (1.0, 0.0), (slow, 1e6)]
                .map(|(s, fetched)| sample(0.0, s, &[(reading::READ, 1e6), (reading::FETCHED, fetched)]));
            let parts: Vec<Part> = machines
                .iter()
                .zip(&samples)
                .map(|(machine, sample)| Part { machine, clock: Offset::default(), sample })
                .collect();
            seen.note("v", &parts);
        }
        let notes = seen.remarks();
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "rank 2 on c straggled in 1 of 2 rounds: at least 25% of the median client's rate",
                "a cache of b answered 2 of 6 clients: their bytes did not come from the device or the server"
            ]
        );
        assert_eq!(notes[0].task.as_deref(), Some("t"));
    }
}
