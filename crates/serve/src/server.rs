//! The server: accepts connections until a signal ends it, and computes the one-line answers of runs in the background.
//!
//! An analysis uses CPU time and disturbs measurements. While a run of the folder is in progress, the server analyses nothing
//! in the background.

use crate::guard::{Guard, MIN_TOKEN_CHARS};
use crate::overview::{Overview, Overviews};
use crate::state::{AnalysisFunctions, PointCache, SharedData};
use crate::{feed::Feeds, folder::Folder, renderer::Renderer, routes};
use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_core::setting_text::setting;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io::ErrorKind, path::PathBuf, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::{runtime::Runtime, sync::Semaphore};

/// The largest number of open connections. Further clients wait until one closes.
const MAX_CONNECTIONS: usize = 768;
/// The time in which a client must send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest number of threads that read databases and render pages. The renderer limits further how many pages are rendered
/// at the same time.
const MAX_BLOCKING_THREADS: usize = 32;

/// Options of the server.
pub struct Options {
    /// The folder of runs.
    pub folder: PathBuf,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port; 0 for a free one.
    pub port: u16,
    /// The token that clients must send. With `None`, the server creates one unless it listens on a loopback address.
    pub token: Option<String>,
    /// Further host names by which clients reach this machine.
    pub hosts: Vec<String>,
    /// The functions that analyse runs.
    pub analysis: AnalysisFunctions,
}

/// A server that listens on its address, but does not accept connections before [`Server::run`].
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    guard: Arc<Guard>,
    shared: Arc<SharedData>,
}

impl Server {
    /// Opens the folder and listens on the address.
    ///
    /// # Errors
    /// The folder cannot be read; the token is too short, or has characters that URLs would have to encode; the address cannot
    /// be used; or the system refuses threads.
    pub fn open(options: Options) -> Result<Server, Error> {
        if let Some(token) = &options.token {
            check_token(token)?;
        }
        let path = &options.folder;
        let folder = Folder::open(path).map_err(|source| Error::Folder { path: path.clone(), source })?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).max_blocking_threads(MAX_BLOCKING_THREADS).enable_all().build();
        let runtime = runtime.map_err(Error::Start)?;
        let requested = SocketAddr::new(options.bind, options.port);
        let listener = runtime
            .block_on(TcpListener::bind(requested))
            .map_err(|source| Error::Listen { address: requested, source })?;
        let address = listener.local_addr().map_err(Error::Start)?;
        let guard = Arc::new(Guard::new(address.ip(), address.port(), options.hosts, options.token));
        let shared = Arc::new(SharedData {
            folder,
            overviews: Overviews::default(),
            history_points: PointCache::default(),
            renderer: Renderer::new(),
            feeds: Feeds::default(),
            analysis: options.analysis,
        });
        Ok(Server { runtime, listener, address, guard, shared })
    }

    /// The address and port on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that clients must send; `None` if none is required.
    pub fn token(&self) -> Option<&str> {
        self.guard.token()
    }

    /// The URL to open in a browser, with the token if one is required. If the server listens on all addresses, the URL has the
    /// first host name of the options.
    pub fn url(&self) -> String {
        let query = self.token().map_or(String::new(), |token| format!("?token={token}"));
        match self.guard.first_host_name().filter(|_| self.address.ip().is_unspecified()) {
            Some(name) => format!("http://{name}:{}/{query}", self.address.port()),
            None => format!("http://{}/{query}", self.address),
        }
    }

    /// Serves requests until SIGINT, SIGTERM or SIGHUP. Then it closes all connections at once, because no request changes
    /// anything. If this process ignored SIGHUP when it started, SIGHUP does not end the server, so that nohup(1) works.
    ///
    /// # Errors
    /// The system does not deliver signals.
    pub fn run(self) -> Result<(), Error> {
        let Server { runtime, listener, guard, shared, .. } = self;
        let ignores_hangup = ignores_hangup(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let result = runtime.block_on(async move {
            let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Start)?;
            let mut terminate = signal(SignalKind::terminate()).map_err(Error::Start)?;
            let mut hangup = signal(SignalKind::hangup()).map_err(Error::Start)?;
            tokio::spawn(compute_answers_in_background(shared.clone()));
            // Read the folder before the first request, because the first listing of many runs takes a while.
            let data = shared.clone();
            tokio::task::spawn_blocking(move || drop(data.overviews.fill_cache(&data.folder)));
            let router = routes::router(shared, guard);
            tokio::select! {
                () = accept_connections(listener, router) => {}
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv(), if !ignores_hangup => {}
            }
            Ok(())
        });
        // Do not wait for the threads: work on a large run can take many seconds.
        runtime.shutdown_background();
        result
    }
}

/// Whether a process ignores SIGHUP, from the text of its `/proc/PID/status`.
fn ignores_hangup(status: &str) -> bool {
    // A mask in hexadecimal, in which the lowest bit stands for signal 1, SIGHUP.
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Accepts connections, each in a separate task; never returns.
async fn accept_connections(listener: TcpListener, router: axum::Router) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely there are no free file descriptors. Wait until other connections close.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve_connection(stream, router).await;
            drop(permit);
        });
    }
}

/// Serves the requests of one connection.
async fn serve_connection(stream: TcpStream, router: axum::Router) {
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    // Ignore errors: a client may close the connection at any time.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

/// An error that keeps the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of runs cannot be read, or is not a folder.
    #[error("{}: {}; `fsarena serve DIR` names the folder that holds runs", .path.display(), describe_folder_error(.source))]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The server cannot listen on the address.
    #[error("{address}: {source}{}", listen_hint(.source))]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The token is too short; the value is its number of characters.
    #[error("the token has {0} characters; give one of at least {min}, or none to have one made", min = MIN_TOKEN_CHARS)]
    ShortToken(usize),
    /// The token has a character that URLs or cookies would have to encode.
    #[error("the token has the character {0:?}; use only letters, digits, `-`, `.`, `_` and `~`")]
    TokenCharacter(char),
    /// The system refused threads, timers or signals.
    #[error("the server could not start: {0}")]
    Start(std::io::Error),
}

/// Checks that a token is long enough, and is the same in URLs, cookies and headers.
fn check_token(token: &str) -> Result<(), Error> {
    if token.len() < MIN_TOKEN_CHARS {
        return Err(Error::ShortToken(token.len()));
    }
    let is_allowed = |letter: &char| letter.is_ascii_alphanumeric() || "-._~".contains(*letter);
    match token.chars().find(|letter| !is_allowed(letter)) {
        Some(letter) => Err(Error::TokenCharacter(letter)),
        None => Ok(()),
    }
}

/// The reason why the folder cannot be read.
fn describe_folder_error(source: &std::io::Error) -> String {
    match source.kind() {
        ErrorKind::NotADirectory => "not a folder".into(),
        _ => source.to_string(),
    }
}

/// What the user can do if the server cannot listen; empty if unknown.
fn listen_hint(source: &std::io::Error) -> String {
    let port = setting("port", "");
    match source.kind() {
        ErrorKind::AddrInUse => {
            format!("; another program listens there: end it, or take another {port}, or none for a free one")
        }
        ErrorKind::PermissionDenied => format!("; ports below 1024 are root's: take another {port}"),
        ErrorKind::AddrNotAvailable => format!("; {} takes an address of this machine", setting("bind", "")),
        _ => String::new(),
    }
}

impl HasExitCode for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Listen { source, .. } if source.kind() != ErrorKind::AddrNotAvailable => ExitCode::Missing,
            Error::Folder { .. } | Error::Listen { .. } | Error::ShortToken(_) | Error::TokenCharacter(_) => {
                ExitCode::Usage
            }
            Error::Start(_) => ExitCode::Internal,
        }
    }
}

/// The pause between two checks for runs without a one-line answer.
const ANSWER_INTERVAL: Duration = Duration::from_secs(2);

/// Computes the missing one-line answers of runs whenever a client has read the list; never returns.
async fn compute_answers_in_background(shared: Arc<SharedData>) {
    loop {
        tokio::time::sleep(ANSWER_INTERVAL).await;
        if shared.overviews.take_list_read_flag() {
            let shared = shared.clone();
            let _ = tokio::task::spawn_blocking(move || compute_pending_answers(&shared)).await;
        }
    }
}

/// Computes the missing answers, for the newest runs first. Stops as soon as a run is in progress.
fn compute_pending_answers(shared: &SharedData) {
    while let Ok(runs) = shared.overviews.list(&shared.folder) {
        if runs.iter().any(|run| run.state().is_running()) {
            return;
        }
        let Some(next) = runs.iter().find(|run| run.is_answer_pending()) else { return };
        let answer = catch_unwind(AssertUnwindSafe(|| compute_answer(shared, next)));
        let answer = answer.unwrap_or_else(|_| "could not be analysed; this is a fault of fsarena".into());
        let _ = next.answer.set(answer);
    }
}

/// The answer of a run in one line, or the error.
fn compute_answer(shared: &SharedData, run: &Overview) -> String {
    let record = fsarena_store::read(&run.entry.dir).map_err(|error| error.to_string());
    match record.and_then(shared.analysis.analyse_run) {
        Ok(report) => report.one_line_answer(),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_is_ignored_under_nohup() {
        assert!(ignores_hangup("Name:\tfsarena\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("Name:\tfsarena\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup(""));
    }
}
