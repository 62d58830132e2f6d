//! Which client reads what another one wrote.
//!
//! A machine has in its page cache what its own clients wrote. So each client reads the files of a client of another
//! machine, as IOR does with `-C` and `-Q`, but by the machines that the ranks are really on.

use fsarena_load::workload::Client;
use std::collections::BTreeSet;

/// Each rank as a client, given the machine of each.
///
/// The ranks are sorted by machine and shifted by the largest number on one machine: then all ranks move to another
/// machine, unless one machine has more than half of them.
pub fn clients<M: Ord>(machines: &[M]) -> Vec<Client> {
    let mut sorted: Vec<usize> = (0..machines.len()).collect();
    sorted.sort_by_key(|rank| &machines[*rank]);
    let largest = sorted.chunk_by(|a, b| machines[*a] == machines[*b]).map(<[usize]>::len).max().unwrap_or(0);
    // On one machine only the reader can be another one.
    let shift = if largest == machines.len() { 1 } else { largest };
    let mut clients = vec![Client::ALONE; machines.len()];
    for (at, rank) in sorted.iter().enumerate() {
        let reads = sorted[(at + shift) % sorted.len()] as u32;
        clients[*rank] = Client { index: *rank as u32, of: machines.len() as u32, reads };
    }
    clients
}

/// The first rank of each machine.
pub fn leaders<M: Ord>(machines: &[M]) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    (0..).zip(machines).filter(|(_, machine)| seen.insert(*machine)).map(|(rank, _)| rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(machines: &[&str]) -> Vec<u32> {
        clients(machines).iter().map(|client| client.reads).collect()
    }

    #[test]
    fn every_client_reads_what_another_machine_wrote() {
        assert_eq!(reads(&["a", "a", "b", "b"]), [2, 3, 0, 1]);
        // Ranks by turns over the machines, which a shift by one process a machine would not notice.
        assert_eq!(reads(&["a", "b", "a", "b"]), [1, 0, 3, 2]);
        for machines in
            [&["a", "a", "b", "c", "c"][..], &["a", "b", "c"], &["b", "a", "a", "b", "c", "c", "c"]]
        {
            let mut all = reads(machines);
            assert!(all.iter().enumerate().all(|(own, other)| machines[own] != machines[*other as usize]));
            all.sort_unstable();
            assert!(all.iter().enumerate().all(|(at, rank)| at as u32 == *rank), "all files are read");
        }
    }

    #[test]
    fn on_one_machine_the_next_client_is_read() {
        assert_eq!(reads(&["a", "a", "a"]), [1, 2, 0]);
        assert_eq!(reads(&["a"]), [0]);
    }

    #[test]
    fn each_machine_has_one_leader() {
        assert_eq!(leaders(&["b", "a", "b", "c", "a"]), [0, 1, 3]);
    }
}
