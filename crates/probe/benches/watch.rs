//! Measures the cost of a watch: the CPU time of one reading and of the end of a window, and the share of a CPU at one reading
//! per second with windows of five minutes. The CPU time of a counter's command is printed separately.

use fsarena_probe::watch::{CounterSpec, ServiceSpec, Watch, WatchedPlace, Watcher};
use fsarena_sys::{cpu, kernel::SysRoot};
use std::io::{Read, Write};
use std::{net::TcpListener, time::Duration};

const READINGS: u32 = 500;
const WINDOWS: u32 = 100;

fn main() {
    let own_pid = std::process::id() as i32;
    let server = Server::start();
    let log = std::env::temp_dir().join(format!("fsarena-bench-{own_pid}.log"));
    std::fs::write(&log, "x\n").expect("the log is written");
    let counters = [
        ("squid", CounterSpec::Squid { address: server.address.clone() }),
        ("log", CounterSpec::Log { file: log.clone(), word: None }),
        ("command", CounterSpec::Command { argv: vec!["echo".into(), "1".into()] }),
    ];
    for (name, spec) in counters {
        let watch = Watch {
            name: name.into(),
            counter: Some(spec),
            place: WatchedPlace { path: Some(std::env::temp_dir()), device: None },
            services: vec![ServiceSpec::Pid(server.pid)],
            window_length: Duration::from_secs(300),
            reading_interval: Duration::from_secs(1),
        };
        let mut watcher = Watcher::begin(&SysRoot::host(), &watch, 0).expect("the watch begins");
        let (reading_s, command_s) = measure_cpu_seconds(own_pid, READINGS, || watcher.read_within_window());
        let (window_s, _) = measure_cpu_seconds(own_pid, WINDOWS, || drop(watcher.close_window()));
        let cpu_share = reading_s + window_s / 300.0;
        let command_text = if command_s == 0.0 {
            String::new()
        } else {
            format!(", and the command itself {:.4}%", command_s * 100.0)
        };
        println!(
            "{name:8} reading {:7.1} µs  window's end {:7.1} µs  at 1 reading/s {:.4}% of a CPU{}{command_text}",
            reading_s * 1e6,
            window_s * 1e6,
            cpu_share * 100.0,
            if cpu_share < 0.001 { "" } else { "  (above 0.1%)" }
        );
    }
    drop(server);
    let _ = std::fs::remove_file(&log);
}

/// Calls `work` and returns the mean CPU time of a call in seconds: of this process, and of the children that it waited for.
fn measure_cpu_seconds(own_pid: i32, calls: u32, mut work: impl FnMut()) -> (f64, f64) {
    let now = || (cpu::process_cpu_ns(own_pid).unwrap_or(0), cpu::CpuTime::of_ended_children().total_ns());
    let before = now();
    for _ in 0..calls {
        work();
    }
    let seconds = |now: u64, before: u64| (now - before) as f64 / 1e9 / f64::from(calls);
    let after = now();
    (seconds(after.0, before.0), seconds(after.1, before.1))
}

/// A server with squid's page, in a separate process, so that its CPU time does not count as that of the benchmark.
struct Server {
    pid: i32,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}

impl Server {
    /// Starts the server.
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the listener has an address").to_string();
        // SAFETY: the process has one thread; the child only serves and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            serve(&listener);
        }
        Server { pid, address }
    }
}

/// Answers each client with the page; never returns.
fn serve(listener: &TcpListener) -> ! {
    // The page has the length of that of Squid 5.7.
    let filler = "some.counter.of.squid = 123456\n".repeat(60);
    let page = format!("HTTP/1.0 200 OK\r\n\r\n{filler}client_http.requests = 17\n");
    for mut stream in listener.incoming().flatten() {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(page.as_bytes());
    }
    std::process::exit(0)
}
