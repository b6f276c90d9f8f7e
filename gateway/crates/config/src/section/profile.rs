//! `[profile.NAME]`: the treatment of a route's objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteSize, Period, Profile};

/// The treatment of a route's objects. Keys that are left out come from the profile that it
/// extends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overlay {
    /// The profile to start from; left out: the built-in one of the same name, else `web`.
    #[schemars(extend("examples" = ["stream"]))]
    pub extends: Option<String>,
    /// Ceiling of the read-ahead window, also over small files of a folder; 0 turns read-ahead off.
    #[schemars(extend("examples" = ["64MiB"]))]
    pub read_ahead: Option<ByteSize>,
    /// Ceiling of parallel requests for one reader.
    #[schemars(extend("examples" = [16]))]
    pub streams: Option<u32>,
    /// The use at which a chunk is offered to disk.
    #[schemars(extend("examples" = ["first"]))]
    pub disk: Option<DiskUse>,
    /// The time that an object counts as fresh; its own `Cache-Control` may shorten it.
    #[schemars(extend("examples" = ["60s"]))]
    pub ttl: Option<Period>,
    /// Whether `ttl` overrules the object's own `Cache-Control`.
    #[schemars(extend("examples" = [false]))]
    pub force_ttl: Option<bool>,
    /// The time after `ttl` in which a stale answer is given while it is being confirmed.
    #[schemars(extend("examples" = ["10m"]))]
    pub stale_while_revalidate: Option<Period>,
    /// The time in which a stale answer is given while the origin fails.
    #[schemars(extend("examples" = ["24h"]))]
    pub stale_if_error: Option<Period>,
    /// The time that a missing object or name is remembered as missing; also the `max-age` of a 404, up to 5 s.
    #[schemars(extend("examples" = ["5s"]))]
    pub negative_ttl: Option<Period>,
    /// Most pages of 1,000 names that a mount lists of a folder to find names in it; 0: none.
    #[schemars(extend("examples" = [10]))]
    pub list_pages: Option<u32>,
    /// Bulk data, which must not displace the content of the memory tier.
    #[schemars(extend("examples" = [false]))]
    pub bulk: Option<bool>,
}

/// The reason why a profile has no values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProfileError {
    /// There is no profile of this name.
    Unknown(String),
    /// It extends itself, through these profiles.
    Cycle(Vec<String>),
}

/// Returns the profile of this name: overlays laid over each other, the built-in one at the bottom.
pub(crate) fn resolve(
    overlays: &BTreeMap<String, Overlay>,
    name: &str,
) -> Result<Profile, ProfileError> {
    let mut chain: Vec<(&str, &Overlay)> = Vec::new();
    let mut next = name;
    let base = loop {
        if chain.iter().any(|(seen, _)| *seen == next) {
            let names = chain.iter().map(|(seen, _)| (*seen).to_owned());
            return Err(ProfileError::Cycle(
                names.chain([next.to_owned()]).collect(),
            ));
        }
        let Some((key, overlay)) = overlays.get_key_value(next) else {
            break Profile::built_in(next).ok_or_else(|| ProfileError::Unknown(next.to_owned()))?;
        };
        chain.push((key, overlay));
        match &overlay.extends {
            Some(parent) => next = parent,
            None => break Profile::built_in(next).unwrap_or_default(),
        }
    };
    let laid = |under: Profile, (_, overlay): &(&str, &Overlay)| overlay.over(under);
    Ok(chain.iter().rev().fold(base, laid))
}

/// The names of the process's profiles. The set is whole between any two of its changes.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Returns all names that are kept.
pub(crate) fn kept_names() -> Vec<&'static str> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.iter().copied().collect()
}

/// Returns the name for as long as the process runs. Each name is kept once, so that reloads take no more memory.
pub(crate) fn kept_name(name: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name) {
        Some(kept) => kept,
        None => {
            let kept: &'static str = name.to_owned().leak();
            names.insert(kept);
            kept
        }
    }
}

/// Returns the value of a key of a profile, as text; `None`: a profile has no such value.
pub(crate) fn value(profile: &Profile, key: &str) -> Option<String> {
    let time = |time: Duration| Period(time).to_string();
    Some(match key {
        "read_ahead" => ByteSize(profile.read_ahead).to_string(),
        "streams" => profile.streams.to_string(),
        "disk" => profile.disk.name().to_owned(),
        "ttl" => time(profile.ttl),
        "force_ttl" => profile.force_ttl.to_string(),
        "stale_while_revalidate" => time(profile.stale_while_revalidate),
        "stale_if_error" => time(profile.stale_if_error),
        "negative_ttl" => time(profile.negative_ttl),
        "list_pages" => profile.list_pages.to_string(),
        "bulk" => profile.bulk.to_string(),
        _ => return None,
    })
}

impl Overlay {
    /// Returns the overlay's values, and those of `under` for the rest.
    pub(crate) fn over(&self, under: Profile) -> Profile {
        let time = |over: Option<Period>, under: Duration| over.map_or(under, Duration::from);
        Profile {
            name: under.name,
            read_ahead: self.read_ahead.map_or(under.read_ahead, |size| size.0),
            streams: self.streams.unwrap_or(under.streams),
            ttl: time(self.ttl, under.ttl),
            force_ttl: self.force_ttl.unwrap_or(under.force_ttl),
            stale_while_revalidate: time(self.stale_while_revalidate, under.stale_while_revalidate),
            stale_if_error: time(self.stale_if_error, under.stale_if_error),
            negative_ttl: time(self.negative_ttl, under.negative_ttl),
            list_pages: self.list_pages.unwrap_or(under.list_pages),
            disk: self.disk.unwrap_or(under.disk),
            bulk: self.bulk.unwrap_or(under.bulk),
        }
    }
}

#[cfg(test)]
mod tests;
