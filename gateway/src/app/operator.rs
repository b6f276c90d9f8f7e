//! The operator's hold on the stores and the configuration, as the admin listener takes it.

pub(super) mod console;
pub(super) mod pins;
pub(super) mod tiers;
