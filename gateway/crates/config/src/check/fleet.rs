//! The fleet.

use super::super::problem::KeyPath;
use super::super::section::{Fleet, NatsLogin};
use super::Check;
use super::events::is_word;

impl Check<'_, '_> {
    pub(super) fn fleet(&mut self, fleet: &Fleet) {
        let section = KeyPath::default().key("fleet");
        let subject = section.key("subject");
        if !is_word(&fleet.subject) || fleet.subject.split('.').any(str::is_empty) {
            let shown = fleet.subject.escape_debug();
            let message = format!("`{shown}` is no name of NATS without wildcards");
            self.error(&subject, message);
        }
        if fleet.nats.is_empty() {
            for key in NatsLogin::KEYS.map(|key| section.key(key)) {
                if self.document.has(&key) {
                    self.warn(&key, "does nothing without `nats`");
                }
            }
            return;
        }
        self.nats_servers(&section.key("nats"), &fleet.nats);
        self.nats_login(&section, fleet.login());
    }
}
