//! TLS: listeners that need certificates, and what names clients' certificates.

use super::super::Config;
use super::super::problem::KeyPath;
use super::Check;

impl Check<'_, '_> {
    pub(super) fn tls(&mut self, config: &Config) {
        let certificates = KeyPath::of("tls", "certificates");
        let listeners = &config.http.listen.0;
        let public = listeners.iter().any(|one| one.tls);
        let admin = config.admin.listen.tls;
        if config.tls.certificates.is_empty() {
            for (section, _) in [("http", public), ("admin", admin)]
                .iter()
                .filter(|one| one.1)
            {
                let message = "says `tls = true`, and `tls.certificates` names none";
                self.error(&KeyPath::of(section, "listen"), message);
            }
        } else if !public && !admin {
            let message =
                "no listener says `tls = true`: `listen = { address = \"…\", tls = true }`";
            self.warn(&certificates, message);
        }
        self.clients(config, public);
    }

    /// Checks that clients whose certificates admit them are asked for one.
    fn clients(&mut self, config: &Config, public: bool) {
        let client_ca = KeyPath::of("tls", "client_ca");
        let has_ca = config.tls.client_ca.is_some();
        let mut used = false;
        for (name, access) in &config.access {
            let path = KeyPath::of("access", name).key("clients");
            used |= !access.clients.is_empty();
            for (index, client) in access.clients.iter().enumerate() {
                if client.is_empty() {
                    self.error(
                        &path.index(index),
                        "is empty: it needs a name in a certificate",
                    );
                }
            }
            if access.clients.is_empty() {
                continue;
            }
            if !has_ca {
                self.error(
                    &path,
                    "needs `tls.client_ca`: clients are not asked for certificates",
                );
            } else if !public {
                let message = "admits no client: no address of `http.listen` says `tls = true`";
                self.warn(&path, message);
            }
        }
        if has_ca && !used {
            let message = "asks clients for certificates, and no access has `clients`";
            self.warn(&client_ca, message);
        }
    }
}
