//! A load: its line while it goes on, and the page of what it came to.

mod line;
mod page;

pub use line::Line;
pub use page::{of_data, of_metadata};
