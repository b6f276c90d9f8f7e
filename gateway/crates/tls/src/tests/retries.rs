//! Reads that fail for a moment.

use super::*;
use crate::files::failing;

#[tokio::test]
async fn a_renewed_certificate_whose_read_fails_is_read_at_the_next_look() {
    let authority = Authority::new();
    let files = authority.server("a", &["example.org"]);
    let tls = tls(std::slice::from_ref(&files), None);
    let trusting = authority.trusting();
    let shown = async || {
        let connected = connect(&tls, &trusting, "example.org").await;
        connected.expect("a client").shown()
    };
    for path in [&*files.certificate, key_of(&files)] {
        let old = shown().await;
        authority.server("a", &["example.org"]);
        failing::set(Some(path));
        // The same error is told and counted once.
        tls.refresh();
        tls.refresh();
        assert!(shown().await == old, "{path:?}");
        failing::set(None);
        tls.refresh();
        let new = first_of(&files);
        assert!(new != old && shown().await == new, "{path:?}");
        tls.refresh();
    }
    let text = metrics(&tls);
    for line in [
        "tls_reloads_total{result=\"failed\"} 2",
        "tls_reloads_total{result=\"ok\"} 2",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test]
async fn an_awaited_certificate_whose_first_read_fails_is_shown_at_the_next_look() {
    let authority = Authority::new();
    let files = CertificateFiles {
        is_awaited: true,
        ..authority.server("a", &["example.org"])
    };
    failing::set(Some(&files.certificate));
    let tls = tls(std::slice::from_ref(&files), None);
    let trusting = authority.trusting();
    assert!(connect(&tls, &trusting, "example.org").await.is_err());
    failing::set(None);
    tls.refresh();
    let connected = connect(&tls, &trusting, "example.org").await;
    assert!(connected.expect("a client").shown() == first_of(&files));
}

#[tokio::test]
async fn another_authority_for_clients_whose_read_fails_is_read_at_the_next_look() {
    let (authority, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let server = authority.server("a", &["example.org"]);
    let ca = clients.ca();
    let tls = tls(&[server], Some(ca.clone()));
    let with = |(chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)| {
        let builder = builder().with_root_certificates(authority.roots());
        Arc::new(builder.with_client_auth_cert(chain, key).expect("a key"))
    };
    let old = with(clients.client("alice", "alice@example.org"));
    let new = with(others.client("alice", "alice@example.org"));
    std::fs::write(&ca, &others.pem).expect("written");
    failing::set(Some(&ca));
    tls.refresh();
    assert!(connect(&tls, &old, "example.org").await.is_ok());
    failing::set(None);
    tls.refresh();
    assert!(connect(&tls, &old, "example.org").await.is_err());
    assert!(connect(&tls, &new, "example.org").await.is_ok());
}

#[test]
fn an_error_that_comes_back_is_counted_again() {
    let authority = Authority::new();
    let files = authority.server("a", &["example.org"]);
    let tls = tls(std::slice::from_ref(&files), None);
    let failed = |count: u32| {
        let text = metrics(&tls);
        let line = format!("tls_reloads_total{{result=\"failed\"}} {count}");
        assert!(text.contains(&line), "{text}");
    };
    let away = authority.path("away.pem");
    for count in [1, 2] {
        std::fs::rename(&files.certificate, &away).expect("there");
        tls.refresh();
        tls.refresh();
        failed(count);
        std::fs::rename(&away, &files.certificate).expect("there");
        tls.refresh();
        failed(count);
    }
}
