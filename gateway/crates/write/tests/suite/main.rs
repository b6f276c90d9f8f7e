//! The write path on the engine, with a fake bucket and a spool of its own.

mod attributes;
mod copied;
mod doubted;
mod emptied;
mod engine;
mod events;
mod folders;
mod lost;
mod markers;
mod marks;
mod metrics;
mod model;
mod near;
mod near_model;
mod observed;
mod order;
mod read_only;
mod refused;
mod restart;
mod stuck;
mod support;
mod time;
mod tried;
mod unlinked;
mod unsent;
mod waits;
