//! What this process itself does to names, seen at once.

use super::table::Meaning;
use super::{Engine, Facts, List, of_listing};
use crate::engine::core::Core;
use crate::engine::{Error, Source};
use crate::plan::{ObjectId, ObjectKey};

impl Core {
    /// There is such an object since just now.
    pub(in crate::engine) fn name_written(&self, id: &ObjectId, facts: Facts) {
        self.name(id, Meaning::File(facts));
    }

    /// There is no such object, nor a folder of its name, since just now.
    pub(in crate::engine) fn name_removed(&self, id: &ObjectId) {
        self.name(id, Meaning::Missing);
    }

    /// There is such a folder since just now, with nothing in it.
    pub(in crate::engine) fn folder_made(&self, id: &ObjectId) {
        let path = id.key.as_str().trim_end_matches('/');
        self.names.note_made(id.origin, path, self.now());
    }

    fn name(&self, id: &ObjectId, meaning: Meaning) {
        let path = id.key.as_str().trim_end_matches('/');
        self.names.note(id.origin, path, meaning, self.now());
    }
}

impl Engine {
    /// Whether it is known without asking that there is no such object.
    pub(in crate::engine) fn is_known_missing(&self, source: &Source, key: &ObjectKey) -> bool {
        let asked = self.asked(source);
        let missing = match self.core.names.get(&asked, key.as_str()) {
            Some((meaning, _)) => meaning.is_missing(),
            None => self.core.names.is_missing(&asked, key.as_str()).is_some(),
        };
        missing && !self.knows(source, key)
    }

    /// Whether no key begins with `prefix`, which ends in `/`, but the folder's own. One request.
    ///
    /// # Errors
    /// When the origin failed.
    pub async fn is_empty(&self, source: &Source, prefix: &str) -> Result<bool, Error> {
        let list = List {
            prefix: prefix.to_owned(),
            delimiter: false,
            after: None,
            limit: 2,
        };
        let origin = source.origin.clone();
        let ask = async move { origin.list(list).await.map_err(of_listing) };
        let page = self.core.carry_out(ask).await?;
        Ok(page.objects.iter().all(|one| one.key == prefix))
    }
}
