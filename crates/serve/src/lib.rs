//! A local web page over a folder of runs: list, search, open, compare, history, and the live view of a run in
//! progress. It is read-only: no request starts, changes or deletes anything.
//!
//! | module | what it does |
//! |---|---|
//! | `guard` | which requests are allowed: the Host header, the token, the methods; the headers of every answer |
//! | `folder` | which runs there are, and that their files lie in the folder |
//! | `overview` | what the list knows of a run, read once for each state of its files; the answers of runs in one line |
//! | `list_query` | the search and the sort order of the list |
//! | `server` | what all requests share; listening and ending |
//! | `renderer` | expensive pages: once for each state, few at a time, on separate threads |
//! | `feed` | the events of a run in progress, read once for all clients that follow it |
//! | `routes` | the pages and files that can be requested |

mod feed;
mod folder;
mod guard;
mod list_query;
mod overview;
mod renderer;
mod routes;
mod server;
mod templates;

#[cfg(test)]
mod testing;

pub use server::{Analysis, Error, Options, Server};
