//! The HTTP frontend over sockets, on the real engine and stores with an origin in memory.

mod answers;
mod change;
mod gateway;
mod partial;
mod ranges;
mod variants;
mod write;
