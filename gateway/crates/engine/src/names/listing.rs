//! Folders page by page: for readers of a folder, and for programs that ask for several names in one.
//!
//! A page is requested once for all waiting callers. Pages that have arrived are in the table and answer there, also to
//! readers of the folder, until they are no longer fresh. A reader that began before continues from page to page.
//!
//! `find` and `tar` read the folders of one parent after another. From the second one on, the parent is listed without a
//! delimiter, beginning with that folder. A page of a thousand keys then tells of all the folders that are whole on it, each as its own
//! listing would have (ADR 0037).

use std::sync::Arc;

use super::answer::{
    ArrivedPage, Continuation, KnownNames, ListingCursor, ListingProgress, NameRequest, split,
};
use super::pages::{PageScope, WantedPage};
use super::{Engine, NamePage, NameRequestCause, PagePosition};
use crate::{Error, ReadContext};
use tidegate_origin::PageStart;
use tidegate_origin::list::MAX_PAGE_KEYS;
use tidegate_plan::folder::{self, is_listed};

/// The number of pages for which a reader waits for names in order before it reads past the table.
const MAX_EMPTY_PAGES: u32 = 4;

/// The position at which a reader of a folder continues.
#[derive(Debug, Clone)]
pub(super) enum ReaderPosition {
    /// After a page, without the names that it got elsewhere.
    Page(ListingCursor, Option<ListingProgress>),
    /// After names that were known.
    Known(ListingProgress),
}

impl PagePosition {
    /// Returns the position after the same names in a folder that was renamed since.
    #[must_use]
    pub fn under_another_prefix(self) -> Self {
        let had = match self.0 {
            ReaderPosition::Page(cursor, had) => had.unwrap_or_default().add(cursor.reached),
            ReaderPosition::Known(had) => had,
        };
        Self(ReaderPosition::Known(had))
    }
}

impl Engine {
    /// Returns a page of names in the folder of this prefix (empty, or with a `/` at its end), without those of hidden
    /// folders. Sends one request, or none if all the names are known and fresh.
    ///
    /// # Errors
    /// If the origin failed.
    pub async fn list(
        &self,
        source: &Arc<ReadContext>,
        prefix: &str,
        from: Option<PagePosition>,
    ) -> Result<NamePage, Error> {
        let mut page = self.list_all(source, prefix, from).await?;
        self.core.hide_names(source.origin.id(), prefix, &mut page);
        Ok(page)
    }

    /// Returns a page of names, those of hidden folders included.
    async fn list_all(
        &self,
        source: &Arc<ReadContext>,
        prefix: &str,
        from: Option<PagePosition>,
    ) -> Result<NamePage, Error> {
        let (cursor, had) = match from.map(|place| place.0) {
            Some(ReaderPosition::Page(cursor, had))
                if !self.is_known_behind(source, prefix, &cursor) =>
            {
                (Some(cursor), had)
            }
            from => {
                let had = match from {
                    Some(ReaderPosition::Known(had)) => had,
                    Some(ReaderPosition::Page(cursor, had)) => {
                        had.unwrap_or_default().add(cursor.reached)
                    }
                    None => ListingProgress::default(),
                };
                match self.list_known(source, prefix, &had).await? {
                    Some(page) => return Ok(page),
                    None if had.is_none() && self.list_tree(source, prefix).await => {
                        match self.list_known(source, prefix, &had).await? {
                            Some(page) => return Ok(page),
                            None => (None, Some(had)),
                        }
                    }
                    None => (position_after(prefix, &had), Some(had)),
                }
            }
        };
        let landed = self
            .page(source, prefix, cursor, NameRequestCause::Folder)
            .await?;
        let is_new = |name: &str| had.as_ref().is_none_or(|had| !had.has(name));
        let names = landed.names.iter().filter(|(name, _)| is_new(name));
        let names = names.cloned().collect();
        let next = landed.next.clone();
        let next = next.map(|next| PagePosition(ReaderPosition::Page(next, had)));
        Ok(NamePage { names, next })
    }

    /// Returns whether another reader has listed more than this position.
    fn is_known_behind(&self, source: &ReadContext, prefix: &str, cursor: &ListingCursor) -> bool {
        let (asked, folder) = (self.name_request(source), prefix.trim_end_matches('/'));
        self.core.names.is_known_behind(&asked, folder, cursor)
    }

    /// Returns names that a reader has not had, from the table and from a listing that another reader has begun.
    /// `None`: not all of the folder is known, or the next names in order are still far.
    async fn list_known(
        &self,
        source: &Arc<ReadContext>,
        prefix: &str,
        had: &ListingProgress,
    ) -> Result<Option<NamePage>, Error> {
        for _ in 0..MAX_EMPTY_PAGES {
            let asked = self.name_request(source);
            let known = self
                .core
                .names
                .names(&asked, prefix, had, MAX_PAGE_KEYS.into());
            let Some(KnownNames { names, then }) = known else {
                if self.find_unknown(source, prefix, &asked).await {
                    continue;
                }
                return Ok(None);
            };
            let last = names.last().map(|(name, _)| Arc::from(name.as_str()));
            let next = match (then, last) {
                (Continuation::End, _) => None,
                (_, Some(up_to)) => {
                    let told = had.told.clone();
                    Some(PagePosition(ReaderPosition::Known(ListingProgress {
                        up_to,
                        told,
                    })))
                }
                (Continuation::More, None) => return Ok(None),
                (Continuation::Page(cursor), None) => {
                    self.page(source, prefix, Some(cursor), NameRequestCause::Folder)
                        .await?;
                    continue;
                }
            };
            return Ok(Some(NamePage { names, next }));
        }
        Ok(None)
    }

    /// Asks for the names of a known folder that were changed here with an unknown result, if they are few. Returns whether
    /// it did.
    async fn find_unknown(
        &self,
        source: &Arc<ReadContext>,
        prefix: &str,
        asked: &NameRequest,
    ) -> bool {
        let Some(unknown) = self.core.names.unknown_names(asked, prefix) else {
            return false;
        };
        for path in unknown {
            if self.look_up(source, &path, false).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Lists the folder of a path until the listing has passed the path, if that is worthwhile. `by_name` is the number
    /// of requests that the path costs otherwise. Returns whether the listing has passed it.
    ///
    /// # Errors
    /// If the origin failed in a way that a stale answer excuses.
    pub(super) async fn list_for(
        &self,
        source: &ReadContext,
        path: &str,
        by_name: u32,
    ) -> Result<bool, Error> {
        let (asked, names) = (self.name_request(source), &self.core.names);
        let bound = source.profile.load().list_pages;
        if !names.is_worth_listing(&asked, path, by_name, bound) {
            return Ok(false);
        }
        let (folder, name) = split(path);
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let mut cursor = names.listing_position(&asked, path);
        while cursor.as_ref().map_or(0, |cursor| cursor.number) < bound {
            let page = self
                .page(source, &prefix, cursor, NameRequestCause::Names)
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    let excuses = error.excuses_stale();
                    names.stop_listing(&asked, folder, excuses);
                    return match excuses {
                        true => Err(error),
                        // A request for the name itself may still succeed.
                        false => Ok(false),
                    };
                }
            };
            cursor = page.next.clone();
            if cursor.is_none() || is_listed(&page.reached, name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lists the tree from this folder on, if its parent's folders are read one after another. Returns whether the
    /// folder is known now.
    pub(super) async fn list_tree(&self, source: &ReadContext, prefix: &str) -> bool {
        let (asked, names) = (self.name_request(source), &self.core.names);
        let folder = prefix.trim_end_matches('/');
        let bound = source.profile.load().list_pages;
        if bound == 0 || !names.is_worth_listing_tree(&asked, folder) {
            return false;
        }
        let wanted = WantedPage {
            prefix: prefix.to_owned(),
            scope: PageScope::Tree,
            cause: NameRequestCause::Tree,
        };
        let landed = self.ask_page(source, wanted).await;
        let asked = self.name_request(source);
        let is_known = landed.is_ok()
            && names
                .names(&asked, prefix, &ListingProgress::default(), 1)
                .is_some();
        // It failed, or the folder does not fit on a page: the reader lists it by itself, and its siblings.
        if !is_known {
            names.stop_listing_tree(&asked, folder);
        }
        is_known
    }

    /// Returns a page of a folder; joins one under way unless a change here has made it old.
    async fn page(
        &self,
        source: &ReadContext,
        prefix: &str,
        from: Option<ListingCursor>,
        cause: NameRequestCause,
    ) -> Result<Arc<ArrivedPage>, Error> {
        let wanted = WantedPage {
            prefix: prefix.to_owned(),
            scope: PageScope::Folder(from),
            cause,
        };
        self.ask_page(source, wanted).await
    }
}

/// Returns the listing of a folder from after a name, which other callers do not share. `None`: from its beginning.
fn position_after(prefix: &str, had: &ListingProgress) -> Option<ListingCursor> {
    (!had.up_to.is_empty()).then(|| ListingCursor {
        epoch: 0,
        number: 0,
        after: PageStart::Key(format!("{prefix}{}", had.up_to)),
        reached: had.up_to.to_string(),
        held: folder::FolderNames::default(),
    })
}
