//! Spans: steps with a beginning, an end, and what is known of them.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Context, id};

/// The role of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A step of this process.
    Internal,
    /// The answer to a client's request.
    Server,
    /// A request to another server.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// A step under way. Its end is its drop.
#[derive(Debug)]
pub struct Span {
    context: Context,
    parent: Option<u64>,
    name: &'static str,
    kind: Kind,
    began: SystemTime,
    clock: Instant,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

/// A step that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSpan {
    /// The trace that it belongs to.
    pub trace: u128,
    /// Its own id.
    pub id: u64,
    /// The step that it is a part of; `None` at the root.
    pub parent: Option<u64>,
    /// Its name, one of few.
    pub name: &'static str,
    /// Its role.
    pub kind: Kind,
    /// Its beginning, since 1970.
    pub began: Duration,
    /// Its length.
    pub took: Duration,
    /// The known attributes of the step.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether it has failed.
    pub failed: bool,
}

impl Span {
    pub(super) fn new(
        context: Context,
        parent: Option<u64>,
        name: &'static str,
        kind: Kind,
    ) -> Self {
        Self {
            context,
            parent,
            name,
            kind,
            began: SystemTime::now(),
            clock: Instant::now(),
            attributes: Vec::new(),
            failed: false,
        }
    }

    /// Begins a step below `above`. `None`: the trace has too many spans already.
    pub(super) fn child(above: &Context, name: &'static str, kind: Kind) -> Option<Self> {
        let less = |left: u32| left.checked_sub(1);
        above
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .ok()?;
        let context = Context {
            span: id(),
            ..above.clone()
        };
        Some(Self::new(context, Some(above.span), name, kind))
    }

    /// Returns the place of this step in its trace.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Notes something of the step. The same name twice keeps both: callers note each once.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.attributes.push((name, value.into()));
    }

    /// Marks the step as failed.
    pub fn fail(&mut self) {
        self.failed = true;
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let began = self.began.duration_since(UNIX_EPOCH);
        self.context.tracer.finish(FinishedSpan {
            trace: self.context.trace,
            id: self.context.span,
            parent: self.parent,
            name: self.name,
            kind: self.kind,
            began: began.unwrap_or_default(),
            took: self.clock.elapsed(),
            attributes: std::mem::take(&mut self.attributes),
            failed: self.failed,
        });
    }
}
