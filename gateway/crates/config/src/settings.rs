//! Every key of a configuration, for an operator: its help, its value, and the place that wrote it.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::document::Document;
use super::overrides;
use super::problem::{KeyPath, ValueLocation};
use super::reference;
use super::schema::{choices, present, property, tables};
use super::section::profile;
use super::tree::Node;
use crate::Config;
use tidegate_plan::Profile;

/// One key, as it stands in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key: `route[0].path`.
    pub key: String,
    /// The key as an override names it: as the present one does, or with the entry's own name: `route[/media/].path`.
    pub name: String,
    /// Its description.
    pub help: String,
    /// The kind of its value, for a person.
    pub kind: String,
    /// The words that it allows, if there are only some.
    pub choices: Vec<String>,
    /// Its default, if it has one.
    pub default: Option<String>,
    /// Its value; `None` if it has none, or is a secret.
    pub value: Option<String>,
    /// Whether its value is never shown.
    pub secret: bool,
    /// The place that wrote it; `None`: no place did, and the default holds.
    pub source: Option<ValueLocation>,
}

/// Returns every key of a document, in the order of the reference; those of lists once for each entry, and those of each
/// built-in profile. A key of a profile that no place wrote has the value that the profile gets for it in `config`.
pub(super) fn settings(document: &Document<'_>, schema: &Value, config: &Config) -> Vec<Setting> {
    let tree = document.tree();
    let mut walk = Walk {
        document,
        found: Vec::new(),
    };
    walk.table(schema, &Spot::default(), Some(tree.get_ref()));
    for setting in &mut walk.found {
        let key = setting.key.strip_prefix("profile.");
        if let (None, Some((profile, key))) =
            (&setting.source, key.and_then(|key| key.rsplit_once('.')))
        {
            let profile = config.profile(profile);
            setting.value = profile.and_then(|profile| profile::value(&profile, key));
        }
    }
    walk.found
}

/// A place in the document.
#[derive(Debug, Clone, Default)]
struct Spot {
    path: KeyPath,
    /// The path as an override names it.
    name: String,
}

impl Spot {
    fn key(&self, key: &str) -> Self {
        let dot = if self.name.is_empty() { "" } else { "." };
        Self {
            path: self.path.key(key),
            name: format!("{}{dot}{key}", self.name),
        }
    }

    fn entry(&self, list: &[Node<'_>], index: usize) -> Self {
        Self {
            path: self.path.index(index),
            name: format!("{}[{}]", self.name, overrides::entry_name(list, index)),
        }
    }
}

struct Walk<'d, 't> {
    document: &'d Document<'t>,
    found: Vec<Setting>,
}

impl Walk<'_, '_> {
    fn table(&mut self, schema: &Value, spot: &Spot, table: Option<&DeTable<'_>>) {
        let schema = present(schema);
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, inner) in properties.into_iter().flatten() {
            let node = table.and_then(|table| table.get(name.as_str()));
            self.key(inner, &spot.key(name), node);
        }
        if properties.is_none() {
            // The user chooses the names.
            for (name, node) in table.into_iter().flatten() {
                if let Some(inner) = property(schema, name.get_ref()) {
                    self.key(inner, &spot.key(name.get_ref()), Some(node));
                }
            }
            let built_in = match spot.name.as_str() {
                "profile" => &Profile::BUILT_IN[..],
                _ => &[],
            };
            let is_written = |name: &str| table.is_some_and(|table| table.contains_key(name));
            for name in built_in.iter().filter(|name| !is_written(name)) {
                if let Some(inner) = property(schema, name) {
                    self.key(inner, &spot.key(name), None);
                }
            }
        }
    }

    fn key(&mut self, schema: &Value, spot: &Spot, node: Option<&Node<'_>>) {
        let inner = present(schema);
        let table = node.and_then(|node| node.get_ref().as_table());
        if let Some(entries) = tables(inner) {
            let list = node.and_then(|node| node.get_ref().as_array());
            let list = list.map_or(&[][..], |list| list);
            for (index, entry) in list.iter().enumerate() {
                let spot = spot.entry(list, index);
                self.table(entries, &spot, entry.get_ref().as_table());
            }
        } else if is_table(inner) && (node.is_none() || table.is_some()) {
            self.table(inner, spot, table);
        } else {
            self.leaf(schema, spot, node);
        }
    }

    fn leaf(&mut self, schema: &Value, spot: &Spot, node: Option<&Node<'_>>) {
        let secret = is_secret(schema);
        let default = schema.get("default").map(shown_default);
        let written = node.filter(|_| !secret).map(|node| shown(node.get_ref()));
        let source = node.map(|node| self.document.location(&node.span()));
        self.found.push(Setting {
            key: spot.path.to_string(),
            name: self.name(spot, source.as_ref()),
            help: reference::description(schema),
            kind: reference::kind(schema),
            choices: choices(schema).into_iter().map(str::to_owned).collect(),
            value: written.or_else(|| default.clone().filter(|_| node.is_none())),
            default,
            secret,
            source,
        });
    }
}

impl Walk<'_, '_> {
    /// Returns the key as an override names it.
    fn name(&self, spot: &Spot, source: Option<&ValueLocation>) -> String {
        match source {
            Some(ValueLocation::Override(written))
                if self.document.overridden(written).as_ref() == Ok(&spot.path) =>
            {
                written.clone()
            }
            _ => spot.name.clone(),
        }
    }
}

/// Returns whether a value is a table whose keys are settings of their own.
fn is_table(schema: &Value) -> bool {
    let open = schema.get("additionalProperties");
    let has_keys = schema.get("properties").is_some() || open.is_some_and(Value::is_object);
    has_keys && schema.get("x-kind").is_none()
}

/// Returns whether a value, or a part of it, is a secret.
fn is_secret(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let kind = map.get("x-kind").and_then(Value::as_str);
            matches!(kind, Some("secret" | "token")) || map.values().any(is_secret)
        }
        Value::Array(list) => list.iter().any(is_secret),
        _ => false,
    }
}

fn shown_default(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => reference::toml_text(value),
    }
}

/// Returns a value as an override writes it: bare text, or TOML.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        value => toml_of(value),
    }
}

fn toml_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()).to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => {
            let list: Vec<_> = list.iter().map(|one| toml_of(one.get_ref())).collect();
            format!("[{}]", list.join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(key, value): (&toml::Spanned<_>, &Node<'_>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                format!("{key} = {}", toml_of(value.get_ref()))
            };
            let pairs: Vec<_> = table.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
