//! The same listener, as `openssl s_client` finds it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Secured;

/// Runs `openssl s_client` for `a.example`, with nothing to send; returns what it says.
fn s_client(address: SocketAddr, root: &Path, options: &[&str]) -> (bool, String) {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &address.to_string()])
        .args(["-servername", "a.example", "-verify_return_error"])
        .args(["-verify_hostname", "a.example", "-CAfile"])
        .arg(root)
        .args(options)
        .stdin(Stdio::null());
    let output = command.output().expect("openssl is installed");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_agrees_on_new_versions_alone_and_resumes() {
    let secured = Secured::new().await;
    let whole = secured.start("", "").await;
    let (root, address) = (secured.folder().join("root.pem"), whole.http);
    secured.authority.write_root(&root);
    let session = secured.folder().join("session");
    let session = session.to_str().expect("text").to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let ask = |options: &[&str]| s_client(address, &root, options);
        // Level 0, or openssl itself refuses to ask for them. Alert 40: the server finds no agreement.
        for old in ["-tls1", "-tls1_1"] {
            let (agreed, said) = ask(&[old, "-cipher", "ALL:@SECLEVEL=0"]);
            assert!(!agreed, "{said}");
            assert!(said.contains("SSL alert number 40"), "{said}");
        }
        // Without forward secrecy, or with a broken cipher.
        for weak in ["AES128-SHA", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA"] {
            let (agreed, said) = ask(&["-tls1_2", "-cipher", &format!("{weak}:@SECLEVEL=0")]);
            assert!(!agreed && said.contains("SSL alert number 40"), "{said}");
        }
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let (agreed, said) = ask(&[version, "-showcerts", "-alpn", "h2,http/1.1"]);
            assert!(agreed, "{said}");
            assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
            assert!(said.contains(&format!("New, {name}")), "{said}");
            assert!(said.contains("ALPN protocol: h2"), "{said}");
            let chain = said.matches("-----BEGIN CERTIFICATE-----").count();
            assert!(chain >= 2, "the certificate and the one above it: {said}");
        }
        let (agreed, said) = ask(&["-tls1_2", "-sess_out", &session]);
        assert!(agreed && said.contains("New, TLSv1.2"), "{said}");
        let (agreed, said) = ask(&["-tls1_2", "-sess_in", &session]);
        assert!(agreed && said.contains("Reused, TLSv1.2"), "{said}");
    });
    asked.await.expect("no panic");
    whole.stop().await;
}
