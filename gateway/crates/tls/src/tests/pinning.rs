//! Commands that accept the certificates of their own configuration.

use super::*;

#[tokio::test]
async fn a_pinned_client_knows_its_server() {
    let authority = Authority::new();
    let files = authority.server("a", &["example.org"]);
    let other = authority.server("b", &["example.org"]);
    let tls = tls(std::slice::from_ref(&files), None);
    for (known, fits) in [(&files, true), (&other, false)] {
        let (near, far) = duplex(64 << 10);
        let acceptor = tls.acceptor(Side::Admin);
        let known = std::slice::from_ref(&known.certificate);
        let (client, _) = tokio::join!(pinned::connect(near, known), acceptor.accept(far, LIMIT));
        let other = client.err().and_then(std::io::Error::into_inner);
        let other = other.is_some_and(|error| error.is::<pinned::OtherCertificate>());
        assert_eq!(other, !fits, "{known:?}");
    }
}
