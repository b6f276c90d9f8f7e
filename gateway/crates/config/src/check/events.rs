//! Subscriptions to the events of buckets.

use super::super::Config;
use super::super::problem::{KeyPath, suggestion};
use super::super::section::{Events, EventsKind, NatsLogin, Route};
use super::Check;
use tidegate_plan::{Bucket, ObjectKey, Period};

/// The shortest and the longest time between two heartbeats.
const MIN_EVERY: Period = Period::secs(1);
const MAX_EVERY: Period = Period::secs(3600);

/// The longest name: it stands in paths, metrics and keys.
const MAX_NAME: usize = 64;

/// The keys that only one kind reads.
const WEBHOOK_KEYS: [&str; 1] = ["topics"];
const NATS_KEYS: [&str; 4] = ["servers", "subject", "stream", "consumer"];

impl Check<'_, '_> {
    pub(super) fn events(&mut self, config: &Config) {
        for (index, events) in config.events.iter().enumerate() {
            let path = KeyPath::nth("events", index);
            self.events_name(&path, &config.events[..index], &events.name);
            self.events_origin(&path, config, &events.origin);
            self.events_heartbeat(&path, events);
            match events.kind {
                EventsKind::Webhook => self.webhook(&path, events),
                EventsKind::Nats => self.nats(&path, events),
            }
        }
        for (index, route) in config.route.iter().enumerate() {
            self.events_of_route(config, &KeyPath::nth("route", index), route);
        }
    }

    /// Reports a route whose events do not exist, or are those of another bucket.
    fn events_of_route(&mut self, config: &Config, path: &KeyPath, route: &Route) {
        let Some(name) = &route.events else { return };
        let path = path.key("events");
        let Some(events) = config.events.iter().find(|one| one.name == *name) else {
            let hint = suggestion(name, config.events.iter().map(|one| one.name.as_str()));
            let message = format!("there are no events `{}`{hint}", name.escape_debug());
            self.error(&path, message);
            return;
        };
        let bucket = |name: &str| {
            let origin = config.origin.iter().find(|one| one.name == name)?;
            Some(Bucket::new(origin.endpoint.as_deref(), &origin.bucket))
        };
        let (of_events, of_route) = (bucket(&events.origin), bucket(&route.origin));
        if of_events.is_some() && of_route.is_some() && of_events != of_route {
            let message = format!(
                "the events `{name}` are those of the origin `{}`, which is another bucket",
                events.origin
            );
            self.error(&path, message);
        }
        if events.heartbeat.is_none() {
            let message = format!(
                "the events `{name}` have no heartbeat, so they confirm nothing: `ttl` stands"
            );
            self.warn(&path, message);
        }
    }

    fn events_name(&mut self, path: &KeyPath, before: &[Events], name: &str) {
        let path = path.key("name");
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        if self.document.has(&path) && (name.is_empty() || !name.bytes().all(fits)) {
            let message = "may have lower-case letters, digits, `-` and `_`, and needs one of them";
            self.error(&path, message);
        }
        if name.len() > MAX_NAME {
            self.error(&path, format!("must have at most {MAX_NAME} characters"));
        }
        let first = before.iter().position(|one| one.name == name);
        if let Some(first) = first.filter(|_| !name.is_empty()) {
            let name = name.escape_debug();
            let message = format!("`{name}` is already the name of `events[{first}]`");
            self.error(&path, message);
        }
    }

    fn events_origin(&mut self, path: &KeyPath, config: &Config, name: &str) {
        let path = path.key("origin");
        let mut names = config.origin.iter().map(|one| one.name.as_str());
        if self.document.has(&path) && !names.any(|one| one == name) {
            let names = config.origin.iter().map(|one| one.name.as_str());
            let hint = suggestion(name, names);
            let message = format!("there is no origin `{}`{hint}", name.escape_debug());
            self.error(&path, message);
        }
    }

    fn events_heartbeat(&mut self, path: &KeyPath, events: &Events) {
        let path = path.key("heartbeat");
        let Some(heartbeat) = &events.heartbeat else {
            return;
        };
        if heartbeat.every < MIN_EVERY || heartbeat.every > MAX_EVERY {
            let message = format!("must be from {MIN_EVERY} to {MAX_EVERY}");
            self.error(&path.key("every"), message);
        }
        let key = format!("{}heartbeat-{}", heartbeat.prefix, events.name);
        if let Err(error) = ObjectKey::new(&key) {
            self.error(&path.key("prefix"), format!("makes no key: {error}"));
        }
    }

    fn webhook(&mut self, path: &KeyPath, events: &Events) {
        self.token(&path.key("token"), events.token.as_ref());
        let has = |key: &str| self.document.has(&path.key(key));
        if !has("token") && !has("topics") {
            self.error(
                path,
                "admits no message: it needs `token`, or `topics` of SNS",
            );
        }
        for (index, topic) in events.topics.iter().enumerate() {
            let parts: Vec<_> = topic.split(':').collect();
            let is_topic = matches!(&parts[..], ["arn", _, "sns", region, account, name]
                if ![region, account, name].iter().any(|part| part.is_empty()));
            if !is_topic {
                let topic = topic.escape_debug();
                let message = format!(
                    "`{topic}` is no ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:media"
                );
                self.error(&path.key("topics").index(index), message);
            }
        }
        self.without_effect(path, &NATS_KEYS, "webhook");
        // The token is the webhook's own.
        let login = NatsLogin::KEYS.into_iter().filter(|key| *key != "token");
        self.without_effect(path, &login.collect::<Vec<_>>(), "webhook");
    }

    fn nats(&mut self, path: &KeyPath, events: &Events) {
        for key in ["servers", "subject"] {
            if !self.document.has(&path.key(key)) {
                self.error(path, format!("`nats` needs `{key}`"));
            }
        }
        if events.servers.is_empty() && self.document.has(&path.key("servers")) {
            self.error(&path.key("servers"), "is empty");
        }
        self.nats_servers(&path.key("servers"), &events.servers);
        self.nats_names(path, events);
        self.nats_login(path, events.login());
        self.without_effect(path, &WEBHOOK_KEYS, "nats");
    }

    /// Checks the addresses of NATS servers.
    pub(super) fn nats_servers(&mut self, path: &KeyPath, servers: &[String]) {
        for (index, server) in servers.iter().enumerate() {
            let authority = ["nats://", "tls://"]
                .iter()
                .find_map(|scheme| server.strip_prefix(scheme));
            let is_server = authority.is_some_and(|rest| {
                !rest.is_empty()
                    && !rest.contains(['/', '@', '?', '#'])
                    && !rest.contains(char::is_whitespace)
            });
            if !is_server {
                // It may hold a password, so that it is not shown.
                let message = "must be nats://host:port or tls://host:port; credentials are keys of their own";
                self.error(&path.index(index), message);
            }
        }
    }

    /// Checks that there is one way to authenticate: `credentials`, `user` with `password`, or `token`.
    pub(super) fn nats_login(&mut self, path: &KeyPath, login: NatsLogin<'_>) {
        let ways = [
            ("credentials", login.credentials.is_some()),
            ("user", login.user.is_some()),
            ("token", login.token.is_some()),
        ];
        let given: Vec<_> = ways.iter().filter(|(_, is_given)| *is_given).collect();
        if let [(first, _), (second, _), ..] = given[..] {
            let message = format!("stands beside `{first}`; one of them is enough");
            self.error(&path.key(second), message);
        }
        if login.user.is_some() != login.password.is_some() {
            self.error(path, "`user` and `password` go together");
        }
    }

    /// Checks names that become parts of subjects.
    fn nats_names(&mut self, path: &KeyPath, events: &Events) {
        let is_token = |text: &str| is_word(text) && !text.contains(['.', '/', '\\']);
        for (key, text, is_right) in [
            (
                "subject",
                &events.subject,
                &is_word as &dyn Fn(&str) -> bool,
            ),
            ("stream", &events.stream, &is_token),
            ("consumer", &events.consumer, &is_token),
        ] {
            if let Some(text) = text
                && !is_right(text)
            {
                let message = format!(
                    "`{}` is no name of NATS without wildcards",
                    text.escape_debug()
                );
                self.error(&path.key(key), message);
            }
        }
        if events.consumer.is_some() && events.stream.is_none() {
            self.warn(&path.key("consumer"), "does nothing without `stream`");
        }
    }

    fn without_effect(&mut self, path: &KeyPath, keys: &[&str], kind: &str) {
        for key in keys {
            let path = path.key(key);
            if self.document.has(&path) {
                self.warn(&path, format!("does nothing with `kind = \"{kind}\"`"));
            }
        }
    }
}

/// Returns whether a text is a subject of NATS without wildcards.
pub(super) fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '*' | '>');
    !text.is_empty() && text.chars().all(fits)
}
