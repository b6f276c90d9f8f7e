//! The text of a configuration with the overrides and the environment laid over it, as one tree in which
//! every value knows its place.
//!
//! A value from the file spans its bytes there. A value from an override or a variable spans one position behind
//! the end of the file, one for each, so that one kind of place serves all.

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::problem::{KeyPath, Problem, ValueLocation, line_and_column};
use super::tree::{Node, Parent, Span};
use super::{Environment, Overrides, overlay, overrides};

mod changed;

/// A value from outside of the file.
#[derive(Debug, Clone, Copy)]
enum ExternalValue<'t> {
    Override(&'t str),
    Variable(&'t str),
}

/// The tree, and the data that give the place of each value.
#[derive(Debug)]
pub(super) struct Document<'t> {
    name: &'t str,
    text: &'t str,
    /// The overrides and variables, in the order of their positions.
    laid_over: Vec<ExternalValue<'t>>,
    root: Spanned<DeTable<'t>>,
    /// The tree before keys of entries were overridden. An override names entries by the names that they have here.
    named: Spanned<DeTable<'t>>,
}

impl<'t> Document<'t> {
    /// Reads the file's text, and lays the overrides and then the variables over it; also returns a problem for each
    /// of them that fits nowhere.
    ///
    /// # Errors
    /// Every error of TOML's syntax.
    pub(super) fn read(
        name: &'t str,
        text: &'t str,
        overrides: &'t Overrides,
        env: &'t Environment,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut document = Self {
            name,
            text,
            laid_over: Vec::new(),
            named: root.clone(),
            root,
        };
        if !errors.is_empty() {
            return Err(errors.iter().map(|error| document.syntax(error)).collect());
        }
        let overrides = overrides.iter();
        let overrides = overrides.map(|(key, value)| (ExternalValue::Override(key), value));
        let variables = env.overrides();
        let variables = variables.map(|(name, value)| (ExternalValue::Variable(name), value));
        let (of_entries, plain): (Vec<_>, Vec<_>) = overrides.partition(
            |(source, _)| matches!(source, ExternalValue::Override(key) if key.contains('[')),
        );
        let mut problems = Vec::new();
        for (source, value) in plain {
            problems.extend(document.lay_over(source, value).err());
        }
        document.named = document.root.clone();
        for (source, value) in of_entries.into_iter().chain(variables) {
            problems.extend(document.lay_over(source, value).err());
        }
        Ok((document, problems))
    }

    /// Returns the place that the key of an override means.
    ///
    /// # Errors
    /// If the key cannot be read, or names an entry that does not exist.
    pub(super) fn overridden(&self, key: &str) -> Result<KeyPath, String> {
        let named = overrides::resolve(self.named.get_ref(), key);
        named.or_else(|_| overrides::resolve(self.root.get_ref(), key))
    }

    /// Returns the key of an override with the own name of each entry in place of its number.
    ///
    /// # Errors
    /// As [`Document::overridden`], or if an entry has no name of its own.
    pub(super) fn own_name(&self, key: &str) -> Result<String, String> {
        overrides::own_name(self.named.get_ref(), key)
    }

    /// Returns a copy of the tree, to be taken apart.
    pub(super) fn tree(&self) -> Spanned<DeTable<'t>> {
        self.root.clone()
    }

    /// Returns a problem with the value at `span`.
    pub(super) fn problem(&self, span: &Span, path: KeyPath, message: String) -> Problem {
        Problem {
            location: self.location(span),
            path,
            message,
        }
    }

    /// Returns a problem with the value of `path`, or with the innermost table around it that
    /// exists.
    pub(super) fn problem_at(&self, path: &KeyPath, message: String) -> Problem {
        let span = self.innermost(path);
        self.problem(&span, path.clone(), message)
    }

    /// Returns whether the key is written in the file or a variable.
    pub(super) fn has(&self, path: &KeyPath) -> bool {
        self.find(path).is_some()
    }

    /// Returns whether the key is written, and its value is no empty list or table.
    pub(super) fn has_content(&self, path: &KeyPath) -> bool {
        let is_full = |node: &Node<'_>| match node.get_ref() {
            DeValue::Array(list) => !list.is_empty(),
            DeValue::Table(table) => !table.is_empty(),
            _ => true,
        };
        match self.find(path) {
            Some(Parent::Value(node)) => is_full(node),
            Some(Parent::Table(_)) | None => false,
        }
    }

    fn find(&self, path: &KeyPath) -> Option<Parent<'_, 't>> {
        let mut node = Parent::Table(self.root.get_ref());
        for step in path.steps() {
            node = node.child(step)?;
        }
        Some(node)
    }

    /// Returns the path of the smallest key or value that covers `span`.
    pub(super) fn path_of(&self, span: &Span) -> KeyPath {
        let mut best = (usize::MAX, KeyPath::default());
        find_in_table(self.root.get_ref(), span, &KeyPath::default(), &mut best);
        best.1
    }

    /// Returns the place of a span, in words for a person.
    pub(super) fn location(&self, span: &Span) -> ValueLocation {
        if let Some(nth) = span.start.checked_sub(self.text.len() + 1) {
            return match self.laid_over.get(nth) {
                None => ValueLocation::Nowhere,
                Some(ExternalValue::Variable(name)) => ValueLocation::Variable((*name).to_owned()),
                Some(ExternalValue::Override(key)) => ValueLocation::Override((*key).to_owned()),
            };
        }
        if self.name.is_empty() {
            return ValueLocation::Nowhere;
        }
        let (line, column) = line_and_column(self.text, span.start);
        ValueLocation::File {
            line,
            column,
            name: self.name.to_owned(),
        }
    }

    fn innermost(&self, path: &KeyPath) -> Span {
        let mut node = Parent::Table(self.root.get_ref());
        let mut span = self.root.span().start..self.root.span().start;
        for step in path.steps() {
            let Some(next) = node.child(step) else { break };
            node = next;
            if let Parent::Value(value) = next {
                span = value.span();
            }
        }
        span
    }

    fn syntax(&self, error: &Error) -> Problem {
        let span = error.span().unwrap_or_default();
        let mut message = error.message().to_owned();
        if let Some(key) = self.text.get(span.clone())
            && message == "duplicate key"
        {
            message = format!("the key `{key}` is there twice");
        }
        self.problem(&span, KeyPath::default(), message)
    }

    /// Puts the value of one override or variable at its key.
    fn lay_over(&mut self, source: ExternalValue<'t>, text: &'t str) -> Result<(), Problem> {
        let start = self.text.len() + 1 + self.laid_over.len();
        let span = start..start;
        self.laid_over.push(source);
        let placed = match source {
            ExternalValue::Override(key) => match self.overridden(key) {
                Ok(path) => overlay::place(self.root.get_mut(), &path, text, &span)
                    .map_err(|message| (path, message)),
                Err(message) => Err((KeyPath::default(), message)),
            },
            ExternalValue::Variable(name) => {
                overlay::lay_over(self.root.get_mut(), name, text, &span)
            }
        };
        placed.map_err(|(path, message)| self.problem(&span, path, message))
    }
}

/// Finds the smallest key or value around `span`; of two equal ones the inner.
fn find_in_table(table: &DeTable<'_>, span: &Span, path: &KeyPath, best: &mut (usize, KeyPath)) {
    for (key, value) in table {
        let path = path.key(key.get_ref());
        consider(&key.span(), span, &path, best);
        find_in_value(value, span, &path, best);
    }
}

fn find_in_value(node: &Node<'_>, span: &Span, path: &KeyPath, best: &mut (usize, KeyPath)) {
    consider(&node.span(), span, path, best);
    match node.get_ref() {
        DeValue::Table(table) => find_in_table(table, span, path, best),
        DeValue::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                // All of a list in a variable has one place: then the list itself is meant.
                if inner.span() != node.span() || inner.get_ref().is_table() {
                    find_in_value(inner, span, &path.index(index), best);
                }
            }
        }
        _ => {}
    }
}

fn consider(around: &Span, span: &Span, path: &KeyPath, best: &mut (usize, KeyPath)) {
    let covers = around.start <= span.start && span.end <= around.end;
    if covers && around.len() <= best.0 {
        *best = (around.len(), path.clone());
    }
}
