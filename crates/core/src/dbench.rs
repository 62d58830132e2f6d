//! Parses the output of dbench 1 to 5: its table of operations and its last line. fsarena uses this to run dbench and to
//! import its output.

/// An operation of dbench.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its name in the output of dbench 4.0.
    pub printed_name: &'static str,
    /// The prefix of its readings: `ntcreatex` in `ntcreatex_latency_mean_ns`.
    pub reading_prefix: &'static str,
}

const fn operation(printed_name: &'static str, reading_prefix: &'static str) -> Operation {
    Operation { printed_name, reading_prefix }
}

/// Every operation of dbench.
pub const OPERATIONS: [Operation; 17] = [
    operation("NTCreateX", "ntcreatex"),
    operation("Close", "close"),
    operation("Rename", "rename"),
    operation("Unlink", "unlink"),
    operation("Deltree", "deltree"),
    operation("Rmdir", "rmdir"),
    operation("Mkdir", "mkdir"),
    operation("Qpathinfo", "qpathinfo"),
    operation("Qfileinfo", "qfileinfo"),
    operation("Qfsinfo", "qfsinfo"),
    operation("Sfileinfo", "sfileinfo"),
    operation("Find", "find"),
    operation("WriteX", "write"),
    operation("ReadX", "read"),
    operation("LockX", "lockx"),
    operation("UnlockX", "unlockx"),
    operation("Flush", "flush"),
];

/// The content of one line of dbench's output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DbenchLine<'t> {
    /// The version of dbench, in the first line of a run. Versions before 3 do not print it.
    Version(&'t str),
    /// The path of the loadfile that the run plays.
    Loadfile(&'t str),
    /// A row of the table of operations.
    Operation {
        /// The name of the operation: `NTCreateX`. Some names differ between 4.0 and 5.0.
        name: &'t str,
        /// The number of operations after the warm-up.
        count: u64,
        /// Their mean latency in milliseconds.
        mean_ms: f64,
        /// Their highest latency in milliseconds.
        max_ms: f64,
    },
    /// The message of dbench about a client that failed, which ends the run.
    Failed(&'t str),
    /// The last line of a run.
    Throughput {
        /// Megabytes (10⁶ bytes) read and written per second.
        mb_per_s: f64,
        /// The number of clients, if printed. Versions before 4 print it as the number of processes.
        clients: Option<&'t str>,
        /// The number of processes of the clients; only from version 4 on.
        processes: Option<&'t str>,
        /// The operations that dbench made synchronous: `(sync open) (sync dirs)`; empty if none was.
        sync_options: &'t str,
        /// The highest latency in milliseconds, if printed.
        max_ms: Option<f64>,
    },
}

/// Whether a text is output of dbench.
pub fn is_dbench_output(text: &str) -> bool {
    text.lines().any(|line| version_in(line).is_some() || text_after_throughput(line).is_some())
}

/// Parses the lines of dbench's output. Skips other lines. Each result has the number of its line, from 1; it is an error
/// message if the line has an invalid number or an unsupported format.
pub fn parse_lines(text: &str) -> impl Iterator<Item = (usize, Result<DbenchLine<'_>, String>)> {
    // After the table of all clients, further tables of single clients may follow; these are skipped.
    let (mut is_in_table, mut is_in_client_tables) = (false, false);
    text.lines().enumerate().filter_map(move |(index, line)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let content = if let Some(rest) = text_after_throughput(line) {
            (is_in_table, is_in_client_tables) = (false, false);
            parse_throughput_line(rest)
        } else if let Some(version) = version_in(line) {
            (is_in_table, is_in_client_tables) = (false, false);
            Ok(DbenchLine::Version(version))
        } else if let Some(loadfile) = loadfile_in(line) {
            Ok(DbenchLine::Loadfile(loadfile))
        } else if line.starts_with("Child ") && line.contains("failed ") && line.contains("with status ") {
            Ok(DbenchLine::Failed(line.trim_end()))
        } else if line.starts_with("@R@") {
            Err("this is the output of --machine-readable: run dbench without it".into())
        } else if line.starts_with("Per client results") {
            (is_in_table, is_in_client_tables) = (false, true);
            return None;
        } else if words == ["Operation", "Count", "AvgLat", "MaxLat"] {
            is_in_table = !is_in_client_tables;
            return None;
        } else if let ([name, count, mean, max], true) = (words.as_slice(), is_in_table) {
            parse_table_row(name, count, mean, max)
        } else {
            return None;
        };
        Some((index + 1, content))
    })
}

/// The version in `dbench version 4.00 - Copyright Andrew Tridgell 1999-2004`.
fn version_in(line: &str) -> Option<&str> {
    line.strip_prefix("dbench version ")?.split_whitespace().next()
}

/// The loadfile in `Running for 10 seconds with load 'client.txt' and minimum warmup 2 secs`.
fn loadfile_in(line: &str) -> Option<&str> {
    let quoted = line.strip_prefix("Running ")?.split_once("with load '")?.1;
    quoted.rsplit_once('\'').map(|(loadfile, _)| loadfile)
}

fn parse_table_row<'t>(name: &'t str, count: &str, mean: &str, max: &str) -> Result<DbenchLine<'t>, String> {
    let count = count.parse().map_err(|_| format!("`{count}` is not a count"))?;
    Ok(DbenchLine::Operation { name, count, mean_ms: parse_latency(mean)?, max_ms: parse_latency(max)? })
}

/// The text after `Throughput ` in `Throughput 123.456 MB/sec  4 clients  4 procs  max_latency=12.345 ms`.
fn text_after_throughput(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Throughput ")?;
    (rest.split_whitespace().nth(1) == Some("MB/sec")).then_some(rest)
}

/// Parses the text after `Throughput ` in the last line.
fn parse_throughput_line(rest: &str) -> Result<DbenchLine<'_>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mb_per_s = words[0].parse().map_err(|_| format!("`{}` is not a throughput", words[0]))?;
    let word_before = |unit| words.windows(2).find(|pair| pair[1] == unit).map(|pair| pair[0]);
    let max_latency = words.iter().find_map(|word| word.strip_prefix("max_latency="));
    let sync = rest.find("(sync ").zip(rest.rfind(')')).map_or("", |(start, end)| rest.get(start..=end).unwrap_or(""));
    let (clients, processes) = match (word_before("clients"), word_before("procs")) {
        (None, processes) => (processes, None),
        printed => printed,
    };
    Ok(DbenchLine::Throughput {
        mb_per_s,
        clients,
        processes,
        sync_options: sync,
        max_ms: max_latency.map(parse_latency).transpose()?,
    })
}

fn parse_latency(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a latency"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of dbench 4.0, shortened.
    const TEXT: &str = "\
dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 10 seconds with load 'client.txt' and minimum warmup 2 secs
   2      1234   123.45 MB/sec  execute   1 sec  latency 3.456 ms

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      88123     0.046    12.345

Throughput 321.5 MB/sec  2 clients  2 procs  max_latency=30.112 ms
";

    #[test]
    fn the_table_and_the_last_line_are_parsed() {
        assert!(is_dbench_output(TEXT) && !is_dbench_output("Throughput was fine"));
        let lines: Vec<_> = parse_lines(TEXT).collect();
        let row = DbenchLine::Operation { name: "NTCreateX", count: 88123, mean_ms: 0.046, max_ms: 12.345 };
        assert_eq!(lines[0], (1, Ok(DbenchLine::Version("4.00"))));
        assert_eq!(lines[1], (3, Ok(DbenchLine::Loadfile("client.txt"))));
        assert_eq!(lines[2], (8, Ok(row)));
        let last = DbenchLine::Throughput {
            mb_per_s: 321.5,
            clients: Some("2"),
            processes: Some("2"),
            sync_options: "",
            max_ms: Some(30.112),
        };
        assert_eq!(lines[3], (10, Ok(last)));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn the_last_line_of_older_versions_is_parsed() {
        let last = |line: &'static str| parse_lines(line).next().map(|(_, content)| content.unwrap());
        assert_eq!(
            last("Throughput 1883.19 MB/sec (NB=2353.98 MB/sec  18831.9 MBit/sec)  4 procs"),
            Some(DbenchLine::Throughput {
                mb_per_s: 1883.19,
                clients: Some("4"),
                processes: None,
                sync_options: "",
                max_ms: None
            })
        );
        assert_eq!(
            last("Throughput 177.247 MB/sec (sync open) (sync dirs) 2 procs"),
            Some(DbenchLine::Throughput {
                mb_per_s: 177.247,
                clients: Some("2"),
                processes: None,
                sync_options: "(sync open) (sync dirs)",
                max_ms: None
            })
        );
        assert_eq!(last("Child failed with status 1"), Some(DbenchLine::Failed("Child failed with status 1")));
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_line() {
        let first_error = |text: &str| parse_lines(text).find_map(|(line, content)| Some((line, content.err()?)));
        assert_eq!(first_error(&TEXT.replace("0.046", "slow")), Some((8, "`slow` is not a latency".into())));
        assert_eq!(first_error(&TEXT.replace("321.5", "x")), Some((10, "`x` is not a throughput".into())));
        assert_eq!(first_error(TEXT), None);
    }
}
