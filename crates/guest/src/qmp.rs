//! Asking a running QEMU, in the protocol that it speaks with programs (QMP): a line of JSON each way.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Error, IoSlice, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::{mem::MaybeUninit, os::unix::net::UnixStream, time::Duration};

/// How long QEMU may think about an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A QEMU that answers.
pub struct Monitor(BufReader<UnixStream>);

impl Monitor {
    /// Greets the QEMU at the other end.
    ///
    /// # Errors
    /// Where there is none that speaks the protocol.
    pub fn greet(stream: UnixStream) -> Result<Monitor> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut monitor = Monitor(BufReader::new(stream));
        if monitor.line()?.get("QMP").is_none() {
            return Err(Error::other("No QMP greeting from QEMU"));
        }
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Has a command executed. What it returns.
    ///
    /// # Errors
    /// What QEMU says against it.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let words = json!({ "execute": command, "arguments": arguments });
        self.0.get_mut().write_all(format!("{words}\n").as_bytes())?;
        self.answer()
    }

    /// Hands over a file under a name that later commands know.
    ///
    /// # Errors
    /// What QEMU says against it.
    pub fn hand_over(&mut self, name: &str, file: BorrowedFd) -> Result<()> {
        let words = format!("{}\n", json!({ "execute": "getfd", "arguments": { "fdname": name } }));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        if !beside.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(Error::other("no room for a file descriptor"));
        }
        let stream = self.0.get_ref().as_fd();
        let sent = sendmsg(stream, &[IoSlice::new(words.as_bytes())], &mut beside, SendFlags::empty())?;
        if sent < words.len() {
            return Err(Error::other("QEMU took only a part of a QMP command"));
        }
        self.answer().map(drop)
    }

    /// Reads QEMU's next return value. Skips events.
    fn answer(&mut self) -> Result<Value> {
        loop {
            let mut line = self.line()?;
            if let Some(error) = line.get("error") {
                let words = error.get("desc").and_then(Value::as_str).unwrap_or("no reason");
                return Err(Error::other(format!("QEMU: {words}")));
            }
            if let Some(returned) = line.get_mut("return") {
                return Ok(returned.take());
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(Error::other("QEMU closed its QMP connection"));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for QEMU that answers each line with the next of these.
    fn answering(words: &'static [&'static str]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut asked = BufReader::new(theirs.try_clone().unwrap()).lines();
            for (number, word) in words.iter().enumerate() {
                if number > 0 && asked.next().is_none() {
                    return;
                }
                (&theirs).write_all(word.as_bytes()).unwrap();
            }
        });
        ours
    }

    const HELLO: &str = "{\"QMP\":{}}\n";

    #[test]
    fn events_are_passed_over_and_errors_are_told() {
        let mut monitor = Monitor::greet(answering(&[
            HELLO,
            "{\"return\":{}}\n",
            "{\"event\":\"STOP\"}\n{\"return\":{\"status\":\"active\"}}\n",
            "{\"error\":{\"desc\":\"no\"}}\n",
        ]))
        .unwrap();
        assert_eq!(monitor.ask("query-migrate", json!({})).unwrap()["status"], "active");
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(monitor.hand_over("state", file.as_fd()).unwrap_err().to_string(), "QEMU: no");
        assert!(monitor.ask("quit", json!({})).is_err());
    }

    #[test]
    fn whoever_does_not_greet_is_no_qemu() {
        assert!(Monitor::greet(answering(&["{}\n"])).is_err());
        assert!(Monitor::greet(answering(&["hello\n"])).is_err());
    }
}
