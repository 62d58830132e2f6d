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
        let description = match part.rule {
            Rule::AboveDevice => "faster than the device".into(),
            Rule::BelowDevice => "far below the bare device".into(),
            Rule::SequentialBelowRandom => {
                let mode = part.worst_flag().reference.map_or("random", |at| &self.matrix.modes[at.mode].name);
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
        format!("{}: {description}, at {}", self.series_name(part.worst_flag().cell), self.extent(&finding.cells()))
    }

    /// Names the cells in which the load generator, not the storage, limited the throughput; empty without such cells.
    pub fn client_bound_note(&self) -> String {
        let mut cells_of_series: BTreeMap<(usize, usize), BTreeSet<CellPosition>> = BTreeMap::new();
        for cell in &self.matrix.client_bound {
            cells_of_series.entry((cell.mode, cell.variant)).or_default().insert(*cell);
        }
        let describe = |cells: &BTreeSet<CellPosition>| {
            let series = cells.first().map_or(String::new(), |cell| self.series_name(*cell));
            format!("{series} at {}", self.extent(cells))
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
        let worst = part.worst_flag();
        let (iops, interval) = (self.iops_text(worst.cell), change_interval(&worst.ratio));
        match (part.rule, worst.reference) {
            (Rule::AboveDevice, device) => self.above_device_sentences(worst, &place, device),
            (Rule::BelowDevice | Rule::SequentialBelowRandom, _) => {
                let description = match part.rule {
                    Rule::BelowDevice => "It is below the bare device",
                    _ => "Sequential is slower than random",
                };
                let (loss, heading) = (loss_range(part), self.introduce_worst("Worst", part));
                let other = self.compared_throughput(worst);
                format!("{description}{place}: by {loss}. {heading}: {iops} IOPS{other}{interval}.")
            }
            (Rule::FarBehind, _) => {
                let share = value_range(percent(worst.ratio.value), percent(part.mildest_flag().ratio.value));
                let heading = self.introduce_worst("Least", part);
                let other = self.compared_throughput(worst);
                format!(
                    "{share} of the throughput of the next variant{place}. {heading}: {iops} IOPS{other}{interval}."
                )
            }
            (Rule::Interaction, _) => format!(
                "Its block size and threads do not explain how low it is{place}. {}: {iops} IOPS, {} less than its \
                 neighbours predict{interval}.",
                capitalise(&self.cell_phrase(worst.cell)),
                percent_less(worst.ratio.value),
            ),
            (Rule::ScalingCollapse, _) => self.scaling_collapse_sentence(part),
            (_, None) => String::new(),
            (Rule::BandwidthFalls, Some(other)) => self.bandwidth_falls_sentences(part, &place, other),
            (Rule::IopsRise, Some(other)) => self.iops_rise_sentences(part, &place, other),
            (Rule::Serialised, Some(witness)) => self.serialised_sentences(part, &place, witness),
            (Rule::Cliff, Some(edge)) => self.cliff_sentence(worst, &place, edge),
        }
    }

    /// Sentences for a throughput above that of the device.
    fn above_device_sentences(&self, worst: &Flag, place: &str, device: Option<CellPosition>) -> String {
        let device = match device {
            Some(cell) => format!("{} of the bare device", self.bandwidth_text(cell)),
            None => "the stated rate of the device".into(),
        };
        format!(
            "It is faster than the device{place}, so a cache served it. {}: {} against {device}, {}{}.",
            capitalise(&self.cell_phrase(worst.cell)),
            self.bandwidth_text(worst.cell),
            how_much_more(worst.ratio.value),
            change_interval(&worst.ratio),
        )
    }

    /// Sentences for smaller blocks that finish fewer operations a second than larger ones.
    fn iops_rise_sentences(&self, part: &FindingPart, place: &str, other: CellPosition) -> String {
        let worst = part.worst_flag();
        format!(
            "Smaller blocks finish fewer operations a second than larger ones{place}: by {}. With {}: {} IOPS at {}, {} \
             at {}{}.",
            loss_range(part),
            self.threads_text(worst.cell),
            self.iops_text(worst.cell),
            self.size_text(worst.cell),
            self.iops_text(other),
            self.size_text(other),
            change_interval(&worst.ratio),
        )
    }

    /// Sentences for a bandwidth that falls with the block size. A ratio above 1 means that the smaller blocks are
    /// implausibly fast.
    fn bandwidth_falls_sentences(&self, part: &FindingPart, place: &str, other: CellPosition) -> String {
        let worst = part.worst_flag();
        let (worst_ratio, mildest_ratio) = (worst.ratio.value, part.mildest_flag().ratio.value);
        let figures = format!(
            "with {} {} at {}, {} at {}{}",
            self.threads_text(worst.cell),
            self.bandwidth_text(worst.cell),
            self.size_text(worst.cell),
            self.bandwidth_text(other),
            self.size_text(other),
            change_interval(&worst.ratio),
        );
        if worst_ratio > 1.0 {
            return format!(
                "Smaller blocks move more bytes than larger ones{place}: {figures}; {} over the region. The small \
                 blocks are implausible: something other than the device may serve them (a cache, read-ahead).",
                value_range(how_much_more(mildest_ratio), how_much_more(worst_ratio)),
            );
        }
        format!(
            "Larger blocks move fewer bytes than smaller ones{place}: {figures}; {} less over the region.",
            loss_range(part),
        )
    }

    /// A sentence for throughput lost to threads: the worst block size with its figures, then the others with their losses.
    fn scaling_collapse_sentence(&self, part: &FindingPart) -> String {
        let worst = part.worst_flag();
        let mut worst_by_size: BTreeMap<usize, &Flag> = BTreeMap::new();
        for flag in &part.flags {
            let worst_of_size = worst_by_size.entry(flag.cell.size).or_insert(flag);
            if flag.deviation() > worst_of_size.deviation() {
                *worst_of_size = flag;
            }
        }
        worst_by_size.remove(&worst.cell.size);
        let thread_count = |cell: CellPosition| self.matrix.threads[cell.threads].to_string();
        let mut others = vec![];
        for flag in worst_by_size.into_values() {
            others.push(format!(
                "{} ({} from {} to {})",
                self.size_text(flag.cell),
                percent_less(flag.ratio.value),
                flag.reference.map_or(String::new(), thread_count),
                thread_count(flag.cell),
            ));
        }
        let also = if others.is_empty() { "" } else { ", and so do " };
        format!(
            "{} at {} loses {} from {} to {} (from {} to {} IOPS){}{also}{}.",
            self.series_name(worst.cell),
            self.size_text(worst.cell),
            percent_less(worst.ratio.value),
            worst.reference.map_or(String::new(), thread_count),
            self.threads_text(worst.cell),
            worst.reference.map_or(String::new(), |cell| self.iops_text(cell)),
            self.iops_text(worst.cell),
            change_interval(&worst.ratio),
            others.join(", "),
        )
    }

    /// Sentences for threads that gain next to nothing. The `witness` is a cell with more throughput: the storage can do more.
    fn serialised_sentences(&self, part: &FindingPart, place: &str, witness: CellPosition) -> String {
        let worst = part.worst_flag().cell;
        let cells = self.matrix.along_threads(worst.variant, worst.mode, worst.size);
        let (Some(fewest_threads), Some(most_threads)) = (cells.first(), cells.last()) else { return String::new() };
        let gain = match self.largest_gain(part) {
            gain if gain > 1.005 => format!("{} at most", percent(gain - 1.0)),
            _ => "nothing".into(),
        };
        let throughput = |cell: CellPosition| format!("{} with {}", self.iops_text(cell), self.threads_text(cell));
        format!(
            "More threads gain {gain}{place}, although the storage can do more. At {}: {} IOPS with {}, {}; {} reaches {}.",
            self.size_text(worst),
            self.iops_text(*fewest_threads),
            self.threads_text(*fewest_threads),
            throughput(*most_threads),
            self.series_name(witness),
            throughput(witness),
        )
    }

    /// The largest ratio of the throughput of a flagged cell to that with the fewest threads at its block size.
    fn largest_gain(&self, part: &FindingPart) -> f64 {
        let gain = |flag: &Flag| {
            let fewest_threads =
                *self.matrix.along_threads(flag.cell.variant, flag.cell.mode, flag.cell.size).first()?;
            Some(self.matrix.centre_iops(flag.cell)? / self.matrix.centre_iops(fewest_threads)?)
        };
        part.flags.iter().filter_map(gain).fold(0.0, f64::max)
    }

    /// A sentence for a variant that falls behind as blocks get smaller: its share of another variant's throughput at the block
    /// size above the cliff, `edge`, and below it.
    fn cliff_sentence(&self, worst: &Flag, place: &str, edge: CellPosition) -> String {
        // Each test of the rule compares the cell with one peer, so the first term of another variant names a peer.
        let mut terms = worst.tests.iter().flat_map(|test| &test.terms);
        let Some((peer, _)) = terms.find(|(cell, _)| cell.variant != worst.cell.variant) else {
            return String::new();
        };
        let share = |cell: CellPosition| {
            let own_and_peer = self
                .matrix
                .centre_iops(cell)
                .zip(self.matrix.centre_iops(CellPosition { variant: peer.variant, ..cell }));
            own_and_peer.map_or(String::new(), |(own, peer)| percent(own / peer))
        };
        format!(
            "Against the other variants it falls behind as blocks get smaller{place}: with {} it has {} of {} at {} \
             and {} at {}.",
            self.threads_text(worst.cell),
            share(edge),
            self.matrix.variants[peer.variant].name,
            self.size_text(edge),
            share(worst.cell),
            self.size_text(worst.cell),
        )
    }

    /// Introduces the worst cell: `Worst at 1 KiB with 16 threads`; `There` if the part has only one cell, because the previous
    /// sentence names it.
    fn introduce_worst(&self, superlative: &str, part: &FindingPart) -> String {
        match part.flags.len() {
            1 => "There".into(),
            _ => format!("{superlative} {}", self.cell_phrase(part.worst_flag().cell)),
        }
    }

    /// The block size that all cells of a part are compared with; `None` if they are compared with different block sizes.
    fn common_edge(&self, part: &FindingPart) -> Option<String> {
        let edges: BTreeSet<usize> = part.flags.iter().filter_map(|flag| Some(flag.reference?.size)).collect();
        let edge = *edges.first()?;
        (edges.len() == 1).then(|| format_size(self.matrix.sizes[edge]))
    }

    /// The throughput that a cell is compared with: ` against 31,000 of xfs`, or of a mode if the variant is the same. Empty
    /// without such a throughput.
    fn compared_throughput(&self, flag: &Flag) -> String {
        let Some(other) = flag.reference else { return String::new() };
        let name = if other.variant == flag.cell.variant {
            &self.matrix.modes[other.mode].name
        } else {
            &self.matrix.variants[other.variant].name
        };
        format!(" against {} of {name}", self.iops_text(other))
    }

    /// The block sizes and threads of cells: `512 B to 4 KiB with 1 to 128 threads`.
    fn extent(&self, cells: &BTreeSet<CellPosition>) -> String {
        let size_and_threads = |cell: &CellPosition| (self.matrix.sizes[cell.size], self.matrix.threads[cell.threads]);
        cell_extent(&cells.iter().map(size_and_threads).collect())
    }

    /// The variant and the mode of a cell: `ext4 seqwr`.
    fn series_name(&self, cell: CellPosition) -> String {
        format!("{} {}", self.matrix.variants[cell.variant].name, self.matrix.modes[cell.mode].name)
    }

    /// The block size and the threads of a cell: `at 1 KiB with 16 threads`.
    fn cell_phrase(&self, cell: CellPosition) -> String {
        format!("at {} with {}", self.size_text(cell), self.threads_text(cell))
    }

    /// The block size of a cell: `1 KiB`.
    fn size_text(&self, cell: CellPosition) -> String {
        format_size(self.matrix.sizes[cell.size])
    }

    /// The threads of a cell: `16 threads`.
    fn threads_text(&self, cell: CellPosition) -> String {
        format_threads(self.matrix.threads[cell.threads])
    }

    /// The operations a second of a cell: `31,000`; `–` without a value.
    fn iops_text(&self, cell: CellPosition) -> String {
        self.matrix.centre_iops(cell).map_or("–".into(), format_iops)
    }

    /// The bandwidth of a cell with its unit; `–` without a value.
    fn bandwidth_text(&self, cell: CellPosition) -> String {
        self.matrix.bandwidth(cell).map_or("–".into(), format_bandwidth)
    }
}

/// By how much the cells of a part are below the cells that they are compared with: `20% to 45%`, the mildest first.
fn loss_range(part: &FindingPart) -> String {
    value_range(percent_less(part.mildest_flag().ratio.value), percent_less(part.worst_flag().ratio.value))
}

/// Makes the first letter of a text upper case.
fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
