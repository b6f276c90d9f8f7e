//! The judgement on a request by its route's limits and access, before its key is made and before anything is asked.

use std::borrow::Cow;
use std::time::Duration;

use http::request::Parts;
use tokio::time::Instant;

use super::complete;
use super::limits::Share;
use crate::client_address::{ClientAddress, scheme};
use crate::cors;
use crate::reply::Reply;
use crate::request::{authority, host};
use crate::request_error::{Challenge, RequestError};
use crate::routes::RouteSet;
use crate::settings::RouteAccess;
use crate::{Frontend, RouteState};
use tidegate_access::{Refusal, Request, Verdict};
use tidegate_auth::{Answer, Question};
use tidegate_socket::Peer;

/// A request that was admitted.
#[derive(Debug)]
struct Admission<'p> {
    /// The path below the route, without a signature in it.
    below: &'p str,
    /// Its share in the route's limits, if the route has any.
    share: Option<Share>,
}

impl Frontend {
    /// Answers a GET or HEAD request on a route that has an access or limits.
    pub(super) async fn read_closed(
        &self,
        (routes, route): (&RouteSet, &RouteState),
        below: &str,
        parts: &Parts,
        (started, address, peer): (Instant, ClientAddress, &Peer),
    ) -> Reply {
        let admitted = self.admit((routes, route), below, parts, (address, peer));
        let admission = match admitted.await {
            Ok(admission) => admission,
            Err(error) => return refusal(route, parts, &error),
        };
        let times = (started, address.counted.into());
        let answer = self.answer_object(route, admission.below, parts, times);
        let mut reply = complete(route, parts, answer.await);
        if let Some(share) = admission.share {
            reply.answer = reply.answer.map(|content| share.limit(content));
        }
        reply
    }

    /// Has the route's limits and access judge a GET or HEAD request. The limits come first: guesses at a token count as
    /// requests. Limits by key need the key, and those of a hidden route would tell that it is there.
    ///
    /// # Errors
    /// The refusal, which is counted; [`RequestError::NoRoute`] if the access hides what it protects.
    async fn admit<'p>(
        &self,
        (routes, route): (&RouteSet, &RouteState),
        below: &'p str,
        parts: &'p Parts,
        (address, peer): (ClientAddress, &'p Peer),
    ) -> Result<Admission<'p>, RequestError> {
        let client = address.counted;
        let limits = route.settings.limits.as_ref().map(|limits| &limits.0);
        let (early, late) = match limits {
            Some(limits) if limits.counts_by_key() || route.settings.is_hidden() => {
                (None, Some(limits))
            }
            limits => (limits, None),
        };
        let early = early.map(|limits| self.enter(limits, (client, None)));
        let early = early.transpose()?;
        let (below, by) = match &route.settings.access {
            None => (below, None),
            Some(access) => {
                let client = (address, peer);
                let checked = self.check_access((routes, route), access, (below, parts), client);
                checked.await?
            }
        };
        let late = late.map(|limits| self.enter(limits, (client, by.as_deref())));
        let share = early.or(late.transpose()?);
        Ok(Admission { below, share })
    }

    /// Returns the path below the route that a request means, and the name of the key, token, certificate or subject that
    /// admits it.
    async fn check_access<'p, 's>(
        &self,
        (routes, route): (&RouteSet, &RouteState),
        access: &'s RouteAccess,
        (below, parts): (&'p str, &'p Parts),
        (address, peer): (ClientAddress, &'p Peer),
    ) -> Result<(&'p str, Option<Cow<'s, str>>), RequestError> {
        let request = Request {
            method: &parts.method,
            host: authority(parts),
            path: parts.uri.path(),
            below,
            query: parts.uri.query(),
            headers: &parts.headers,
            address: address.admitting(&parts.headers),
            certificate: peer.names(),
        };
        let verdict = self.check_with_newer_keys(access, &request).await;
        let judged = match verdict {
            Verdict::Refused(refusal) => Err((refusal, challenge(access, refusal))),
            Verdict::Admitted { below, by } => Ok((below, by)),
            Verdict::Undecided { below, refusal, .. } => {
                let asked = ask_server(access, parts, (address, peer), refusal).await;
                asked.map(|()| (below, None))
            }
        };
        let (refusal, challenge) = match judged {
            Err(refused) => refused,
            Ok((rest, by))
                if rest.len() == below.len() || is_on((routes, route), parts, (below, rest)) =>
            {
                return Ok((rest, by));
            }
            Ok(_) => (Refusal::Prefix, challenge(access, Refusal::Prefix)),
        };
        self.metrics.count_refusal(refusal);
        Err(match access.hide {
            true => RequestError::NoRoute,
            false => RequestError::Access { refusal, challenge },
        })
    }

    /// Has the access judge a request; once more if that needs keys that had to be fetched.
    async fn check_with_newer_keys<'r, 's>(
        &self,
        access: &'s RouteAccess,
        request: &Request<'r>,
    ) -> Verdict<'r, 's> {
        let verdict = access.rules.check(request, self.engine.now());
        match (&verdict, &access.keys) {
            (Verdict::Undecided { newer_keys, .. }, Some(keys)) if *newer_keys => {
                keys.refresh().await;
                access.rules.check(request, self.engine.now())
            }
            _ => verdict,
        }
    }
}

/// Asks the server of an access about a request that nothing else admits. Without a server, `refusal` stands.
async fn ask_server(
    access: &RouteAccess,
    parts: &Parts,
    (address, peer): (ClientAddress, &Peer),
    refusal: Refusal,
) -> Result<(), (Refusal, Challenge)> {
    let Some(server) = &access.server else {
        return Err((refusal, challenge(access, refusal)));
    };
    let target = parts.uri.path_and_query();
    let authority = authority(parts);
    let question = Question {
        method: &parts.method,
        scheme: scheme((address, peer), &parts.headers),
        host: authority.rsplit('@').next().unwrap_or(authority),
        target: target.map_or("/", |target| target.as_str()),
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

/// Returns the challenges to a request that the access itself has refused.
fn challenge(access: &RouteAccess, refusal: Refusal) -> Challenge {
    match (access.rules.has_tokens(), access.rules.has_jwt()) {
        _ if refusal == Refusal::Referer => Challenge::None,
        (true, _) => Challenge::BearerOrBasic,
        (false, true) => Challenge::Bearer,
        (false, false) => Challenge::None,
    }
}

/// Returns whether a path whose rest `below` the route is cut to `rest` belongs to the same route. Else a signature in the
/// path would lead past the access of a longer route. The host is the one that the route was found by: the one that is
/// signed may have a user's name in it.
fn is_on(
    (routes, route): (&RouteSet, &RouteState),
    parts: &Parts,
    (below, rest): (&str, &str),
) -> bool {
    let route_path = parts.uri.path().strip_suffix(below);
    let path = format!("{}{rest}", route_path.unwrap_or_default());
    let host = host(parts).ok();
    let found = host.and_then(|host| routes.find(host, &path));
    found.is_some_and(|(own, below)| below == rest && std::ptr::eq(own, route))
}

/// Returns the answer to a request that the route's access or limits refuse. One that is hidden says no more than one for which
/// there is no route.
fn refusal(route: &RouteState, parts: &Parts, error: &RequestError) -> Reply {
    let mut reply = Reply::error(error, Duration::ZERO, &parts.method);
    if let Some(cors) = &route.settings.cors
        && *error != RequestError::NoRoute
    {
        cors::apply(cors, &parts.headers, reply.answer.headers_mut());
    }
    reply
}
