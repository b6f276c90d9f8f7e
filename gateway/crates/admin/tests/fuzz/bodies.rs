//! The JSON of the operator's requests: purges, pins, lists to warm, and overrides.

use bolero::check;
use serde_json::Value;
use tidegate_admin::purge::{PurgeRequests, from_json};
use tidegate_admin::reload::OverrideChange;
use tidegate_admin::{Purge, PurgeExtent, WarmRequest, pins::PinRequest};
use tidegate_engine::PurgeKind;
use tidegate_plan::ObjectKey;
use tidegate_plan::tags::Tag;

use crate::RUNS;

const FIELDS: [&str; 10] = [
    "path", "paths", "prefixes", "tags", "keys", "prefix", "host", "origin", "soft", "all",
];

const TEXTS: &[&str] = &[
    "/a", "/a/", "/a%20b", "/", "/a", "/b", "post-1", "a", "", "/a?b", "/a#b", "a b", "ü", "\u{0}",
    "\"",
];

/// Returns the value of a field: a text, a list of texts, a flag, or nothing.
fn field_value(form: u8, texts: &[u8]) -> Value {
    let mut texts = texts
        .iter()
        .map(|text| Value::from(TEXTS[usize::from(*text) % TEXTS.len()]));
    match form % 6 {
        0 => texts.next().unwrap_or_default(),
        1..4 => texts.collect(),
        4 => Value::Bool(form.is_multiple_of(4)),
        _ => Value::Null,
    }
}

/// Returns the only value of a field; `None`: there is none, or it is `null`.
fn only<'v>(fields: &'v [(&str, Value)], name: &str) -> Option<&'v Value> {
    let mut values = fields.iter().filter(|(field, _)| *field == name);
    let value = values.next();
    assert!(values.next().is_none(), "`{name}` is given twice");
    value
        .map(|(_, value)| value)
        .filter(|value| !value.is_null())
}

/// Returns the purges that these fields mean, as an accepted request has to.
fn meant(fields: &[(&str, Value)]) -> Vec<Purge> {
    let flag = |name| only(fields, name).is_some_and(|value| value.as_bool().expect("a flag"));
    let list = |name| {
        let list = only(fields, name).map(|value| value.as_array().expect("a list"));
        list.into_iter().flatten().chain(None).cloned()
    };
    let (single, prefix) = (only(fields, "path").cloned(), flag("prefix"));
    let host = only(fields, "host").map(|host| host.as_str().expect("text").to_owned());
    let kind = match flag("soft") {
        true => PurgeKind::Soft,
        false => PurgeKind::Hard,
    };
    let text = |value: Value| value.as_str().expect("text").to_owned();
    let (paths, prefixes) = (list("paths"), list("prefixes"));
    let extents = paths
        .map(|path| PurgeExtent::Path(text(path)))
        .chain(prefixes.map(|path| PurgeExtent::Prefix(text(path))))
        .chain(list("tags").map(|tag| PurgeExtent::Tag(Tag::new(&text(tag)).expect("a tag"))))
        .chain(single.into_iter().map(|path| match prefix {
            true => PurgeExtent::Prefix(text(path)),
            false => PurgeExtent::Path(text(path)),
        }));
    let purge = |extent| Purge {
        extent,
        host: host.clone(),
        kind,
    };
    let origin = only(fields, "origin").map(|name| name.as_str().expect("text").to_owned());
    let keys = list("keys").map(|key| Purge {
        extent: PurgeExtent::Key(ObjectKey::new(&text(key)).expect("a key"), origin.clone()),
        host: None,
        kind,
    });
    extents.map(purge).chain(keys).collect()
}

/// Checks that a request can be carried out as it stands.
fn check_path(path: &str) {
    assert!(
        path.starts_with('/') && !path.contains(['?', '#']),
        "{path}"
    );
}

#[test]
fn an_accepted_purge_means_each_of_its_fields_once() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<(u8, u8, Vec<u8>)>>()
        .for_each(|fields| {
            let field = |(name, form, texts): &(u8, u8, Vec<u8>)| {
                let name = FIELDS[usize::from(*name) % FIELDS.len()];
                (name, field_value(*form, texts))
            };
            let fields: Vec<_> = fields.iter().take(4).map(field).collect();
            let lines = fields
                .iter()
                .map(|(name, value)| format!("\"{name}\":{value}"));
            let body = format!("{{{}}}", lines.collect::<Vec<_>>().join(","));
            let purges = match from_json(body.as_bytes()) {
                Ok(PurgeRequests::One(purge)) => vec![purge],
                Ok(PurgeRequests::Many(purges)) => purges,
                Err(why) => return assert!(!why.is_empty()),
            };
            assert_eq!(purges, meant(&fields), "{body}");
            assert!(
                !purges.is_empty() && only(&fields, "all").is_none(),
                "{body}"
            );
            for purge in purges {
                match purge.extent {
                    PurgeExtent::Path(path) | PurgeExtent::Prefix(path) => check_path(&path),
                    PurgeExtent::Tag(_) | PurgeExtent::Key(..) => {}
                }
            }
        });
}

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"path\":",
    "\"paths\":[",
    "\"limit\":",
    "\"rate\":",
    "\"concurrency\":",
    "\"host\":",
    "\"key\":",
    "\"value\":",
    "\"/a\"",
    "\"/a?b\"",
    "\"a\"",
    "\"1GiB\"",
    "\"-1\"",
    "\"16777216TiB\"",
    "0",
    "1",
    "64",
    "65",
    "-1",
    "1e400",
    "1.5",
    "18446744073709551616",
    "null",
    "true",
    "\"\\ud800\"",
    "{\"path\":\"/a\",\"limit\":",
    "{\"paths\":[\"/a\"],",
    "{\"key\":\"cache.memory\",\"value\":",
];

#[test]
fn any_body_is_sound_or_refused() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<u8>>()
        .for_each(|bytes| {
            let mut body = Vec::new();
            for byte in bytes {
                match WORDS.get(usize::from(*byte) % (WORDS.len() * 5 / 4)) {
                    Some(word) => body.extend_from_slice(word.as_bytes()),
                    None => body.push(*byte),
                }
            }
            let _ = from_json(&body);
            if let Ok(pin) = PinRequest::from_json(&body) {
                check_path(&pin.path);
                assert_ne!(pin.limit, 0);
            }
            if let Ok(warm) = WarmRequest::from_json(&body) {
                warm.paths.iter().for_each(|path| check_path(path));
                assert!(warm.rate != Some(0), "{warm:?}");
                assert!(warm.concurrency.is_none_or(|n| (1..=64).contains(&n)));
            }
            if let Ok(change) = serde_json::from_slice::<OverrideChange>(&body) {
                let shown = format!("{change:?}");
                assert_eq!(shown, format!("OverrideChange({:?})", change.key));
            }
        });
}
