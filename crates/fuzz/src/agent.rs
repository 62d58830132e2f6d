//! Targets for the agent protocol: requests to an agent or a guest, and the lines that an agent writes.

use crate::support::assert_sensible;
use fsarena_guest::config::GuestConfig;
use fsarena_run::protocol::{Guest, Line, Request};
use fsarena_sys::process_output;
use serde::{Serialize, de::DeserializeOwned};
use std::io::Cursor;

/// Parses the input as each kind of request.
pub fn request(bytes: &[u8]) {
    round_trip::<Request>(bytes);
    round_trip::<Guest>(bytes);
    round_trip::<GuestConfig>(bytes);
}

/// Parses each line of the input as an agent's line.
pub fn lines(bytes: &[u8]) {
    for line in process_output::lines(Cursor::new(bytes.to_vec())) {
        round_trip::<Line>(line.as_bytes());
        // The message quotes a long line only in part, so that it may not be longer than for a line of 200 bytes.
        let _ = Line::read(&line)
            .map_err(|error| assert_sensible(&error, &line.as_bytes()[..line.len().min(200)]));
    }
}

/// Checks that a parsed value has the same JSON after it was written and parsed again.
fn round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    match serde_json::from_slice::<T>(bytes) {
        Err(error) => assert_sensible(&error, bytes),
        Ok(value) => {
            let text = serde_json::to_string(&value).expect("it is JSON");
            let again: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(serde_json::to_string(&again).expect("it is JSON"), text);
        }
    }
}
