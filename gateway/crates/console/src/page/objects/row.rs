//! The row of a name in a folder.

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::View;
use crate::api::objects::{CacheState, Folder, Name};
use crate::page::chart::chunks;
use crate::page::format;
use crate::page::preview::is_offered;

impl View<'_> {
    pub(super) fn row(&self, folder: &Folder, name: &Name) -> Markup {
        html! {
            tr {
                th scope="row" data-label="Name" { (self.name(folder, name)) }
                td.number data-label="Size" { @if let Some(size) = name.size { (format::bytes(size)) } }
                td data-label="Cached" { @if !name.folder { (cached(name)) } }
                td data-label="Version" { (version(name)) }
                // Orders for what another route governs are given there.
                td { @if let (Some(path), None) = (&name.path, &name.route) { (self.orders(folder, name, path)) } }
            }
        }
    }

    fn name(&self, folder: &Folder, name: &Name) -> Markup {
        html! {
            @match (&name.path, name.folder) {
                (Some(path), true) => { a.name href=(self.link(path)) { (name.name) "/" } }
                _ => { span.name { (name.name) } }
            }
            @if let Some(route) = &name.route { span.badge { "route " (route) } }
            // A pin of the whole folder is told above.
            @if name.pin.is_some() && name.pin != folder.pin { span.badge.accent { "pinned" } }
            @if let Some(draft) = &name.draft { span.badge.warn { "draft: " (draft) } }
            @if let Some(modified) = name.modified { span.quiet { (format::time(modified)) " UTC" } }
        }
    }

    fn orders(&self, folder: &Folder, name: &Name, path: &str) -> Markup {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        html! {
            @if self.csrf.is_some() {
                @if is_offered(name) {
                    a.button.small href={ "/console/preview?path=" (encode(path)) "&host=" (encode(self.host)) }
                        aria-label={ "Preview " (name.name) } { "Preview" }
                }
                details.orders {
                    summary aria-label={ "Orders for " (name.name) } { "Orders" }
                    (self.form(&self.orders_for_name(folder, name, path)))
                }
            }
        }
    }
}

/// Renders the version: that of the cache, else that of the bucket.
fn version(name: &Name) -> Markup {
    let of_cache = name.cached.as_ref().map(|cached| &cached.etag);
    let of_bucket = name.etag.as_ref();
    let is_other = of_cache.is_some() && of_bucket.is_some() && of_cache != of_bucket;
    html! {
        @if let Some(cached) = &name.cached {
            (cached.freshness)
            span.quiet { "confirmed " (format::duration(cached.age)) " ago" }
        }
        @if let Some(etag) = of_cache.or(of_bucket) { span.quiet { "ETag " code { (etag) } } }
        @if let Some(id) = name.cached.as_ref().and_then(|cached| cached.version_id.as_ref()) {
            span.quiet { "id " code { (id) } }
        }
        @if is_other { span.badge.warn { "the bucket has another version" } }
    }
}

fn cached(name: &Name) -> Markup {
    let none = |words: &str| html! { (chunks(words, 1, &[])) span.quiet { (words) } };
    let Some(cached) = &name.cached else {
        return none("nothing is known of it");
    };
    let size = name.size.unwrap_or_default();
    let words = words(cached, size);
    html! {
        (chunks(&words, size, &cached.runs))
        span.quiet { (words) }
        @if let (Some(last), true) = (cached.runs.last(), cached.runs_left_off > 0) {
            span.quiet { "the bar shows the first " (format::bytes(last.end)) ", and nothing of the rest" }
        }
    }
}

fn words(cached: &CacheState, size: u64) -> String {
    if size == 0 {
        return "it is empty".to_owned();
    }
    if cached.memory == 0 && cached.disk == 0 {
        return "not cached".to_owned();
    }
    let pieces = [
        (cached.memory, "in memory"),
        (cached.disk, "on SSD"),
        (cached.absent, "not cached"),
        (cached.pinned, "pinned"),
    ];
    let pieces = pieces.iter().filter(|(bytes, _)| *bytes > 0);
    let pieces = pieces.map(|(bytes, place)| format!("{} {place}", format::bytes(*bytes)));
    let begin = if cached.absent == 0 { "whole: " } else { "" };
    format!("{begin}{}", pieces.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
