//! HTTP/1.1 as far as a client, squid and an origin on loopback need it.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// The longest head that is read.
const LONGEST: usize = 16 << 10;

/// The head of a message: its first line, and what was looked for in the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `GET /o/17 HTTP/1.1`, `HTTP/1.1 200 OK`.
    pub first: String,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Whether `X-Cache` says that it was a hit.
    pub hit: bool,
    /// Whether the connection ends with this message.
    pub last: bool,
}

/// Reads a head; none where the other side has hung up.
///
/// # Errors
/// Where it is broken off, too long, or no text.
pub async fn head(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Head>> {
    let mut head = Head::default();
    let (mut line, mut total) = (String::new(), 0);
    loop {
        line.clear();
        // A line without an end would fill the memory.
        let read = (&mut *stream).take((LONGEST + 1 - total) as u64).read_line(&mut line).await?;
        total += read;
        match read {
            0 if total == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if total > LONGEST => return Err(io::Error::other("a head of more than 16 KiB")),
            _ => {}
        }
        let text = line.trim_end();
        match text {
            "" if head.first.is_empty() => {}
            "" => return Ok(Some(head)),
            text if head.first.is_empty() => head.first = text.to_string(),
            text => head.field(text),
        }
    }
}

impl Head {
    fn field(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            self.length = value.parse().ok();
        } else if name.eq_ignore_ascii_case("x-cache") {
            self.hit = value.starts_with("HIT");
        } else if name.eq_ignore_ascii_case("connection") {
            self.last = value.eq_ignore_ascii_case("close");
        }
    }

    /// The status of an answer.
    pub fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }

    /// The number of the object that a request asks for.
    pub fn object(&self) -> Option<u64> {
        self.first.strip_prefix("GET /o/")?.split(' ').next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Option<Head>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(head(&mut BufReader::new(bytes)))
    }

    #[test]
    fn heads_are_read() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\nX-Cache: HIT from fsarena\r\nConnection: close\r\n\r\nbody";
        let head = read(answer).unwrap().unwrap();
        assert_eq!((head.status(), head.length, head.hit, head.last), (Some(200), Some(17), true, true));
        let request = read(b"GET /o/42 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().unwrap();
        assert_eq!((request.object(), request.last), (Some(42), false));
        assert_eq!(read(b"GET /other HTTP/1.1\r\n\r\n").unwrap().unwrap().object(), None);
        assert_eq!(read(b"").unwrap(), None);
        assert!(read(b"HTTP/1.1 200 OK\r\nX: y").is_err());
        let mut endless = BufReader::new(tokio::io::repeat(b'x'));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(super::head(&mut endless)).unwrap_err().to_string().contains("16 KiB"));
    }
}
