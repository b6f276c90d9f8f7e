//! The secrets of a whole configuration.

use super::Secret;
use crate::{Config, EventsKind, KeyPath};

/// A secret, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret<'c> {
    /// Its key.
    pub path: KeyPath,
    /// The secret.
    pub secret: &'c Secret,
    /// Its use.
    pub usage: SecretUse,
}

/// The use of a secret, which says how long it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretUse {
    /// A client shows it, or signs links with it.
    Token,
    /// JWTs are signed with it.
    Jwt,
    /// The gateway shows it to others.
    Own,
    /// It is the key of a certificate, which is judged where both are read.
    PrivateKey,
}

impl Config {
    /// Returns every secret, with its key. Left out are those that have no effect: the token of a route that takes no
    /// writes, keys of another kind of events, and those of a fleet and of traces that are off.
    #[must_use]
    pub fn secrets(&self) -> Vec<NamedSecret<'_>> {
        let mut all = SecretList::default();
        let token = &self.admin.token;
        all.add(KeyPath::of("admin", "token"), token, SecretUse::Token);
        for (nth, origin) in self.origin.iter().enumerate() {
            let path = KeyPath::nth("origin", nth);
            all.own(path.key("secret_access_key"), &origin.secret_access_key);
            all.own(path.key("session_token"), &origin.session_token);
        }
        all.add_tls(self);
        for (nth, route) in self.route.iter().enumerate() {
            let path = KeyPath::nth("route", nth).key("write_token");
            let token = route.write_token.iter().filter(|_| route.writable);
            all.add(path, token, SecretUse::Token);
        }
        all.add_accesses(self);
        for (nth, hook) in self.hook.iter().enumerate() {
            let path = KeyPath::nth("hook", nth);
            all.table(&path.key("headers"), &hook.headers, SecretUse::Own);
            all.own(path.key("bearer"), &hook.bearer);
        }
        all.add_events(self);
        if self.trace.endpoint.is_some() {
            let headers = KeyPath::of("trace", "headers");
            all.table(&headers, &self.trace.headers, SecretUse::Own);
        }
        all.0
    }
}

#[derive(Default)]
struct SecretList<'c>(Vec<NamedSecret<'c>>);

impl<'c> SecretList<'c> {
    fn add(
        &mut self,
        path: KeyPath,
        secret: impl IntoIterator<Item = &'c Secret>,
        usage: SecretUse,
    ) {
        let one = |secret| NamedSecret {
            path: path.clone(),
            secret,
            usage,
        };
        self.0.extend(secret.into_iter().map(one));
    }

    fn own(&mut self, path: KeyPath, secret: &'c Option<Secret>) {
        self.add(path, secret, SecretUse::Own);
    }

    fn table(
        &mut self,
        path: &KeyPath,
        table: impl IntoIterator<Item = (&'c String, &'c Secret)>,
        usage: SecretUse,
    ) {
        for (name, secret) in table {
            self.add(path.key(name), [secret], usage);
        }
    }

    fn add_tls(&mut self, config: &'c Config) {
        let path = KeyPath::of("tls", "certificates");
        for (nth, one) in config.tls.certificates.iter().enumerate() {
            let path = path.index(nth).key("key");
            self.add(path, [&one.key], SecretUse::PrivateKey);
        }
        let acme = config.tls.acme.iter();
        let account = acme.filter_map(|acme| acme.external_account.as_ref());
        let path = KeyPath::of("tls", "acme").key("external_account");
        self.add(path.key("key"), account.map(|one| &one.key), SecretUse::Own);
    }

    fn add_accesses(&mut self, config: &'c Config) {
        for (name, access) in &config.access {
            let path = KeyPath::of("access", name);
            let tokens = access.tokens.iter();
            let tokens = tokens.map(|(name, token)| (name, &token.secret));
            self.table(&path.key("tokens"), tokens, SecretUse::Token);
            if let Some(signed) = &access.signed {
                let path = path.key("signed").key("keys");
                self.table(&path, &signed.keys, SecretUse::Token);
            }
            let jwt = access.jwt.iter().filter_map(|jwt| jwt.secret.as_ref());
            self.add(path.key("jwt").key("secret"), jwt, SecretUse::Jwt);
        }
    }

    fn add_events(&mut self, config: &'c Config) {
        for (nth, events) in config.events.iter().enumerate() {
            let path = KeyPath::nth("events", nth);
            match events.kind {
                EventsKind::Webhook => {
                    self.add(path.key("token"), &events.token, SecretUse::Token);
                }
                EventsKind::Nats => {
                    self.own(path.key("credentials"), &events.credentials);
                    self.own(path.key("password"), &events.password);
                    self.own(path.key("token"), &events.token);
                }
            }
        }
        let (fleet, path) = (&config.fleet, KeyPath::default().key("fleet"));
        if !fleet.nats.is_empty() {
            self.own(path.key("credentials"), &fleet.credentials);
            self.own(path.key("password"), &fleet.password);
            self.own(path.key("token"), &fleet.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::{Environment, json_schema, parse};

    /// A configuration in which each key that may hold a secret has one.
    const ALL: &str = r#"
        admin.token.file = "/s"
        trace.endpoint = "http://127.0.0.1:4318/v1/traces"
        trace.headers.a.file = "/s"
        fleet.credentials.file = "/s"
        fleet.password.file = "/s"
        fleet.token.file = "/s"
        [[origin]]
        name = "o"
        bucket = "b"
        access_key_id = "i"
        secret_access_key.file = "/s"
        session_token.file = "/s"
        [[tls.certificates]]
        certificate = "/c"
        key.file = "/s"
        [tls.acme]
        names = ["a.example"]
        path = "/acme"
        terms_agreed = true
        external_account = { key_id = "k", key.file = "/s" }
        [[route]]
        path = "/"
        origin = "o"
        writable = true
        write_token.file = "/s"
        [access.members]
        tokens.alice.file = "/s"
        signed.keys.k1.file = "/s"
        jwt.secret.file = "/s"
        [[hook]]
        url = "http://r/"
        headers.a.file = "/s"
        bearer.file = "/s"
        [[events]]
        name = "w"
        origin = "o"
        token.file = "/s"
        [[events]]
        name = "n"
        origin = "o"
        kind = "nats"
        servers = ["nats://127.0.0.1:4222"]
        subject = "s"
        credentials.file = "/s"
        [[events]]
        name = "m"
        origin = "o"
        kind = "nats"
        servers = ["nats://127.0.0.1:4222"]
        subject = "s"
        user = "u"
        password.file = "/s"
    "#;

    /// Returns the number of places of a schema in which a secret may stand.
    fn places(schema: &Value) -> usize {
        let kind = schema.get("x-kind").and_then(Value::as_str);
        if matches!(kind, Some("secret" | "token")) {
            return 1;
        }
        match schema {
            Value::Object(map) => map.values().map(places).sum(),
            Value::Array(list) => list.iter().map(places).sum(),
            _ => 0,
        }
    }

    /// Returns the keys of the secrets of a document.
    fn keys(document: &str) -> Vec<String> {
        let loaded = parse("t.toml", document, &Environment::default()).expect("it is right");
        let found = loaded.config.secrets().into_iter();
        found.map(|one| one.path.to_string()).collect()
    }

    #[test]
    fn a_secret_without_effect_is_left_out() {
        let off = "trace.headers.a.file = \"/s\"\nfleet.token.file = \"/s\"\n";
        assert_eq!(keys(off), [""; 0]);
        let nats = r#"
            [[origin]]
            name = "o"
            bucket = "b"
            [[events]]
            name = "n"
            origin = "o"
            kind = "nats"
            servers = ["nats://127.0.0.1:4222"]
            subject = "s"
            token.file = "/s"
        "#;
        assert_eq!(keys(nats), ["events[0].token"], "the servers are shown it");
    }

    #[test]
    fn no_secret_is_forgotten() {
        let loaded = parse("t.toml", ALL, &Environment::default()).expect("it is right");
        let written = loaded.settings.iter();
        let written = written.filter(|one| one.secret && one.source.is_some());
        let written: BTreeSet<_> = written.map(|one| one.key.clone()).collect();
        assert_eq!(written.len(), places(&json_schema()), "the sample has all");
        // It is read with one login alone.
        let mut config = loaded.config.clone();
        config.fleet.nats = vec!["nats://127.0.0.1:4222".to_owned()];
        let found = config.secrets();
        let keys: BTreeSet<_> = found.iter().map(|one| one.path.to_string()).collect();
        assert_eq!(keys, written);
        assert_eq!(keys.len(), found.len(), "each once");
    }
}
