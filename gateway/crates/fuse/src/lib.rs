//! A mount: the bucket's objects as files, through the kernel's FUSE.
//!
//! A thin frontend, as HTTP is. `kernel` takes the kernel's requests on a few threads and hands
//! each to `files`, which uses the engine's types and knows no kernel. A request that memory can
//! answer is answered on the thread that took it; every other one is answered by a task.
//!
//! ```text
//!  program ── kernel ──/dev/fuse── kernel.rs ── files.rs ─┬─ nodes        the nodes that the kernel knows
//!             pages, names           dispatch   deadline  │  ├─ pages       the version whose pages the kernel may keep
//!                                                         │  └─ file_draft  the draft of a file, and its handles
//!                                                         ├─ folder       names, page by page
//!                                                         ├─ Engine       look_up, list, open, read_at
//!                                                         └─ Writers      write_at, commit, rename, remove
//! ```
//!
//! # The life of a read
//!
//! The kernel looks up each segment of a path (`Files::look_up`). The engine says what a name is,
//! and never lists a parent for it. `open` pins the version that the key has then; every byte read
//! through the handle is of that version. `read` (`files/read`) asks the engine for the range. If
//! the range lies in one chunk, the chunk's bytes go to the kernel without a copy; else they are
//! joined once.
//!
//! # The life of a write
//!
//! `open` for writing, or `create`, gives the handle a `Writer` of the write path: from then on all
//! readers on this mount read the draft (`files/draft`). `write` puts bytes into it
//! (`files/write`), a `close` commits it. `files/change` creates, removes and renames names.
//!
//! # Versions
//!
//! The kernel's page cache belongs to the node, not to the handle. `nodes/pages` ensures that it never
//! holds pages of two versions (ADR 0010).
//!
//! # Endings
//!
//! Every request is answered within one deadline, if need be with an error. When the mount goes,
//! all waiting requests are answered at once: a program that waits for a file system cannot be
//! killed.

#![cfg(target_os = "linux")]

mod attr;
mod errno;
mod files;
mod first_mount;
mod folder;
mod handle_users;
mod handles;
mod kernel;
mod lookup_backoff;
mod metrics;
mod mount_point;
mod nodes;
mod session;
mod settings;
mod xattr;

pub use first_mount::first_mount;
pub use metrics::Metrics;
pub use mount_point::{MountPointProblem, check_mount_point};
pub use nodes::numbers::NumberTable;
pub use session::{MountError, MountSession, mount};
pub use settings::{Access, AttributeUse, Settings, WriteSettings};
