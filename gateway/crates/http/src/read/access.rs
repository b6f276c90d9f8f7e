//! The check of a request by its route's access, before its key is made and before anything is asked.

use std::net::IpAddr;

use http::request::Parts;

use crate::request::authority;
use crate::request_error::RequestError;
use crate::settings::RouteAccess;
use crate::{Frontend, RouteState};
use tidegate_access::{Refusal, Request, Verdict};

impl Frontend {
    /// Returns the path below the route that a GET or HEAD request means, without a signature in it, if the route's
    /// access admits the request.
    ///
    /// # Errors
    /// The refusal, which is counted; [`RequestError::NoRoute`] if the access hides what it protects.
    #[inline]
    pub(super) fn admit<'p>(
        &self,
        route: &RouteState,
        below: &'p str,
        parts: &'p Parts,
        client: Option<IpAddr>,
    ) -> Result<&'p str, RequestError> {
        match &route.settings.access {
            None => Ok(below),
            Some(access) => self.check_access((route, access), below, parts, client),
        }
    }

    fn check_access<'p>(
        &self,
        (route, access): (&RouteState, &RouteAccess),
        below: &'p str,
        parts: &'p Parts,
        client: Option<IpAddr>,
    ) -> Result<&'p str, RequestError> {
        let request = Request {
            method: &parts.method,
            host: authority(parts),
            path: parts.uri.path(),
            below,
            query: parts.uri.query(),
            headers: &parts.headers,
            address: client,
        };
        let refusal = match access.rules.check(&request, self.engine.now()) {
            Verdict::Refused(refusal) => refusal,
            Verdict::Admitted { below: rest, .. }
                if rest.len() == below.len() || self.is_on(route, &request, rest) =>
            {
                return Ok(rest);
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

    /// Returns whether a path without its signature belongs to the same route. Else a signature in the path would lead
    /// past the access of a longer route.
    fn is_on(&self, route: &RouteState, request: &Request<'_>, rest: &str) -> bool {
        let route_path = request.path.strip_suffix(request.below);
        let path = format!("{}{rest}", route_path.unwrap_or_default());
        let found = self.table.find(request.host, &path);
        found.is_some_and(|(index, below)| {
            below == rest && std::ptr::eq(&raw const self.routes[index], route)
        })
    }
}
