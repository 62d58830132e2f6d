//! Listening, answering, ending.

use crate::guard::{Guard, SHORTEST_TOKEN};
use crate::state::{Analysis, Points, Shared};
use crate::{
    error::Error, feed::Feeds, folder::Folder, overview::Overviews, renderer::Renderer, routes, verdicts,
};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{IpAddr, SocketAddr};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::{runtime::Runtime, sync::Semaphore};

/// Connections at once; more wait to be taken.
const CONNECTIONS: usize = 768;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(15);
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
            tokio::spawn(verdicts::work(shared.clone()));
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
    let free = Arc::new(Semaphore::new(CONNECTIONS));
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
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // A client that goes away in the middle of an answer is none of our faults.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)).await;
}
