//! The stores of chunks and of metadata, from outside: the contract of each, and what is there after a restart.

mod chunks;
mod meta;
mod pins;
