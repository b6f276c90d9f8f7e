//! A preview of raster images, audio and video of a bucket.
//!
//! Only media types that no browser runs as a page are shown; the bytes come with `nosniff` and a sandbox, so that an
//! object that lies about its type gets nothing of the console's origin. It asks for a session or the token, also where
//! all may read: objects of private routes are shown.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{Page, failure, format};
use crate::Console;
use crate::access::{AdmissionKind, login_address};
use crate::api::ApiError;
use crate::api::objects::Name;
use tidegate_admin::place::Place;
use tidegate_engine::{Object, OpenOptions};
use tidegate_plan::ByteRange;
use tidegate_plan::media_type::{self, is_uninformative};
use tidegate_plan::precondition::{Decision, Validators, decide, requested_ranges};

const PATH: &str = "/console/objects";

/// The media types that are shown: no SVG, no HTML, no PDF.
const IMAGES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
];
const SOUNDS: [&str; 10] = [
    "audio/mpeg",
    "audio/mp4",
    "audio/m4a",
    "audio/aac",
    "audio/ogg",
    "audio/opus",
    "audio/flac",
    "audio/wav",
    "audio/x-wav",
    "audio/webm",
];
/// Browsers play what they can of a container, whatever its codecs.
const FILMS: [&str; 6] = [
    "video/mp4",
    "video/x-m4v",
    "video/webm",
    "video/ogg",
    "video/quicktime",
    "video/x-matroska",
];

/// Other names of these types, which not every browser knows, and the name that is sent.
const ALIASES: [(&str, &str); 4] = [
    ("audio/x-flac", "audio/flac"),
    ("audio/x-m4a", "audio/mp4"),
    ("audio/mp3", "audio/mpeg"),
    ("video/matroska", "video/x-matroska"),
];

/// The size of the largest image that is shown, in bytes.
const MAX_IMAGE: u64 = 64 << 20;

/// The policy of the bytes: nothing runs, nothing is loaded.
const BYTES_POLICY: &str = "sandbox; default-src 'none'";

/// The requested object.
#[derive(Debug, Deserialize)]
pub(crate) struct PreviewQuery {
    /// A path of the public listener, percent-encoded.
    path: String,
    /// The host of the route; empty: a route without a host.
    host: Option<String>,
}

/// The element that shows an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Image,
    Sound,
    Film,
}

/// Returns the element for a media type, and the type as it is sent.
fn element(content_type: Option<&str>) -> Option<(Element, &'static str)> {
    let plain = content_type?.split(';').next()?.trim().to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == plain);
    let plain = alias.map_or(plain, |(_, name)| (*name).to_owned());
    let of = |all: &[&'static str], element| {
        let found = all.iter().find(|known| **known == plain);
        found.map(|known| (element, *known))
    };
    of(&IMAGES, Element::Image)
        .or_else(|| of(&SOUNDS, Element::Sound))
        .or_else(|| of(&FILMS, Element::Film))
}

/// Returns the element for an object, and the type as it is sent. An object that is stored without a type, or as a mere
/// sequence of bytes, counts as what its name says.
fn element_of(name: &str, content_type: Option<&str>) -> Option<(Element, &'static str)> {
    let plain = content_type.and_then(|kind| kind.split(';').next());
    match plain.map(str::trim).filter(|kind| !is_uninformative(kind)) {
        Some(_) => element(content_type),
        None => element(media_type::of_name(name)),
    }
}

/// Returns whether a browser takes an object of this size: it has an image in memory as a whole, and the others by ranges.
fn fits(element: Element, size: u64) -> bool {
    element != Element::Image || size <= MAX_IMAGE
}

/// Returns whether the page offers a preview of a name. Before its type is known, the name decides.
pub(crate) fn is_offered(name: &Name) -> bool {
    let kind = name.cached.as_ref();
    let kind = kind.and_then(|cached| cached.content_type.as_deref());
    let found = element_of(&name.name, kind);
    // A draft is not in the bucket.
    let is_object = !name.folder && name.draft.is_none();
    let size = name.size.unwrap_or_default();
    is_object && found.is_some_and(|(element, _)| fits(element, size))
}

async fn open(console: &Console, query: &PreviewQuery) -> Result<Object, ApiError> {
    let place = Place {
        path: query.path.clone(),
        host: query.host.clone(),
    };
    let located = console.admin.locate.objects(&place)?;
    let [one] = &located[..] else {
        return Err(ApiError::bad(
            "several routes have this path: say which host",
        ));
    };
    let opened = console
        .admin
        .engine
        .open(&one.source, &one.key, OpenOptions::default())
        .await;
    opened.map_err(|error| match error {
        tidegate_engine::Error::NotFound => ApiError::missing("no such object"),
        error => error.into(),
    })
}

fn content_type(object: &Object) -> Option<&str> {
    object.version().header(&CONTENT_TYPE)
}

/// Returns the element that shows an object, and the type as it is sent.
fn shown(object: &Object) -> Result<(Element, &'static str), String> {
    let kind = content_type(object);
    let Some((element, sent)) = element_of(object.key().as_str(), kind) else {
        return Err(format!(
            "Objects of the type {} are not shown here: only raster images, audio and video are.",
            kind.unwrap_or("unknown")
        ));
    };
    match fits(element, object.version().size) {
        true => Ok((element, sent)),
        false => Err(format!(
            "Images of more than {} are not shown here.",
            format::bytes(MAX_IMAGE)
        )),
    }
}

/// Answers `GET /console/preview`.
pub(crate) async fn page(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    uri: Uri,
    Query(query): Query<PreviewQuery>,
) -> Response {
    if admitted == AdmissionKind::Reader {
        let own = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        return Redirect::to(&login_address(own)).into_response();
    }
    let object = match open(&console, &query).await {
        Ok(object) => object,
        Err(error) => return failure(&console, &admitted, PATH, &error, &Markup::default()),
    };
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let host = query
        .host
        .as_deref()
        .map(|host| format!("&host={}", encode(host)));
    let (path, host) = (encode(&query.path), host.unwrap_or_default());
    let source = format!("/console/preview/bytes?path={path}{host}");
    let content = html! {
        p { code { (query.path) } }
        @match shown(&object) {
            Ok((Element::Image, _)) => { img.preview src=(source) alt={ "The image " (query.path) }; }
            Ok((Element::Sound, _)) => { audio.preview src=(source) controls preload="metadata" {} }
            Ok((Element::Film, _)) => { video.preview src=(source) controls preload="metadata" {} }
            Err(why) => { p.empty { (why) } }
        }
    };
    let page = Page {
        path: PATH,
        title: "Preview",
        live: None,
        content,
    };
    page.render(&console, &admitted)
}

/// Returns the bytes that a request asks for, with the status of their answer; else the status of one without bytes.
fn piece(object: &Object, headers: &HeaderMap) -> Result<(StatusCode, ByteRange), StatusCode> {
    let version = object.version();
    let current = Validators {
        etag: &version.etag,
        last_modified: version.last_modified,
        confirmed: object.confirmed(),
    };
    let ranges = requested_ranges(headers);
    match decide(headers, ranges.as_ref(), current, version.size) {
        Decision::Single(range) => Ok((StatusCode::PARTIAL_CONTENT, range)),
        Decision::Whole | Decision::Several(_) => {
            Ok((StatusCode::OK, ByteRange::new(0, version.size)))
        }
        Decision::Unsatisfiable => Err(StatusCode::RANGE_NOT_SATISFIABLE),
        Decision::Failed => Err(StatusCode::PRECONDITION_FAILED),
        Decision::NotModified => Err(StatusCode::NOT_MODIFIED),
    }
}

/// Answers `GET /console/preview/bytes`.
pub(crate) async fn bytes(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Query(query): Query<PreviewQuery>,
    headers: HeaderMap,
) -> Response {
    if admitted == AdmissionKind::Reader {
        return (StatusCode::FORBIDDEN, "this needs a session\n").into_response();
    }
    let object = match open(&console, &query).await {
        Ok(object) => object,
        Err(error) => return error.into_response(),
    };
    let kind = match shown(&object) {
        Ok((_, kind)) => kind,
        Err(why) => {
            return (StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("{why}\n")).into_response();
        }
    };
    let etag = object.version().etag.as_str().to_owned();
    let (status, range) = match piece(&object, &headers) {
        Ok(piece) => piece,
        Err(status) => return (status, [(ETAG, etag)]).into_response(),
    };
    let size = object.version().size;
    let mut answer = Response::new(Body::from_stream(object.read_at(range)));
    *answer.status_mut() = status;
    let all = [
        (CONTENT_TYPE, kind.to_owned()),
        (CONTENT_LENGTH, range.len().to_string()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CONTENT_SECURITY_POLICY, BYTES_POLICY.to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (ACCEPT_RANGES, "bytes".to_owned()),
        (ETAG, etag),
    ];
    for (name, value) in all {
        answer
            .headers_mut()
            .insert(name, value.parse().expect("a valid header value"));
    }
    if status == StatusCode::PARTIAL_CONTENT {
        let value = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        answer.headers_mut().insert(
            CONTENT_RANGE,
            value.parse().expect("numbers are a valid header value"),
        );
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_browser_runs_is_shown() {
        for (kind, shown) in [
            ("image/png", true),
            ("IMAGE/JPEG; x=1", true),
            ("video/mp4", true),
            ("audio/flac", true),
            ("image/svg+xml", false),
            ("text/html", false),
            ("application/xhtml+xml", false),
            ("application/pdf", false),
            ("text/xml", false),
        ] {
            let found = element_of("a.png", Some(kind));
            assert_eq!(found.is_some(), shown, "{kind}");
        }
        for (name, kind, sent) in [
            ("a.png", None, Some("image/png")),
            ("a", Some("audio/x-flac"), Some("audio/flac")),
            ("a.m4a", Some("Audio/X-M4A"), Some("audio/mp4")),
            ("a.mkv", None, Some("video/x-matroska")),
            ("a", Some("video/webm; codecs=vp9"), Some("video/webm")),
            ("a/b.JPG", Some(""), Some("image/jpeg")),
            ("a.mp4", Some("binary/octet-stream; x=1"), Some("video/mp4")),
            ("a.svg", None, None),
            ("a.html", Some("application/octet-stream"), None),
            ("png", None, None),
        ] {
            let found = element_of(name, kind).map(|(_, sent)| sent);
            assert_eq!(found, sent, "{name} {kind:?}");
        }
        assert!(fits(Element::Film, MAX_IMAGE + 1) && fits(Element::Image, MAX_IMAGE));
        assert!(!fits(Element::Image, MAX_IMAGE + 1));
    }
}
