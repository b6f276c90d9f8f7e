//! The endpoints, against tiers that record their calls.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::super::tests::{asked, running};
use super::*;
use tidegate_telemetry::locks::Recover as _;

/// One disk, whose changes fail if the test says so.
#[derive(Default)]
pub(in super::super) struct OneDisk {
    pub(in super::super) fails: Mutex<Option<SwitchError>>,
    pub(in super::super) told: Mutex<Vec<(PathBuf, bool)>>,
}

impl Tiers for OneDisk {
    fn report(&self) -> Report {
        Report {
            memory: Memory {
                capacity: 512,
                used: 100,
            },
            budget: Budget {
                capacity: 192,
                lent: 0,
            },
            disks: vec![Disk {
                path: "/c".into(),
                state: DiskState::Full,
                why: Some("no room".to_owned()),
                capacity: 1000,
                used: Some(900),
                free: Some(10),
                pinned: Some(7),
                queued: Some(0),
                chunks: Some(3),
                write_amplification: Some(1.5),
            }],
        }
    }

    fn switch_disk(&self, path: PathBuf, enabled: bool) -> BoxFuture<'_, Result<(), SwitchError>> {
        let fails = self.fails.lock().recover();
        let result = fails.clone().map_or(Ok(()), Err);
        self.told.lock().recover().push((path, enabled));
        Box::pin(std::future::ready(result))
    }
}

#[tokio::test]
async fn tells_how_the_tiers_are() {
    let t = running(Some("s3cret"));
    let (status, body) = asked(&t.admin, "GET /cache", None, "").await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let expected = json!({
        "memory": { "capacity": 512, "used": 100 },
        "budget": { "capacity": 192, "lent": 0 },
        "disks": [{
            "path": "/c", "state": "full", "why": "no room", "capacity": 1000, "used": 900,
            "free": 10, "pinned": 7, "queued": 0, "chunks": 3, "write_amplification": 1.5,
        }],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_disk_is_switched_only_with_the_token() {
    let t = running(Some("s3cret"));
    let line = "PUT /cache/disk";
    for enabled in [false, true] {
        let body = json!({ "path": "/c", "enabled": enabled }).to_string();
        assert_eq!(asked(&t.admin, line, None, &body).await.0, 401);
        assert_eq!(asked(&t.admin, line, Some("s3cret"), &body).await.0, 200);
    }
    let told = std::mem::take(&mut *t.tiers.told.lock().recover());
    assert_eq!(told, [("/c".into(), false), ("/c".into(), true)]);
}

#[tokio::test]
async fn refuses_what_it_does_not_understand() {
    let t = running(Some("s3cret"));
    for (line, body) in [
        ("PUT /cache/disk", ""),
        (
            "PUT /cache/disk",
            r#"{"path": "/c", "enabled": true, "capacity": 1}"#,
        ),
        ("PUT /cache/disk", r#"{"path": "/c"}"#),
        ("PUT /cache/disk", r#"{"enabled": true}"#),
        ("PUT /cache/disk", r#"{"path": "/c", "enabled": "no"}"#),
    ] {
        let (status, said) = asked(&t.admin, line, Some("s3cret"), body).await;
        assert_eq!(status, 400, "{line} {body}: {said}");
    }
    assert!(t.tiers.told.lock().expect("not poisoned").is_empty());
    for (error, expected) in [
        (SwitchError::NoSuch("none".to_owned()), 404),
        (SwitchError::Refused("too small".to_owned()), 400),
    ] {
        *t.tiers.fails.lock().expect("not poisoned") = Some(error.clone());
        let body = r#"{"path": "/c", "enabled": true}"#;
        let answer = asked(&t.admin, "PUT /cache/disk", Some("s3cret"), body).await;
        assert_eq!(answer, (expected, format!("{error}\n")));
    }
}
