//! The clients of squid, which send requests at a rate or one after the other, and the origin server behind squid.

use crate::web::{self, NOISE_BYTES, RequestMix, object_noise};
use fsarena_core::schedule::mix;
use fsarena_engine::series::SeriesBuilder;
use hdrhistogram::Histogram;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Exp};
use std::cell::{Cell, RefCell};
use std::{io, net::SocketAddr, rc::Rc, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Largest number of requests in flight. Further requests wait, and their latency includes the wait.
const MAX_IN_FLIGHT: usize = 1000;
/// The length of an interval of the time series.
const INTERVAL: Duration = Duration::from_millis(100);

/// The connections of the clients, the distribution of their requests, and their counts.
pub struct SquidClients {
    /// The address of squid.
    proxy: SocketAddr,
    /// The address of the origin server behind squid.
    origin: SocketAddr,
    /// The seed of the objects.
    seed: u64,
    /// The distribution of the requested objects.
    request_mix: RequestMix,
    /// The start of the time series.
    start: Instant,
    idle_connections: RefCell<Vec<BufReader<TcpStream>>>,
    tally: RefCell<ClientTally>,
}

/// Counts and latencies of all requests.
pub struct ClientTally {
    /// Nanoseconds from the start of a request to the last byte of its answer.
    pub latency: Histogram<u64>,
    /// Nanoseconds from the due time of a request to the last byte of its answer.
    pub corrected_latency: Histogram<u64>,
    /// Number of answers from the cache.
    pub hits: u64,
    /// Bytes of objects.
    pub bytes: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// The error of the first failed request.
    pub first_error: Option<String>,
    /// The requests over time.
    pub series: SeriesBuilder,
}

impl ClientTally {
    fn empty() -> ClientTally {
        let [latency, corrected_latency] = [(); 2].map(|()| fsarena_engine::empty_histogram());
        let series = SeriesBuilder::new(INTERVAL);
        ClientTally { latency, corrected_latency, hits: 0, bytes: 0, failed: 0, first_error: None, series }
    }
}

impl SquidClients {
    /// Makes clients that have not sent a request yet.
    pub fn new(proxy: SocketAddr, origin: SocketAddr, seed: u64, request_mix: RequestMix) -> Rc<SquidClients> {
        let (idle_connections, tally) = (RefCell::default(), RefCell::new(ClientTally::empty()));
        Rc::new(SquidClients { proxy, origin, seed, request_mix, start: Instant::now(), idle_connections, tally })
    }

    /// Returns the counts of all requests so far.
    pub fn into_tally(self: Rc<SquidClients>) -> ClientTally {
        self.tally.replace(ClientTally::empty())
    }

    /// Sends requests with Poisson arrivals at a mean rate for `seconds` seconds, then waits for those in flight.
    pub async fn send_paced(self: &Rc<Self>, rate_per_s: f64, seconds: f64, seed: u64) {
        let gaps_s = Exp::new(rate_per_s).expect("a rate is above 0");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, 7));
        let mut draws = self.request_mix.start_draws(seed, 0);
        let (start, mut due_s) = (Instant::now(), gaps_s.sample(&mut rng));
        let mut in_flight = JoinSet::new();
        while due_s < seconds {
            let due = start + Duration::from_secs_f64(due_s);
            sleep_until(due).await;
            while in_flight.len() >= MAX_IN_FLIGHT {
                in_flight.join_next().await;
            }
            while in_flight.try_join_next().is_some() {}
            let lateness = Instant::now().duration_since(due);
            // Timers have a resolution of a millisecond. A larger delay is a wait of the request.
            let delay = if lateness > Duration::from_millis(2) { lateness } else { Duration::ZERO };
            let (clients, number) = (self.clone(), self.request_mix.draw_object_number(&mut draws));
            in_flight.spawn_local(async move { clients.request(number, delay).await });
            due_s += gaps_s.sample(&mut rng);
        }
        while in_flight.join_next().await.is_some() {}
    }

    /// Sends requests over `client_count` connections, each one request after the other, for `seconds` seconds.
    pub async fn send_unpaced(self: &Rc<Self>, client_count: usize, seconds: f64, seed: u64) {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        self.run_clients(client_count, |clients, client| {
            let mut draws = clients.request_mix.start_draws(seed, client);
            move |clients| (Instant::now() < end).then(|| clients.request_mix.draw_object_number(&mut draws))
        })
        .await;
    }

    /// Requests each of the first `object_count` objects once.
    pub async fn fill_cache(self: &Rc<Self>, client_count: usize, object_count: u64) {
        let next_number = Rc::new(Cell::new(0));
        self.run_clients(client_count, |_, _| {
            let next_number = next_number.clone();
            move |_| (next_number.get() < object_count).then(|| next_number.replace(next_number.get() + 1))
        })
        .await;
    }

    /// Runs clients that send requests, each of them one after the other. `start_client` returns, for the index of a
    /// client, the function that returns the number of its next object, or `None` at the end.
    async fn run_clients<N: FnMut(&SquidClients) -> Option<u64> + 'static>(
        self: &Rc<Self>,
        client_count: usize,
        start_client: impl Fn(&SquidClients, u64) -> N,
    ) {
        let mut running_clients = JoinSet::new();
        for client in 0..client_count {
            let (clients, mut next_number) = (self.clone(), start_client(self, client as u64));
            running_clients.spawn_local(async move {
                while let Some(number) = next_number(&clients) {
                    clients.request(number, Duration::ZERO).await;
                }
            });
        }
        while running_clients.join_next().await.is_some() {}
    }

    /// Requests an object and counts the result. `delay` is the time from the due time of the request to its start.
    async fn request(&self, number: u64, delay: Duration) {
        let start = Instant::now();
        let answer = timeout(REQUEST_TIMEOUT, self.send_request(number)).await;
        let elapsed = start.elapsed();
        let mut tally = self.tally.borrow_mut();
        match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok((is_hit, bytes)) => {
                tally.latency.saturating_record(elapsed.as_nanos() as u64);
                tally.corrected_latency.saturating_record((elapsed + delay).as_nanos() as u64);
                tally.series.count(self.start.elapsed(), elapsed.as_nanos() as u64, bytes);
                tally.hits += u64::from(is_hit);
                tally.bytes += bytes;
            }
            Err(error) => {
                tally.failed += 1;
                tally.first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Sends one request, on an idle connection if possible. Returns whether the answer was a hit, and its bytes.
    async fn send_request(&self, number: u64) -> io::Result<(bool, u64)> {
        let idle_connection = self.idle_connections.borrow_mut().pop();
        if let Some(stream) = idle_connection {
            match self.send_request_on(stream, number).await {
                // Squid may close an idle connection just before it is reused.
                Err(error) if is_connection_closed(&error) => {}
                result => return result,
            }
        }
        let stream = TcpStream::connect(self.proxy).await?;
        stream.set_nodelay(true)?;
        self.send_request_on(BufReader::new(stream), number).await
    }

    /// Sends one request on a connection, and reads the answer. Returns whether the answer was a hit, and its bytes.
    async fn send_request_on(&self, mut stream: BufReader<TcpStream>, number: u64) -> io::Result<(bool, u64)> {
        let origin = self.origin;
        let request = format!("GET http://{origin}/o/{number} HTTP/1.1\r\nHost: {origin}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let head = web::read_head(&mut stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let expected_bytes = web::draw_object(self.seed, number).bytes;
        if head.status != Some(200) || head.content_length != Some(expected_bytes) {
            let (status, length) = (head.status, head.content_length);
            let problem = format!("object {number} of {expected_bytes} bytes: {status:?}, {length:?} bytes");
            return Err(io::Error::other(problem));
        }
        let read_bytes = tokio::io::copy(&mut (&mut stream).take(expected_bytes), &mut tokio::io::sink()).await?;
        if read_bytes != expected_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !head.closes_connection {
            self.idle_connections.borrow_mut().push(stream);
        }
        Ok((head.is_hit, expected_bytes))
    }
}

/// Whether an error means that the other side has closed the connection.
fn is_connection_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Runs the origin server until its runtime ends.
pub async fn serve_origin(listener: TcpListener, seed: u64) {
    let noise: Rc<[u8]> = object_noise(seed).into();
    while let Ok((stream, _)) = listener.accept().await {
        let noise = noise.clone();
        tokio::task::spawn_local(async move {
            // Squid may close a connection early. If a request fails, the client counts it.
            let _ = serve_connection(stream, seed, &noise).await;
        });
    }
}

/// Answers the requests of one connection until it ends.
async fn serve_connection(stream: TcpStream, seed: u64, noise: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(head) = web::read_head(&mut stream).await? {
        let Some(number) = head.object_number else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        };
        let object = web::draw_object(seed, number);
        let cache_control = if object.is_cachable { "public, max-age=86400" } else { "no-store" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\
             Cache-Control: {cache_control}\r\nLast-Modified: Sat, 01 Jan 2005 00:00:00 GMT\r\n\r\n",
            // Without a date, squid would treat the object as stale at once.
            jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT"),
            object.bytes
        );
        stream.write_all(answer.as_bytes()).await?;
        let (mut bytes_left, mut offset) = (object.bytes as usize, mix(seed, number) as usize % NOISE_BYTES);
        while bytes_left > 0 {
            let chunk_bytes = bytes_left.min(NOISE_BYTES - offset);
            stream.write_all(&noise[offset..offset + chunk_bytes]).await?;
            (bytes_left, offset) = (bytes_left - chunk_bytes, 0);
        }
        stream.flush().await?;
        if head.closes_connection {
            break;
        }
    }
    Ok(())
}
