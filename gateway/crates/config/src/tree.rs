//! The nodes of the tree of values.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

/// A value and its place in the text.
pub(crate) type Node<'t> = Spanned<DeValue<'t>>;

/// A place in the text, in bytes; see [`document`](crate::document).
pub(crate) type Span = Range<usize>;
