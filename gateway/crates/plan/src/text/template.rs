//! Templates: text with fields in braces, whose values are escaped for their place.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that stand for themselves in a path and a query: the unreserved ones (RFC 3986, 2.3), and `/`.
const PLAIN_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// A field of a template about changed keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// `{key}`: the key, or the common folder of several.
    Key,
    /// `{folder}`: the folder of the key, up to its last slash.
    Folder,
    /// `{bucket}`: the bucket's name.
    Bucket,
    /// `{event}`: `created`, `removed`, or `changed` for both.
    Event,
    /// `{path}`: the key as a path of the receiver's machine.
    Path,
    /// `{count}`: the number of keys.
    Count,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Key,
        Self::Folder,
        Self::Bucket,
        Self::Event,
        Self::Path,
        Self::Count,
    ];

    /// Returns the name between the braces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Folder => "folder",
            Self::Bucket => "bucket",
            Self::Event => "event",
            Self::Path => "path",
            Self::Count => "count",
        }
    }
}

/// The place of a value, which decides how it is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Between the quotes of a JSON string (RFC 8259, 7).
    Json,
    /// In a path, a query or a form: percent-encoded, except unreserved characters and `/`.
    Percent,
}

impl Escape {
    /// Returns a value as it stands in its place. It cannot end the place.
    #[must_use]
    pub fn apply(self, value: &str) -> Cow<'_, str> {
        match self {
            Self::Percent => utf8_percent_encode(value, PLAIN_CHARACTERS).into(),
            Self::Json => json(value),
        }
    }
}

/// Escapes quotes, backslashes and control characters.
fn json(value: &str) -> Cow<'_, str> {
    let is_special = |c: char| c == '"' || c == '\\' || c < ' ';
    if !value.contains(is_special) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 16);
    for c in value.chars() {
        if is_special(c) {
            // Writing to text cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// The error of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A name in braces is no field.
    #[error("there is no field `{{{0}}}`")]
    UnknownField(String),
    /// It has more than [`Template::MAX_FIELDS`].
    #[error("has more than {} fields", Template::MAX_FIELDS)]
    TooManyFields,
}

/// Text with fields in braces: `{key}`. Braces around anything but lower-case letters are text, so that JSON needs no
/// escapes.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    /// The text before the first field.
    head: String,
    /// The fields, each with the text behind it.
    rest: Vec<(Field, String)>,
}

/// Shows the fields only: the text may have secrets.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.fields()).finish()
    }
}

impl Template {
    /// The most fields of one.
    pub const MAX_FIELDS: usize = 16;

    /// Reads a template.
    ///
    /// # Errors
    /// It names a field that does not exist, or has too many.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (mut head, mut rest) = (String::new(), Vec::<(Field, String)>::new());
        let mut left = text;
        while let Some((before, name, after)) = next_field(left) {
            let end = rest.last_mut().map_or(&mut head, |(_, text)| text);
            end.push_str(before);
            let field = Field::ALL.into_iter().find(|field| field.name() == name);
            let field = field.ok_or_else(|| TemplateError::UnknownField(name.to_owned()))?;
            if rest.len() == Self::MAX_FIELDS {
                return Err(TemplateError::TooManyFields);
            }
            rest.push((field, String::new()));
            left = after;
        }
        rest.last_mut()
            .map_or(&mut head, |(_, text)| text)
            .push_str(left);
        Ok(Self { head, rest })
    }

    /// Returns the text before the first field.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Returns the fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.rest.iter().map(|(field, _)| *field)
    }

    /// Returns the text with the value of each field, escaped.
    pub fn render<'v>(&self, escape: Escape, value: impl Fn(Field) -> Cow<'v, str>) -> String {
        let mut text = self.head.clone();
        for (field, after) in &self.rest {
            text.push_str(&escape.apply(&value(*field)));
            text.push_str(after);
        }
        text
    }
}

/// Returns the text before the first name in braces, the name, and the text behind it.
fn next_field(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let inner = &text[open + 1..];
        let length = inner
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(inner.len());
        if length > 0 && inner[length..].starts_with('}') {
            return Some((&text[..open], &inner[..length], &inner[length + 1..]));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests;
