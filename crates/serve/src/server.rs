//! The server: what all requests share, and listening, answering, ending.

use crate::folder::{Folder, FoundRun, Stamp};
use crate::guard::{Guard, SHORTEST_TOKEN};
use crate::{
    feed::Feeds,
    overview::{Overviews, answer_pending_runs},
    renderer::Renderer,
    routes,
};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::{plan::Plan, record::RunRecord};
use fsarena_report::history::{HistoryQuery, Point, point};
use fsarena_report::report::Report;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::HashMap, io::ErrorKind, path::PathBuf, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::{runtime::Runtime, sync::Semaphore};

/// Connections at once; more wait to be taken.
const MAX_CONNECTIONS: usize = 768;
/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// Threads for databases and pages. Separate limits bound the work that they do at once.
const WORKERS: usize = 32;

/// Options of the server.
pub struct Options {
    /// The folder of runs.
    pub runs: PathBuf,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port; 0 for a free one.
    pub port: u16,
    /// The token; beyond loopback one is made where there is none.
    pub token: Option<String>,
    /// Names by which this machine is reached.
    pub hosts: Vec<String>,
    /// How runs are analysed.
    pub analysis: Analysis,
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    guard: Arc<Guard>,
    shared: Arc<Shared>,
}

impl Server {
    /// Opens the folder and begins to listen.
    ///
    /// # Errors
    /// Where the folder is none, the token can be guessed, or nothing can listen there.
    pub fn open(options: Options) -> Result<Server, Error> {
        if let Some(token) = options.token.as_ref().filter(|token| token.len() < SHORTEST_TOKEN) {
            return Err(Error::Token(token.len()));
        }
        let path = &options.runs;
        let folder = Folder::open(path).map_err(|source| Error::Folder { path: path.clone(), source })?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).max_blocking_threads(WORKERS).enable_all().build();
        let runtime = runtime.map_err(Error::Start)?;
        let wanted = SocketAddr::new(options.bind, options.port);
        let listening = runtime.block_on(TcpListener::bind(wanted));
        let listener = listening.map_err(|source| Error::Listen { address: wanted, source })?;
        let address = listener.local_addr().map_err(Error::Start)?;
        let guard = Arc::new(Guard::new(address.ip(), address.port(), options.hosts, options.token));
        let shared = Arc::new(Shared {
            folder,
            overviews: Overviews::default(),
            points: Points::default(),
            renderer: Renderer::new(),
            feeds: Feeds::default(),
            analysis: options.analysis,
        });
        Ok(Server { runtime, listener, address, guard, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that it asks for.
    pub fn token(&self) -> Option<&str> {
        self.guard.token()
    }

    /// The address to open in a browser, with the token where one is needed. Of a server that listens on all addresses it
    /// has a name by which others reach it.
    pub fn url(&self) -> String {
        let query = self.token().map_or(String::new(), |token| format!("?token={token}"));
        match self.guard.name().filter(|_| self.address.ip().is_unspecified()) {
            Some(name) => format!("http://{name}:{}/{query}", self.address.port()),
            None => format!("http://{}/{query}", self.address),
        }
    }

    /// Answers until SIGINT or SIGTERM. Whoever is still connected is hung up on: nothing here can be left half done.
    ///
    /// # Errors
    /// Where the system gives no signals.
    pub fn run(self) -> Result<(), Error> {
        let Server { runtime, listener, guard, shared, .. } = self;
        let ended = runtime.block_on(async move {
            let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Start)?;
            let mut terminate = signal(SignalKind::terminate()).map_err(Error::Start)?;
            let mut hangup = signal(SignalKind::hangup()).map_err(Error::Start)?;
            tokio::spawn(answer_pending_runs(shared.clone()));
            // Before anybody asks: the first list of many runs is the only one that takes a while.
            let first = shared.clone();
            tokio::task::spawn_blocking(move || drop(first.overviews.prepare(&first.folder)));
            let app = routes::app(shared, guard);
            tokio::select! {
                () = accept(listener, app) => {}
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            Ok(())
        });
        // Work on a large run would go on for seconds after the client has left.
        runtime.shutdown_background();
        ended
    }
}

/// Takes connections for ever.
async fn accept(listener: TcpListener, app: axum::Router) {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: those who go give some back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let app = app.clone();
        tokio::spawn(async move {
            answer(stream, app).await;
            drop(permit);
        });
    }
}

async fn answer(stream: TcpStream, app: axum::Router) {
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    // A client that goes away in the middle of an answer is none of our faults.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)).await;
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of runs cannot be read, or is none.
    #[error("{}: {}; `fsarena serve DIR` names the folder that holds runs", .path.display(), folder_error_words(.source))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Nothing can listen there.
    #[error("{address}: {source}{}", listen_hint(.source))]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// The system's word.
        source: std::io::Error,
    },
    /// A token that can be guessed.
    #[error("the token has {0} characters; give one of at least {MIN}, or none to have one made", MIN = SHORTEST_TOKEN)]
    Token(usize),
    /// The system refused threads, timers or signals.
    #[error("the server could not start: {0}")]
    Start(std::io::Error),
}

fn folder_error_words(source: &std::io::Error) -> String {
    match source.kind() {
        ErrorKind::NotADirectory => "not a folder".into(),
        _ => source.to_string(),
    }
}

fn listen_hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::AddrInUse => {
            "; another program listens there: end it, or take another --port, or none for a free one"
        }
        ErrorKind::PermissionDenied => "; ports below 1024 are root's: take another --port",
        ErrorKind::AddrNotAvailable => "; --bind takes an address of this machine",
        _ => "",
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Listen { source, .. } if source.kind() != ErrorKind::AddrNotAvailable => ExitCode::Missing,
            Error::Folder { .. } | Error::Listen { .. } | Error::Token(_) => ExitCode::Usage,
            Error::Start(_) => ExitCode::Internal,
        }
    }
}

/// How a run is analysed, which is the caller's to say: the page shows the report that the command line makes.
pub struct Analysis {
    /// Analyses a run.
    pub report: fn(RunRecord) -> Result<Report, String>,
    /// The metric that answers for the work of a plan.
    pub metric: fn(&Plan) -> String,
}

/// What all requests share.
pub struct Shared {
    /// The folder of runs.
    pub folder: Folder,
    /// What the list knows of them.
    pub overviews: Overviews,
    /// What single runs say in histories.
    pub points: Points,
    /// Who makes pages.
    pub renderer: Renderer,
    /// Who follows runs in progress.
    pub feeds: Feeds,
    /// How runs are analysed.
    pub analysis: Analysis,
}

/// A handle of it.
pub type State = axum::extract::State<Arc<Shared>>;

/// How many answers are kept.
const MAX_POINTS: usize = 20_000;

/// What single runs say.
#[derive(Default)]
pub struct Points {
    kept: Mutex<HashMap<(String, HistoryQuery), KeptPoint>>,
}

/// What a run in some state said.
type KeptPoint = (Stamp, Option<Point>);

impl Points {
    /// What a run says; nothing where it has no such variant or cannot be read any more. Blocks the thread.
    ///
    /// # Errors
    /// Where it knows no such metric, in words.
    pub fn get(&self, found: &FoundRun, asked: &HistoryQuery) -> Result<Option<Point>, String> {
        let key = (found.id.clone(), asked.clone());
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, point)) = lock().get(&key).filter(|(stamp, _)| *stamp == found.stamp) {
            return Ok(point.clone());
        }
        let Ok(record) = fsarena_store::read(&found.run) else { return Ok(None) };
        let point = point(&record, asked).map_err(|error| error.to_string())?;
        let mut kept = lock();
        if kept.len() >= MAX_POINTS {
            kept.clear();
        }
        kept.insert(key, (found.stamp.clone(), point.clone()));
        Ok(point)
    }
}
