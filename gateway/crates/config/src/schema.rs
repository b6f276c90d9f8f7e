//! The JSON schema of a configuration, made from the structs: editors complete from it, the
//! reference is written from it, and a file's shape is checked against it.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::Config;

/// Returns the schema, made once.
pub(super) fn shared() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(json_schema);
    &SCHEMA
}

/// Returns the schema of `tidegate.toml` (JSON Schema 2020-12).
#[must_use]
pub fn json_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Config>()
        .to_value();
    tidy(&mut schema);
    schema
}

/// Returns the schema of a list's tables, if it is a list of tables.
pub(super) fn tables(schema: &Value) -> Option<&Value> {
    schema
        .get("items")
        .filter(|items| items.get("properties").is_some())
}

/// Removes defaults that are not real: those of required keys, and `null`.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            let required: Vec<String> = required(map).map(str::to_owned).collect();
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                for key in required {
                    if let Some(Value::Object(property)) = properties.get_mut(&key) {
                        property.remove("default");
                    }
                }
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Returns the keys that have to be given.
pub(super) fn required(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let list = schema.get("required").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the schema of a table's key; of any key, if the user chooses the names.
pub(super) fn property<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
    let schema = present(schema);
    let named = schema.get("properties").and_then(|all| all.get(key));
    named.or_else(|| {
        schema
            .get("additionalProperties")
            .filter(|any| any.is_object())
    })
}

/// Returns the names of a table's keys; none if the user chooses them.
pub(super) fn keys(schema: &Value) -> impl Iterator<Item = &str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(|all| all.keys().map(String::as_str))
}

/// Returns the schema of the value itself, if it may be left out.
pub(super) fn present(schema: &Value) -> &Value {
    let Some(Value::Array(any)) = schema.get("anyOf") else {
        return schema;
    };
    let mut some = any.iter().filter(|one| one["type"] != "null");
    match (some.next(), some.next()) {
        (Some(only), None) => only,
        _ => schema,
    }
}

/// Returns whether a value of this JSON type may stand here.
pub(super) fn allows(schema: &Value, kind: &str) -> bool {
    let listed = match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let alternatives = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|key| schema.get(*key)?.as_array());
    listed || alternatives.flatten().any(|one| allows(one, kind))
}

/// Returns the allowed words, if there are only some.
pub(super) fn choices(schema: &Value) -> Vec<&str> {
    let schema = present(schema);
    let plain = schema.get("enum").and_then(Value::as_array);
    let documented = schema.get("oneOf").and_then(Value::as_array);
    let plain = plain.into_iter().flatten().filter_map(Value::as_str);
    let documented = documented
        .into_iter()
        .flatten()
        .filter_map(|one| one["const"].as_str());
    plain.chain(documented).collect()
}
