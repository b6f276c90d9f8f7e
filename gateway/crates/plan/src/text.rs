//! Values in human notation: sizes, lengths of time and addresses.

mod duration;
mod hex;
mod listen;
mod network;
mod rounded_duration;
#[cfg(feature = "serde")]
pub mod serial;
mod size;
pub mod template;

pub use duration::Period;
pub use hex::hex;
pub use listen::Listen;
pub use network::Network;
pub use rounded_duration::RoundedDuration;
pub use size::ByteSize;
