//! A mount: the bucket's objects as files, through the kernel's FUSE.
//!
//! A thin frontend, as HTTP is. `kernel` takes the kernel's requests on a few threads and hands each
//! to `files`, which speaks the engine's types and knows no kernel; what memory can answer is
//! answered on the thread that took the request, everything else by a task.
//!
//! ```text
//!  program ── kernel ──/dev/fuse── kernel.rs ── files.rs ─┬─ nodes     numbers and names of what the kernel knows
//!             pages, names           dispatch   deadline  ├─ pages     which version's pages the kernel may keep
//!                                                         ├─ folder    names, page by page
//!                                                         ├─ slot      what is being written of a file, and by whom
//!                                                         ├─ Engine    look_up, list, open, read_at
//!                                                         └─ Writers   write_at, commit, rename, remove
//! ```
//!
//! # The life of a read
//!
//! The kernel looks up each segment of a path (`Files::look_up`): what a name means is asked of the
//! engine, which never lists a parent. `open` pins the version that the key has then; every byte
//! read through the handle is of that version. `read` asks the engine for the range. Where that lies
//! in one chunk, the chunk's bytes go to the kernel without being copied first; else they are put
//! together once.
//!
//! # The life of a write
//!
//! `open` for writing, or `create`, gives the handle a `Writer` of the engine: from then on everybody
//! on this mount reads the draft (`files/draft`). `write` puts bytes into it (`files/write`), a
//! `close` commits it. `files/change` is what happens to names.
//!
//! # Versions
//!
//! The kernel's page cache belongs to the node, not to the handle. `pages` sees to it that it never
//! holds pages of two versions; ADR 0010 says how and why.
//!
//! # Endings
//!
//! Every request is answered within one deadline, by an error if need be, and all that wait are
//! answered at once when the mount goes: a program that waits for a file system cannot be killed.

mod attr;
mod beneath;
mod errno;
mod files;
mod folder;
mod handles;
mod kernel;
mod late;
mod metrics;
mod nodes;
mod pages;
mod process;
mod session;
mod settings;
mod slot;
mod xattr;

pub use beneath::{Beneath, beneath};
pub use metrics::Metrics;
pub use session::{MountError, Mounted, mount};
pub use settings::{Access, Modified, Settings, Writable};
