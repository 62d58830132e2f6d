//! `postgresql.conf`: what a plan sets, and what fsarena needs.

use fsarena_core::setting::size;

/// What fsarena needs: a socket in the data directory, reached only by the server's user, and a log that tells of
/// checkpoints. A server that lost a process ends, so that no figure is of one that recovered in between.
const FIXED: [(&str, &str); 8] = [
    ("listen_addresses", ""),
    ("port", "5432"),
    ("unix_socket_directories", "."),
    ("log_destination", "stderr"),
    ("logging_collector", "off"),
    ("log_checkpoints", "on"),
    ("restart_after_crash", "off"),
    // Not in /dev/shm, where it would outlive a killed server.
    ("dynamic_shared_memory_type", "mmap"),
];
/// Settings that would lead away from the filesystem under test.
const ELSEWHERE: [&str; 4] = ["data_directory", "config_file", "hba_file", "ident_file"];
/// What lets commits go that a power cut undoes, or pages that it tears.
const WEAKER: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// Reads `NAME=VALUE` texts; several in one text are separated by semicolons.
///
/// # Errors
/// The first that is not one, or that fsarena sets itself.
pub fn parse(texts: &[&str]) -> Result<Vec<(String, String)>, String> {
    let pairs = texts.iter().flat_map(|text| text.split(';')).map(str::trim).filter(|text| !text.is_empty());
    pairs.map(pair).collect()
}

fn pair(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("conf: `{text}`: write NAME=VALUE, such as shared_buffers=1GB");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('\''));
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
        && !name.starts_with("include");
    if !is_name || value.contains(char::is_control) {
        return Err(wrong());
    }
    if ELSEWHERE.contains(&name.as_str()) || FIXED.iter().any(|(fixed, _)| *fixed == name) {
        return Err(format!("conf: fsarena sets {name} itself; leave it out"));
    }
    Ok((name, value.into()))
}

/// The lines to add to the file that initdb wrote; of a name that comes twice the last counts.
pub fn render(own: &[(String, String)], clients: u32) -> String {
    let connections = ("max_connections".to_string(), (clients + 10).to_string());
    let fixed = FIXED.map(|(name, value)| (name.to_string(), value.to_string()));
    let all = std::iter::once(&connections).chain(own).chain(&fixed);
    // Within quotes, a quote and a backslash are written twice.
    let quoted = |value: &str| value.replace('\\', r"\\").replace('\'', "''");
    all.map(|(name, value)| format!("{name} = '{}'\n", quoted(value))).collect()
}

/// The settings that weaken what a commit promises.
pub fn weaker(own: &[(String, String)]) -> Vec<String> {
    let off =
        |value: &str| ["off", "false", "no", "0", "local"].contains(&value.to_ascii_lowercase().as_str());
    let given_up = own.iter().filter(|(name, value)| WEAKER.contains(&name.as_str()) && off(value));
    given_up.map(|(name, value)| format!("{name}={value}")).collect()
}

/// The most that the write-ahead log keeps, in bytes: `max_wal_size`, by itself in megabytes.
pub fn max_wal_bytes(own: &[(String, String)]) -> u64 {
    let written = own.iter().rev().find(|(name, _)| name == "max_wal_size").map(|(_, value)| value.as_str());
    let bytes = |text: &str| match text.parse::<u64>() {
        Ok(megabytes) => Some(megabytes << 20),
        // PostgreSQL's units are powers of 1024: `1GB` is what others call 1GiB.
        Err(_) => size(text.strip_suffix('B').unwrap_or(text)).ok(),
    };
    written.and_then(bytes).unwrap_or(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_fsarena_needs_comes_last_and_cannot_be_set() {
        let own = parse(&["shared_buffers = '1GB'", "wal_recycle=off; archive_command=cp 'a' \\b"]).unwrap();
        let text = render(&own, 16);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "max_connections = '26'",
                "shared_buffers = '1GB'",
                "wal_recycle = 'off'",
                r"archive_command = 'cp ''a'' \\b'"
            ]
        );
        assert_eq!(lines.last(), Some(&"dynamic_shared_memory_type = 'mmap'"));
        assert!(parse(&["port=1"]).unwrap_err().contains("fsarena sets port itself"));
        assert!(parse(&["Data_Directory=/"]).is_err());
        for wrong in ["fsync", "=on", "a b=1", "include=/etc/x", "work_mem=1\nport=2"] {
            assert!(parse(&[wrong]).unwrap_err().contains("write NAME=VALUE"), "{wrong}");
        }
    }

    #[test]
    fn the_write_ahead_log_and_weaker_promises_are_known() {
        let of = |text: &str| parse(&[text]).unwrap();
        assert_eq!(max_wal_bytes(&of("max_wal_size=64GB")), 64 << 30);
        assert_eq!(max_wal_bytes(&of("max_wal_size=80")), 80 << 20);
        assert_eq!(max_wal_bytes(&[]), 1 << 30);
        assert_eq!(weaker(&of("fsync=off;full_page_writes=on")), ["fsync=off"]);
    }

    proptest! {
        /// A value stays within its line and its quotes.
        #[test]
        fn a_value_is_one_line(value in "[^;=\\pC]{0,20}") {
            let own = parse(&[&format!("work_mem={value}")]).unwrap();
            let text = render(&own, 1);
            let line = text.lines().nth(1).unwrap();
            let inside = line.strip_prefix("work_mem = '").unwrap().strip_suffix('\'').unwrap();
            prop_assert!(!inside.replace("''", "").contains('\''), "{}", line);
        }
    }
}
