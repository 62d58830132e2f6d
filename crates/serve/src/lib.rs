//! A local web server for a folder of runs: it lists, searches, shows and compares runs, shows the history of a metric over runs,
//! and shows a run in progress. It is read-only: no request starts, changes or deletes anything.
//!
//! A *run* compares *variants*, such as filesystems, in *rounds*. Its directory contains a database, the plan and a log of
//! events.
//!
//! | module | what it does |
//! |---|---|
//! | `guard` | decides which requests are allowed by Host header, token and method; adds the security headers |
//! | `folder` | finds the runs in the folder, and checks that their files lie in it |
//! | `overview` | reads what the list of runs shows about each run, and again only if the run's files have changed |
//! | `list_query` | parses the search words and the sort order of the list |
//! | `state` | defines the data that all requests share, and caches the points of runs in histories |
//! | `server` | accepts connections; computes the one-line answer of each run in the background |
//! | `renderer` | renders an expensive page again only if its runs have changed, a few at a time, on separate threads |
//! | `feed` | reads the events of a run in progress, once for all clients that follow it |
//! | `routes` | serves the pages and files |
//! | `templates` | the templates of the pages |

mod feed;
mod folder;
mod guard;
mod list_query;
mod overview;
mod renderer;
mod routes;
mod server;
mod state;
mod templates;

#[cfg(test)]
mod testing;

pub use server::{Error, Options, Server};
pub use state::AnalysisFunctions;
