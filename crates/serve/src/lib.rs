//! A local web page over a folder of runs: list, search, open, compare, history, and the live view of a run in
//! progress. It is read-only: no request starts, changes or deletes anything.
//!
//! | who | what |
//! |---|---|
//! | `guard` | who may ask: the Host header, the token, the methods; the headers of every answer |
//! | `folder` | which runs there are, and that their files lie in the folder |
//! | `overview` | what the list knows of a run, read once for each state of its files |
//! | `state` | what all requests share, and what single runs say in a history |
//! | `verdicts` | the answers of runs in one line, worked out behind the list |
//! | `renderer` | expensive pages: once for each state, few at a time, on separate threads |
//! | `feed` | the events of a run in progress, once for all who follow it |
//! | `routes` | one file a page |

mod error;
mod feed;
mod folder;
mod guard;
mod overview;
mod renderer;
mod routes;
mod server;
mod state;
mod templates;
mod verdicts;
mod wanted;

#[cfg(test)]
mod testing;

pub use error::Error;
pub use server::{Options, Server};
pub use state::Analysis;
