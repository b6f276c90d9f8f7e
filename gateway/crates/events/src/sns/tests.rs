//! Signed messages, and each change that must spoil them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tidegate_telemetry::locks::Recover as _;

use super::*;

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:media";
const CERTIFICATE: &[u8] = include_bytes!("../../fixtures/sns/certificate.pem");
const OTHER: &[u8] = include_bytes!("../../fixtures/sns/other.pem");
const NOTIFICATION_V1: &str = include_str!("../../fixtures/sns/notification-v1.json");
const NOTIFICATION_V2: &str = include_str!("../../fixtures/sns/notification-v2.json");
const WITHOUT_SUBJECT: &str = include_str!("../../fixtures/sns/notification-without-subject.json");
const CONFIRMATION: &str = include_str!("../../fixtures/sns/confirmation.json");
const CONFIRMATION_ELSEWHERE: &str = include_str!("../../fixtures/sns/confirmation-elsewhere.json");
const END: &str = include_str!("../../fixtures/sns/end.json");

/// Answers with one document, and records what is asked.
struct Served {
    document: &'static [u8],
    asked: Mutex<Vec<String>>,
    failures: AtomicUsize,
}

impl Fetch for Served {
    fn fetch<'a>(&'a self, url: &'a AwsUrl) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        let asked = format!("{}{}", url.host(), url.target());
        self.asked.lock().recover().push(asked);
        let fails = |count: usize| count.checked_sub(1);
        let has_failed = self
            .failures
            .try_update(Ordering::Relaxed, Ordering::Relaxed, fails);
        let answer = match has_failed {
            Ok(_) => Err(FetchError("no answer".to_owned())),
            Err(_) => Ok(Bytes::from_static(self.document)),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn verifier(document: &'static [u8], topics: &[&str]) -> (SnsVerifier, Arc<Served>) {
    let served = Arc::new(Served {
        document,
        asked: Mutex::default(),
        failures: AtomicUsize::new(0),
    });
    let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
    (SnsVerifier::new(topics, served.clone()), served)
}

async fn verify(message: &str) -> Result<SnsMessage, SnsError> {
    let (verifier, _) = verifier(CERTIFICATE, &[TOPIC]);
    verifier.verify(message.as_bytes()).await
}

fn with(message: &str, key: &str, value: &str) -> String {
    let mut message: Value = serde_json::from_str(message).expect("JSON");
    message[key] = value.into();
    message.to_string()
}

#[tokio::test]
async fn a_signed_notification_has_the_events_of_the_bucket() {
    for message in [NOTIFICATION_V1, NOTIFICATION_V2, WITHOUT_SUBJECT] {
        let SnsMessage::Notification(text) = verify(message).await.expect("signed") else {
            panic!("no notification: {message}")
        };
        let events = crate::record::read(text.as_bytes()).expect("readable");
        assert_eq!(events.changes[0].key.as_str(), "a b.jpg");
    }
    assert_eq!(verify(END).await, Ok(SnsMessage::Ended));
}

#[tokio::test]
async fn whatever_is_changed_spoils_the_signature() {
    for key in ["Message", "MessageId", "Subject", "Timestamp"] {
        for message in [NOTIFICATION_V1, NOTIFICATION_V2] {
            let changed = with(message, key, "other");
            assert_eq!(verify(&changed).await, Err(SnsError::Signature), "{key}");
        }
    }
    for (key, value) in [
        ("Signature", ""),
        ("Signature", "*"),
        ("Signature", "AAAA"),
        ("SignatureVersion", "1"),
        ("SignatureVersion", "3"),
        ("Subject", "added\nTimestamp\nx"),
    ] {
        let changed = with(NOTIFICATION_V2, key, value);
        assert_eq!(verify(&changed).await, Err(SnsError::Signature), "{key}");
    }
    for key in ["Token", "SubscribeURL"] {
        let changed = with(CONFIRMATION, key, "https://sns.eu-west-1.amazonaws.com/");
        assert_eq!(verify(&changed).await, Err(SnsError::Signature), "{key}");
    }
    let (other, _) = verifier(OTHER, &[TOPIC]);
    let by_another = other.verify(NOTIFICATION_V2.as_bytes()).await;
    assert_eq!(by_another, Err(SnsError::Signature));
    let (none, _) = verifier(b"no PEM", &[TOPIC]);
    assert_eq!(
        none.verify(NOTIFICATION_V2.as_bytes()).await,
        Err(SnsError::Signature)
    );
}

#[tokio::test]
async fn nothing_is_fetched_for_a_foreign_topic_or_host() {
    let (foreign, served) = verifier(CERTIFICATE, &["arn:aws:sns:eu-west-1:123456789012:other"]);
    assert_eq!(
        foreign.verify(CONFIRMATION.as_bytes()).await,
        Err(SnsError::Topic)
    );
    assert!(served.asked.lock().recover().is_empty());
    let (verifier, served) = verifier(CERTIFICATE, &[TOPIC]);
    for url in [
        "https://evil.example/SimpleNotificationService-1.pem",
        "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.eu-west-1.amazonaws.com/other.pem",
    ] {
        let changed = with(NOTIFICATION_V2, "SigningCertURL", url);
        assert_eq!(
            verifier.verify(changed.as_bytes()).await,
            Err(SnsError::Url),
            "{url}"
        );
    }
    for message in ["", "{}", "[]", r#"{"Type":"Notification"}"#] {
        assert_eq!(
            verifier.verify(message.as_bytes()).await,
            Err(SnsError::Unreadable)
        );
    }
    assert!(served.asked.lock().recover().is_empty());
}

#[tokio::test]
async fn a_subscription_is_confirmed_on_the_host_of_its_topic() {
    let (verifier, served) = verifier(CERTIFICATE, &[TOPIC]);
    let confirmed = verifier.verify(CONFIRMATION.as_bytes()).await;
    assert_eq!(confirmed, Ok(SnsMessage::Confirmed));
    let elsewhere = verifier.verify(CONFIRMATION_ELSEWHERE.as_bytes()).await;
    assert_eq!(elsewhere, Err(SnsError::Url));
    let asked = served.asked.lock().recover().clone();
    let [certificate, confirmation] = &asked[..] else {
        panic!("the certificate is kept: {asked:?}")
    };
    assert!(certificate.ends_with("/SimpleNotificationService-0123456789abcdef.pem"));
    assert!(confirmation.starts_with("sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&"));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_fails_is_tried_again_after_a_while() {
    let (verifier, served) = verifier(CERTIFICATE, &[TOPIC]);
    served.failures.store(1, Ordering::Relaxed);
    for _ in 0..100 {
        let failed = verifier.verify(NOTIFICATION_V1.as_bytes()).await;
        assert!(matches!(failed, Err(SnsError::Fetch(_))), "{failed:?}");
    }
    assert_eq!(served.asked.lock().recover().len(), 1);
    tokio::time::advance(certificates::FAILURE_MEMORY).await;
    assert!(verifier.verify(NOTIFICATION_V1.as_bytes()).await.is_ok());
}

/// After a restart no certificate is known.
#[tokio::test(start_paused = true)]
async fn the_certificate_of_sns_is_fetched_beside_forged_ones() {
    let (verifier, served) = verifier(CERTIFICATE, &[TOPIC]);
    let forge = async |n: usize| {
        let url = format!("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-{n}.pem");
        let forged = with(NOTIFICATION_V1, "SigningCertURL", &url);
        let refused = verifier.verify(forged.as_bytes()).await;
        assert!(matches!(refused, Err(SnsError::Fetch(_))), "{refused:?}");
    };
    served.failures.store(usize::MAX, Ordering::Relaxed);
    for n in 0..1000 {
        forge(n).await;
    }
    let refused = verifier.verify(NOTIFICATION_V1.as_bytes()).await;
    assert!(matches!(refused, Err(SnsError::Fetch(_))), "{refused:?}");
    // Those that failed have no share in what is left, however often they are named.
    for n in 0..certificates::MAX_NEW_FETCHES {
        tokio::time::advance(certificates::FAILURE_MEMORY / 8).await;
        forge(n).await;
    }
    served.failures.store(0, Ordering::Relaxed);
    // SNS sends the message again.
    let taken = verifier.verify(NOTIFICATION_V1.as_bytes()).await;
    assert!(taken.is_ok(), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn forged_messages_have_few_certificates_fetched_and_none_forgotten() {
    let (verifier, served) = verifier(CERTIFICATE, &[TOPIC]);
    assert!(verifier.verify(NOTIFICATION_V1.as_bytes()).await.is_ok());
    served.failures.store(usize::MAX, Ordering::Relaxed);
    let forged = |n: usize| {
        let url = format!("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-{n}.pem");
        with(NOTIFICATION_V1, "SigningCertURL", &url)
    };
    let asked = || served.asked.lock().recover().len();
    for most in [certificates::MAX_NEW_FETCHES, certificates::MAX_FETCHES] {
        for n in 0..1000 {
            let refused = verifier.verify(forged(n).as_bytes()).await;
            assert!(matches!(refused, Err(SnsError::Fetch(_))), "{refused:?}");
        }
        assert_eq!(asked(), most);
    }
    assert!(verifier.verify(NOTIFICATION_V1.as_bytes()).await.is_ok());
    tokio::time::advance(certificates::FETCH_WINDOW).await;
    served.failures.store(0, Ordering::Relaxed);
    let rotated = verifier.verify(forged(1).as_bytes()).await;
    assert!(rotated.is_ok(), "{rotated:?}");
}
