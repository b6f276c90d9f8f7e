//! The keys that a running gateway takes from a configuration that is read again.
//!
//! This is the one table of them: a reload, the console and `docs/CONFIGURATION.md` follow it.

/// The sections and keys that are applied while the gateway runs, without the numbers of lists. A section stands for all
/// keys in it.
const LIVE: [&str; 14] = [
    "access",
    "admin.listen",
    "cache.budget",
    "cache.disk.capacity",
    "cache.memory",
    "hook",
    "http",
    "limits",
    "log.access",
    "log.level",
    "origin",
    "profile",
    "route",
    "tls",
];

/// Returns whether a key is applied while the gateway runs: `cache.disk[0].capacity`. Every other one needs a restart.
#[must_use]
pub fn is_live(key: &str) -> bool {
    let key = without_numbers(key);
    let is_in = |live: &str| {
        let rest = key.strip_prefix(live);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    LIVE.into_iter().any(is_in)
}

/// Returns a key without the numbers of its lists: `cache.disk.capacity`.
fn without_numbers(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    let mut rest = key;
    while let Some((before, number)) = rest.split_once('[') {
        text.push_str(before);
        rest = number.split_once(']').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_applied_while_it_runs() {
        for (key, live) in [
            ("route[0].path", true),
            ("profile.web.ttl", true),
            ("access.members.tokens.alice", true),
            ("limits.fair.requests", true),
            ("tls.certificates[0].key.file", true),
            ("cache.memory", true),
            ("cache.budget", true),
            ("cache.chunk", false),
            ("cache.disk[1].capacity", true),
            ("cache.disk[1].path", false),
            ("log.level", true),
            ("log.format", false),
            ("http.listen[0]", true),
            ("admin.listen", true),
            ("admin.listen.tls", true),
            ("admin.token", false),
            ("admin.listened", false),
            ("origin[0].bucket", true),
            ("hook[0].url", true),
            ("routes", false),
        ] {
            assert_eq!(is_live(key), live, "{key}");
        }
    }
}
