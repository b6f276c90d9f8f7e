//! The meaning of an HTTP request: its route, conditions, ranges, codings, digests and token.

mod coding;
pub mod digest;
mod header_search;
mod log_rate;
pub mod precondition;
mod ranges;
pub mod route;
mod secret;
mod token;
pub mod wrong_tokens;

pub use coding::{AcceptedCodings, Coding};
pub use header_search::has_header;
pub use log_rate::LogRate;
pub use ranges::{MAX_RANGES, Ranges, Selection};
pub use secret::is_same_secret;
pub use token::{MIN_TOKEN, ShortToken, Token};
