//! A run beside another run, or beside published figures; samples of other tools beside each other; what
//! requests cost on several services.

mod all;
mod answer;
mod compared;
mod cost;
mod order;
mod picture;
mod proxies;
mod published;
mod runs;
mod samples;
mod sets;
mod watches;

use crate::error::Error;
use fsarena_core::record::RunRecord;

pub use all::compare_all;
pub use compared::Compared;
pub use proxies::compare_services;
pub use published::compare_published;
pub use runs::compare_runs;
pub use samples::compare_samples;
pub use sets::compare_sets;
pub use watches::{compare_watches, is_watch};

/// Refuses a run of which nothing can be said to be better.
fn ranks(record: &RunRecord) -> Result<(), Error> {
    if record.plan.device.backing.ranks() { Ok(()) } else { Err(Error::RanksNothing(record.id.clone())) }
}

/// The first five names, and an ellipsis where there are more.
fn first_of(names: &[impl std::borrow::Borrow<str>], between: &str) -> String {
    const MOST: usize = 5;
    let shown: Vec<&str> = names.iter().take(MOST).map(|name| name.borrow()).collect();
    let more = if names.len() > MOST { format!("{between}…") } else { String::new() };
    format!("{}{more}", shown.join(between))
}
