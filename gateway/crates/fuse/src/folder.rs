//! A folder that a program reads: its names, page by page.
//!
//! The first names go out as soon as the first page is there, while the next page is already being fetched. Memory
//! holds two pages, and where each page began, so that a program can go back to any offset that it was told.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};
use tokio_util::task::AbortOnDropHandle;

use crate::nodes::Node;
use tidegate_engine::names::{NameKind, PagePosition};
use tidegate_engine::{Engine, Error, ReadContext};

/// A folder, held open.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) node: Arc<Node>,
    engine: Engine,
    source: Arc<ReadContext>,
    stream: Mutex<ListingState>,
}

#[derive(Debug, Default)]
struct ListingState {
    /// The number of each page's first name, and where the page begins.
    begun: Vec<(u64, Option<Position>)>,
    /// The drafts in the folder when the reading began.
    drafts: Vec<(String, NameKind)>,
    page: Option<Arc<FolderPage>>,
    ahead: Option<AbortOnDropHandle<Result<Option<ListedPage>, Error>>>,
    /// Names of drafts that the pages already had.
    met: HashSet<String>,
}

/// The start of a page.
#[derive(Debug, Clone)]
struct Position {
    /// The prefix under which the page before it was listed.
    prefix: Arc<str>,
    place: PagePosition,
}

/// Names as they were listed, and the start of the next ones.
#[derive(Debug)]
struct ListedPage {
    names: Vec<(String, NameKind)>,
    next: Option<Position>,
}

/// Consecutive names of a folder.
#[derive(Debug)]
pub(crate) struct FolderPage {
    /// The number of the first.
    pub(crate) first: u64,
    pub(crate) names: Vec<(String, NameKind)>,
    next: Option<Position>,
    /// Filled once the types of its names were asked for.
    pub(crate) types: OnceCell<()>,
}

impl FolderPage {
    fn end(&self) -> u64 {
        self.first + self.names.len() as u64
    }

    /// Returns the names from this number on.
    pub(crate) fn from(&self, number: u64) -> &[(String, NameKind)] {
        let skip = number.saturating_sub(self.first);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        self.names.get(skip..).unwrap_or_default()
    }
}

impl Folder {
    pub(crate) fn new(node: Arc<Node>, engine: Engine, source: Arc<ReadContext>) -> Self {
        Self {
            node,
            engine,
            source,
            stream: Mutex::default(),
        }
    }

    /// Starts reading from the beginning, as a program that opens the folder now. `drafts`: names that the bucket may not
    /// have yet.
    pub(crate) async fn begin(&self, drafts: Vec<(String, NameKind)>) {
        *self.stream.lock().await = ListingState {
            drafts,
            ..ListingState::default()
        };
    }

    /// Returns names that include the one of this number, unless the folder ends before it. `None`: a rename has hidden
    /// the folder, or given it another key, as it was listed; the names that were returned before stay right.
    pub(crate) async fn listed_at(&self, number: u64) -> Result<Option<Arc<FolderPage>>, Error> {
        let mut stream = self.stream.lock().await;
        loop {
            let place = match &stream.page {
                Some(page) if number < page.first => stream.back_to(number),
                Some(page) if number < page.end() || page.next.is_none() => {
                    return Ok(Some(page.clone()));
                }
                Some(page) => (page.end(), page.next.clone()),
                None => (0, None),
            };
            if !self.fetch_page(&mut stream, place).await? {
                return Ok(None);
            }
        }
    }

    /// Fetches the page of a position. Returns whether the folder was there to be listed.
    async fn fetch_page(
        &self,
        stream: &mut ListingState,
        (first, place): (u64, Option<Position>),
    ) -> Result<bool, Error> {
        let ahead = match stream.ahead.take() {
            Some(ahead) => ahead.await.unwrap_or(Err(Error::Unavailable))?,
            None => None,
        };
        let listed = match ahead {
            Some(page) => Some(page),
            None => self.list(place.clone()).await?,
        };
        let Some(mut page) = listed else {
            return Ok(false);
        };
        if stream.begun.last().is_none_or(|(last, _)| *last < first) {
            stream.begun.push((first, place));
        }
        stream.add_drafts(&mut page);
        if let Some(next) = &page.next {
            let ahead = self.list(Some(next.clone()));
            stream.ahead = Some(AbortOnDropHandle::new(tokio::spawn(ahead)));
        }
        stream.page = Some(Arc::new(FolderPage {
            first,
            names: page.names,
            next: page.next,
            types: OnceCell::new(),
        }));
        Ok(true)
    }

    /// Lists the names from a position on. `None`: a rename has hidden them, or given them other keys meanwhile.
    fn list(
        &self,
        from: Option<Position>,
    ) -> impl Future<Output = Result<Option<ListedPage>, Error>> + Send + 'static {
        let (engine, source, node) = (self.engine.clone(), self.source.clone(), self.node.clone());
        async move {
            let prefix = node.key();
            let from = from.map(|from| match from.prefix == prefix {
                true => from.place,
                false => from.place.under_another_prefix(),
            });
            let page = engine.list(&source, &prefix, from).await?;
            let is_hidden = engine.is_hidden(&source, prefix.trim_end_matches('/'));
            let names = page.names;
            let next = page.next.map(|place| Position {
                prefix: prefix.clone(),
                place,
            });
            let is_there = !is_hidden && node.key() == prefix;
            Ok(is_there.then_some(ListedPage { names, next }))
        }
    }
}

impl ListingState {
    /// Adds the drafts that no page had, behind the last page.
    fn add_drafts(&mut self, page: &mut ListedPage) {
        for (name, _) in &page.names {
            if self.drafts.iter().any(|(draft, _)| draft == name) {
                self.met.insert(name.clone());
            }
        }
        if page.next.is_none() {
            let unmet = |(name, _): &&(String, NameKind)| !self.met.contains(name);
            page.names.extend(self.drafts.iter().filter(unmet).cloned());
        }
    }

    /// Returns the beginning of the page that had this name.
    fn back_to(&mut self, number: u64) -> (u64, Option<Position>) {
        self.ahead = None;
        let behind = self.begun.partition_point(|(first, _)| *first <= number);
        self.begun.truncate(behind);
        self.begun.last().cloned().unwrap_or((0, None))
    }
}
