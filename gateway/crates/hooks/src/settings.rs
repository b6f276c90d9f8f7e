//! Settings of a hook, and the request that they make of a call.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::Full;

use crate::window_changes::{Call, CallGrouping};
use tidegate_plan::ChangeKind;
use tidegate_plan::folder::folder_of;
use tidegate_plan::template::{Escape, Field, Template};

/// The settings of a hook. `Debug` shows its name only, because URL and headers may have secrets.
#[derive(Clone)]
pub struct HookSettings {
    /// The name in logs and metrics.
    pub name: String,
    /// The kinds of changes that it is called for.
    pub on: Vec<ChangeKind>,
    /// The origin whose keys it is called for; `None`: all.
    pub origin: Option<String>,
    /// The beginning of the keys that it is called for.
    pub prefix: String,
    /// The changes that one call reports.
    pub each: CallGrouping,
    /// The time without a further change after which it is called.
    pub debounce: Duration,
    /// The longest time that further changes put a call off.
    pub max_delay: Duration,
    /// The longest time that one request takes.
    pub timeout: Duration,
    /// The most retries of a call.
    pub retries: u32,
    /// The method.
    pub method: Method,
    /// The URL. Values are percent-encoded.
    pub url: Template,
    /// The headers. Values with secrets are marked as sensitive.
    pub headers: HeaderMap,
    /// The body. Values are escaped for a form if the headers say so, else for JSON.
    pub body: Option<Template>,
    /// The beginning of `{path}`, before the key.
    pub path_prefix: String,
    /// The beginning of the key that `{path}` leaves out.
    pub strip_prefix: String,
}

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSettings")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The type of a form, whose values are percent-encoded.
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns how values in a body of this type are escaped.
fn body_escape(content_type: Option<&[u8]>) -> Escape {
    let is_form = |value: &[u8]| {
        let (head, _) = value.split_at(value.len().min(FORM.len()));
        head.eq_ignore_ascii_case(FORM.as_bytes())
    };
    match content_type.is_some_and(is_form) {
        true => Escape::Percent,
        false => Escape::Json,
    }
}

impl HookSettings {
    /// Returns whether it is called for such a change.
    pub(crate) fn covers(&self, kind: ChangeKind, key: &str) -> bool {
        self.on.contains(&kind) && key.starts_with(&self.prefix) && !is_own(key)
    }

    /// Returns the innermost folder of the keys below `folder` that it may be called for. `None`: it is called for none.
    pub(crate) fn covered_folder<'s>(&'s self, folder: &'s str) -> Option<&'s str> {
        match self.prefix.starts_with(folder) {
            true => Some(folder_of(&self.prefix)),
            false => folder.starts_with(&self.prefix).then_some(folder),
        }
    }

    /// Returns the request of a call.
    ///
    /// # Errors
    /// The URL is none.
    pub(crate) fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, http::Error> {
        let value = |field| self.value(field, call);
        let mut headers = self.headers.clone();
        let body = self.body.as_ref().map(|body| {
            let escape = body_escape(headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes));
            body.render(escape, value)
        });
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.entry(CONTENT_TYPE).or_insert(json);
        }
        let agent = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_static(agent);
        headers.entry(USER_AGENT).or_insert(agent);
        let url = self.url.render(Escape::Percent, value);
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(url)
            .body(Full::from(body.unwrap_or_default()))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn value<'c>(&self, field: Field, call: &'c Call) -> Cow<'c, str> {
        match field {
            Field::Key => call.key.as_str().into(),
            Field::Folder => folder_of(&call.key).into(),
            Field::Bucket => call.bucket.as_str().into(),
            Field::Event => call.event.name().into(),
            Field::Path => self.path(&call.key).into(),
            Field::Count => call.count.to_string().into(),
        }
    }

    /// Returns a key or folder as a path of the receiver's machine, without a slash at its end.
    fn path(&self, key: &str) -> String {
        let key = key.strip_prefix(&self.strip_prefix).unwrap_or_default();
        let path = format!("{}{key}", self.path_prefix);
        match path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        }
    }
}

/// Returns whether a key is one of the gateway's own: a staging key of a write, or a heartbeat of events.
fn is_own(key: &str) -> bool {
    key.split('/')
        .any(|name| name.starts_with(".tidegate-") || name == ".tidegate")
}

#[cfg(test)]
mod tests;
