//! Reads the heads of HTTP/1.1 messages, for the clients and the origin server of squid on loopback.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Longest head in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The head of a request or of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status of a response.
    pub status: Option<u16>,
    /// The number of the object that a request names.
    pub object: Option<u64>,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Whether `X-Cache` states a hit.
    pub hit: bool,
    /// Whether the connection ends with this message.
    pub last: bool,
}

/// Reads a head. Returns `None` if the other side has closed the connection.
///
/// # Errors
/// If the head is incomplete, too long, or not HTTP.
pub async fn read_head(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Head>> {
    let mut text = Vec::new();
    loop {
        // Limit the bytes, because a line without an end would fill the memory.
        let read = (&mut *stream)
            .take((MAX_HEAD_BYTES + 1 - text.len()) as u64)
            .read_until(b'\n', &mut text)
            .await?;
        match read {
            0 if text.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if text.len() > MAX_HEAD_BYTES => return Err(io::Error::other("a head of more than 16 KiB")),
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
        runtime.block_on(read_head(&mut BufReader::new(bytes)))
    }

    #[test]
    fn heads_of_requests_and_responses_are_parsed() {
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
        assert!(runtime.block_on(super::read_head(&mut endless)).unwrap_err().to_string().contains("16 KiB"));
    }
}
