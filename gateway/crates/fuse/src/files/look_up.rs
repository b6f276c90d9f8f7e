//! The look-up of names: drafts first, then the engine, and what is known while the bucket does not answer.

use std::ffi::OsString;
use std::time::Duration;

use fuser::Errno;
use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use super::{Files, NameErrors, TimedAttr};
use crate::errno;
use crate::folder::FolderPage;
use tidegate_engine::names::{Answer, NameKind};

/// The names of a page whose types are asked for at once.
const MAX_TYPE_REQUESTS: usize = 16;

/// How long the kernel may rely on a name whose type the bucket does not tell.
const UNTOLD_TYPE_TTL: Duration = Duration::from_secs(1);

/// Why a name is not known.
#[derive(Debug)]
enum LookupError {
    /// The bucket has answered with an error.
    Refused(Errno),
    /// The bucket fails, or hangs.
    Unanswered(Errno),
}

impl From<LookupError> for Errno {
    fn from(reason: LookupError) -> Self {
        match reason {
            LookupError::Refused(errno) | LookupError::Unanswered(errno) => errno,
        }
    }
}

impl Files {
    /// Looks a name up. Waits for a rename of its folder as long as that gets on, and for the origin within the deadline.
    pub(crate) async fn look_up(&self, folder: u64, name: OsString) -> Result<TimedAttr, Errno> {
        let path = self
            .shown_path(&(folder, name), NameErrors::LOOK_UP)
            .await?;
        let answer = self.bounded(self.resolve(&path)).await?;
        if answer.entry == NameKind::Missing {
            self.probe_ahead(&path);
        }
        let shown = self.tell(folder, &path, &answer.entry, answer.fresh);
        shown.ok_or(Errno::ENOENT)
    }

    /// Probes the bucket for the open of a file that a program is likely to make next, unless an answer counts. WordPress
    /// works for a second on a size of a photo after it has looked for its name.
    fn probe_ahead(&self, path: &str) {
        let Some(stands) = self.writable.as_ref().and_then(|writable| writable.probe) else {
            return;
        };
        if self.engine.continues_own_name(&self.source, path) {
            self.engine.reach_ahead(&self.source, stands);
        }
    }

    /// Resolves a path, drafts included.
    pub(super) async fn resolve(&self, path: &str) -> Result<Answer, Errno> {
        if let Some(drafted) = self.drafted(path) {
            return Ok(drafted);
        }
        let answer = self.ask(path, false).await?;
        match &answer.entry {
            NameKind::Missing => Ok(self.draft_below(path).unwrap_or(answer)),
            // It may be a link.
            NameKind::File(facts) if self.lacks_type(facts) => self.with_type(path, answer).await,
            _ => Ok(answer),
        }
    }

    /// Asks for the type of a known name. While the bucket does not tell it, the name is a regular file, as listings show it.
    async fn with_type(&self, path: &str, known: Answer) -> Result<Answer, Errno> {
        // Within the deadline of the whole look-up.
        let asked = timeout(self.settings.deadline / 2, self.try_to_ask(path, true)).await;
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(LookupError::Refused(errno))) => Err(errno),
            Ok(Err(LookupError::Unanswered(_))) | Err(_) => Ok(Answer {
                fresh: known.fresh.min(UNTOLD_TYPE_TTL),
                ..known
            }),
        }
    }

    /// Asks the engine for a name; with `headers`, for the version of an object as well.
    pub(super) async fn ask(&self, path: &str, headers: bool) -> Result<Answer, Errno> {
        Ok(self.try_to_ask(path, headers).await?)
    }

    async fn try_to_ask(&self, path: &str, headers: bool) -> Result<Answer, LookupError> {
        let lookup = self.lookup_backoff.begin();
        let answer = tokio::select! {
            biased;
            answer = self.engine.look_up(&self.source, path, headers) => match answer {
                Ok(answer) => answer,
                Err(error) => {
                    let errno = errno::logged(&error, path);
                    if error.excuses_stale() {
                        return Err(LookupError::Unanswered(errno));
                    }
                    lookup.settle();
                    return Err(LookupError::Refused(errno));
                }
            },
            () = self.lookup_backoff.refused() => {
                let known = self.engine.last_known(&self.source, path, headers);
                known.ok_or(LookupError::Unanswered(Errno::EIO))?
            }
        };
        lookup.settle();
        Ok(answer)
    }

    /// Asks for the types of a page's names that may be links, side by side. A failure leaves a name a regular file.
    pub(crate) async fn learn_types(&self, folder: &str, page: &FolderPage) {
        if !self.keeps_attributes() {
            return;
        }
        let is_unknown = |(name, entry): &&(String, NameKind)| {
            let NameKind::File(facts) = entry else {
                return false;
            };
            if !self.lacks_type(facts) {
                return false;
            }
            let known = self.engine.known(&self.source, &format!("{folder}{name}"));
            !known.is_some_and(|known| match &known.entry {
                NameKind::File(facts) => facts.attributes.is_some(),
                NameKind::Folder | NameKind::Missing => true,
            })
        };
        let asked = page
            .names
            .iter()
            .filter(is_unknown)
            .map(|(name, _)| async move {
                let path = format!("{folder}{name}");
                if self.drafted(&path).is_none() {
                    self.learn_type(&path).await;
                }
            });
        let asked = asked.collect::<Vec<_>>();
        if asked.is_empty() {
            return;
        }
        stream::iter(asked)
            .buffer_unordered(MAX_TYPE_REQUESTS)
            .for_each(|()| std::future::ready(()))
            .await;
        self.engine.write_times_out().await;
    }

    /// Asks for the type of a listed name. A request that the caller gives up is no slow failure: the name is known.
    async fn learn_type(&self, path: &str) {
        tokio::select! {
            biased;
            () = self.lookup_backoff.refused() => {}
            _ = self.engine.look_up(&self.source, path, true) => {}
        }
    }
}
