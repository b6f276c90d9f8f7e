//! Orders at a directory (RFC 8555): the account, the challenge, and the certificate with the key that is made here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::AcmeSettings;
use crate::external_account::ExternalAccount;
use crate::failure::{Failure, FailureKind, Step};
use crate::files::{ACCOUNT, Files};
use crate::transport::Transport;
use tidegate_outbound::Client;
use tidegate_tls::{ChallengeAnswer, Challenges};

/// The looks at an order: after 250 ms, then after twice that, and so on.
const POLLING: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));

/// An authority that issues certificates.
pub(crate) trait Directory: Send + Sync + fmt::Debug {
    /// Orders a certificate for a name, and answers the challenge. Returns the chain and the key in PEM. The caller bounds
    /// the time; an order that is dropped has changed nothing here but the account.
    fn issue<'a>(
        &'a self,
        name: &'a str,
        challenges: &'a Arc<Challenges>,
    ) -> BoxFuture<'a, Result<String, Failure>>;
}

/// A directory that speaks ACME.
#[derive(Debug)]
pub(crate) struct AcmeDirectory {
    url: String,
    contact: Vec<String>,
    external: Option<ExternalAccount>,
    files: Files,
    client: Client,
}

/// The file of the account. It has the account's key.
#[derive(Serialize, Deserialize)]
struct AccountFile {
    contact: Vec<String>,
    /// The number of the external account that it is bound to.
    #[serde(default)]
    external: Option<String>,
    /// Opaque: an [`AccountCredentials`].
    credentials: serde_json::Value,
}

impl Directory for AcmeDirectory {
    fn issue<'a>(
        &'a self,
        name: &'a str,
        challenges: &'a Arc<Challenges>,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let transport = Transport::new(self.client.clone());
            let issued = self.issue_by(&transport, name, challenges).await;
            issued.map_err(|failure| Failure {
                asked: transport.asked(),
                ..failure
            })
        })
    }
}

impl AcmeDirectory {
    pub(crate) fn new(settings: &AcmeSettings, client: Client) -> Self {
        Self {
            url: settings.directory.clone(),
            contact: settings.contact.clone(),
            external: settings.external_account.clone(),
            files: Files::new(settings),
            client,
        }
    }

    async fn issue_by(
        &self,
        transport: &Transport,
        name: &str,
        challenges: &Arc<Challenges>,
    ) -> Result<String, Failure> {
        let issued = match self.known_account(transport).await? {
            Some(account) => order(&account, name, challenges).await,
            None => Err(unknown()),
        };
        match issued {
            // A directory that has lost it, or has never had one.
            Err(failure) if failure.kind == FailureKind::UnknownAccount => {
                let account = self.new_account(transport).await?;
                order(&account, name, challenges).await
            }
            done => done,
        }
    }

    /// Returns the account of earlier orders. One that the directory has lost, or that is bound to another external account,
    /// is none.
    async fn known_account(&self, transport: &Transport) -> Result<Option<Account>, Failure> {
        let files = self.files.clone();
        let read = spawn_blocking(move || files.read(ACCOUNT)).await;
        let read = read.map_err(Failure::new)?.map_err(unreadable)?;
        let Some(bytes) = read else { return Ok(None) };
        // The file has a key: the error of a broken one must not show what it has.
        let broken = |_| unreadable("it is no account in JSON");
        let file: AccountFile = serde_json::from_slice(&bytes).map_err(broken)?;
        if file.external.as_deref() != self.external_id() {
            return Ok(None);
        }
        let credentials: AccountCredentials =
            serde_json::from_value(file.credentials.clone()).map_err(broken)?;
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let account = builder.from_credentials(credentials).await?;
        if file.contact != self.contact {
            let contact: Vec<_> = self.contact.iter().map(String::as_str).collect();
            let updated = account.update_contacts(&contact).await;
            match updated.map_err(|error| Failure::at(Step::Account, error)) {
                Ok(()) => self.keep(file.credentials).await?,
                Err(failure) if failure.kind == FailureKind::UnknownAccount => return Ok(None),
                Err(failure) => return Err(failure),
            }
        }
        Ok(Some(account))
    }

    /// Makes an account, and keeps it.
    async fn new_account(&self, transport: &Transport) -> Result<Account, Failure> {
        let contact: Vec<_> = self.contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let signer = self.external.as_ref().map(ExternalAccount::signer);
        let created = builder.create(&new, self.url.clone(), signer.as_ref());
        let created = created.await.map_err(|error| self.not_made(error.into()));
        let (account, credentials) = created?;
        let credentials = serde_json::to_value(credentials);
        self.keep(credentials.map_err(Failure::new)?).await?;
        tracing::info!(directory = self.url, "account made with the authority");
        Ok(account)
    }

    fn external_id(&self) -> Option<&str> {
        self.external.as_ref().map(ExternalAccount::key_id)
    }

    /// Returns the failure of a new account, with what the operator can do.
    fn not_made(&self, failure: Failure) -> Failure {
        let hint = match (failure.kind, &self.external) {
            (FailureKind::Refused, Some(_)) => {
                "the authority does not take `tls.acme.external_account`: is it the number and the key that it has shown?"
            }
            _ => failure.hint,
        };
        Failure { hint, ..failure }
    }

    async fn keep(&self, credentials: serde_json::Value) -> Result<(), Failure> {
        let file = AccountFile {
            contact: self.contact.clone(),
            external: self.external_id().map(str::to_owned),
            credentials,
        };
        let bytes = serde_json::to_vec(&file).map_err(Failure::new)?;
        let files = self.files.clone();
        let written = spawn_blocking(move || files.write(ACCOUNT, &bytes)).await;
        let unwritten = |error| Failure::new(format!("the account cannot be kept: {error}"));
        written.map_err(Failure::new)?.map_err(unwritten)
    }
}

fn unknown() -> Failure {
    Failure {
        kind: FailureKind::UnknownAccount,
        ..Failure::new("there is no account yet")
    }
}

fn unreadable(error: impl fmt::Display) -> Failure {
    Failure::new(format!("{ACCOUNT} cannot be read: {error}"))
}

/// Orders a certificate, and waits for it.
async fn order(
    account: &Account,
    name: &str,
    challenges: &Arc<Challenges>,
) -> Result<String, Failure> {
    let names = [Identifier::Dns(name.to_owned())];
    let order = account.new_order(&NewOrder::new(&names)).await;
    let mut order = order.map_err(|error| Failure::at(Step::Account, error))?;
    let answered = answer(&mut order, name, challenges).await?;
    let ready = order.poll_ready(&POLLING).await;
    if !matches!(ready, Ok(OrderStatus::Ready)) {
        if let Some(failure) = failed_challenge(&mut order).await {
            return Err(failure);
        }
        ready.map_err(|error| Failure::at(Step::Challenge, error))?;
        return Err(Failure::new("the order has become invalid"));
    }
    drop(answered);
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&POLLING).await?;
    Ok(format!("{}\n{key}", chain.trim_end()))
}

/// Answers the challenges of an order. The answers are shown for as long as they are kept.
async fn answer(
    order: &mut Order,
    name: &str,
    challenges: &Arc<Challenges>,
) -> Result<Vec<ChallengeAnswer>, Failure> {
    let mut answered = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        // One that an earlier order has proven counts for some time.
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let challenge = authorization.challenge(ChallengeType::TlsAlpn01);
        let mut challenge =
            challenge.ok_or_else(|| Failure::new("the directory offers no `tls-alpn-01`"))?;
        let digest = challenge.key_authorization().digest();
        let (certificate, key) = certificate(name, digest.as_ref()).map_err(Failure::new)?;
        let answer = challenges.answer(name, certificate, key);
        answered.push(answer.map_err(Failure::new)?);
        challenge.set_ready().await?;
    }
    Ok(answered)
}

/// Returns why a challenge of an order that has failed was not met.
async fn failed_challenge(order: &mut Order) -> Option<Failure> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let state = authorization.refresh().await.ok()?;
        let error = state.challenges.iter().find_map(|one| one.error.as_ref());
        if let Some(problem) = error {
            return Some(Failure::of(Step::Challenge, problem));
        }
    }
    None
}

/// Makes the certificate that answers a challenge (RFC 8737, 3), and its key.
fn certificate(
    name: &str,
    digest: &[u8],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    let extension = CustomExtension::new_acme_identifier(digest);
    params.custom_extensions = vec![extension];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((certificate, key))
}
