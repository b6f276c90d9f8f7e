//! All metrics, as one OpenMetrics text.
//!
//! Some components keep a registry of their own (foyer's is behind a lock, because it registers
//! whenever a cache is opened), so the text is put together from several.

use std::fmt;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::{amplification, process};

/// The prefix of the gateway's own metrics.
pub const PREFIX: &str = "tidegate";

type WriteMetrics = Box<dyn Fn(&mut String) -> fmt::Result + Send + Sync>;

/// The registries of the process.
#[derive(Default)]
pub struct Exposition {
    parts: Vec<WriteMetrics>,
}

impl Exposition {
    /// Adds a registry.
    #[must_use]
    pub fn with(self, registry: Registry) -> Self {
        self.with_part(move |out| text::encode_registry(out, &registry))
    }

    /// Adds a function that writes metrics, without the closing `# EOF`.
    #[must_use]
    pub fn with_part(
        mut self,
        part: impl Fn(&mut String) -> fmt::Result + Send + Sync + 'static,
    ) -> Self {
        self.parts.push(Box::new(part));
        self
    }

    /// Returns the text for `/metrics`.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.parts
            .iter()
            .try_for_each(|part| part(&mut out))
            .and_then(|()| text::encode_eof(&mut out))
            .expect("writing to a string does not fail");
        out
    }
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition")
            .field("parts", &self.parts.len())
            .finish()
    }
}

/// Returns a registry with the prefix and the metrics of no component: the process, the build, and
/// the amplification (see [`amplification`]). The components register theirs after it.
pub fn registry(
    fetched: impl Fn() -> u64 + Send + Sync + 'static,
    delivered: impl Fn() -> u64 + Send + Sync + 'static,
) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    process::register(&mut registry);
    amplification::register(&mut registry, fetched, delivered);
    registry
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn several_registries_make_one_text() {
        let mut other = Registry::default();
        other.register("foyer_op", "Operations", Counter::<u64>::default());
        let exposition = Exposition::default().with(registry(|| 3, || 2)).with(other);
        let text = exposition.render();
        assert!(
            text.contains("\ntidegate_amplification_ratio 1.5\n"),
            "{text}"
        );
        assert!(text.contains("\nfoyer_op_total 0\n"), "{text}");
        assert_eq!(text.matches("# EOF\n").count(), 1);
        assert!(text.ends_with("# EOF\n"));
    }
}
