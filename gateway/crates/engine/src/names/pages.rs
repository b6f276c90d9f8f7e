//! Pages of listings under way: each is requested once for all waiting callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::answer::{ArrivedPage, ListingCursor, NameRequest, parent_prefix};
use super::doubted::drop_empty_folders;
use super::recording::{doubt, record_page, record_tree};
use super::{Engine, NameRequestCause, of_listing};
use crate::Core;
use crate::{Error, ReadContext};
use tidegate_origin::list::MAX_PAGE_KEYS;
use tidegate_origin::{List, Listing, PageStart};
use tidegate_plan::{OriginId, tree};
use tidegate_telemetry::locks::Recover as _;

type PageResult = BoxFuture<'static, Result<Arc<ArrivedPage>, Error>>;

/// A page: its origin and the request for it.
type PageKey = (OriginId, List);

/// Pages under way, kept alive by the callers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<HashMap<PageKey, PendingPage>>);

#[derive(Debug)]
struct PendingPage {
    /// The epoch in which it was requested.
    epoch: u64,
    shared: WeakShared<PageResult>,
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, HashMap<PageKey, PendingPage>> {
        self.0.lock().recover()
    }
}

/// A page that is wanted of a folder.
pub(super) struct WantedPage {
    pub(super) prefix: String,
    pub(super) scope: PageScope,
    pub(super) cause: NameRequestCause,
}

/// The keys of a page.
pub(super) enum PageScope {
    /// The names in the folder from this position on.
    Folder(Option<ListingCursor>),
    /// All keys of its parent from the folder on (`tree`).
    Tree,
}

impl Engine {
    /// Requests a page, or joins the same request under way unless a change here has made it old.
    pub(super) fn ask_page(&self, source: &ReadContext, wanted: WantedPage) -> Shared<PageResult> {
        let core = &self.core;
        let (origin, folder) = (source.origin.id(), wanted.prefix.trim_end_matches('/'));
        let list = wanted.list();
        let question = (origin, list.clone());
        // Dropped after the lock is released: it may be the last handle, whose drop takes the lock.
        let known;
        let mut under_way = core.listings.lock();
        let asking = under_way.get(&question);
        known = asking.and_then(|asking| Some((asking.epoch, asking.shared.upgrade()?)));
        if let Some((epoch, shared)) = &known
            && !core.names.is_changed_since(origin, folder, *epoch)
        {
            return shared.clone();
        }
        let mut asked = self.name_request(source);
        if !matches!(wanted.scope, PageScope::Folder(Some(_))) {
            asked.epoch = core.names.begin_listing(origin, folder);
        }
        core.metrics.asked_for_names(wanted.cause);
        let turn = PendingPageGuard {
            core: core.clone(),
            question: question.clone(),
            epoch: asked.epoch,
        };
        let origin = source.origin.clone();
        let run = async move {
            let mut page = origin.list(list).await.map_err(of_listing)?;
            drop_empty_folders(&turn.core, &origin, &asked, &mut page).await;
            Ok(Arc::new(wanted.record(&turn.core, &asked, page)))
        };
        let core = self.core.clone();
        let run = async move { core.run_on_origin_runtime(run).await };
        let shared = run.boxed().shared();
        let weak = shared
            .downgrade()
            .expect("it has not been polled to its end");
        let asking = PendingPage {
            epoch: asked.epoch,
            shared: weak,
        };
        under_way.insert(question, asking);
        shared
    }
}

impl WantedPage {
    /// Returns the request for the page.
    fn list(&self) -> List {
        let (prefix, after) = match &self.scope {
            PageScope::Folder(from) => {
                (&*self.prefix, from.as_ref().map(|from| from.after.clone()))
            }
            PageScope::Tree => {
                let after = PageStart::Key(tree::before(&self.prefix));
                (parent_prefix(&self.prefix), Some(after))
            }
        };
        List {
            prefix: prefix.to_owned(),
            delimiter: matches!(self.scope, PageScope::Folder(_)),
            after,
            limit: MAX_PAGE_KEYS,
        }
    }

    /// Records the names of the page that has arrived.
    fn record(self, core: &Core, asked: &NameRequest, page: Listing) -> ArrivedPage {
        for listed in &page.objects {
            doubt(core, listed, asked);
        }
        match self.scope {
            PageScope::Folder(from) => record_page(core, asked, &self.prefix, from, page),
            PageScope::Tree => {
                record_tree(core, asked, &self.prefix, page);
                ArrivedPage::default()
            }
        }
    }
}

/// A page's place in the table of pages under way; removed when it has arrived or no caller waits.
struct PendingPageGuard {
    core: Arc<Core>,
    question: PageKey,
    epoch: u64,
}

impl Drop for PendingPageGuard {
    fn drop(&mut self) {
        let mut under_way = self.core.listings.lock();
        if under_way
            .get(&self.question)
            .is_some_and(|it| it.epoch == self.epoch)
        {
            under_way.remove(&self.question);
        }
    }
}
