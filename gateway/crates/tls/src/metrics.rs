//! The metrics of TLS.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::handshake::HandshakeResult;
use crate::server::Server;
use tidegate_telemetry::names;
use tidegate_telemetry::sharded::Counter;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabels {
    certificate: String,
}

/// The metrics of all listeners with TLS.
#[derive(Debug)]
pub(crate) struct Metrics {
    handshake_family: Family<ResultLabels, Counter>,
    reload_family: Family<ResultLabels, Counter>,
    expiry: Family<CertificateLabels, Gauge>,
    handshakes: [Counter; HandshakeResult::ALL.len()],
    /// Failed ones first.
    reloads: [Counter; 2],
}

impl Default for Metrics {
    fn default() -> Self {
        let handshake_family = Family::<ResultLabels, Counter>::default();
        let reload_family = Family::<ResultLabels, Counter>::default();
        let handshakes = HandshakeResult::ALL.map(|result| {
            let result = result.as_str();
            handshake_family.get_or_create_owned(&ResultLabels { result })
        });
        let reloads = ["failed", "ok"]
            .map(|result| reload_family.get_or_create_owned(&ResultLabels { result }));
        Self {
            handshake_family,
            reload_family,
            expiry: Family::default(),
            handshakes,
            reloads,
        }
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        names::TLS_HANDSHAKES.register(registry, self.handshake_family.clone());
        names::TLS_RELOADS.register(registry, self.reload_family.clone());
        names::TLS_EXPIRY.register(registry, self.expiry.clone());
    }

    pub(crate) fn count_handshake(&self, result: HandshakeResult) {
        self.handshakes[result as usize].inc();
    }

    pub(crate) fn count_reload(&self, is_ok: bool) {
        self.reloads[usize::from(is_ok)].inc();
    }

    /// Shows the ends of the certificates in force, and of no others.
    pub(crate) fn set_expiries(&self, server: &Server) {
        self.expiry.clear();
        for (path, certificate) in server.certificates() {
            let labels = CertificateLabels {
                certificate: path.display().to_string(),
            };
            let (_, end) = certificate.validity;
            self.expiry.get_or_create(&labels).set(end);
        }
    }
}
