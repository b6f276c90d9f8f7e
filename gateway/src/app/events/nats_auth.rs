//! The credentials for NATS, from a section of the configuration.

use tidegate_config::{Environment, NatsLogin, Secret};
use tidegate_events::nats::NatsAuth;

/// Reads the credentials: `credentials`, the password of `user`, or `token`.
pub(super) fn read(login: NatsLogin<'_>, env: &Environment) -> anyhow::Result<NatsAuth> {
    let secret = |secret: Option<&Secret>| {
        let secret = secret.map(|secret| secret.resolve(env));
        secret.transpose()
    };
    let user = login.user.map(str::to_owned);
    let user = user.zip(secret(login.password)?);
    Ok(
        match (secret(login.credentials)?, user, secret(login.token)?) {
            (Some(credentials), _, _) => NatsAuth::Credentials(credentials),
            (None, Some((user, password)), _) => NatsAuth::User { user, password },
            (None, None, Some(token)) => NatsAuth::Token(token),
            (None, None, None) => NatsAuth::None,
        },
    )
}
