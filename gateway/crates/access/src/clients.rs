//! Names in clients' certificates that are admitted. The listener has verified the certificate.

/// The names of an access.
#[derive(Debug)]
pub(crate) struct Clients(Vec<String>);

impl Clients {
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the admitted one of the names in a client's certificate. They are compared letter by letter: a certificate
    /// has the name as its authority has written it.
    pub(crate) fn find(&self, shown: &[String]) -> Option<&str> {
        let own = self.0.iter().find(|own| shown.contains(own));
        own.map(String::as_str)
    }
}
