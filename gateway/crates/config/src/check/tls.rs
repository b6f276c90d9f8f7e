//! TLS: listeners that need certificates, and what names clients' certificates.

use super::super::problem::KeyPath;
use super::super::{Acme, Config};
use super::{Check, url_of};

/// The most names that an authority is asked about. Let's Encrypt issues 50 certificates of one domain in a week.
const MAX_NAMES: usize = 32;

/// A directory that is right, for messages.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

impl Check<'_, '_> {
    pub(super) fn tls(&mut self, config: &Config) {
        let certificates = KeyPath::of("tls", "certificates");
        let listeners = &config.http.listen.0;
        let public = listeners.iter().any(|one| one.tls);
        let admin = config.admin.listen.tls;
        let has_certificates = !config.tls.certificates.is_empty();
        if !has_certificates && config.tls.acme.is_none() {
            for (section, _) in [("http", public), ("admin", admin)]
                .iter()
                .filter(|one| one.1)
            {
                let message = "says `tls = true`, and neither `tls.certificates` nor `tls.acme` names a certificate";
                self.error(&KeyPath::of(section, "listen"), message);
            }
        } else if has_certificates && !public && !admin {
            let message =
                "no listener says `tls = true`: `listen = { address = \"…\", tls = true }`";
            self.warn(&certificates, message);
        }
        if let Some(acme) = &config.tls.acme {
            self.acme(config, acme, public);
        }
        self.clients(config, public);
    }

    /// Checks what an authority issues certificates for.
    fn acme(&mut self, config: &Config, acme: &Acme, public: bool) {
        let section = KeyPath::of("tls", "acme");
        let names = section.key("names");
        if acme.names.is_empty() {
            self.error(&names, "is empty: it needs the names of this server");
        } else if acme.names.len() > MAX_NAMES {
            let message = format!("has more than {MAX_NAMES} names");
            self.error(&names, message);
        }
        for (index, name) in acme.names.iter().enumerate() {
            let path = names.index(index);
            if let Some(message) = odd_name(name) {
                self.error(&path, message);
            } else if acme.names[..index].contains(name) {
                self.error(&path, "is named twice");
            }
        }
        if !acme.terms_agreed {
            let message = "must be true: the authority issues nothing unless you agree to its terms of service";
            self.error(&section.key("terms_agreed"), message);
        }
        let directory = section.key("directory");
        if !acme.directory.starts_with("https://") {
            self.error(&directory, "is no https:// URL");
        } else if let Err(why) = url_of(&acme.directory, DIRECTORY) {
            self.error(&directory, why);
        }
        for (index, contact) in acme.contact.iter().enumerate() {
            if !contact.starts_with("mailto:") {
                let path = section.key("contact").index(index);
                self.error(&path, "is no `mailto:` address");
            }
        }
        if acme
            .external_account
            .as_ref()
            .is_some_and(|account| account.key_id.is_empty())
        {
            let path = section.key("external_account").key("key_id");
            self.error(
                &path,
                "is empty: it needs the number that the authority has shown",
            );
        }
        if config.acme_path().is_none() {
            let message =
                "there is no folder for keys and certificates: set `tls.acme.path` or `state.path`";
            self.error(&section, message);
        }
        if !public {
            let message = "no address of `http.listen` says `tls = true`: the authority cannot see that the names lead here";
            self.warn(&section, message);
        }
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

/// Returns why an authority cannot issue a certificate for a name by what it sees on port 443.
fn odd_name(name: &str) -> Option<&'static str> {
    if name.starts_with("*.") {
        return Some(
            "is for all names below another: only a certificate of `tls.certificates` can be",
        );
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Some("is an address: a name is needed");
    }
    let is_inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| {
        let fits = (1..=63).contains(&label.len()) && label.bytes().all(is_inner);
        fits && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_name = name.len() <= 253 && name.contains('.') && name.split('.').all(is_label);
    (!is_name).then_some(
        "is no name of a server: labels of lower-case letters, digits and `-`, with dots between",
    )
}
