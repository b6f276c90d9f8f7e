//! The write path on the engine, with a fake bucket and a spool of its own.

mod engine;
mod events;
mod folders;
mod lost;
mod markers;
mod marks;
mod model;
mod near;
mod near_model;
mod observed;
mod order;
mod restart;
mod stuck;
mod support;
mod time;
mod tried;
mod unsent;
