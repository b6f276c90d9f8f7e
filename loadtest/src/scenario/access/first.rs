//! The first verification of a credential: requests that each show another one, over requests that repeat one.

use std::time::Duration;

use anyhow::Result;

use super::signer::{Algorithm, Signer};
use super::{KEY, ways};
use crate::client::Connection;
use crate::context::Context;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::ways::Ways;

/// The credentials of each kind. The kernel counts CPU time in hundredths of a second.
const CREDENTIALS: u64 = 3000;

/// A target, and the token that it is shown with.
type TokenCase = (String, Option<String>);

/// Adds the CPU time that the first verification of each kind of credential takes, in microseconds.
pub(super) async fn measure(
    context: &Context,
    signer: &Signer,
    peer: &Peer,
    pattern: Pattern,
    found: &mut Ways,
) -> Result<()> {
    let count = context.count(CREDENTIALS);
    for algorithm in Algorithm::ALL {
        let token = |nth: u64| signer.jwt(algorithm, &format!("reader {nth}"), ways::expiry());
        let shown = |nth| Ok((format!("/jwt/{KEY}"), Some(token(nth)?)));
        let all: Vec<TokenCase> = (0..count).map(shown).collect::<Result<_>>()?;
        found.add(algorithm.name(), over_repeated(peer, &all, pattern).await?);
    }
    let mut urls = vec![];
    for nth in 0..count {
        let life = Duration::from_secs(3600 + nth);
        urls.push((signer.url(peer.addr(), life).await?, None));
    }
    found.add("presigned URL", over_repeated(peer, &urls, pattern).await?);
    let prefix = |nth| signer.prefix("/signed/", ways::expiry() + nth);
    let prefixes = (0..count).map(|nth| (format!("/signed/{}/{KEY}", prefix(nth)), None));
    let prefixes: Vec<TokenCase> = prefixes.collect();
    found.add(
        "signed prefix",
        over_repeated(peer, &prefixes, pattern).await?,
    );
    Ok(())
}

/// Returns the CPU time of a request with a new credential over that of one with a repeated credential, in microseconds.
async fn over_repeated(peer: &Peer, all: &[TokenCase], pattern: Pattern) -> Result<f64> {
    let new = cpu_of(peer, all, pattern).await?;
    let last = all.last().into_iter().cycle().take(all.len());
    let repeated: Vec<TokenCase> = last.cloned().collect();
    Ok(new - cpu_of(peer, &repeated, pattern).await?)
}

/// Makes each request, one after the other, and returns the CPU time of one.
async fn cpu_of(peer: &Peer, all: &[TokenCase], pattern: Pattern) -> Result<f64> {
    let mut connection = Connection::open(peer.addr()).await?;
    let before = peer.usage()?;
    for (target, token) in all {
        let bearer = token.as_ref().map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer
            .iter()
            .map(|text| ("authorization", &**text))
            .collect();
        connection.verify_with(target, &headers, pattern).await?;
    }
    let cpu = peer.usage()?.cpu.saturating_sub(before.cpu);
    Ok(cpu.as_secs_f64() * 1e6 / all.len().max(1) as f64)
}
