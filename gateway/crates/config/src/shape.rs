//! Checks the tree against the schema: unknown keys, sections of the wrong kind, words that are not
//! allowed, missing keys.
//!
//! It also repairs the tree, so that one mistake is reported once: a key that is almost right is
//! read as the right one; an unreadable value is taken out, and its default stands in for it.

use std::borrow::Cow;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::Document;
use super::problem::{KeyPath, Problem, nearest, suggestion};
use super::schema;
use super::tree::{Node, Span};

/// Checks and repairs `tree`, and returns its problems.
pub(super) fn check<'t>(document: &Document<'t>, tree: &mut Spanned<DeTable<'t>>) -> Vec<Problem> {
    let mut shape = ShapeCheck {
        document,
        problems: Vec::new(),
    };
    let span = tree.span();
    shape.table(tree.get_mut(), &span, schema::shared(), &KeyPath::default());
    shape.problems
}

/// Keys of earlier versions: the beginning of their section's path, their name, and what has replaced them.
const REPLACED_KEYS: [(&str, &str, &str); 1] = [(
    "mount",
    "mtime",
    "was replaced by `attributes`: \"kept\" keeps times, modes and owners, \"none\" nothing",
)];

struct ShapeCheck<'d, 't> {
    document: &'d Document<'t>,
    problems: Vec<Problem>,
}

impl<'t> ShapeCheck<'_, 't> {
    fn report(&mut self, span: &Span, path: KeyPath, message: String) {
        let problem = self.document.problem(span, path, message);
        self.problems.push(problem);
    }

    fn table(&mut self, table: &mut DeTable<'t>, span: &Span, schema: &Value, path: &KeyPath) {
        self.unknown_keys(table, schema, path);
        let missing = schema.as_object().into_iter().flat_map(schema::required);
        for key in missing.filter(|key| !table.contains_key(*key)) {
            let message = format!("is missing{}", example(schema, key));
            self.report(span, path.key(key), message);
        }
        let mut unreadable = Vec::new();
        for (key, value) in table.iter_mut() {
            let name = key.get_ref();
            let Some(inner) = schema::property(schema, name) else {
                continue;
            };
            if !self.value(value, inner, &path.key(name)) {
                unreadable.push(key.clone());
            }
        }
        for key in unreadable {
            table.remove(&key);
        }
    }

    /// Reports the keys that do not exist; those that are almost right are read as the right ones.
    fn unknown_keys(&mut self, table: &mut DeTable<'t>, schema: &Value, path: &KeyPath) {
        let unknown = table
            .iter()
            .filter(|(key, _)| schema::property(schema, key.get_ref()).is_none());
        let unknown: Vec<_> = unknown.map(|(key, _)| key.clone()).collect();
        for key in unknown {
            let name = key.get_ref();
            let value = table.remove(&key).expect("it was among the keys");
            let replaced = replaced_by(path, name);
            let meant = nearest(name, schema::keys(schema)).filter(|_| replaced.is_none());
            let message = replaced.map_or_else(
                || format!("there is no such key{}", hint(meant, schema)),
                str::to_owned,
            );
            self.report(&key.span(), path.key(name), message);
            if let Some(meant) = meant.filter(|meant| !table.contains_key(*meant)) {
                let meant = Spanned::new(key.span(), Cow::Owned(meant.to_owned()));
                table.insert(meant, value);
            }
        }
    }

    /// Checks a value; returns whether it may stay.
    fn value(&mut self, node: &mut Node<'t>, schema: &Value, path: &KeyPath) -> bool {
        let schema = schema::present(schema);
        let span = node.span();
        if schema.get("properties").is_some() || schema.get("additionalProperties").is_some() {
            let kind = node.get_ref().type_str();
            let DeValue::Table(table) = node.get_mut() else {
                self.report(
                    &span,
                    path.clone(),
                    format!("expected a table, found {}", with_article(kind)),
                );
                return false;
            };
            self.table(table, &span, schema, path);
        } else if let Some(items) = schema::tables(schema) {
            return self.list(node, items, path);
        } else {
            return self.word(node, schema, path);
        }
        true
    }

    /// Checks a list of tables.
    fn list(&mut self, node: &mut Node<'t>, items: &Value, path: &KeyPath) -> bool {
        let span = node.span();
        let kind = node.get_ref().type_str();
        let DeValue::Array(list) = node.get_mut() else {
            let message = format!("expected a list of tables, each headed [[{path}]]");
            let message = match kind {
                "table" => message,
                _ => format!("{message}, found {}", with_article(kind)),
            };
            self.report(&span, path.clone(), message);
            return false;
        };
        let mut good = true;
        for (index, inner) in list.iter_mut().enumerate() {
            good &= self.value(inner, items, &path.index(index));
        }
        good
    }

    /// Checks a word, if only some are allowed; any other value is left to its own type.
    fn word(&mut self, node: &Node<'t>, schema: &Value, path: &KeyPath) -> bool {
        let choices = schema::choices(schema);
        let message = match node.get_ref().as_str() {
            _ if choices.is_empty() => return true,
            Some(word) if choices.contains(&word) => return true,
            Some(word) => {
                let hint = suggestion(word, choices.iter().copied());
                format!("`{word}` is none of {}{hint}", quoted_list(&choices))
            }
            None => {
                let kind = with_article(node.get_ref().type_str());
                format!("expected one of {}, found {kind}", quoted_list(&choices))
            }
        };
        self.report(&node.span(), path.clone(), message);
        false
    }
}

/// Returns what has replaced a key of an earlier version.
fn replaced_by(section: &KeyPath, name: &str) -> Option<&'static str> {
    let section = section.to_string();
    let is_meant = |(path, key, _): &&(&str, &str, &str)| section.starts_with(path) && *key == name;
    let found = REPLACED_KEYS.iter().find(is_meant);
    found.map(|(_, _, text)| *text)
}

fn hint(meant: Option<&str>, schema: &Value) -> String {
    match meant {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => format!(
            "; there are {}",
            quoted_list(&schema::keys(schema).collect::<Vec<_>>())
        ),
    }
}

fn quoted_list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Returns a kind with its article: `a string`, `an integer`.
fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

/// Returns an example of the key.
fn example(schema: &Value, key: &str) -> String {
    let examples = schema::property(schema, key).and_then(|s| s.get("examples")?.get(0));
    examples.map_or_else(String::new, |example| {
        format!("; for example {key} = {example}")
    })
}
