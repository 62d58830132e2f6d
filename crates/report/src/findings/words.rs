//! A finding in words that a reader can check against the table.

use super::figures::{extent, interval, iops, less, megabytes, more, range, size, threads};
use crate::number::percent;
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::matrix::finding::{Finding, Part};
use fsarena_stats::matrix::rule::{Flag, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Says findings about a matrix.
pub struct Speaker<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
}

impl Speaker<'_> {
    /// What and where: `ext4 seqwr: slower than rndwr, at 512 B to 4 KiB with 1 to 128 threads`.
    pub fn title(&self, finding: &Finding) -> String {
        let part = finding.first();
        let against = part.worst().against;
        let what = match part.rule {
            Rule::AboveDevice => "faster than the device".into(),
            Rule::BelowDevice => "far below the bare device".into(),
            Rule::SequentialBelowRandom => {
                format!(
                    "slower than {}",
                    against.map_or("random", |at| self.matrix.modes[at.mode].name.as_str())
                )
            }
            Rule::BandwidthFalls if part.worst().ratio.value > 1.0 => "too fast for its larger blocks".into(),
            Rule::BandwidthFalls => "moves less with larger blocks".into(),
            Rule::IopsRise => match self.edge(part) {
                Some(edge) => format!("collapses under {edge}"),
                None => "fewer operations with smaller blocks".into(),
            },
            Rule::ScalingCollapse => "loses throughput to threads".into(),
            Rule::Serialised => "threads gain next to nothing".into(),
            Rule::FarBehind => "far behind the other variants".into(),
            Rule::Cliff => "falls behind with smaller blocks".into(),
            Rule::Interaction => "lower than its neighbours".into(),
        };
        format!("{}: {what}, at {}", self.series(part.worst().at), self.extent(&finding.cells()))
    }

    /// The cells in which the generator was in the way; nothing where there are none.
    pub fn client_bound(&self) -> String {
        let mut tables: BTreeMap<(usize, usize), BTreeSet<At>> = BTreeMap::new();
        for at in self.matrix.all_client_bound() {
            tables.entry((at.mode, at.variant)).or_default().insert(*at);
        }
        let table = |cells: &BTreeSet<At>| {
            let first = cells.first().map_or(String::new(), |at| self.series(*at));
            format!("{first} at {}", self.extent(cells))
        };
        let named: Vec<String> = tables.values().map(table).collect();
        if named.is_empty() {
            return String::new();
        }
        format!(
            "Client-bound (! in tables): {}. There the generator itself takes more than a tenth of an operation, so that the storage \
             can do more than the figures say: no such cell is called slow, and none counts as a level that others \
             exceed.",
            named.join("; ")
        )
    }

    /// One sentence or two for each part.
    pub fn sentences(&self, finding: &Finding) -> Vec<String> {
        finding.parts.iter().map(|part| self.part(finding, part)).collect()
    }

    fn part(&self, finding: &Finding, part: &Part) -> String {
        // The title has the place of the whole finding already.
        let place = match part.cells() == finding.cells() {
            true => String::new(),
            false => format!(" at {}", self.extent(&part.cells())),
        };
        match part.rule {
            Rule::AboveDevice => self.above(part, &place),
            Rule::BelowDevice => self.compared(part, "It is below the bare device", &place),
            Rule::SequentialBelowRandom => self.compared(part, "Sequential is slower than random", &place),
            Rule::BandwidthFalls => self.bandwidth(part, &place),
            Rule::IopsRise => self.fewer(part, &place),
            Rule::ScalingCollapse => self.collapse(part),
            Rule::Serialised => self.serialised(part, &place),
            Rule::FarBehind => self.behind(part, &place),
            Rule::Cliff => self.cliff(part, &place),
            Rule::Interaction => self.pit(part, &place),
        }
    }

    fn compared(&self, part: &Part, what: &str, place: &str) -> String {
        let worst = part.worst();
        format!(
            "{what}{place}: by {}. {}: {} IOPS{}{}.",
            range(less(part.least().ratio.value), less(worst.ratio.value)),
            self.worst("Worst", part),
            self.iops(worst.at),
            self.against(worst),
            interval(&worst.ratio),
        )
    }

    fn above(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        let device = worst.against.map_or("what the device is stated to move".into(), |at| {
            format!("{} of the bare device", self.bandwidth_of(at))
        });
        format!(
            "It is faster than the device{place}, so something else answered: a cache. {}: {} against {device}, {}{}.",
            sentence(&self.place(worst.at)),
            self.bandwidth_of(worst.at),
            more(worst.ratio.value),
            interval(&worst.ratio),
        )
    }

    fn bandwidth(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        let Some(other) = worst.against else { return String::new() };
        let (here, there) = (self.size(worst.at), self.size(other));
        let figures = format!(
            "with {} {} at {here}, {} at {there}",
            self.threads(worst.at),
            self.bandwidth_of(worst.at),
            self.bandwidth_of(other),
        );
        if worst.ratio.value > 1.0 {
            let effect = range(more(part.least().ratio.value), more(worst.ratio.value));
            return format!(
                "Smaller blocks move more bytes than larger ones{place}: {figures}{}; {effect} over the region. The \
                 small ones are the odd ones: something other than the device may answer them (a cache, \
                 read-ahead).",
                interval(&worst.ratio)
            );
        }
        format!(
            "Larger blocks move fewer bytes than smaller ones{place}: {figures}{}; {} less over the region.",
            interval(&worst.ratio),
            range(less(part.least().ratio.value), less(worst.ratio.value)),
        )
    }

    fn fewer(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        let Some(other) = worst.against else { return String::new() };
        format!(
            "Smaller blocks finish fewer operations a second than larger ones{place}: by {}. With {}: {} IOPS at \
             {}, {} at {}{}.",
            range(less(part.least().ratio.value), less(worst.ratio.value)),
            self.threads(worst.at),
            self.iops(worst.at),
            self.size(worst.at),
            self.iops(other),
            self.size(other),
            interval(&worst.ratio),
        )
    }

    /// The worst row with its figures, then the others with their losses.
    fn collapse(&self, part: &Part) -> String {
        let worst = part.worst();
        let mut rows: BTreeMap<usize, &Flag> = BTreeMap::new();
        for flag in &part.flags {
            let row = rows.entry(flag.at.size).or_insert(flag);
            if flag.size() > row.size() {
                *row = flag;
            }
        }
        rows.remove(&worst.at.size);
        let from = |flag: &Flag| {
            flag.against.map_or(String::new(), |at| self.matrix.threads[at.threads].to_string())
        };
        let loss = |flag: &&Flag| {
            format!(
                "{} ({} from {} to {})",
                self.size(flag.at),
                less(flag.ratio.value),
                from(flag),
                self.matrix.threads[flag.at.threads]
            )
        };
        let others = rows.values().map(loss).collect::<Vec<_>>();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", and so do {}", others.join(", ")),
        };
        format!(
            "{} at {} loses {} from {} to {} (from {} to {} IOPS){}{others}.",
            self.series(worst.at),
            self.size(worst.at),
            less(worst.ratio.value),
            from(worst),
            self.threads(worst.at),
            worst.against.map_or(String::new(), |at| self.iops(at)),
            self.iops(worst.at),
            interval(&worst.ratio),
        )
    }

    fn serialised(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        let row = self.matrix.along_threads(worst.at.variant, worst.at.mode, worst.at.size);
        let (Some(first), Some(last), Some(witness)) = (row.first(), row.last(), worst.against) else {
            return String::new();
        };
        let gain = match self.gain(part) {
            gain if gain > 1.005 => format!("{} at most", percent(gain - 1.0)),
            _ => "nothing".into(),
        };
        format!(
            "More threads gain {gain}{place}, though more can be had. At {}: {} IOPS with {}, {} with {}; {} \
             reaches {} with {}.",
            self.size(worst.at),
            self.iops(*first),
            self.threads(*first),
            self.iops(*last),
            self.threads(*last),
            self.series(witness),
            self.iops(witness),
            self.threads(witness),
        )
    }

    /// The most that any flagged cell has over the fewest threads of its row, as a ratio.
    fn gain(&self, part: &Part) -> f64 {
        let gain = |flag: &Flag| {
            let first = *self.matrix.along_threads(flag.at.variant, flag.at.mode, flag.at.size).first()?;
            Some(self.matrix.iops(flag.at)? / self.matrix.iops(first)?)
        };
        part.flags.iter().filter_map(gain).fold(0.0, f64::max)
    }

    fn behind(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        format!(
            "{} of the throughput of the next variant{place}. {}: {} IOPS{}{}.",
            range(percent(worst.ratio.value), percent(part.least().ratio.value)),
            self.worst("Least", part),
            self.iops(worst.at),
            self.against(worst),
            interval(&worst.ratio),
        )
    }

    /// The share of the peer's throughput on both sides of the cliff.
    fn cliff(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        let peer =
            worst.tests.iter().flat_map(|test| &test.terms).find(|(at, _)| at.variant != worst.at.variant);
        let (Some((peer, _)), Some(edge)) = (peer, worst.against) else { return String::new() };
        let share = |at: At| {
            let theirs = At { variant: peer.variant, ..at };
            self.matrix
                .iops(at)
                .zip(self.matrix.iops(theirs))
                .map_or(String::new(), |(own, other)| percent(own / other))
        };
        format!(
            "Against the other variants it falls behind as blocks get smaller{place}: with {} it has {} of {} at {} \
             and {} at {}.",
            self.threads(worst.at),
            share(edge),
            self.matrix.variants[peer.variant].name,
            self.size(edge),
            share(worst.at),
            self.size(worst.at),
        )
    }

    fn pit(&self, part: &Part, place: &str) -> String {
        let worst = part.worst();
        format!(
            "It is lower than block size and threads explain{place}. {}: {} IOPS, {} less than its neighbours \
             make one expect{}.",
            sentence(&self.place(worst.at)),
            self.iops(worst.at),
            less(worst.ratio.value),
            interval(&worst.ratio),
        )
    }

    /// `Worst at 1 KiB with 16 threads`; of a single cell the place has been said.
    fn worst(&self, word: &str, part: &Part) -> String {
        match part.flags.len() {
            1 => "There".into(),
            _ => format!("{word} {}", self.place(part.worst().at)),
        }
    }

    /// The block size that all cells of a part are held against, where all are smaller.
    fn edge(&self, part: &Part) -> Option<String> {
        let edges: BTreeSet<usize> = part.flags.iter().filter_map(|flag| Some(flag.against?.size)).collect();
        let edge = *edges.first()?;
        (edges.len() == 1).then(|| size(self.matrix.sizes[edge]))
    }

    /// ` against 31,000 of xfs`: names what differs.
    fn against(&self, flag: &Flag) -> String {
        let Some(other) = flag.against else { return String::new() };
        let name = if other.variant == flag.at.variant {
            &self.matrix.modes[other.mode].name
        } else {
            &self.matrix.variants[other.variant].name
        };
        format!(" against {} of {name}", self.iops(other))
    }

    fn extent(&self, cells: &BTreeSet<At>) -> String {
        extent(
            &cells.iter().map(|at| (self.matrix.sizes[at.size], self.matrix.threads[at.threads])).collect(),
        )
    }

    fn series(&self, at: At) -> String {
        format!("{} {}", self.matrix.variants[at.variant].name, self.matrix.modes[at.mode].name)
    }

    fn place(&self, at: At) -> String {
        format!("at {} with {}", self.size(at), self.threads(at))
    }

    fn size(&self, at: At) -> String {
        size(self.matrix.sizes[at.size])
    }

    fn threads(&self, at: At) -> String {
        threads(self.matrix.threads[at.threads])
    }

    fn iops(&self, at: At) -> String {
        self.matrix.iops(at).map_or("–".into(), iops)
    }

    fn bandwidth_of(&self, at: At) -> String {
        self.matrix.bandwidth(at).map_or("–".into(), megabytes)
    }
}

/// The same words as the beginning of a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
