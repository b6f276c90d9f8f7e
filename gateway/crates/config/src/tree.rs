//! The nodes of the tree of values.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Step;

/// A value and its place in the text.
pub(crate) type Node<'t> = Spanned<DeValue<'t>>;

/// A place in the text, in bytes; see [`document`](crate::document).
pub(crate) type Span = Range<usize>;

/// A place in the tree whose parts are looked up: the root, or a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parent<'a, 't> {
    Table(&'a DeTable<'t>),
    Value(&'a Node<'t>),
}

impl<'a, 't> Parent<'a, 't> {
    /// Returns the part that a step leads to.
    pub(crate) fn child(self, step: &Step) -> Option<Self> {
        let inner = match (self, step) {
            (Self::Table(table), Step::Key(key)) => table.get(key.as_str()),
            (Self::Value(node), Step::Key(key)) => node.get_ref().as_table()?.get(key.as_str()),
            (Self::Value(node), Step::Index(index)) => node.get_ref().as_array()?.get(*index),
            (Self::Table(_), Step::Index(_)) => None,
        };
        inner.map(Self::Value)
    }

    /// Returns the entries of the list that is here, if one is.
    pub(crate) fn list(self) -> &'a [Node<'t>] {
        match self {
            Self::Value(node) => node.get_ref().as_array().map_or(&[], |list| list),
            Self::Table(_) => &[],
        }
    }
}
