//! The credentials for NATS, from a section of the configuration.

use tidegate_config::{Environment, Secret};
use tidegate_events::nats::NatsAuth;

/// Reads the credentials: `credentials`, the password of `user`, or `token`.
pub(super) fn read(
    user: Option<&String>,
    [credentials, password, token]: [&Option<Secret>; 3],
    env: &Environment,
) -> anyhow::Result<NatsAuth> {
    let secret = |secret: &Option<Secret>| {
        let secret = secret.as_ref().map(|secret| secret.resolve(env));
        secret.transpose()
    };
    let user = user.cloned().zip(secret(password)?);
    Ok(match (secret(credentials)?, user, secret(token)?) {
        (Some(credentials), _, _) => NatsAuth::Credentials(credentials),
        (None, Some((user, password)), _) => NatsAuth::User { user, password },
        (None, None, Some(token)) => NatsAuth::Token(token),
        (None, None, None) => NatsAuth::None,
    })
}
