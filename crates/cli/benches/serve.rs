//! Measures how fast `fsarena serve` lists 1,000 runs: the first time, when it opens every database, and later.
//!
//! `cargo bench -p fsarena --bench serve`. Prints figures; asserts nothing.

#[allow(dead_code)] // runs in progress and hostile ones are for tests
#[path = "../tests/it/common/stored.rs"]
mod stored;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::{net::TcpStream, path::Path, time::Instant};

const RUNS: usize = 1_000;
/// The longest acceptable time of a request, in milliseconds.
const AIM: f64 = 200.0;

fn main() {
    let dir = tempfile::tempdir().expect("a directory for the runs");
    let runs = dir.path().join("runs");
    copies(&runs);
    let (mut server, address) = start(&runs);
    println!("{:<44} {:>10} {:>10}", "", "ms", "aim, ms");
    row("list of 1,000 runs, the first time", get(&address, "/"));
    row("the same, again", median(&address, "/"));
    row("the same, searched and sorted", median(&address, "/?search=xfs&sort=study"));
    row("the same as JSON", median(&address, "/runs.json"));
    let _ = server.kill();
    let _ = server.wait();
}

/// Makes a run and copies of it with other ids.
fn copies(runs: &Path) {
    let first = stored::run(runs);
    for number in 1..RUNS {
        let to = runs.join(format!("20260101-{number:06}-example-copy"));
        std::fs::create_dir(&to).expect("a run");
        for file in ["run.db", "plan.toml", "command.log"] {
            std::fs::copy(first.path().join(file), to.join(file)).expect("a copy");
        }
    }
}

/// Starts a server and returns its address.
fn start(runs: &Path) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsarena"));
    let mut server = command.arg("serve").arg(runs).stdout(Stdio::piped()).spawn().expect("a server");
    let mut url = String::new();
    BufReader::new(server.stdout.take().expect("its output")).read_line(&mut url).expect("its address");
    (server, url.trim().trim_start_matches("http://").trim_end_matches('/').to_string())
}

/// The milliseconds of a request until the whole page has arrived.
fn get(address: &str, path: &str) -> f64 {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).expect("the server");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut page = vec![];
    stream.read_to_end(&mut page).expect("a page");
    assert!(page.starts_with(b"HTTP/1.1 200") && page.len() > RUNS * 100, "no list of {RUNS} runs");
    begun.elapsed().as_secs_f64() * 1e3
}

/// The median milliseconds of nine requests. Pauses between them prevent that one is answered from the listing of the one
/// before.
fn median(address: &str, path: &str) -> f64 {
    let ask = |_| {
        std::thread::sleep(std::time::Duration::from_millis(400));
        get(address, path)
    };
    let mut taken: Vec<f64> = (0..9).map(ask).collect();
    taken.sort_by(f64::total_cmp);
    taken[taken.len() / 2]
}

fn row(what: &str, ms: f64) {
    println!("{what:<44} {ms:>10.1} {AIM:>10.0}");
}
