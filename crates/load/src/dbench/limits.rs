//! Open files: how many the clients take, and what the system allows.

use super::{error::Error, handles, options::ClientMode};
use rustix::process::{Resource, getrlimit};

/// Other descriptors of this program and its libraries.
const OTHERS: u64 = 32;

/// The open file limit that one process requires if a client has at most `open_at_most` files open.
///
/// Threads share one table. Each client process has a separate table, but the parent holds one descriptor for each
/// client, and each client inherits those of the clients before it.
pub fn needed(clients: u32, mode: ClientMode, open_at_most: u64) -> u64 {
    // One more than its handles: the directory that it reads.
    let each = open_at_most.min(handles::MOST as u64) + 1;
    match mode {
        ClientMode::Threads => u64::from(clients) * each + OTHERS,
        ClientMode::Processes => u64::from(clients) + each + OTHERS,
    }
}

/// Says before a run where the limit of open files is too low.
///
/// # Errors
/// [`Error::Limit`].
pub fn check(clients: u32, mode: ClientMode, open_at_most: u64) -> Result<(), Error> {
    allowed(clients, mode, needed(clients, mode, open_at_most), getrlimit(Resource::Nofile).maximum)
}

fn allowed(clients: u32, mode: ClientMode, needed: u64, hard: Option<u64>) -> Result<(), Error> {
    let Some(hard) = hard.filter(|hard| *hard < needed) else { return Ok(()) };
    let instead = match mode {
        ClientMode::Threads => ", or make them processes: --set by=processes",
        ClientMode::Processes => "",
    };
    Err(Error::Limit(format!(
        "{clients} clients take {needed} open files in one process, and {hard} are allowed: raise the hard limit \
         (`ulimit -Hn`), or take fewer clients{instead}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_clients_need_more_than_256_files() {
        for mode in [ClientMode::Processes, ClientMode::Threads] {
            let needed = needed(1000, mode, 23);
            let said = allowed(1000, mode, needed, Some(256)).unwrap_err().to_string();
            assert!(said.contains("1000 clients") && said.contains("256 are allowed"), "{said}");
            assert!(allowed(1000, mode, needed, Some(needed)).is_ok());
            assert!(allowed(1000, mode, needed, None).is_ok());
        }
        assert_eq!(needed(1000, ClientMode::Processes, 23), 1056);
        assert_eq!(needed(1000, ClientMode::Threads, 23), 24_032);
    }
}
