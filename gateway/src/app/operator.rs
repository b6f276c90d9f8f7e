//! The operator's hold on the stores, as the admin listener takes it.

pub(super) mod pins;
pub(super) mod tiers;
