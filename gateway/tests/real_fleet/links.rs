//! The way of each gateway to NATS: it is cut and mended while the other gateways keep theirs.

use std::net::SocketAddr;

use crate::World;
use crate::door::Door;

/// The state of a way to NATS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LinkState {
    Whole,
    /// Its connection has ended, and new ones are refused.
    Cut,
    /// Its connection stands, and nothing passes.
    Silent,
}

/// A way to NATS, whole at first.
#[derive(Debug)]
pub(super) struct Link {
    door: Door,
    pub(super) state: LinkState,
}

impl Link {
    pub(super) async fn to(nats: SocketAddr) -> Self {
        Self {
            door: Door::to(nats).await,
            state: LinkState::Whole,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.door.address()
    }
}

impl World {
    /// Cuts one gateway off, or has nothing pass on its connection.
    pub(super) fn cut(&mut self, nth: usize, state: LinkState) {
        let link = &mut self.links[nth];
        match state {
            LinkState::Whole => link.door.open(),
            LinkState::Cut => link.door.shut(),
            LinkState::Silent => link.door.stick(),
        }
        link.state = state;
    }

    /// Mends the way of one gateway. One whose connection was cut has noticed that by then.
    pub(super) async fn mend(&mut self, nth: usize) {
        if self.links[nth].state == LinkState::Cut {
            let connected = ["tidegate_fleet_connected "];
            let gateway = &self.gateways[nth];
            self.until(|| async { gateway.metric(&connected).await == 0 })
                .await;
        }
        self.cut(nth, LinkState::Whole);
    }

    /// Mends all that is cut.
    pub(super) async fn mend_all(&mut self) {
        if self.nats.is_none() {
            self.start_nats().await;
        }
        for nth in 0..self.links.len() {
            self.mend(nth).await;
        }
    }
}
