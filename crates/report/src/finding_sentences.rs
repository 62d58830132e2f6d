//! Writes a finding about a matrix as sentences, whose figures a reader can check against the table.

use crate::matrix::{
    cell_extent, change_interval, format_bandwidth, format_iops, format_size, format_threads, how_much_more,
    percent_less, value_range,
};
use crate::number::percent;
use fsarena_stats::matrix::cells::{CellPosition, Matrix};
use fsarena_stats::matrix::finding::{Finding, FindingPart, Flag, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Writes findings about a matrix as text.
pub struct FindingWriter<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
}

impl FindingWriter<'_> {
    /// The finding and its cells in one line: `ext4 seqwr: slower than rndwr, at 512 B to 4 KiB with 1 to 128 threads`.
    pub fn title(&self, finding: &Finding) -> String {
        let part = finding.main_part();
        let against = part.worst_flag().against;
        let what = match part.rule {
            Rule::AboveDevice => "faster than the device".into(),
            Rule::BelowDevice => "far below the bare device".into(),
            Rule::SequentialBelowRandom => {
                let mode = against.map_or("random", |at| &self.matrix.modes[at.mode].name);
                format!("slower than {mode}")
            }
            Rule::BandwidthFalls if part.worst_flag().ratio.value > 1.0 => "too fast for its larger blocks".into(),
            Rule::BandwidthFalls => "moves less with larger blocks".into(),
            Rule::IopsRise => match self.common_edge(part) {
                Some(edge) => format!("collapses under {edge}"),
                None => "fewer operations with smaller blocks".into(),
            },
            Rule::ScalingCollapse => "loses throughput to threads".into(),
            Rule::Serialised => "threads gain next to nothing".into(),
            Rule::FarBehind => "far behind the other variants".into(),
            Rule::Cliff => "falls behind with smaller blocks".into(),
            Rule::Interaction => "lower than its neighbours".into(),
        };
        format!("{}: {what}, at {}", self.series_name(part.worst_flag().at), self.extent(&finding.cells()))
    }

    /// Names the cells in which the load generator, not the storage, limited the throughput; empty without such cells.
    pub fn client_bound_note(&self) -> String {
        let mut cells_of_series: BTreeMap<(usize, usize), BTreeSet<CellPosition>> = BTreeMap::new();
        for at in self.matrix.client_bound_cells() {
            cells_of_series.entry((at.mode, at.variant)).or_default().insert(*at);
        }
        let describe = |cells: &BTreeSet<CellPosition>| {
            let first = cells.first().map_or(String::new(), |at| self.series_name(*at));
            format!("{first} at {}", self.extent(cells))
        };
        let descriptions: Vec<String> = cells_of_series.values().map(describe).collect();
        if descriptions.is_empty() {
            return String::new();
        }
        format!(
            "Client-bound (! in tables): {}. There the load generator itself takes more than a tenth of the time of an operation, so \
             the storage is faster than the figures show: fsarena calls no such cell slow, and compares no other cell with it.",
            descriptions.join("; ")
        )
    }

    /// One or two sentences for each part of the finding.
    pub fn sentences(&self, finding: &Finding) -> Vec<String> {
        finding.parts.iter().map(|part| self.part_sentences(finding, part)).collect()
    }

    /// One or two sentences for a part: the rule that it breaks, the range of the effect, and the figures of the worst cell.
    fn part_sentences(&self, finding: &Finding, part: &FindingPart) -> String {
        // The title already names the cells of the whole finding.
        let is_whole_finding = part.cells() == finding.cells();
        let place = if is_whole_finding { String::new() } else { format!(" at {}", self.extent(&part.cells())) };
        let (worst, least) = (part.worst_flag(), part.mildest_flag().ratio.value);
        let (at, ratio, interval) = (worst.at, worst.ratio.value, change_interval(&worst.ratio));
        let (here, iops, against) = (capitalise(&self.cell_phrase(at)), self.iops(at), self.against_phrase(worst));
        match (part.rule, worst.against) {
            (Rule::AboveDevice, device) => self.above_device(worst, &place, device),
            (Rule::BelowDevice | Rule::SequentialBelowRandom, _) => {
                let what = match part.rule {
                    Rule::BelowDevice => "It is below the bare device",
                    _ => "Sequential is slower than random",
                };
                let by = value_range(percent_less(least), percent_less(ratio));
                let heading = self.introduce_worst("Worst", part);
                format!("{what}{place}: by {by}. {heading}: {iops} IOPS{against}{interval}.")
            }
            (Rule::FarBehind, _) => {
                let share = value_range(percent(ratio), percent(least));
                let heading = self.introduce_worst("Least", part);
                format!(
                    "{share} of the throughput of the next variant{place}. {heading}: {iops} IOPS{against}{interval}."
                )
            }
            (Rule::Interaction, _) => format!(
                "Its block size and threads do not explain how low it is{place}. {here}: {iops} IOPS, {} less than \
                 its neighbours predict{interval}.",
                percent_less(ratio),
            ),
            (Rule::ScalingCollapse, _) => self.scaling_collapse(part),
            (_, None) => String::new(),
            (Rule::BandwidthFalls, Some(other)) => self.bandwidth_falls(part, &place, other),
            (Rule::IopsRise, Some(other)) => self.iops_rise(part, &place, other),
            (Rule::Serialised, Some(witness)) => self.serialised(part, &place, witness),
            (Rule::Cliff, Some(edge)) => self.cliff(worst, &place, edge),
        }
    }

    /// Sentences for a throughput above that of the device.
    fn above_device(&self, worst: &Flag, place: &str, device: Option<CellPosition>) -> String {
        let device = match device {
            Some(at) => format!("{} of the bare device", self.bandwidth(at)),
            None => "the stated rate of the device".into(),
        };
        format!(
            "It is faster than the device{place}, so a cache served it. {}: {} against {device}, {}{}.",
            capitalise(&self.cell_phrase(worst.at)),
            self.bandwidth(worst.at),
            how_much_more(worst.ratio.value),
            change_interval(&worst.ratio),
        )
    }

    /// Sentences for smaller blocks that finish fewer operations a second than larger ones.
    fn iops_rise(&self, part: &FindingPart, place: &str, other: CellPosition) -> String {
        let (worst, least) = (part.worst_flag(), part.mildest_flag().ratio.value);
        format!(
            "Smaller blocks finish fewer operations a second than larger ones{place}: by {}. With {}: {} IOPS at {}, {} \
             at {}{}.",
            value_range(percent_less(least), percent_less(worst.ratio.value)),
            self.threads(worst.at),
            self.iops(worst.at),
            self.size(worst.at),
            self.iops(other),
            self.size(other),
            change_interval(&worst.ratio),
        )
    }

    /// Sentences for a bandwidth that falls with the block size. A ratio above 1 means that the smaller blocks are
    /// implausibly fast.
    fn bandwidth_falls(&self, part: &FindingPart, place: &str, other: CellPosition) -> String {
        let (worst, least) = (part.worst_flag(), part.mildest_flag().ratio.value);
        let (at, ratio, interval) = (worst.at, worst.ratio.value, change_interval(&worst.ratio));
        let (size, other_size) = (self.size(at), self.size(other));
        let (bandwidth, other_bandwidth) = (self.bandwidth(at), self.bandwidth(other));
        let figures =
            format!("with {} {bandwidth} at {size}, {other_bandwidth} at {other_size}{interval}", self.threads(at));
        if ratio > 1.0 {
            return format!(
                "Smaller blocks move more bytes than larger ones{place}: {figures}; {} over the region. The small \
                 blocks are implausible: something other than the device may serve them (a cache, read-ahead).",
                value_range(how_much_more(least), how_much_more(ratio)),
            );
        }
        format!(
            "Larger blocks move fewer bytes than smaller ones{place}: {figures}; {} less over the region.",
            value_range(percent_less(least), percent_less(ratio)),
        )
    }

    /// A sentence for throughput lost to threads: the worst block size with its figures, then the others with their losses.
    fn scaling_collapse(&self, part: &FindingPart) -> String {
        let worst = part.worst_flag();
        let mut rows: BTreeMap<usize, &Flag> = BTreeMap::new();
        for flag in &part.flags {
            let row = rows.entry(flag.at.size).or_insert(flag);
            if flag.deviation() > row.deviation() {
                *row = flag;
            }
        }
        rows.remove(&worst.at.size);
        let count = |at: CellPosition| self.matrix.threads[at.threads].to_string();
        let loss = |flag: &Flag| {
            let (size, share, to) = (self.size(flag.at), percent_less(flag.ratio.value), count(flag.at));
            format!("{size} ({share} from {} to {to})", flag.against.map_or(String::new(), count))
        };
        let others: Vec<String> = rows.values().map(|flag| loss(flag)).collect();
        let also = if others.is_empty() { "" } else { ", and so do " };
        let (series, size, share) = (self.series_name(worst.at), self.size(worst.at), percent_less(worst.ratio.value));
        let (from, to) = (worst.against.map_or(String::new(), count), self.threads(worst.at));
        let iops = worst.against.map_or(String::new(), |at| self.iops(at));
        format!(
            "{series} at {size} loses {share} from {from} to {to} (from {iops} to {} IOPS){}{also}{}.",
            self.iops(worst.at),
            change_interval(&worst.ratio),
            others.join(", "),
        )
    }

    /// Sentences for threads that gain next to nothing. The witness is a cell that shows that the storage can do more.
    fn serialised(&self, part: &FindingPart, place: &str, witness: CellPosition) -> String {
        let at = part.worst_flag().at;
        let row = self.matrix.along_threads(at.variant, at.mode, at.size);
        let (Some(first), Some(last)) = (row.first(), row.last()) else { return String::new() };
        let gain = match self.largest_gain(part) {
            gain if gain > 1.005 => format!("{} at most", percent(gain - 1.0)),
            _ => "nothing".into(),
        };
        let reached = |at: CellPosition| format!("{} with {}", self.iops(at), self.threads(at));
        format!(
            "More threads gain {gain}{place}, although the storage can do more. At {}: {} IOPS with {}, {}; {} reaches {}.",
            self.size(at),
            self.iops(*first),
            self.threads(*first),
            reached(*last),
            self.series_name(witness),
            reached(witness),
        )
    }

    /// The largest ratio of the throughput of a flagged cell to that with the fewest threads at its block size.
    fn largest_gain(&self, part: &FindingPart) -> f64 {
        let gain = |flag: &Flag| {
            let first = *self.matrix.along_threads(flag.at.variant, flag.at.mode, flag.at.size).first()?;
            Some(self.matrix.iops(flag.at)? / self.matrix.iops(first)?)
        };
        part.flags.iter().filter_map(gain).fold(0.0, f64::max)
    }

    /// A sentence for a variant that falls behind as blocks get smaller: its share of another variant's throughput at the
    /// block size above the cliff, `edge`, and below it. Each test of the rule compares the cell with one peer, so the first
    /// term of another variant names a peer.
    fn cliff(&self, worst: &Flag, place: &str, edge: CellPosition) -> String {
        let mut terms = worst.tests.iter().flat_map(|test| &test.terms);
        let Some((peer, _)) = terms.find(|(at, _)| at.variant != worst.at.variant) else {
            return String::new();
        };
        let share = |at: CellPosition| {
            let both = self.matrix.iops(at).zip(self.matrix.iops(CellPosition { variant: peer.variant, ..at }));
            both.map_or(String::new(), |(own, other)| percent(own / other))
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

    /// Introduces the worst cell: `Worst at 1 KiB with 16 threads`; `There` if the part has only one cell, which the
    /// sentence before names.
    fn introduce_worst(&self, superlative: &str, part: &FindingPart) -> String {
        match part.flags.len() {
            1 => "There".into(),
            _ => format!("{superlative} {}", self.cell_phrase(part.worst_flag().at)),
        }
    }

    /// The block size that all cells of a part are compared with; `None` if they are compared with different ones.
    fn common_edge(&self, part: &FindingPart) -> Option<String> {
        let edges: BTreeSet<usize> = part.flags.iter().filter_map(|flag| Some(flag.against?.size)).collect();
        let edge = *edges.first()?;
        (edges.len() == 1).then(|| format_size(self.matrix.sizes[edge]))
    }

    /// The throughput that a cell is compared with: ` against 31,000 of xfs`. It names the mode if the variant is the same.
    fn against_phrase(&self, flag: &Flag) -> String {
        let Some(other) = flag.against else { return String::new() };
        let name = if other.variant == flag.at.variant {
            &self.matrix.modes[other.mode].name
        } else {
            &self.matrix.variants[other.variant].name
        };
        format!(" against {} of {name}", self.iops(other))
    }

    /// The block sizes and threads of cells: `512 B to 4 KiB with 1 to 128 threads`.
    fn extent(&self, cells: &BTreeSet<CellPosition>) -> String {
        let size_and_threads = |at: &CellPosition| (self.matrix.sizes[at.size], self.matrix.threads[at.threads]);
        cell_extent(&cells.iter().map(size_and_threads).collect())
    }

    fn series_name(&self, at: CellPosition) -> String {
        format!("{} {}", self.matrix.variants[at.variant].name, self.matrix.modes[at.mode].name)
    }

    fn cell_phrase(&self, at: CellPosition) -> String {
        format!("at {} with {}", self.size(at), self.threads(at))
    }

    fn size(&self, at: CellPosition) -> String {
        format_size(self.matrix.sizes[at.size])
    }

    fn threads(&self, at: CellPosition) -> String {
        format_threads(self.matrix.threads[at.threads])
    }

    fn iops(&self, at: CellPosition) -> String {
        self.matrix.iops(at).map_or("–".into(), format_iops)
    }

    fn bandwidth(&self, at: CellPosition) -> String {
        self.matrix.bandwidth(at).map_or("–".into(), format_bandwidth)
    }
}

/// Makes the first letter of a text upper case.
fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
