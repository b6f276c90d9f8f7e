//! One load on one object.

use std::fmt;

use anyhow::Result;

use super::USUAL;
use crate::context::Context;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::wrk::{self, Load, WrkResult};

/// One load on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    /// The object's length, in KiB.
    pub(super) kib: u64,
    connections: u32,
    keep_alive: bool,
}

impl Case {
    pub(super) const fn new(kib: u64, connections: u32) -> Self {
        Self {
            kib,
            connections,
            keep_alive: true,
        }
    }

    pub(super) const fn without_keep_alive(self) -> Self {
        Self {
            keep_alive: false,
            ..self
        }
    }

    fn key(self) -> String {
        format!("hot-{}.bin", self.kib)
    }

    fn pattern(self, context: &Context) -> Pattern {
        let len = self.kib << 10;
        Pattern {
            seed: context.options.seed ^ len,
            len,
        }
    }

    /// Puts the object into the bucket, and into the folder that nginx and `bare` serve.
    pub(super) async fn put(self, context: &Context) -> Result<()> {
        let bytes = self.pattern(context).all();
        std::fs::write(context.files()?.join(self.key()), &bytes)?;
        context.bucket.put(&self.key(), bytes).await?;
        Ok(())
    }

    /// Measures one peer.
    pub(super) async fn measure(self, peer: &Peer, context: &Context) -> Result<WrkResult> {
        let load = Load {
            connections: self.connections,
            keep_alive: self.keep_alive,
            seconds: context.options.seconds.unwrap_or(3),
        };
        let path = peer.path(&self.key());
        wrk::run(peer, &path, None, self.pattern(context), load).await
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kib {
            kib if kib >= 1024 => write!(f, "{} MB", kib >> 10)?,
            kib => write!(f, "{kib} KB")?,
        }
        if self.connections != USUAL {
            write!(f, ", {} connections", self.connections)?;
        }
        if !self.keep_alive {
            write!(f, ", one request a connection")?;
        }
        Ok(())
    }
}
