//! Measures how fast `fsarena serve` lists 1,000 runs: the first time, when it opens every database, and later.
//!
//! `cargo bench -p fsarena --bench serve`. Prints figures; asserts nothing.

#[allow(dead_code)] // runs in progress and hostile ones are for tests
#[path = "../tests/it/common/stored.rs"]
mod stored;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::{net::TcpStream, path::Path, time::Instant};

const RUN_COUNT: usize = 1_000;
/// The longest acceptable time of a request, in milliseconds.
const AIM_MS: f64 = 200.0;

fn main() {
    let dir = tempfile::tempdir().expect("a directory for the runs");
    let runs_dir = dir.path().join("runs");
    make_runs(&runs_dir);
    let (mut server, address) = start_server(&runs_dir);
    println!("{:<44} {:>10} {:>10}", "", "ms", "aim, ms");
    print_row("list of 1,000 runs, the first time", request_ms(&address, "/"));
    print_row("the same, again", median_ms(&address, "/"));
    print_row("the same, searched and sorted", median_ms(&address, "/?search=xfs&sort=study"));
    print_row("the same as JSON", median_ms(&address, "/runs.json"));
    let _ = server.kill();
    let _ = server.wait();
}

/// Makes a run, and copies of it with other ids.
fn make_runs(runs_dir: &Path) {
    let first = stored::store_run(runs_dir);
    for number in 1..RUN_COUNT {
        let copy = runs_dir.join(format!("20260101-{number:06}-example-copy"));
        std::fs::create_dir(&copy).expect("a run");
        for file in ["run.db", "plan.toml", "command.log"] {
            std::fs::copy(first.path().join(file), copy.join(file)).expect("a copy");
        }
    }
}

/// Starts a server and returns its address.
fn start_server(runs_dir: &Path) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsarena"));
    let mut server = command.arg("serve").arg(runs_dir).stdout(Stdio::piped()).spawn().expect("a server");
    let mut url = String::new();
    BufReader::new(server.stdout.take().expect("its output")).read_line(&mut url).expect("its address");
    (server, url.trim().trim_start_matches("http://").trim_end_matches('/').to_string())
}

/// Requests a page, and returns the milliseconds until all of it has arrived.
fn request_ms(address: &str, path: &str) -> f64 {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).expect("the server");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut page = vec![];
    stream.read_to_end(&mut page).expect("a page");
    assert!(page.starts_with(b"HTTP/1.1 200") && page.len() > RUN_COUNT * 100, "no list of {RUN_COUNT} runs");
    begun.elapsed().as_secs_f64() * 1e3
}

/// The median of the milliseconds of nine requests. Pauses between them prevent that one is answered from the listing of
/// the one before.
fn median_ms(address: &str, path: &str) -> f64 {
    let mut times_ms = vec![];
    for _ in 0..9 {
        std::thread::sleep(std::time::Duration::from_millis(400));
        times_ms.push(request_ms(address, path));
    }
    times_ms.sort_by(f64::total_cmp);
    times_ms[times_ms.len() / 2]
}

fn print_row(title: &str, ms: f64) {
    println!("{title:<44} {ms:>10.1} {AIM_MS:>10.0}");
}
