//! Converts the configuration into the settings of each part.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Context as _;

use tidegate_access::limits::{LimitRules, LimitScope, Rate};
use tidegate_access::{NamedToken, Referers, Rules, SigningKey};
use tidegate_config::{Access, AccessToken, Config, Environment, Http, Limits, Origin, Secret};
use tidegate_origin::settings::Credentials;
use tidegate_plan::retry::Retry;
use tidegate_plan::{ByteSize, Geometry, Token};
use tidegate_telemetry::logging::{Format, Logging};

/// Permissions of the admin listener's Unix socket: for the owner alone, since a proxy's group must not purge.
pub(super) const ADMIN_SOCKET_MODE: u32 = 0o600;

/// Permissions of public Unix sockets: for the owner, and the process's group, to which a proxy is added.
pub(super) const PUBLIC_SOCKET_MODE: u32 = 0o660;

/// Bytes of `cache.budget` for each HTTP/2 stream: the cost of one with a copy in flight.
const STREAM_SHARE: u64 = 16 << 10;

/// Bytes of `cache.budget` for each connection: more than the cost of one, so that connections take no more memory than
/// the budget.
const CONNECTION_SHARE: u64 = 32 << 10;

/// The same where clients may connect with TLS. Beside the connection there are its keys and buffers, 11 KiB, and up to 32
/// KiB that wait for the client in encrypted form.
const TLS_CONNECTION_SHARE: u64 = 80 << 10;

/// Returns the settings of the log.
pub(super) fn logging(log: &tidegate_config::Log) -> Logging {
    let format = match log.format {
        tidegate_config::LogFormat::Text => Format::Text,
        tidegate_config::LogFormat::Json => Format::Json,
    };
    Logging {
        format,
        level: log.level.clone(),
        access: log.access,
    }
}

pub(super) fn http(http: &Http, budget: ByteSize) -> tidegate_http::Settings {
    let bytes = |size: ByteSize| usize::try_from(size.0).unwrap_or(usize::MAX);
    let share = |of: u64| bytes(ByteSize(budget.0 / of));
    let connections = usize::try_from(http.max_connections).unwrap_or(usize::MAX);
    let connection = match http.listen.0.iter().any(|one| one.tls) {
        true => TLS_CONNECTION_SHARE,
        false => CONNECTION_SHARE,
    };
    tidegate_http::Settings {
        streams: share(STREAM_SHARE),
        connections: connections.min(share(connection)),
        header_timeout: http.header_timeout.into(),
        idle_timeout: http.idle_timeout.into(),
        stall_timeout: http.write_timeout.into(),
        max_header_bytes: bytes(http.max_header),
        max_uri_bytes: bytes(http.max_uri),
        drain: http.drain.into(),
        trusted_proxies: http.trusted_proxies.clone(),
        purge_networks: http.purge_networks.clone(),
        server_timing: http.server_timing,
    }
}

/// Returns the rules of an access, with their secrets read, and without those for JWTs. `hosts` are those of its routes.
pub(super) fn access_rules<'h>(
    access: &Access,
    hosts: impl IntoIterator<Item = &'h str>,
    env: &Environment,
) -> anyhow::Result<Rules> {
    let token = |(name, token): (&String, &AccessToken)| {
        let of = || format!("the token of `{name}`");
        let secret = token.secret.resolve(env).with_context(of)?;
        Ok(NamedToken {
            name: name.clone(),
            token: Token::from_setting(&secret).with_context(of)?,
            expires: token.expires,
        })
    };
    let tokens: anyhow::Result<Vec<_>> = access.tokens.iter().map(token).collect();
    let referers = access.referers.iter().map(String::as_str);
    let referers = Referers::new(referers).map_err(|(_, error)| error)?;
    Ok(Rules {
        networks: access.networks.clone(),
        tokens: tokens?,
        clients: access.clients.clone(),
        keys: signing_keys(access, env)?,
        skew: access
            .signed
            .as_ref()
            .map_or(Duration::ZERO, |signed| signed.skew.into()),
        jwt: None,
        auth_request: access.auth_request.is_some(),
        referers: (!access.referers.is_empty()).then(|| referers.with_server_names(hosts)),
    })
}

/// Returns the keys of an access that sign links, with their secrets read.
fn signing_keys(access: &Access, env: &Environment) -> anyhow::Result<Vec<SigningKey>> {
    let keys = access.signed.iter().flat_map(|signed| &signed.keys);
    let key = |(id, secret): (&String, &Secret)| {
        let of = || format!("the key `{id}`");
        let secret = secret.resolve(env).with_context(of)?;
        SigningKey::new(id, &secret).with_context(of)
    };
    keys.map(key).collect()
}

/// Returns the rules of limits. Without a `burst` it is as large as the requests of one second.
pub(super) fn limit_rules(limits: &Limits) -> LimitRules {
    let requests = limits.requests.map(|rate| rate.0);
    let of_second =
        |rate: Rate| rate.requests.get() / u32::try_from(rate.time.as_secs()).unwrap_or(1).max(1);
    LimitRules {
        requests,
        burst: limits.burst.or(requests.map(of_second)).unwrap_or(1),
        bytes: limits.bytes.map(|rate| rate.0),
        connections: limits.connections.and_then(NonZeroU32::new),
        per: match limits.per {
            tidegate_config::LimitScope::Address => LimitScope::Address,
            tidegate_config::LimitScope::Key => LimitScope::Key,
            tidegate_config::LimitScope::Route => LimitScope::Route,
        },
    }
}

/// Returns the token that a change through the admin listener must show.
pub(super) fn admin_token(config: &Config, env: &Environment) -> anyhow::Result<Option<Token>> {
    let Some(token) = &config.admin.token else {
        return Ok(None);
    };
    let token = token.resolve(env).context("`admin.token`")?;
    Ok(Some(Token::from_setting(&token).context("`admin.token`")?))
}

/// Returns the settings of an origin, with its secrets read.
pub(super) fn origin(
    origin: &Origin,
    env: &Environment,
) -> anyhow::Result<tidegate_origin::Settings> {
    let context = || format!("origin `{}`", origin.name);
    let secret = |secret: &Option<tidegate_config::Secret>| {
        let secret = secret.as_ref().map(|secret| secret.resolve(env));
        secret.transpose().with_context(context)
    };
    let credentials = match (origin.anonymous, &origin.access_key_id) {
        (true, _) => Credentials::Anonymous,
        (false, None) => Credentials::Chain,
        (false, Some(id)) => Credentials::Static {
            access_key_id: id.clone(),
            secret_access_key: secret(&origin.secret_access_key)?.with_context(context)?,
            session_token: secret(&origin.session_token)?,
        },
    };
    let defaults = tidegate_origin::Settings::new(&origin.name, &origin.bucket);
    Ok(tidegate_origin::Settings {
        endpoint: origin.endpoint.clone(),
        region: origin.region.clone(),
        path_style: origin.path_style,
        credentials,
        identity: origin.identity.clone(),
        missing_is_403: origin.missing_is_403,
        deadlines: tidegate_origin::settings::Deadlines {
            connect: origin.connect_timeout.into(),
            first_byte: origin.first_byte_timeout.into(),
            stall: origin.stall_timeout.into(),
            total: origin.total_timeout.into(),
            ..defaults.deadlines
        },
        retry: Retry {
            retries: origin.retries,
            ..defaults.retry
        },
        max_requests: usize::try_from(origin.max_requests).unwrap_or(usize::MAX),
        ..defaults
    })
}

/// Returns the settings of the cache's disks.
pub(super) fn disks(cache: &tidegate_config::Cache) -> Vec<tidegate_cache::DiskSettings> {
    let disk = |disk: &tidegate_config::Disk| tidegate_cache::DiskSettings {
        path: disk.path.clone(),
        capacity: disk.capacity.0,
        min_free: disk.min_free.0,
        ..tidegate_cache::DiskSettings::default()
    };
    cache.disk.iter().map(disk).collect()
}

/// Returns the settings of the stores.
pub(super) fn stores(config: &Config) -> anyhow::Result<tidegate_cache::Settings> {
    let tags_header = &config.cache.tags_header;
    Ok(tidegate_cache::Settings {
        memory: config.cache.memory.0,
        geometry: Geometry::new(config.cache.chunk.0).context("cache.chunk is no power of two")?,
        disks: disks(&config.cache),
        state: config.state_path(),
        state_size: config.state.size.0,
        state_timeouts: tidegate_cache::StateTimeouts {
            read: config.state.read_timeout.into(),
            write: config.state.write_timeout.into(),
        },
        tags_header: tags_header.parse().context("cache.tags_header")?,
        ..tidegate_cache::Settings::default()
    })
}

/// Returns a route's sites and the maximum age of a preflight's answer.
pub(super) fn cors(cors: &tidegate_config::Cors) -> tidegate_http::Cors {
    tidegate_http::Cors {
        origins: cors.origins.clone(),
        max_age: Duration::from(cors.max_age),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frontend's own defaults serve its tests, which should run with what a gateway runs with.
    #[test]
    fn the_frontends_defaults_are_those_of_the_configuration() {
        let budget = ByteSize(256 << 20);
        let configured = http(&Http::default(), budget);
        assert_eq!(configured, tidegate_http::Settings::default());
    }
}
