//! Targets for HTTP: requests to the local page, responses of services whose counters `watch` reads, and heads of messages
//! between squid and its origin.

use crate::support;
use fsarena_load::web::read_head;
use fsarena_probe::watch::CounterSpec;
use fsarena_serve::{AnalysisFunctions, Options, Server};
use fsarena_sys::kernel::SysRoot;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::{pin::pin, time::Duration};

/// The token that the server requires.
const TOKEN: &str = "a-token-for-tests";
/// The last request on a connection, after which the server closes it.
const LAST_REQUEST: &[u8] = b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// How long the target waits for the end of a response. An incomplete request or a stream of events has no end.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(40);

/// Sends the input to the server as one or more requests. Checks that the server returns no page without the token, and that
/// every response has the protective headers.
pub fn fuzz_serve(bytes: &[u8]) {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let address = ADDRESS.get_or_init(start_server);
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).expect("a time-out");
    // The server closes the connection early on a request that it refuses.
    let _ = stream.write_all(&[bytes, LAST_REQUEST].concat());
    let mut received = vec![];
    let _ = stream.read_to_end(&mut received);
    let responses = String::from_utf8_lossy(&received).to_ascii_lowercase();
    if !bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()) {
        // The input may hold several requests. No refusal repeats a part of a request, so the text stands for a response.
        assert!(!responses.contains("http/1.1 2"), "without the token: {responses}");
    }
    // Responses without a body come from hyper itself, for requests that are not HTTP, and have nothing to protect.
    let has_body = |response: &&str| !response.contains("content-length: 0\r\n");
    for response in responses.split("http/1.1 ").skip(1).filter(has_body) {
        assert!(response.contains("x-frame-options: deny"), "{response}");
        assert!(!response.starts_with("500"), "{response}");
    }
}

/// Starts a server and returns its address.
fn start_server() -> SocketAddr {
    let runs = support::temp_path("runs");
    std::fs::create_dir(&runs).expect("a directory");
    let options = Options {
        folder: runs,
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        token: Some(TOKEN.into()),
        hosts: vec![],
        analysis: AnalysisFunctions {
            analyse_run: |_| Err("no analysis".into()),
            primary_metric: |_| "elapsed".into(),
        },
    };
    let server = Server::open(options).expect("a server");
    let address = server.address();
    std::thread::spawn(move || server.run());
    address
}

/// Reads the input as the response of a service whose counters `watch` reads, and checks that the result is a finite number or
/// a short error.
pub fn fuzz_service_counters(bytes: &[u8]) {
    static RESPONSE: Mutex<Vec<u8>> = Mutex::new(vec![]);
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let response = || RESPONSE.lock().unwrap_or_else(PoisonError::into_inner);
    let address = ADDRESS.get_or_init(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]).and_then(|_| stream.write_all(&response()));
            }
        });
        address
    });
    *response() = bytes.to_vec();
    let metric = "requests_total{code=\"200\"}".to_string();
    for spec in [
        CounterSpec::Squid { address: address.to_string() },
        CounterSpec::Prometheus { address: format!("http://{address}/metrics"), metric },
    ] {
        let mut counter = spec.open(&SysRoot::host(), None, Duration::from_secs(30)).expect("a counter");
        match counter.read() {
            Ok(number) => assert!(number.is_finite() && number >= 0.0, "{number}"),
            Err(error) => {
                assert!(error.0.len() < 1000 && !error.0.contains("no whole answer"), "{}", error.0)
            }
        }
    }
}

/// Reads the heads of requests and responses until the end of the input or an error.
pub fn fuzz_message_heads(bytes: &[u8]) {
    let mut stream = tokio::io::BufReader::new(bytes);
    while let Ok(Some(head)) = poll_ready(read_head(&mut stream)) {
        let _ = (head.status, head.object_number, head.content_length, head.is_hit, head.closes_connection);
    }
}

/// The result of a future that never waits, because its input is complete.
fn poll_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the future waits although its input is complete"),
    }
}
