//! The origin server, which makes each object when squid requests it.

use crate::web::{contents, wire};
use fsarena_core::schedule::mix;
use std::{io, rc::Rc};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Noise that objects are cut from, so that nothing compresses them.
const NOISE: usize = 256 << 10;

/// Serves until its runtime ends.
pub async fn serve(listener: TcpListener, world: u64) {
    let noise: Rc<[u8]> = crate::payload::noise(mix(world, 1), NOISE).into();
    while let Ok((stream, _)) = listener.accept().await {
        let noise = noise.clone();
        tokio::task::spawn_local(async move {
            // Squid may close a connection early. If a request fails, the client counts it.
            let _ = connection(stream, world, &noise).await;
        });
    }
}

async fn connection(stream: TcpStream, world: u64, noise: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(head) = wire::head(&mut stream).await? {
        let Some(number) = head.object else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        };
        let object = contents::object(world, number);
        let caching = if object.cachable { "public, max-age=86400" } else { "no-store" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\
             Cache-Control: {caching}\r\nLast-Modified: Sat, 01 Jan 2005 00:00:00 GMT\r\n\r\n",
            // Without a date squid takes an object to be stale at once.
            jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT"),
            object.bytes
        );
        stream.write_all(answer.as_bytes()).await?;
        let (mut left, mut at) = (object.bytes as usize, mix(world, number) as usize % NOISE);
        while left > 0 {
            let now = left.min(NOISE - at);
            stream.write_all(&noise[at..at + now]).await?;
            (left, at) = (left - now, 0);
        }
        stream.flush().await?;
        if head.last {
            break;
        }
    }
    Ok(())
}
