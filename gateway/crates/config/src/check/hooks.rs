//! Hooks: their URLs, headers and templates.

use std::borrow::Cow;
use std::collections::BTreeSet;

use http::{HeaderName, HeaderValue, Method, Uri};

use super::super::problem::{KeyPath, suggestion};
use super::super::{Config, Hook, Secret};
use super::Check;
use tidegate_plan::Period;
use tidegate_plan::template::{Escape, Field, Template};

/// The most hooks: each has a task, and sees every change.
const MAX_HOOKS: usize = 64;

/// The longest body and URL, before their fields have values.
const MAX_TEMPLATE: usize = 16 << 10;

/// The longest time that changes or a request wait.
const MAX_WAIT: Period = Period::secs(3600);

/// The most retries: the last pauses are of a minute.
const MAX_RETRIES: u32 = 10;

/// Headers that the connection sets.
const CONNECTION_HEADERS: [&str; 6] = [
    "connection",
    "content-length",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Methods with a meaning of their own for a connection.
const CONNECTION_METHODS: [Method; 2] = [Method::CONNECT, Method::TRACE];

/// The type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// Words in a query that tell of a secret.
const SECRET_WORDS: [&str; 5] = ["token", "apikey", "api_key", "secret", "password"];

impl Check<'_, '_> {
    pub(super) fn hooks(&mut self, config: &Config) {
        if config.hook.len() > MAX_HOOKS {
            let message = format!("there are more than {MAX_HOOKS}");
            self.error(&KeyPath::nth("hook", MAX_HOOKS), message);
        }
        let mut names = BTreeSet::new();
        for (index, hook) in config.hook.iter().enumerate() {
            let path = KeyPath::nth("hook", index);
            self.hook_name(&path, hook);
            if !names.insert(hook.name_at(index)) {
                self.error(&path.key("name"), "is the name of a hook before");
            }
            self.hook_origin(config, &path, hook);
            self.hook_times(&path, hook);
            self.hook_request(&path, hook);
            self.hook_path(&path, hook);
        }
    }

    fn hook_name(&mut self, path: &KeyPath, hook: &Hook) {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name =
            |name: &String| !name.is_empty() && name.len() <= 64 && name.chars().all(fits);
        if !hook.name.as_ref().is_none_or(is_name) {
            let message = "must have 1 to 64 letters, digits, `-`, `_` and `.`";
            self.error(&path.key("name"), message);
        }
        if hook.on.is_empty() {
            self.error(&path.key("on"), "is empty, and so it is never called");
        }
    }

    fn hook_origin(&mut self, config: &Config, path: &KeyPath, hook: &Hook) {
        let Some(name) = &hook.origin else { return };
        let mut names = config.origin.iter().map(|origin| origin.name.as_str());
        if !names.clone().any(|known| known == name) {
            let hint = suggestion(name, &mut names);
            let message = format!("there is no origin `{}`{hint}", name.escape_debug());
            self.error(&path.key("origin"), message);
        }
    }

    fn hook_times(&mut self, path: &KeyPath, hook: &Hook) {
        for (key, time) in [
            ("debounce", hook.debounce),
            ("max_delay", hook.max_delay),
            ("timeout", hook.timeout),
        ] {
            self.not_zero(&path.key(key), time);
            if time > MAX_WAIT {
                self.error(&path.key(key), format!("must be at most {MAX_WAIT}"));
            }
        }
        if hook.max_delay < hook.debounce {
            self.error(&path.key("max_delay"), "is shorter than `debounce`");
        }
        if hook.retries > MAX_RETRIES {
            self.error(
                &path.key("retries"),
                format!("must be at most {MAX_RETRIES}"),
            );
        }
    }

    fn hook_request(&mut self, path: &KeyPath, hook: &Hook) {
        let method = Method::from_bytes(hook.method.as_bytes());
        if !method.is_ok_and(|method| !CONNECTION_METHODS.contains(&method)) {
            let message = format!("`{}` is no method for a hook", hook.method.escape_debug());
            self.error(&path.key("method"), message);
        }
        let url = path.key("url");
        if self.document.has(&url) {
            self.hook_url(&url, &hook.url);
        }
        let mut content_type = None;
        for (name, value) in &hook.headers {
            self.hook_header(&path.key("headers").key(name), name, value);
            if name.eq_ignore_ascii_case("content-type") {
                content_type = Some(value);
            }
        }
        if hook.bearer.is_some() {
            let is_same = |name: &&String| name.eq_ignore_ascii_case("authorization");
            if let Some(name) = hook.headers.keys().find(is_same) {
                let path = path.key("headers").key(name);
                self.error(&path, "is there beside `bearer`, which sets it");
            }
        }
        if let Some(body) = &hook.body {
            self.hook_body(&path.key("body"), body, content_type);
        }
    }

    /// Checks that a URL names a receiver, whatever the values of its fields are.
    fn hook_url(&mut self, path: &KeyPath, url: &str) {
        let Some(template) = self.hook_template(path, url) else {
            return;
        };
        let head = template.head();
        let after_scheme = ["http://", "https://"].iter();
        let mut after_scheme = after_scheme.filter_map(|scheme| head.strip_prefix(scheme));
        let authority = after_scheme.next().map(|rest| {
            let end = rest.find(['/', '?']);
            let is_ended = end.is_some() || template.fields().next().is_none();
            is_ended.then(|| &rest[..end.unwrap_or(rest.len())])
        });
        let Some(Some(authority)) = authority else {
            let message = "must begin with http:// or https://, a host, and then the fields";
            self.error(path, message);
            return;
        };
        if authority.contains('@') {
            let message = "has a user or password; put them into `headers` or `bearer`";
            self.error(path, message);
            return;
        }
        let shown = template.render(Escape::Percent, |_| Cow::Borrowed("x"));
        let is_url = shown.parse::<Uri>().is_ok_and(|uri| uri.host().is_some());
        if !is_url || shown.contains('#') {
            // Not repeated: it may have a secret.
            self.error(path, "is no URL");
            return;
        }
        let query = shown.split_once('?').map_or("", |(_, query)| query);
        let query = query.to_ascii_lowercase();
        if SECRET_WORDS.iter().any(|word| query.contains(word)) {
            let message = "seems to have a secret, which receivers write to their logs; `headers` can carry it";
            self.warn(path, message);
        }
    }

    fn hook_header(&mut self, path: &KeyPath, name: &str, value: &Secret) {
        let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok();
        if !is_name || CONNECTION_HEADERS.contains(&&*name.to_ascii_lowercase()) {
            self.error(path, "is no header that a hook can send");
        }
        if let Secret::Literal(text) = value
            && HeaderValue::from_str(text).is_err()
        {
            self.error(path, "is no text that a header can carry");
        }
    }

    /// Checks that a body is JSON, whatever the values of its fields are, unless it is a form or its type is not known.
    fn hook_body(&mut self, path: &KeyPath, body: &str, content_type: Option<&Secret>) {
        let Some(template) = self.hook_template(path, body) else {
            return;
        };
        let is_json = match content_type {
            None => true,
            Some(Secret::Literal(text)) => !text.to_ascii_lowercase().starts_with(FORM),
            Some(Secret::Env(_) | Secret::File(_)) => {
                self.error(path, "needs a `Content-Type` that is written in `headers`");
                return;
            }
        };
        // Text that no JSON value is: it fits only between quotes.
        let sample = template.render(Escape::Json, |field| match field {
            Field::Count => Cow::Borrowed("1"),
            _ => Cow::Borrowed("x"),
        });
        if is_json && serde_json::from_str::<serde_json::Value>(&sample).is_err() {
            let message = "is no JSON; fields other than `{count}` need quotes around them";
            self.error(path, message);
        }
    }

    fn hook_template(&mut self, path: &KeyPath, text: &str) -> Option<Template> {
        if text.len() > MAX_TEMPLATE {
            self.error(path, format!("must have at most {MAX_TEMPLATE} bytes"));
            return None;
        }
        match Template::parse(text) {
            Ok(template) => Some(template),
            Err(error) => {
                let names = Field::ALL.map(|field| format!("`{{{}}}`", field.name()));
                let message = format!("{error}; there are {}", names.join(", "));
                self.error(path, message);
                None
            }
        }
    }

    fn hook_path(&mut self, path: &KeyPath, hook: &Hook) {
        let mut templates = [Some(&hook.url), hook.body.as_ref()].into_iter().flatten();
        let has_path = |text: &String| {
            let template = Template::parse(text);
            template.is_ok_and(|template| template.fields().any(|field| field == Field::Path))
        };
        let is_used = templates.any(has_path);
        match (is_used, &hook.path_prefix) {
            (true, None) => self.error(path, "`{path}` needs `path_prefix`"),
            (false, Some(_)) => {
                self.warn(&path.key("path_prefix"), "does nothing without `{path}`")
            }
            _ => {}
        }
        if !hook.prefix.starts_with(&hook.strip_prefix) {
            let message =
                "must be the beginning of `prefix`, or keys without it would have no path";
            self.error(&path.key("strip_prefix"), message);
        }
    }
}
