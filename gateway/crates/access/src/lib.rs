//! Decides which requests a route admits (`[access.NAME]`). No I/O and no clock: the time is an argument.
//!
//! Networks, tokens, clients' certificates, signed links and JWTs are alternatives: one of them admits a request.
//! Referers must hold as well.
//! [`Access::check`] returns the reason of a refusal, and the path that a request means without its signature. Where
//! others have to be asked (newer keys, a server of the operator's), the caller asks them: [`Verdict::Undecided`].

use std::borrow::Cow;
use std::time::Duration;

use core::net::IpAddr;
use http::{HeaderMap, Method};
use tidegate_plan::{Network, Timestamp};

mod clients;
pub mod date;
mod header_text;
mod jwt;
pub mod limits;
mod memo;
mod networks;
mod referers;
mod signed;
mod tokens;

pub use jwt::{JwtKeys, JwtKeysError, JwtRules, KeySet, MIN_JWT_SECRET};
pub use referers::{Referers, WrongReferer};
pub use signed::{KeyError, MAX_PRESIGNED, MIN_SECRET, SigningKey, without_signature};
pub use tokens::NamedToken;

use clients::Clients;
use jwt::{Jwt, JwtFinding, TokenUse};
use networks::Networks;
use signed::{DecodedPath, SignedLinks};
use tokens::Tokens;

/// The rules of an access, from which [`Access::new`] makes one.
#[derive(Debug, Default)]
pub struct Rules {
    /// The networks of clients that are admitted.
    pub networks: Vec<Network>,
    /// The tokens that admit a request.
    pub tokens: Vec<NamedToken>,
    /// The names in clients' certificates that admit a request.
    pub clients: Vec<String>,
    /// The keys whose signatures admit a request.
    pub keys: Vec<SigningKey>,
    /// The most that the clock of a link's maker may differ from ours.
    pub skew: Duration,
    /// The JWTs that admit a request; `None`: none do.
    pub jwt: Option<JwtRules>,
    /// Whether a server of the operator's is asked about a request that nothing else admits.
    pub auth_request: bool,
    /// The sites whose pages may embed the objects; `None`: all.
    pub referers: Option<Referers>,
}

/// The compiled rules of one access. Without any way in it admits all requests whose referer holds;
/// without referers as well it admits none.
#[derive(Debug)]
pub struct Access {
    networks: Networks,
    tokens: Tokens,
    clients: Clients,
    signed: SignedLinks,
    jwt: Option<Box<Jwt>>,
    auth_request: bool,
    referers: Option<Referers>,
}

/// A request for an object, as far as an access needs it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// Its method.
    pub method: &'r Method,
    /// The authority as the client sent it: the host, and the port if it is not the scheme's own. It may be left empty where
    /// there is no query, or [`Access::reads_host`] is false.
    pub host: &'r str,
    /// The whole path as the client sent it, percent-encoded.
    pub path: &'r str,
    /// The end of `path` that lies below the route, without its first slash.
    pub below: &'r str,
    /// The query as the client sent it, without `?`.
    pub query: Option<&'r str>,
    /// Its headers.
    pub headers: &'r HeaderMap,
    /// The client's address; `None` on a Unix socket whose peer names none, and where the access has no networks.
    pub address: Option<IpAddr>,
    /// The names in the verified certificate of the client at the other end of the connection; empty: it has shown none.
    pub certificate: &'r [String],
    /// Whether the caller needs the name of what admits the request: its limits count by it. Without it the subject of a JWT
    /// is not copied.
    pub wants_name: bool,
}

/// The decision on one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'r, 'a> {
    /// The request is admitted.
    Admitted {
        /// [`Request::below`] without the signature, if one was its first segment.
        below: &'r str,
        /// The id of the key, the name of the token or of the certificate, or the subject of the JWT that admitted it; `None`:
        /// its network, a JWT without a subject, or all are admitted. Without [`Request::wants_name`] it means nothing.
        by: Option<Cow<'a, str>>,
    },
    /// Nothing that is known here admits the request, and others may know more.
    Undecided {
        /// [`Request::below`] without the signature.
        below: &'r str,
        /// The reason of the refusal if they do not.
        refusal: Refusal,
        /// Whether a JWT names a key that newer keys may have. The access judges again once they are here.
        newer_keys: bool,
    },
    /// The request is refused.
    Refused(Refusal),
}

impl Verdict<'_, '_> {
    /// Returns whether the request is admitted.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted { .. })
    }
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request shows no credentials, and its address is in no network of the access.
    Missing,
    /// The token is wrong.
    Token,
    /// The signature of a link or a JWT is wrong, or cannot be read.
    Signature,
    /// The signature names a key that does not exist.
    Key,
    /// The signature or the token was right, and its time is over.
    Expired,
    /// The signature is right, and its time is yet to come.
    Early,
    /// The signature is right, and is for another path.
    Prefix,
    /// The JWT is signed, and its claims are not those that the access wants, or cannot be read.
    Claims,
    /// There are no keys to verify a JWT with.
    Keys,
    /// The operator's server refuses it.
    Denied,
    /// The operator's server has not answered, or neither admitted nor refused it.
    Unanswered,
    /// The page that embeds the object is none of the listed sites.
    Referer,
}

impl Refusal {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::Missing,
        Self::Token,
        Self::Signature,
        Self::Key,
        Self::Expired,
        Self::Early,
        Self::Prefix,
        Self::Claims,
        Self::Keys,
        Self::Denied,
        Self::Unanswered,
        Self::Referer,
    ];

    /// Returns its name in metrics and `Cache-Status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Token => "token",
            Self::Signature => "signature",
            Self::Key => "key",
            Self::Expired => "expired",
            Self::Early => "early",
            Self::Prefix => "prefix",
            Self::Claims => "claims",
            Self::Keys => "keys",
            Self::Denied => "denied",
            Self::Unanswered => "unanswered",
            Self::Referer => "referer",
        }
    }
}

/// The finding of one of the alternatives on a request.
enum Finding<'a> {
    /// The request shows nothing of this kind.
    Absent,
    /// The request is admitted by the token or key of this name.
    Admits(&'a str),
    /// The request shows something of this kind that does not admit it.
    Refuses(Refusal),
}

impl Access {
    /// Compiles the rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            networks: Networks::new(rules.networks),
            tokens: Tokens::new(rules.tokens),
            clients: Clients::new(rules.clients),
            signed: SignedLinks::new(rules.keys, rules.skew),
            jwt: rules.jwt.map(|jwt| Box::new(Jwt::new(jwt))),
            auth_request: rules.auth_request,
            referers: rules.referers,
        }
    }

    /// Returns whether a client's address can admit a request.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Returns whether the host can matter: a presigned URL names it.
    #[must_use]
    pub fn reads_host(&self) -> bool {
        !self.signed.is_empty()
    }

    /// Returns whether a token can admit a request, so that a challenge (RFC 9110, 11.6.1) is of use.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Returns whether `Authorization` can admit a request.
    #[must_use]
    pub fn reads_authorization(&self) -> bool {
        self.has_tokens() || self.has_jwt() || self.auth_request
    }

    /// Returns whether a JWT can admit a request.
    #[must_use]
    pub fn has_jwt(&self) -> bool {
        self.jwt.is_some()
    }

    /// Decides on a GET or HEAD request at the time `now`. A right certificate or signature wins over a wrong token, and the reason of
    /// a refusal is that of the signature, if there is one, else that of the JWT, else that of the token.
    #[must_use]
    pub fn check<'r>(&self, request: &Request<'r>, now: Timestamp) -> Verdict<'r, '_> {
        let (segment, below) = match self.signed.is_empty() {
            true => (None, request.below),
            false => self.signed.split_segment(request, now),
        };
        if let Some(referers) = &self.referers
            && !referers.admit(request.headers)
        {
            return Verdict::Refused(Refusal::Referer);
        }
        let admitted = |by| Verdict::Admitted { below, by };
        if self.has_referers_alone() || self.networks.contain(request.address) {
            return admitted(None);
        }
        if let Some(name) = self.clients.find(request.certificate) {
            return admitted(Some(name.into()));
        }
        let token = match self.tokens.check(request.headers, now) {
            Finding::Admits(name) => return admitted(Some(name.into())),
            Finding::Refuses(reason) => Some(reason),
            Finding::Absent => None,
        };
        let signature = match self.signed.check(request, (segment, below), now) {
            Finding::Admits(id) => return admitted(Some(id.into())),
            Finding::Refuses(reason) => Some(reason),
            Finding::Absent => None,
        };
        let (jwt, newer_keys) = match self.check_jwt(request, below, now) {
            JwtFinding::Admits(subject) => {
                return admitted(subject.map(Cow::Owned));
            }
            JwtFinding::Refuses(reason) => (Some(reason), false),
            JwtFinding::Unknown(reason) => (Some(reason), true),
            JwtFinding::Absent => (None, false),
        };
        let refusal = signature.or(jwt).or(token).unwrap_or(Refusal::Missing);
        match newer_keys || self.auth_request {
            true => Verdict::Undecided {
                below,
                refusal,
                newer_keys,
            },
            false => Verdict::Refused(refusal),
        }
    }

    fn check_jwt<'r>(&self, request: &Request<'r>, below: &'r str, now: Timestamp) -> JwtFinding {
        match &self.jwt {
            None => JwtFinding::Absent,
            Some(jwt) => {
                let asked = TokenUse {
                    path: DecodedPath::new(request, below),
                    now,
                    wants_name: request.wants_name,
                };
                jwt.check(request, asked)
            }
        }
    }

    /// Returns whether the referers are the only rule. An access without any rule is a mistake, and admits nothing.
    fn has_referers_alone(&self) -> bool {
        let ways_in = [
            self.networks.is_empty(),
            self.tokens.is_empty(),
            self.clients.is_empty(),
            self.signed.is_empty(),
            !self.has_jwt(),
            !self.auth_request,
        ];
        self.referers.is_some() && ways_in == [true; 6]
    }
}

#[cfg(test)]
mod tests;
