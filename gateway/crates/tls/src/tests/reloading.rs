//! Files of certificates and keys: changed ones are read again, and those that do not fit are refused.

use super::*;

#[tokio::test]
async fn changed_files_are_read_again_and_broken_ones_leave_the_old() {
    let authority = Authority::new();
    let files = authority.server("a", &["example.org"]);
    let other = authority.server("b", &["b.example.org"]);
    let tls = tls(&[files.clone(), other.clone()], None);
    let trusting = authority.trusting();
    let shown = async || {
        let connected = connect(&tls, &trusting, "example.org").await;
        connected.expect("a client").shown()
    };
    let old = first_of(&files);
    tls.refresh();
    assert!(shown().await == old);
    assert!(metrics(&tls).contains("tls_reloads_total{result=\"ok\"} 0"));

    // The key is not yet that of the new certificate, then it is.
    let key = std::fs::read(key_of(&files)).expect("written");
    authority.server("a", &["example.org"]);
    let new_key = std::fs::read(key_of(&files)).expect("written");
    std::fs::write(key_of(&files), key).expect("written");
    tls.refresh();
    tls.refresh();
    assert!(shown().await == old);
    let text = metrics(&tls);
    assert!(
        text.contains("tls_reloads_total{result=\"failed\"} 1"),
        "{text}"
    );
    std::fs::write(key_of(&files), new_key).expect("written");
    tls.refresh();
    let new = first_of(&files);
    assert!(new != old && shown().await == new);

    // One that is gone, or no certificate, leaves the other ones to be read.
    for broken in [
        "",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&files.certificate, broken).expect("written");
        tls.refresh();
        assert!(shown().await == new, "{broken}");
    }
    std::fs::remove_file(&files.certificate).expect("it is there");
    authority.server("b", &["b.example.org"]);
    tls.refresh();
    let b = connect(&tls, &trusting, "b.example.org")
        .await
        .expect("a client");
    assert!(b.shown() == first_of(&other) && shown().await == new);
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let authority = Authority::new();
    let (a, b) = (authority.server("a", &["a"]), authority.server("b", &["b"]));
    let read = |certificate: &Path, key: KeySource| {
        let files = CertificateFiles {
            certificate: certificate.to_owned(),
            key,
            is_awaited: false,
        };
        let settings = TlsSettings {
            certificates: vec![files],
            client_ca: None,
        };
        PreparedCertificates::read(settings, &Arc::default()).map(drop)
    };
    let key = std::fs::read_to_string(key_of(&a)).expect("written");
    assert!(read(&a.certificate, KeySource::Pem(key.clone())).is_ok());
    let error = |certificate: &Path, key: &KeySource| {
        let error = read(certificate, key.clone()).expect_err("refused");
        assert!(!error.to_string().contains(&key_text(key)), "{error}");
        error
    };
    assert!(matches!(
        error(&a.certificate, &b.key),
        TlsError::Mismatch(_)
    ));
    let none = authority.path("none");
    assert!(matches!(error(&none, &a.key), TlsError::File { .. }));
    assert!(matches!(
        error(key_of(&a), &a.key),
        TlsError::Certificate(_)
    ));
    for wrong in ["s3cret", &authority.pem, &key[..80]] {
        let wrong = KeySource::Pem(wrong.to_owned());
        assert!(matches!(error(&a.certificate, &wrong), TlsError::Key(_)));
    }
    assert!(PreparedCertificates::read(TlsSettings::default(), &Arc::default()).is_ok());
    assert_eq!(format!("{:?}", KeySource::Pem(key)), "[key]");
}

fn key_text(key: &KeySource) -> String {
    match key {
        KeySource::Pem(text) => text.clone(),
        KeySource::File(_) => "PRIVATE KEY".into(),
    }
}
