//! The style, the script and the icon, all of them in the program.

use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// An asset never changes under one address: the address has a hash of all of them.
const ASSET_CACHE_CONTROL: &str = "public, max-age=31536000, immutable";

type Asset = ([(HeaderName, &'static str); 2], &'static str);

/// Returns a hash of the assets (FNV-1a).
pub(crate) const fn version() -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let all = [STYLE, SCRIPT];
    let mut nth = 0;
    while nth < all.len() {
        let bytes = all[nth].as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        nth += 1;
    }
    hash
}

fn asset(kind: &'static str, text: &'static str) -> Asset {
    (
        [(CONTENT_TYPE, kind), (CACHE_CONTROL, ASSET_CACHE_CONTROL)],
        text,
    )
}

pub(crate) async fn style() -> Asset {
    asset("text/css; charset=utf-8", STYLE)
}

pub(crate) async fn script() -> Asset {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

pub(crate) async fn icon() -> Asset {
    asset("image/svg+xml", ICON)
}
