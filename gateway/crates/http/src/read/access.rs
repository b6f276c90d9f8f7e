//! The judgement on a request by its route's limits and access, before its key is made and before anything is asked.

use http::request::Parts;

use super::limits::Share;
use crate::RouteState;
use crate::client_address::is_of_stranger;
use crate::request::authority;
use crate::request_error::RequestError;
use crate::routes::RouteSet;
use crate::settings::RouteAccess;
use crate::{Address, Frontend};
use tidegate_access::{Refusal, Request, Verdict};

/// A request that was admitted.
#[derive(Debug)]
pub(super) struct Admission<'p> {
    /// The path below the route, without a signature in it.
    pub(super) below: &'p str,
    /// Its share in the route's limits, if the route has any.
    pub(super) share: Option<Share>,
}

impl Frontend {
    /// Has the route's limits and access judge a GET or HEAD request.
    ///
    /// # Errors
    /// The refusal, which is counted; [`RequestError::NoRoute`] if the access hides what it protects.
    #[inline]
    pub(super) fn admit<'p>(
        &self,
        (routes, route): (&RouteSet, &RouteState),
        below: &'p str,
        parts: &'p Parts,
        address: Address,
    ) -> Result<Admission<'p>, RequestError> {
        match route.settings.is_open() {
            true => Ok(Admission { below, share: None }),
            false => self.judge((routes, route), below, parts, address),
        }
    }

    /// The limits come first: guesses at a token count as requests. Limits by key need the key.
    fn judge<'p>(
        &self,
        (routes, route): (&RouteSet, &RouteState),
        below: &'p str,
        parts: &'p Parts,
        address: Address,
    ) -> Result<Admission<'p>, RequestError> {
        let client = address.client;
        let limits = route.settings.limits.as_ref().map(|limits| &limits.0);
        let (early, late) = match limits {
            Some(limits) if limits.counts_by_key() => (None, Some(limits)),
            limits => (limits, None),
        };
        let early = early.map(|limits| self.enter(route, limits, (client, None)));
        let early = early.transpose()?;
        let (below, by) = match &route.settings.access {
            None => (below, None),
            Some(access) => self.check_access((routes, route), access, (below, parts), address)?,
        };
        let late = late.map(|limits| self.enter(route, limits, (client, by)));
        let share = early.or(late.transpose()?);
        Ok(Admission { below, share })
    }

    /// Returns the path below the route that a request means, and the name of the key or token that admits it.
    fn check_access<'p, 's>(
        &self,
        (routes, route): (&RouteSet, &RouteState),
        access: &'s RouteAccess,
        (below, parts): (&'p str, &'p Parts),
        address: Address,
    ) -> Result<(&'p str, Option<&'s str>), RequestError> {
        let (headers, trusted) = (&parts.headers, &self.settings.trusted_proxies);
        let stranger = is_of_stranger(address.peer, headers, trusted);
        let request = Request {
            method: &parts.method,
            host: authority(parts),
            path: parts.uri.path(),
            below,
            query: parts.uri.query(),
            headers,
            // Behind a proxy that is not trusted, its address would admit the whole world.
            address: address.client.filter(|_| !stranger),
        };
        let refusal = match access.rules.check(&request, self.engine.now()) {
            Verdict::Refused(refusal) => refusal,
            Verdict::Admitted { below: rest, by }
                if rest.len() == below.len() || is_on((routes, route), &request, rest) =>
            {
                return Ok((rest, by));
            }
            Verdict::Admitted { .. } => Refusal::Prefix,
        };
        self.metrics.count_refusal(refusal);
        Err(match access.hide {
            true => RequestError::NoRoute,
            false => RequestError::Access {
                refusal,
                challenge: access.rules.has_tokens() && refusal != Refusal::Referer,
            },
        })
    }
}

/// Returns whether a path without its signature belongs to the same route. Else a signature in the path would lead past
/// the access of a longer route.
fn is_on((routes, route): (&RouteSet, &RouteState), request: &Request<'_>, rest: &str) -> bool {
    let route_path = request.path.strip_suffix(request.below);
    let path = format!("{}{rest}", route_path.unwrap_or_default());
    let found = routes.find(request.host, &path);
    found.is_some_and(|(own, below)| below == rest && std::ptr::eq(own, route))
}
