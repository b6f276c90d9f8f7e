//! Values from outside of the file: the key that a variable or an override means, its value, and their way into the
//! tree.

use std::borrow::Cow;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::environment::VARIABLE_PREFIX;
use super::problem::{KeyPath, Step};
use super::schema;
use super::tree::{Node, Span};

/// Puts a variable's value at the key that its name says.
///
/// # Errors
/// The key that was meant, and why no value can stand there.
pub(super) fn lay_over<'t>(
    root: &mut DeTable<'t>,
    variable: &str,
    text: &'t str,
    span: &Span,
) -> Result<(), (KeyPath, String)> {
    let path = path_of(variable);
    let placed = place(root, &path, text, span);
    placed.map_err(|message| (path, message))
}

/// Puts a value at its place: the text itself if the key takes text, else the TOML that it is. A table or a list is one also
/// where the key takes text beside it, as a secret does: `{ file = "…" }`.
pub(super) fn place<'t>(
    root: &mut DeTable<'t>,
    path: &KeyPath,
    text: &'t str,
    span: &Span,
) -> Result<(), String> {
    let accepts = |kind| accepts(schema::shared(), path.steps(), kind);
    let is_toml = |value: &DeValue<'_>| match value {
        DeValue::Table(_) => accepts("object") || !accepts("string"),
        DeValue::Array(_) => accepts("array") || !accepts("string"),
        _ => !accepts("string"),
    };
    let value = match DeValue::parse(text) {
        Ok(value) if is_toml(value.get_ref()) => with_span(value.into_inner(), span),
        // A value that is not TOML either is refused by its own type.
        _ => DeValue::String(Cow::Borrowed(text)),
    };
    insert(root, path.steps(), value, span)
}

/// Parses a variable's name: `TIDEGATE_ORIGIN__0__ENDPOINT` is `origin[0].endpoint`.
fn path_of(variable: &str) -> KeyPath {
    let name = variable.strip_prefix(VARIABLE_PREFIX).unwrap_or(variable);
    name.split("__").fold(KeyPath::default(), |path, part| {
        path.then(match part.parse() {
            Ok(index) => Step::Index(index),
            Err(_) => Step::Key(part.to_lowercase()),
        })
    })
}

/// Returns whether the key takes a value of this kind of JSON; a key that the schema does not know takes any.
fn accepts(schema: &Value, steps: &[Step], kind: &str) -> bool {
    let Some((first, rest)) = steps.split_first() else {
        return schema::allows(schema, kind);
    };
    let inner = match first {
        Step::Key(key) => schema::property(schema, key),
        Step::Index(_) => schema.get("items"),
    };
    inner.is_none_or(|inner| accepts(inner, rest, kind))
}

/// Returns the same value, with `span` as the place of it and of all values in it.
fn with_span<'t>(value: DeValue<'t>, span: &Span) -> DeValue<'t> {
    let node = |inner: Node<'t>| Spanned::new(span.clone(), with_span(inner.into_inner(), span));
    match value {
        DeValue::Array(list) => DeValue::Array(list.into_iter().map(node).collect()),
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, inner)| (Spanned::new(span.clone(), key.into_inner()), node(inner)))
                .collect(),
        ),
        scalar => scalar,
    }
}

/// Puts a value into a table, and creates the missing tables and lists on the way.
fn insert<'t>(
    table: &mut DeTable<'t>,
    steps: &[Step],
    value: DeValue<'t>,
    span: &Span,
) -> Result<(), String> {
    let Some((Step::Key(key), rest)) = steps.split_first() else {
        return Err("a number where a key belongs".to_owned());
    };
    if rest.is_empty() {
        // Removed first, because a key that stays keeps its place in the file.
        table.remove(key.as_str());
        table.insert(key_at(key, span), Spanned::new(span.clone(), value));
        return Ok(());
    }
    let inner = table.entry(key_at(key, span)).or_insert_with(|| {
        let inner = match rest {
            [Step::Index(_), ..] => DeValue::Array(DeArray::default()),
            _ => DeValue::Table(DeTable::new()),
        };
        Spanned::new(span.clone(), inner)
    });
    insert_below(inner, rest, value, span)
}

fn key_at<'t>(key: &str, span: &Span) -> Spanned<Cow<'t, str>> {
    Spanned::new(span.clone(), Cow::Owned(key.to_owned()))
}

/// Does as [`insert`], below an existing value.
fn insert_below<'t>(
    node: &mut Node<'t>,
    steps: &[Step],
    value: DeValue<'t>,
    span: &Span,
) -> Result<(), String> {
    match (node.get_mut(), steps) {
        (DeValue::Table(table), _) => insert(table, steps, value, span),
        (DeValue::Array(list), [Step::Index(index), rest @ ..]) => {
            let count = list.len();
            if *index > count {
                return Err(format!(
                    "the list has {count} entries, and they count from 0"
                ));
            }
            if *index == count {
                list.push(Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
            }
            let entry = list.get_mut(*index).expect("it is there or was pushed");
            if rest.is_empty() {
                *entry = Spanned::new(span.clone(), value);
                return Ok(());
            }
            insert_below(entry, rest, value, span)
        }
        (DeValue::Array(_), _) => Err("a list: the entry's number is missing".to_owned()),
        _ => Err("there is nothing below this value".to_owned()),
    }
}
