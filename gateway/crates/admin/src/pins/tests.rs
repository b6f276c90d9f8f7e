//! The endpoints, against pins that record their calls.

use std::sync::Mutex;

use serde_json::Value;

use super::super::tests::{asked, running};
use super::*;

/// Scripted pins that record their calls.
#[derive(Default)]
pub(in super::super) struct ToldPins {
    fails: Mutex<Option<PinError>>,
    pub(in super::super) asked: Mutex<Vec<String>>,
}

impl ToldPins {
    fn note(&self, what: String) -> Result<(), PinError> {
        self.asked.lock().expect("not poisoned").push(what);
        let fails = self.fails.lock().expect("not poisoned").clone();
        fails.map_or(Ok(()), Err)
    }
}

impl Pins for ToldPins {
    fn list(&self) -> Vec<Pin> {
        vec![Pin {
            origin: None,
            prefix: "a".to_owned(),
            limit: 10,
            used: 4,
        }]
    }

    fn pin<'a>(
        &'a self,
        below: &'a LocatedPrefix,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<String>, PinError>> {
        let said = self.note(format!("{} {limit}", below.prefix));
        Box::pin(async { said.map(|()| Some("little room".to_owned())) })
    }

    fn unpin<'a>(&'a self, below: &'a LocatedPrefix) -> BoxFuture<'a, Result<(), PinError>> {
        let said = self.note(format!("{} gone", below.prefix));
        Box::pin(async { said })
    }
}

const TOKEN: Option<&str> = Some("s3cret");

#[tokio::test]
async fn pins_are_listed_set_and_removed() {
    let t = running(TOKEN);
    let (status, body) = asked(&t.admin, "GET /pins", None, "").await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let pin = json!({ "origin": null, "prefix": "a", "limit": 10, "used": 4 });
    assert_eq!((status, body), (200, json!({ "pins": [pin] })));

    let wanted = r#"{"path": "/films/", "limit": "1KiB"}"#;
    assert_eq!(asked(&t.admin, "PUT /pins", None, wanted).await.0, 401);
    let (status, said) = asked(&t.admin, "PUT /pins", TOKEN, wanted).await;
    assert!(status == 200 && said.contains("little room"), "{said}");
    let remove = "DELETE /pins?path=/films/";
    assert_eq!(asked(&t.admin, remove, None, "").await.0, 401);
    assert_eq!(asked(&t.admin, remove, TOKEN, "").await.0, 200);
    let told = t.pins.asked.lock().expect("not poisoned").clone();
    assert_eq!(told, ["films/ 1024", "films/ gone"]);
}

#[tokio::test]
async fn says_what_is_wrong() {
    let t = running(TOKEN);
    for (line, body, expected) in [
        ("PUT /pins", "", 400),
        ("PUT /pins", r#"{"path": "/a"}"#, 400),
        ("PUT /pins", r#"{"path": "a", "limit": 5}"#, 400),
        ("PUT /pins", r#"{"path": "/a", "limit": 0}"#, 400),
        (
            "PUT /pins",
            r#"{"path": "/a", "limit": 5, "host": "nowhere"}"#,
            404,
        ),
        ("DELETE /pins", "", 400),
        ("DELETE /pins?path=/a&host=nowhere", "", 404),
        ("POST /pins", "{}", 405),
    ] {
        let (status, said) = asked(&t.admin, line, TOKEN, body).await;
        assert_eq!(status, expected, "{line} {body}: {said}");
    }
    assert!(t.pins.asked.lock().expect("not poisoned").is_empty());
    for (error, expected) in [
        (PinError::NoSuch("none".to_owned()), 404),
        (PinError::Refused("no disk".to_owned()), 400),
        (PinError::NotDurable("full".to_owned()), 500),
    ] {
        *t.pins.fails.lock().expect("not poisoned") = Some(error.clone());
        let body = r#"{"path": "/a", "limit": 5}"#;
        let answer = asked(&t.admin, "PUT /pins", TOKEN, body).await;
        assert_eq!(answer, (expected, format!("{error}\n")));
    }
}
