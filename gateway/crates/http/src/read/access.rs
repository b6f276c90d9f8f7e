//! The judgement on a request by its route's limits and access, before its key is made and before anything is asked.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use http::request::Parts;
use tokio::time::Instant;

use super::limits::Share;
use crate::client_address::{ClientAddress, scheme};
use crate::reply::{Reply, cors};
use crate::request::authority;
use crate::request_error::{Challenge, RequestError};
use crate::routes::RouteSet;
use crate::settings::RouteAccess;
use crate::{Frontend, RouteState};
use tidegate_access::{Refusal, Request, Verdict};
use tidegate_auth::{Answer, Question};
use tidegate_plan::Timestamp;
use tidegate_socket::Peer;

/// A request that is not admitted, or not yet.
#[derive(Debug)]
pub(super) enum AdmissionFailure<'p> {
    /// The route's limits or access refuse it. Boxed, so that an admission does not carry its size.
    Refused(Box<RequestError>),
    /// Others have to be asked: see [`Frontend::admit_by_others`].
    Undecided(UndecidedRequest<'p>),
}

impl From<Box<RequestError>> for AdmissionFailure<'_> {
    fn from(error: Box<RequestError>) -> Self {
        Self::Refused(error)
    }
}

/// A request on which the access cannot decide alone.
#[derive(Debug)]
pub(super) struct UndecidedRequest<'p> {
    below: &'p str,
    refusal: Refusal,
    newer_keys: bool,
}

/// A GET or HEAD request on a route that is not open.
#[derive(Clone, Copy)]
pub(super) struct ClosedRequest<'s, 'p> {
    pub(super) routes: &'s RouteSet,
    pub(super) route: &'s RouteState,
    pub(super) below: &'p str,
    /// The host by which the route was found.
    pub(super) host: &'p str,
    pub(super) parts: &'p Parts,
    pub(super) started: Instant,
    pub(super) address: ClientAddress,
    pub(super) peer: &'p Peer,
}

impl ClosedRequest<'_, '_> {
    /// Returns the address that limits count by, and the time of the request.
    fn client(&self) -> (Option<IpAddr>, Instant) {
        (self.address.counted, self.started)
    }
}

impl Frontend {
    /// Judges a request by the route's limits and access. The limits come first: guesses at a token count as requests.
    /// Limits by key need the key, and those of a hidden route would tell that it is there.
    ///
    /// Returns the path below the route, without a signature in it. `share` becomes the request's share in the limits, if
    /// its answer has to keep to them. It waits for nothing, so that a hit on a private route costs little more than one on an
    /// open route.
    ///
    /// # Errors
    /// The refusal, which is counted; [`RequestError::NoRoute`] if the access hides what it protects. Or others have to be
    /// asked.
    pub(super) fn admit<'s, 'p>(
        &self,
        request: &ClosedRequest<'s, 'p>,
        share: &mut Option<Share<'s>>,
    ) -> Result<&'p str, AdmissionFailure<'p>> {
        let settings = &request.route.settings;
        self.enter(settings.early_limits(), request.client(), None, share)?;
        match &settings.access {
            None => Ok(request.below),
            Some(access) => self.judge(access, request, share),
        }
    }

    /// Judges a request by the access itself.
    fn judge<'s, 'p>(
        &self,
        access: &RouteAccess,
        request: &ClosedRequest<'s, 'p>,
        share: &mut Option<Share<'s>>,
    ) -> Result<&'p str, AdmissionFailure<'p>> {
        let now = self.engine.now();
        let asked = asked(access, request, now);
        match access.rules.check(&asked, now) {
            Verdict::Admitted { below, by } => {
                Ok(self.admitted(request, (below, by.as_deref()), share)?)
            }
            Verdict::Undecided {
                below,
                refusal,
                newer_keys,
            } => Err(AdmissionFailure::Undecided(UndecidedRequest {
                below,
                refusal,
                newer_keys,
            })),
            Verdict::Refused(refusal) => {
                let refusal = (refusal, challenge(access, refusal));
                Err(self.refused(access, refusal).into())
            }
        }
    }

    /// Decides on a request with what others say of it: newer keys, and the server of the access.
    ///
    /// # Errors
    /// As of [`Self::admit`].
    pub(super) async fn admit_by_others<'s, 'p>(
        &self,
        request: ClosedRequest<'s, 'p>,
        undecided: UndecidedRequest<'p>,
        share: &mut Option<Share<'s>>,
    ) -> Result<&'p str, Box<RequestError>> {
        let request = &request;
        let access = request.route.settings.access.as_ref();
        let access = access.expect("an access has left it undecided");
        let UndecidedRequest {
            below,
            mut refusal,
            newer_keys,
        } = undecided;
        if let (true, Some(keys)) = (newer_keys, &access.keys) {
            keys.refresh().await;
            match self.judge(access, request, share) {
                Ok(below) => return Ok(below),
                Err(AdmissionFailure::Refused(error)) => return Err(error),
                Err(AdmissionFailure::Undecided(again)) => refusal = again.refusal,
            }
        }
        match ask_server(access, request, (below, refusal)).await {
            Ok(()) => self.admitted(request, (below, None), share),
            Err(refusal) => Err(self.refused(access, refusal)),
        }
    }

    /// Admits a request whose path, `below` the route, was cut to this one, by the key, token, certificate or subject of this
    /// name.
    fn admitted<'s, 'p>(
        &self,
        request: &ClosedRequest<'s, 'p>,
        (below, by): (&'p str, Option<&str>),
        share: &mut Option<Share<'s>>,
    ) -> Result<&'p str, Box<RequestError>> {
        let settings = &request.route.settings;
        if let Some(access) = &settings.access
            && below.len() != request.below.len()
            && !is_on(request, below)
        {
            let refusal = Refusal::Prefix;
            return Err(self.refused(access, (refusal, challenge(access, refusal))));
        }
        self.enter(settings.late_limits(), request.client(), by, share)?;
        Ok(below)
    }

    /// Counts a refusal, and returns the error that it is answered with.
    #[cold]
    fn refused(
        &self,
        access: &RouteAccess,
        (refusal, challenge): (Refusal, Challenge),
    ) -> Box<RequestError> {
        self.metrics.count_refusal(refusal);
        Box::new(match access.hide {
            true => RequestError::NoRoute,
            false => RequestError::Access { refusal, challenge },
        })
    }
}

/// Returns a request as an access judges it.
fn asked<'p>(access: &RouteAccess, request: &ClosedRequest<'_, 'p>, now: Timestamp) -> Request<'p> {
    let parts = request.parts;
    let query = parts.uri.query();
    let settings = &request.route.settings;
    Request {
        method: &parts.method,
        host: match query.is_some() && access.rules.reads_host() {
            true => authority(parts, request.host),
            false => "",
        },
        path: parts.uri.path(),
        below: request.below,
        query,
        headers: &parts.headers,
        address: match access.rules.has_networks() {
            true => request.address.admitting(&parts.headers),
            false => None,
        },
        certificate: request.peer.names(now),
        wants_name: settings.late_limits().next().is_some(),
    }
}

/// Asks the server of an access about a request that nothing else admits, whose path below the route is `below` without the
/// signature in it. Without a server, `refusal` stands.
async fn ask_server(
    access: &RouteAccess,
    request: &ClosedRequest<'_, '_>,
    (below, refusal): (&str, Refusal),
) -> Result<(), (Refusal, Challenge)> {
    let Some(server) = &access.server else {
        return Err((refusal, challenge(access, refusal)));
    };
    let ClosedRequest {
        host,
        parts,
        address,
        peer,
        ..
    } = *request;
    let target = target(request, below);
    let authority = authority(parts, host);
    let question = Question {
        method: &parts.method,
        scheme: scheme((address, peer), &parts.headers),
        host: authority.rsplit('@').next().unwrap_or(authority),
        target: &target,
        client: address.counted,
        headers: &parts.headers,
    };
    Err(match server.ask(&question).await {
        Answer::Admitted => return Ok(()),
        Answer::Forbidden => (Refusal::Denied, Challenge::None),
        Answer::Failed => (Refusal::Unanswered, Challenge::None),
        Answer::Unauthorized(own) if own.is_empty() => (Refusal::Denied, Challenge::Bearer),
        Answer::Unauthorized(own) => (Refusal::Denied, Challenge::PassedOn(own)),
    })
}

/// Returns the target of a request, with the path that is served: a segment in the form of a signature is left out also
/// where it admits nothing, and the server must not judge by it.
fn target<'p>(request: &ClosedRequest<'_, 'p>, below: &str) -> Cow<'p, str> {
    let uri = &request.parts.uri;
    let whole = uri.path_and_query().map_or("/", |target| target.as_str());
    if below.len() == request.below.len() {
        return Cow::Borrowed(whole);
    }
    let route = uri.path().strip_suffix(request.below).unwrap_or_default();
    let query = uri.query().map(|query| format!("?{query}"));
    Cow::Owned(format!("{route}{below}{}", query.unwrap_or_default()))
}

/// Returns the challenges to a request that the access itself has refused.
fn challenge(access: &RouteAccess, refusal: Refusal) -> Challenge {
    match (access.rules.has_tokens(), access.rules.has_jwt()) {
        _ if refusal == Refusal::Referer => Challenge::None,
        (true, _) => Challenge::BearerOrBasic,
        (false, true) => Challenge::Bearer,
        (false, false) => Challenge::None,
    }
}

/// Returns whether a path that is cut to `rest` below its route belongs to the same route. Else a signature in the
/// path would lead past the access of a longer route. The host is the one that the route was found by: the one that is
/// signed may have a user's name in it.
fn is_on(request: &ClosedRequest<'_, '_>, rest: &str) -> bool {
    let ClosedRequest {
        routes,
        route,
        below,
        host,
        parts,
        ..
    } = *request;
    if !routes.has_longer(route) {
        return true;
    }
    let route_path = parts.uri.path().strip_suffix(below);
    let path = format!("{}{rest}", route_path.unwrap_or_default());
    let found = routes.find(host, &path);
    found.is_some_and(|(own, below)| below == rest && std::ptr::eq(own, route))
}

/// Returns the answer to a request that the route's access or limits refuse. One that is hidden says no more than one
/// without a route.
pub(super) fn refusal(route: &RouteState, parts: &Parts, error: &RequestError) -> Reply {
    let mut reply = Reply::error(error, Duration::ZERO, &parts.method);
    if let Some(cors) = &route.settings.cors
        && *error != RequestError::NoRoute
    {
        cors::apply(cors, &parts.headers, reply.answer.headers_mut());
    }
    reply
}
