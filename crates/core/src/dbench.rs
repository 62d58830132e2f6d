//! Parses the output of dbench 1 to 5: its table of operations and its last line. Running dbench and importing its
//! output both use this.

/// An operation of dbench.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its name in the output of 4.0.
    pub printed: &'static str,
    /// How the names of its readings begin: `ntcreatex` of `ntcreatex_latency_mean_ns`.
    pub reading: &'static str,
}

const fn operation(printed: &'static str, reading: &'static str) -> Operation {
    Operation { printed, reading }
}

/// Every operation.
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

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Said<'t> {
    /// The first line of a run, from version 3 on: the version.
    Version(&'t str),
    /// The load that a run plays: a loadfile, as it was named.
    Load(&'t str),
    /// A row of the table of operations.
    Operation {
        /// `NTCreateX`; some names differ between 4.0 and 5.0.
        name: &'t str,
        /// How many, after the warm-up.
        count: u64,
        /// Milliseconds.
        mean_ms: f64,
        /// Milliseconds.
        max_ms: f64,
    },
    /// A client failed, and with it the run: how dbench puts it.
    Failed(&'t str),
    /// The last line of a run.
    Throughput {
        /// Megabytes (10⁶) a second, read and written.
        mb_s: f64,
        /// The number of clients, if printed: of processes in versions before 4.
        clients: Option<&'t str>,
        /// The number of processes that they ran in, from version 4 on.
        processes: Option<&'t str>,
        /// What was written synchronously: `(sync open) (sync dirs)`; empty for nothing.
        sync: &'t str,
        /// The highest latency in milliseconds, if printed.
        max_ms: Option<f64>,
    },
}

/// Whether a text is dbench's.
pub fn recognises(text: &str) -> bool {
    text.lines().any(|line| version(line).is_some() || throughput(line).is_some())
}

/// What the lines say that say something, each with its number from 1; or what is wrong with it.
pub fn read(text: &str) -> impl Iterator<Item = (usize, Result<Said<'_>, String>)> {
    // After the table of all clients there may be one of each.
    let (mut in_table, mut of_each) = (false, false);
    text.lines().enumerate().filter_map(move |(at, line)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = if let Some(rest) = throughput(line) {
            (in_table, of_each) = (false, false);
            summary(rest)
        } else if let Some(version) = version(line) {
            (in_table, of_each) = (false, false);
            Ok(Said::Version(version))
        } else if let Some(load) = load(line) {
            Ok(Said::Load(load))
        } else if line.starts_with("Child ") && line.contains("failed ") && line.contains("with status ") {
            Ok(Said::Failed(line.trim_end()))
        } else if line.starts_with("@R@") {
            Err("this is the output of --machine-readable: run dbench without it".into())
        } else if line.starts_with("Per client results") {
            (in_table, of_each) = (false, true);
            return None;
        } else if words == ["Operation", "Count", "AvgLat", "MaxLat"] {
            in_table = !of_each;
            return None;
        } else if let ([name, count, mean, max], true) = (words.as_slice(), in_table) {
            row(name, count, mean, max)
        } else {
            return None;
        };
        Some((at + 1, said))
    })
}

/// `dbench version 4.00 - Copyright Andrew Tridgell 1999-2004`.
fn version(line: &str) -> Option<&str> {
    line.strip_prefix("dbench version ")?.split_whitespace().next()
}

/// `Running for 10 seconds with load 'client.txt' and minimum warmup 2 secs`.
fn load(line: &str) -> Option<&str> {
    let named = line.strip_prefix("Running ")?.split_once("with load '")?.1;
    named.rsplit_once('\'').map(|(load, _)| load)
}

fn row<'t>(name: &'t str, count: &str, mean: &str, max: &str) -> Result<Said<'t>, String> {
    let count = count.parse().map_err(|_| format!("`{count}` is not a count"))?;
    Ok(Said::Operation { name, count, mean_ms: latency(mean)?, max_ms: latency(max)? })
}

/// What follows in `Throughput 123.456 MB/sec  4 clients  4 procs  max_latency=12.345 ms`.
fn throughput(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Throughput ")?;
    (rest.split_whitespace().nth(1) == Some("MB/sec")).then_some(rest)
}

fn summary(rest: &str) -> Result<Said<'_>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mb_s = words[0].parse().map_err(|_| format!("`{}` is not a throughput", words[0]))?;
    let before = |unit| words.windows(2).find(|pair| pair[1] == unit).map(|pair| pair[0]);
    let longest = words.iter().find_map(|word| word.strip_prefix("max_latency="));
    let sync =
        rest.find("(sync ").zip(rest.rfind(')')).map_or("", |(from, to)| rest.get(from..=to).unwrap_or(""));
    let (clients, processes) = match (before("clients"), before("procs")) {
        (None, processes) => (processes, None),
        both => both,
    };
    Ok(Said::Throughput { mb_s, clients, processes, sync, max_ms: longest.map(latency).transpose()? })
}

fn latency(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a latency"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 4.0 prints it, shortened.
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
    fn the_table_and_the_last_line_are_read() {
        assert!(recognises(TEXT) && !recognises("Throughput was fine"));
        let said: Vec<_> = read(TEXT).collect();
        let row = Said::Operation { name: "NTCreateX", count: 88123, mean_ms: 0.046, max_ms: 12.345 };
        assert_eq!(said[0], (1, Ok(Said::Version("4.00"))));
        assert_eq!(said[1], (3, Ok(Said::Load("client.txt"))));
        assert_eq!(said[2], (8, Ok(row)));
        let last = Said::Throughput {
            mb_s: 321.5,
            clients: Some("2"),
            processes: Some("2"),
            sync: "",
            max_ms: Some(30.112),
        };
        assert_eq!(said[3], (10, Ok(last)));
        assert_eq!(said.len(), 4);
    }

    #[test]
    fn older_versions_print_processes_and_what_is_synchronous() {
        let last = |line: &'static str| read(line).next().map(|(_, said)| said.unwrap());
        assert_eq!(
            last("Throughput 1883.19 MB/sec (NB=2353.98 MB/sec  18831.9 MBit/sec)  4 procs"),
            Some(Said::Throughput {
                mb_s: 1883.19,
                clients: Some("4"),
                processes: None,
                sync: "",
                max_ms: None
            })
        );
        assert_eq!(
            last("Throughput 177.247 MB/sec (sync open) (sync dirs) 2 procs"),
            Some(Said::Throughput {
                mb_s: 177.247,
                clients: Some("2"),
                processes: None,
                sync: "(sync open) (sync dirs)",
                max_ms: None
            })
        );
        assert_eq!(last("Child failed with status 1"), Some(Said::Failed("Child failed with status 1")));
    }

    #[test]
    fn what_is_no_number_is_told_with_its_line() {
        let faults = |text: &str| read(text).find_map(|(at, said)| Some((at, said.err()?)));
        assert_eq!(faults(&TEXT.replace("0.046", "slow")), Some((8, "`slow` is not a latency".into())));
        assert_eq!(faults(&TEXT.replace("321.5", "x")), Some((10, "`x` is not a throughput".into())));
        assert_eq!(faults(TEXT), None);
    }
}
