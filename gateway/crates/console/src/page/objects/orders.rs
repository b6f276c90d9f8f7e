//! The orders of the section Objects: purge, warm, pin, and links.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Form};
use futures_util::StreamExt as _;
use serde::Deserialize;

use super::address;
use super::forms::FolderQuestion;
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::links::{self, LinkOrder};
use crate::page::{check_form, done, format, say};
use crate::sampler::unix_time;
use crate::sessions::Message;
use crate::warms::WarmGuard;
use tidegate_admin::pins::Pin;
use tidegate_admin::place::{LocatedPrefix, Place};
use tidegate_admin::{Purge, PurgeExtent};
use tidegate_engine::warm::Warmer;
use tidegate_engine::{PurgeKind, ReadContext};
use tidegate_plan::ObjectKey;

/// Objects that are warmed at a time.
const WARM_AT_ONCE: usize = 4;

/// Objects that one order of the page warms; the command `tidegate warm` has no such bound.
const MAX_WARMED: usize = 1000;

/// The form of the section.
#[derive(Deserialize)]
pub(crate) struct OrderForm {
    csrf: String,
    path: String,
    host: Option<String>,
    back: Option<String>,
    order: String,
    /// The life of a link, in seconds.
    life: Option<u64>,
    /// The limit of a pin, in bytes; it is asked for if it is left out.
    limit: Option<u64>,
    /// Sent by the page that asks whether a folder is to be purged.
    sure: Option<String>,
}

/// Answers `POST /console/objects`.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
    Form(form): Form<OrderForm>,
) -> Response {
    let own = match check_form(&admitted, &form.csrf) {
        Ok(own) => own.id,
        Err(refusal) => return *refusal,
    };
    // An empty host is that of routes without one.
    let host = form.host;
    let folder = form.back.as_deref().unwrap_or("/");
    let back = address(folder, host.as_deref().unwrap_or_default());
    if let Some(key) = form.order.strip_prefix("link") {
        let key = Some(key.trim_start().to_owned()).filter(|key| !key.is_empty());
        let wanted = LinkOrder {
            path: form.path,
            host: host.filter(|host| !host.is_empty()),
            key,
            life: form.life,
        };
        let message = link(&console, wanted).await;
        return say(&console, own, &back, message);
    }
    let place = Place {
        path: form.path,
        host,
    };
    let question = FolderQuestion {
        console: &console,
        admitted: &admitted,
        place: &place,
        back: folder,
    };
    let is_folder = place.path.ends_with('/');
    let result = match form.order.as_str() {
        "purge" if is_folder && form.sure.is_none() => return question.purge(),
        "pin" if form.limit.is_none() => match own_pin(&console, &place) {
            Ok((prefix, limit)) => return question.pin(&prefix, limit),
            Err(error) => Err(error),
        },
        "purge" => purge(&console, place, PurgeKind::Hard).await,
        "stale" => purge(&console, place, PurgeKind::Soft).await,
        "warm" => warm(&console, place).await,
        "pin" => pin(&console, place, form.limit.unwrap_or_default()).await,
        "unpin" => unpin(&console, place).await,
        _ => Err("This is not known.".to_owned()),
    };
    done(&console, own, &back, result)
}

/// Makes a link, for the reader to copy.
async fn link(console: &Console, wanted: LinkOrder) -> Message {
    let link = match links::order(console, wanted).await {
        Ok(link) => link,
        Err(error) => {
            return Message {
                text: error.error,
                is_error: true,
                copy: None,
            };
        }
    };
    let text = match (&link.key, link.expires) {
        (Some(key), Some(end)) => {
            let end = format::time(end);
            format!("This link works until {end} UTC. The key {key} has signed it.")
        }
        _ => "This path is open to all.".to_owned(),
    };
    let begin = match link.url.starts_with('/') {
        true => " It has no host, for `http.public_url` is not set.",
        false => "",
    };
    Message {
        text: format!("{text}{begin}"),
        is_error: false,
        copy: Some(link.url),
    }
}

async fn purge(console: &Console, place: Place, kind: PurgeKind) -> Result<String, String> {
    let is_folder = place.path.ends_with('/');
    let purge = Purge {
        extent: match is_folder {
            true => PurgeExtent::Prefix(place.path),
            false => PurgeExtent::Path(place.path),
        },
        host: place.host,
        kind,
    };
    let purged = console.admin.purge(&purge).await;
    let purged = purged.map_err(|error| error.to_string())?;
    let name = |name: &String| match name.as_str() {
        "" => "every object".to_owned(),
        name => name.to_owned(),
    };
    let names: Vec<_> = purged.names.iter().map(name).collect();
    let names = names.join(", ");
    Ok(match kind {
        PurgeKind::Hard => format!("Purged: {names}."),
        PurgeKind::Soft => format!("Stale now: {names}."),
    })
}

/// Returns the keys below a place.
fn below(console: &Console, place: &Place) -> Result<LocatedPrefix, String> {
    let below = console.admin.locate.below(place);
    below.map_err(|error| error.to_string())
}

/// Returns the prefix that a pin of a place has, and its limit if there is one.
fn own_pin(console: &Console, place: &Place) -> Result<(String, Option<u64>), String> {
    let LocatedPrefix { origin, prefix, .. } = below(console, place)?;
    let pins = console.admin.pins.list();
    let is_own = |pin: &&Pin| pin.prefix == prefix && pin.origin.as_ref() == Some(&origin);
    let limit = pins.iter().find(is_own).map(|pin| pin.limit);
    Ok((prefix, limit))
}

async fn pin(console: &Console, place: Place, limit: u64) -> Result<String, String> {
    if limit == 0 {
        return Err("A pin keeps more than nothing.".to_owned());
    }
    let note = console.admin.pin(&below(console, &place)?, limit).await;
    let note = note.map_err(|error| error.to_string())?;
    let (limit, object) = (format::bytes(limit), !place.path.ends_with('/'));
    let others = if object {
        ", and of objects whose key begins the same,"
    } else {
        ""
    };
    Ok(match note {
        Some(note) => format!("Pinned with a limit of {limit}, but {note}."),
        None => format!("Pinned: at most {limit} of it{others} stays on disk."),
    })
}

async fn unpin(console: &Console, place: Place) -> Result<String, String> {
    let unpinned = console.admin.unpin(&below(console, &place)?).await;
    unpinned.map_err(|error| error.to_string())?;
    Ok("It is pinned no more.".to_owned())
}

/// Warms an object, or the first objects below a folder, in the background.
async fn warm(console: &Console, place: Place) -> Result<String, String> {
    let admin = console.admin.clone();
    let (mut objects, mut has_more) = (Vec::new(), false);
    if place.path.ends_with('/') {
        let below = below(console, &place)?;
        let listed = admin
            .engine
            .keys(&below.source, &below.prefix, None, MAX_WARMED as u16)
            .await;
        let listed = listed.map_err(|error| error.to_string())?;
        has_more = listed.after.is_some();
        let keys = listed
            .objects
            .iter()
            .filter_map(|(key, _)| ObjectKey::new(key).ok());
        objects.extend(keys.map(|key| (below.source.clone(), key)));
    } else {
        let located = admin
            .locate
            .objects(&place)
            .map_err(|error| error.to_string())?;
        objects.extend(located.into_iter().map(|one| (one.source, one.key)));
    }
    let count = objects.len();
    let path = place.path.clone();
    let under_way = console
        .warms
        .begin(place.path, count as u64, unix_time())
        .ok_or("Other orders are under way: wait until one is over.")?;
    tokio::spawn(async move {
        let warmer = Arc::new(Warmer::new(admin.engine.clone(), None));
        let under_way = Arc::new(under_way);
        let one = |(source, key)| warm_one(warmer.clone(), under_way.clone(), source, key);
        let warm = futures_util::stream::iter(objects).for_each_concurrent(WARM_AT_ONCE, one);
        let _ = admin.draining.run_until_cancelled(warm).await;
    });
    tracing::info!(path, count, "objects are warmed");
    let count = format::count(count as u64, "object");
    Ok(match has_more {
        true => format!("Fetching the first {count}; the command `tidegate warm` fetches all."),
        false => format!("Fetching {count}."),
    })
}

async fn warm_one(
    warmer: Arc<Warmer>,
    under_way: Arc<WarmGuard>,
    source: Arc<ReadContext>,
    key: ObjectKey,
) {
    let add = |bytes| under_way.add(bytes);
    let warmed = warmer.warm(&source, &key, &add).await;
    under_way.count(warmed.is_ok());
    if let Err(error) = warmed {
        tracing::warn!(%error, key = key.as_str(), "an object was not warmed");
    }
}
