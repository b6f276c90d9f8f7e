//! The walk through the bucket: the folder that the pane Objects shows, and the requests for others.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Names on a page: the most that the gateway sends.
const PAGE_LIMIT: usize = 500;

/// A page of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderPage {
    /// The path of the public listener, percent-encoded, with a `/` at its end.
    path: String,
    /// The host of its route, empty if that names none; `None`: the path alone was given.
    host: Option<String>,
    /// The token from the page before; `None`: the first page.
    token: Option<String>,
}

impl FolderPage {
    /// Returns the first page of a folder. A path without a `/` at its end gets one.
    pub(super) fn first(path: &str, host: Option<&str>) -> Self {
        let slash = if path.ends_with('/') { "" } else { "/" };
        Self {
            path: format!("{path}{slash}"),
            host: host.map(str::to_owned),
            token: None,
        }
    }

    /// Returns the path and query of the request for it.
    pub(super) fn target(&self) -> String {
        let mut target = format!("/api/v1/objects?limit={PAGE_LIMIT}");
        let path = Some(&self.path);
        for (name, value) in [
            ("path", path),
            ("host", self.host.as_ref()),
            ("page", self.token.as_ref()),
        ] {
            if let Some(value) = value {
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                target.push_str(&format!("&{name}={value}"));
            }
        }
        target
    }
}

/// A folder on the way.
#[derive(Debug)]
struct WalkStep {
    page: FolderPage,
    /// The tokens of the pages before.
    before: Vec<Option<String>>,
    /// The last answer; `null`: none has come yet.
    answer: Value,
    /// The row that was selected above it.
    row_above: usize,
}

/// The folders from a route down to the one that is shown; without any, the routes are shown.
#[derive(Debug, Default)]
pub(super) struct Walk(Vec<WalkStep>);

impl Walk {
    /// Returns the folder as a part of a look; `null`: the routes are shown.
    pub(super) fn part(&self) -> Value {
        let Some(step) = self.0.last() else {
            return Value::Null;
        };
        match &step.answer {
            Value::Null => Value::from(format!("{} is asked for", step.page.path)),
            answer => answer.clone(),
        }
    }

    /// Goes down into a folder, from this row. Returns the page to ask for.
    pub(super) fn down(&mut self, page: FolderPage, row_above: usize) -> FolderPage {
        self.0.push(WalkStep {
            page: page.clone(),
            before: Vec::new(),
            answer: Value::Null,
            row_above,
        });
        page
    }

    /// Goes up. Returns the row that was selected there; the answer that it had is shown again.
    pub(super) fn up(&mut self) -> Option<usize> {
        self.0.pop().map(|step| step.row_above)
    }

    /// Goes to the next page, if there is one. Returns the page to ask for.
    pub(super) fn next_page(&mut self) -> Option<FolderPage> {
        let step = self.0.last_mut()?;
        let next = step.answer["next"].as_str()?.to_owned();
        step.before.push(step.page.token.replace(next));
        self.again()
    }

    /// Goes to the page before, if there is one. Returns the page to ask for.
    pub(super) fn page_before(&mut self) -> Option<FolderPage> {
        let step = self.0.last_mut()?;
        step.page.token = step.before.pop()?;
        self.again()
    }

    /// Asks for the page that is shown once more. Returns `None` where the routes are shown.
    pub(super) fn again(&mut self) -> Option<FolderPage> {
        let step = self.0.last_mut()?;
        step.answer = Value::Null;
        Some(step.page.clone())
    }

    /// Takes an answer. It counts for the folder of the walk that it belongs to.
    pub(super) fn take(&mut self, page: &FolderPage, answer: &Value) {
        let mut steps = self.0.iter_mut();
        if let Some(step) = steps.find(|step| step.page == *page) {
            step.answer = answer.clone();
        }
    }

    /// Returns the folder of a row: of a route, or of a folder below the one that is shown. `None`: it cannot be entered.
    pub(super) fn below(&self, row: &Value) -> Option<FolderPage> {
        let path = row["path"].as_str()?;
        match self.0.last() {
            // Another route with this path may name a host.
            None => Some(FolderPage::first(path, row["host"].as_str().or(Some("")))),
            Some(step) if row["folder"] == true => {
                Some(FolderPage::first(path, step.page.host.as_deref()))
            }
            Some(_) => None,
        }
    }
}
