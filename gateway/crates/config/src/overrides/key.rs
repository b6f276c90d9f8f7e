//! The keys of overrides: entries of lists are named by names of their own, or by numbers.

use std::borrow::Cow;

use toml::de::DeTable;

use crate::problem::{KeyPath, Step};
use crate::tree::{Node, Parent};

/// A step of a key as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WrittenStep {
    Key(String),
    /// The number of a list's entry, or its `name` or `path`.
    Entry(String),
}

/// Reads a key: `route[/media/].profile`.
pub(super) fn parse_key(text: &str) -> Result<Vec<WrittenStep>, String> {
    let wrong =
        || format!("`{text}` is no key, such as `cache.memory` or `route[/media/].profile`");
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end == 0 {
            return Err(wrong());
        }
        steps.push(WrittenStep::Key(rest[..end].to_owned()));
        rest = &rest[end..];
        while let Some(inner) = rest.strip_prefix('[') {
            let (entry, after) = inner.split_once(']').ok_or_else(wrong)?;
            if entry.is_empty() {
                return Err(wrong());
            }
            steps.push(WrittenStep::Entry(entry.to_owned()));
            rest = after;
        }
        match rest.strip_prefix('.') {
            _ if rest.is_empty() => return Ok(steps),
            Some(next) => rest = next,
            None => return Err(wrong()),
        }
    }
}

/// Returns the place in the tree that a key means.
///
/// # Errors
/// If the key cannot be read, or names an entry that does not exist.
pub(crate) fn resolve(root: &DeTable<'_>, key: &str) -> Result<KeyPath, String> {
    let (mut path, mut place) = (KeyPath::default(), Some(Parent::Table(root)));
    for step in parse_key(key)? {
        let step = match step {
            WrittenStep::Key(name) => Step::Key(name),
            WrittenStep::Entry(name) => {
                let list = place.map_or(&[][..], Parent::list);
                let index = index_of(list, &name).ok_or_else(|| {
                    format!("`{path}` has no entry with the name or path `{name}`")
                })?;
                Step::Index(index)
            }
        };
        place = place.and_then(|place| place.child(&step));
        path = path.then(step);
    }
    Ok(path)
}

/// Returns the key with each entry that it names by number named by its own name.
///
/// # Errors
/// If the key cannot be read, or an entry does not exist or has no name of its own.
pub(crate) fn own_name(root: &DeTable<'_>, key: &str) -> Result<String, String> {
    let (mut own, mut place) = (String::new(), Some(Parent::Table(root)));
    for step in parse_key(key)? {
        match step {
            WrittenStep::Key(name) => {
                let dot = if own.is_empty() { "" } else { "." };
                own.extend([dot, &name]);
                place = place.and_then(|place| place.child(&Step::Key(name)));
            }
            WrittenStep::Entry(name) => {
                let list = place.map_or(&[][..], Parent::list);
                place = index_of(list, &name)
                    .and_then(|index| list.get(index))
                    .map(Parent::Value);
                let name = match name.parse::<usize>() {
                    Ok(_) if place.is_none() => {
                        return Err(format!(
                            "`{own}[{name}]` is no entry of the configuration file"
                        ));
                    }
                    Ok(number) => entry_name(list, number),
                    Err(_) => name,
                };
                if name.parse::<usize>().is_ok() {
                    return Err(format!(
                        "`{own}[{name}]` can only be named by its number, which another entry may get: set the \
                         whole list, \
                         or give the entry a `name` or `path` of its own in the configuration file"
                    ));
                }
                own.extend(["[", &name, "]"]);
            }
        }
    }
    Ok(own)
}

/// Returns the index that a written entry of a list means: the number that it is, or that of the first entry with that name.
fn index_of(list: &[Node<'_>], name: &str) -> Option<usize> {
    let number = name.parse().ok();
    number.or_else(|| list.iter().position(|entry| is_named(entry, name)))
}

/// Returns an entry's `name` and `path`, and `host` and `path` as one, as far as it has them.
fn names_of<'e>(entry: &'e Node<'_>) -> impl Iterator<Item = Cow<'e, str>> {
    let table = entry.get_ref().as_table();
    let of = move |key: &str| table?.get(key)?.get_ref().as_str();
    let at_host = of("host").and_then(|host| Some(format!("{host}{}", of("path")?)));
    let plain = ["name", "path"].into_iter().filter_map(of);
    plain.map(Cow::Borrowed).chain(at_host.map(Cow::Owned))
}

fn is_named(entry: &Node<'_>, name: &str) -> bool {
    names_of(entry).any(|one| one == name)
}

/// Returns the text between the brackets with which an override names an entry of a list.
///
/// It is the entry's `name` or `path`, or its `host` and `path` as one, if it alone has it. Then it stays the same one
/// when others come before it. Else it is its number.
pub(crate) fn entry_name(list: &[Node<'_>], index: usize) -> String {
    let is_its_own = |name: &Cow<'_, str>| {
        let having = list.iter().filter(|entry| is_named(entry, name));
        let can_be_written = !name.is_empty() && !name.contains(']');
        can_be_written && name.parse::<usize>().is_err() && having.count() == 1
    };
    let own = list
        .get(index)
        .and_then(|entry| names_of(entry).find(is_its_own));
    own.map_or_else(|| index.to_string(), Cow::into_owned)
}

#[cfg(test)]
mod tests;
