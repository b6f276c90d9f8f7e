//! The content of the demo's bucket, all of it made here: nothing is downloaded, and each start
//! makes the same.

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::stream;

use super::picture::{DAWN, DUSK, NIGHT, Picture, Scene};
use super::{document, melody, offsets};
use crate::embedded::EmbeddedOrigin;

/// One object of the demo.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Its key.
    pub key: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    body: Body,
}

#[derive(Debug, Clone, Copy)]
enum Body {
    Text(&'static str),
    Made(fn() -> Vec<u8>),
    Offsets,
}

impl Sample {
    const fn new(
        key: &'static str,
        content_type: &'static str,
        about: &'static str,
        body: Body,
    ) -> Self {
        Self {
            key,
            content_type,
            about,
            body,
        }
    }
}

/// The page that shows the others.
pub(super) const PAGE: Sample = Sample::new(
    "index.html",
    "text/html; charset=utf-8",
    "a page with all of it: open it in a browser",
    Body::Text(include_str!("index.html")),
);

/// A picture of 35 KB.
pub(super) const PICTURE: Sample = Sample::new(
    "images/dawn.jpg",
    "image/jpeg",
    "a picture, 35 KB",
    Body::Made(|| jpeg(&DAWN, 960, 600, 73)),
);

/// The recording.
pub(super) const RECORDING: Sample = Sample::new(
    "audio/tide-waltz.wav",
    "audio/wav",
    "a waltz of three minutes",
    Body::Made(melody::wav),
);

/// The large file.
pub(super) const LARGE_OBJECT: Sample = Sample::new(
    "large/offsets.bin",
    "application/octet-stream",
    "256 MiB, each line of which says where it stands",
    Body::Offsets,
);

/// The text for the user to change.
pub(super) const CHANGING_PAGE: Sample = Sample::new(
    "notes/changing.txt",
    TEXT,
    "a note for you to change",
    Body::Text("Low tide.\n"),
);

const TEXT: &str = "text/plain; charset=utf-8";

/// All objects, in the order in which they are shown.
pub const ALL: [Sample; 11] = [
    PAGE,
    PICTURE,
    Sample::new(
        "images/dusk.jpg",
        "image/jpeg",
        "another, 51 KB",
        Body::Made(|| jpeg(&DUSK, 1120, 700, 84)),
    ),
    Sample::new(
        "images/night.webp",
        "image/webp",
        "a lossless one, 468 KB",
        Body::Made(|| Picture::paint(&NIGHT, 1144, 572).to_webp()),
    ),
    RECORDING,
    Sample::new(
        "documents/tidegate.pdf",
        "application/pdf",
        "a document of two pages",
        Body::Made(document::pdf),
    ),
    LARGE_OBJECT,
    CHANGING_PAGE,
    Sample::new(
        "odd names/one + one = 100% ☃.txt",
        TEXT,
        "spaces, signs and a snowman in the key",
        Body::Text("The key is the path, percent-decoded once.\n"),
    ),
    Sample::new(
        "odd names/a+b.txt",
        TEXT,
        "a plus that is a plus",
        Body::Text("In a path, a plus is no space.\n"),
    ),
    Sample::new(
        "style.css",
        "text/css; charset=utf-8",
        "what the page wears",
        Body::Text(include_str!("style.css")),
    ),
];

fn jpeg(scene: &Scene, width: u16, height: u16, quality: u8) -> Vec<u8> {
    Picture::paint(scene, width, height).to_jpeg(quality)
}

/// Puts missing samples into the bucket; existing ones stay, changed by hand or not.
///
/// `large` is the size of [`LARGE_OBJECT`], in bytes.
///
/// # Errors
/// If the folder behind the origin cannot be written.
pub(super) async fn fill(origin: &EmbeddedOrigin, large: u64) -> anyhow::Result<()> {
    for sample in ALL {
        if origin.has(sample.key).await {
            continue;
        }
        put(origin, &sample, large)
            .await
            .with_context(|| format!("cannot make the sample {}", sample.key))?;
    }
    Ok(())
}

async fn put(origin: &EmbeddedOrigin, sample: &Sample, large: u64) -> anyhow::Result<()> {
    let body = match sample.body {
        Body::Text(text) => Bytes::from_static(text.as_bytes()),
        Body::Made(make) => tokio::task::spawn_blocking(make).await?.into(),
        Body::Offsets => {
            let body = offsets::body(large);
            return Ok(origin.put(sample.key, sample.content_type, body).await?);
        }
    };
    let body = stream::iter([Ok(body)]);
    Ok(origin.put(sample.key, sample.content_type, body).await?)
}
