//! Reads the tree into the structs, past every value that cannot be read.

use std::borrow::Cow;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::document::Document;
use super::problem::{KeyPath, Problem};
use super::tree::{Node, Span};
use super::{Config, Environment, Overrides, shape};

/// Returns the document, the readable configuration, and a problem for each value that cannot be
/// read.
///
/// # Errors
/// Every error of the syntax: then nothing was read.
pub(super) fn read<'t>(
    name: &'t str,
    text: &'t str,
    overrides: &'t Overrides,
    env: &'t Environment,
) -> Result<(Document<'t>, Config, Vec<Problem>), Vec<Problem>> {
    let (document, mut problems) = Document::read(name, text, overrides, env)?;
    let mut tree = document.tree();
    problems.extend(shape::check(&document, &mut tree));
    let config = values(&document, &mut tree, &mut problems);
    Ok((document, config, problems))
}

/// Reads the values. An unreadable value is reported and taken out, its default stands in, and the
/// rest is read again: so all are found, and not only the first.
fn values<'t>(
    document: &Document<'t>,
    tree: &mut Spanned<DeTable<'t>>,
    problems: &mut Vec<Problem>,
) -> Config {
    let mut reported: Vec<KeyPath> = Vec::new();
    loop {
        let error = match Config::deserialize(Deserializer::from(tree.clone())) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let path = document.path_of(&span);
        // If a part of a value was wrong, the rest of it is not reported a second time.
        if !reported
            .iter()
            .any(|inner| inner.steps().starts_with(path.steps()))
        {
            problems.push(document.problem(&span, path.clone(), plain_message(error.message())));
            reported.push(path);
        }
        if !remove_at(tree.get_mut(), &span) {
            return Config::default();
        }
    }
}

/// Translates serde's words into those of the file.
fn plain_message(message: &str) -> String {
    let found = message
        .replacen("invalid type: map", "invalid type: table", 1)
        .replacen("invalid type: sequence", "invalid type: list", 1);
    match found.strip_suffix("expected u32") {
        Some(found) => format!("{found}expected a whole number from 0 to {}", u32::MAX),
        None => found,
    }
}

/// Removes the innermost entry whose key or value is at `span`.
fn remove_at(table: &mut DeTable<'_>, span: &Span) -> bool {
    if table.iter_mut().any(|(_, node)| remove_below(node, span)) {
        return true;
    }
    let stands_there = |(key, value): &(&Spanned<_>, &Node<'_>)| {
        let key: &Spanned<Cow<'_, str>> = key;
        key.span() == *span || value.span() == *span
    };
    let found = table.iter().find(stands_there).map(|(key, _)| key.clone());
    found.is_some_and(|key| table.remove(&key).is_some())
}

fn remove_below(node: &mut Node<'_>, span: &Span) -> bool {
    match node.get_mut() {
        DeValue::Table(table) => remove_at(table, span),
        DeValue::Array(list) => {
            if list.iter_mut().any(|inner| remove_below(inner, span)) {
                return true;
            }
            let before = list.len();
            let kept: Vec<_> = list
                .iter()
                .filter(|inner| inner.span() != *span)
                .cloned()
                .collect();
            *list = kept.into_iter().collect();
            list.len() < before
        }
        _ => false,
    }
}
