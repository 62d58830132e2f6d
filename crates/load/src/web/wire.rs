//! HTTP/1.1 as far as a client, squid and an origin on loopback need it.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// The longest head in bytes.
const LONGEST: usize = 16 << 10;

/// The head of a request or of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status of an answer.
    pub status: Option<u16>,
    /// The number of the object that a request names.
    pub object: Option<u64>,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Whether `X-Cache` says that it was a hit.
    pub hit: bool,
    /// Whether the connection ends with this message.
    pub last: bool,
}

/// Reads a head. Returns none if the other side has closed the connection.
///
/// # Errors
/// If the head is incomplete, too long, or not HTTP.
pub async fn head(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Head>> {
    let mut text = Vec::new();
    loop {
        // A line without an end would fill the memory.
        let read =
            (&mut *stream).take((LONGEST + 1 - text.len()) as u64).read_until(b'\n', &mut text).await?;
        match read {
            0 if text.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if text.len() > LONGEST => return Err(io::Error::other("a head of more than 16 KiB")),
            _ => {}
        }
        if text.ends_with(b"\n\n") || text.ends_with(b"\n\r\n") {
            return Head::read(&text).map(Some).map_err(io::Error::other);
        }
    }
}

impl Head {
    fn read(text: &[u8]) -> Result<Head, httparse::Error> {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = if text.starts_with(b"HTTP/") {
            let mut answer = httparse::Response::new(&mut fields);
            answer.parse(text)?;
            Head { status: answer.code, ..Head::default() }
        } else {
            let mut request = httparse::Request::new(&mut fields);
            request.parse(text)?;
            let path = request.path.filter(|_| request.method == Some("GET"));
            Head { object: path.and_then(|path| path.strip_prefix("/o/")?.parse().ok()), ..Head::default() }
        };
        for field in fields.iter().take_while(|field| **field != httparse::EMPTY_HEADER) {
            let value = str::from_utf8(field.value).unwrap_or_default();
            match field.name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.parse().ok(),
                "x-cache" => head.hit = value.starts_with("HIT"),
                "connection" => head.last = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        Ok(head)
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
        assert_eq!((head.status, head.length, head.hit, head.last), (Some(200), Some(17), true, true));
        let request = read(b"GET /o/42 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().unwrap();
        assert_eq!((request.object, request.last), (Some(42), false));
        assert_eq!(read(b"GET /other HTTP/1.1\r\n\r\n").unwrap().unwrap().object, None);
        assert_eq!(read(b"").unwrap(), None);
        assert!(read(b"HTTP/1.1 200 OK\r\nX: y").is_err());
        let mut endless = BufReader::new(tokio::io::repeat(b'x'));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(super::head(&mut endless)).unwrap_err().to_string().contains("16 KiB"));
    }
}
