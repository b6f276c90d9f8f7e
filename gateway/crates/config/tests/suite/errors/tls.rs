//! TLS: addresses with it, certificates, and clients that show one.

use super::{MEDIA, tell_behind_media, warned};
use tidegate_config::{Environment, parse};

const CERTIFICATE: &str =
    "[[tls.certificates]]\ncertificate = \"/c.pem\"\nkey = { file = \"/c.key\" }\n";

/// A route whose access is `a`.
const CLOSED: &str = "[[route]]\norigin = \"media\"\naccess = \"a\"\n";

#[test]
fn a_listener_with_tls_needs_certificates() {
    tell_behind_media(&[
        (
            "[http]\nlisten = [\"127.0.0.1:80\", { address = \"127.0.0.1:443\", tls = true }]\n\
             [admin]\nlisten = { address = \"127.0.0.1:444\", tls = true }\n",
            &[
                "t.toml:5:10: `http.listen`: says `tls = true`, and neither `tls.certificates` nor `tls.acme` names a certificate",
                "t.toml:7:10: `admin.listen`: says `tls = true`, and neither `tls.certificates` nor `tls.acme` names a certificate",
            ],
        ),
        (
            "[http]\nlisten = { adress = \"127.0.0.1:443\" }\n[admin]\nlisten = { tls = 1 }\n",
            &[
                "t.toml:5:12: `http.listen.adress`: unknown field `adress`, expected `address` or `tls`",
                "t.toml:7:18: `admin.listen.tls`: invalid type: integer `1`, expected a boolean",
            ],
        ),
        (
            "[[tls.certificates]]\ncertificate = \"/c.pem\"\n",
            &[
                r#"t.toml:4:1: `tls.certificates[0].key`: is missing; for example key = {"file":"/etc/tidegate/privkey.pem"}"#,
            ],
        ),
    ]);
    let listen = "[http]\nlisten = { address = \"0.0.0.0:443\", tls = true }\n";
    let members = "[access.a]\ntokens = { b = { env = \"B\" } }\n";
    let right = format!("{CLOSED}{listen}{members}{CERTIFICATE}");
    assert_eq!(warned(&right), Vec::<String>::new());
    assert_eq!(
        warned(CERTIFICATE),
        [
            "t.toml:4:1: `tls.certificates`: no listener says `tls = true`: `listen = { address = \"…\", tls = true }`",
        ]
    );
}

#[test]
fn clients_are_asked_for_the_certificates_that_admit_them() {
    let members = |clients: &str| format!("{CLOSED}[access.a]\nclients = [{clients}]\n");
    tell_behind_media(&[
        (
            &members("\"alice\""),
            &[
                "t.toml:8:11: `access.a.clients`: needs `tls.client_ca`: clients are not asked for certificates",
            ],
        ),
        (
            &members(""),
            &[
                "t.toml:8:11: `access.a.clients`: is empty; leave it out to admit no client by its certificate",
            ],
        ),
        (
            &(members("\"\"") + "[tls]\nclient_ca = \"/ca.pem\"\n"),
            &["t.toml:8:12: `access.a.clients[0]`: is empty: it needs a name in a certificate"],
        ),
    ]);
    let ca = "[tls]\nclient_ca = \"/ca.pem\"\n";
    assert_eq!(
        warned(&(members("\"alice\"") + ca)),
        [
            "t.toml:8:11: `access.a.clients`: admits no client: no address of `http.listen` says `tls = true`",
        ]
    );
    assert_eq!(
        warned(ca),
        [
            "t.toml:5:13: `tls.client_ca`: asks clients for certificates, and no access has `clients`",
        ]
    );
}

const STATE: &str = "[state]\npath = \"/state\"\n";
const LISTEN: &str = "[http]\nlisten = { address = \"0.0.0.0:443\", tls = true }\n";

fn acme(keys: &str) -> String {
    format!("{STATE}{LISTEN}[tls.acme]\n{keys}\n")
}

#[test]
fn an_authority_keeps_its_keys_where_it_is_told() {
    let right = acme("names = [\"media.example.org\", \"b.example\"]\nterms_agreed = true");
    assert_eq!(warned(&right), Vec::<String>::new());
    let text = format!("{MEDIA}{right}");
    let config = parse("t.toml", &text, &Environment::default()).expect("it is right");
    let path = config.config.acme_path();
    assert_eq!(path.as_deref(), Some(std::path::Path::new("/state/acme")));
    let own = right.replace("terms_agreed", "path = \"/keys\"\nterms_agreed");
    let own = parse("t.toml", &format!("{MEDIA}{own}"), &Environment::default());
    let path = own.expect("it is right").config.acme_path();
    assert_eq!(path.as_deref(), Some(std::path::Path::new("/keys")));
}

#[test]
fn an_authority_is_asked_for_names_of_servers() {
    let odd =
        "is no name of a server: labels of lower-case letters, digits and `-`, with dots between";
    let names = |names: &str| acme(&format!("names = [{names}]\nterms_agreed = true"));
    for (name, said) in [
        ("localhost", odd),
        ("Media.example.org", odd),
        ("a..b", odd),
        ("../x.example", odd),
        ("-a.example", odd),
        (
            "*.example.org",
            "is for all names below another: only a certificate of `tls.certificates` can be",
        ),
        ("192.0.2.1", "is an address: a name is needed"),
    ] {
        let expected = format!("t.toml:9:10: `tls.acme.names[0]`: {said}");
        tell_behind_media(&[(&names(&format!("\"{name}\"")), &[&expected])]);
    }
    tell_behind_media(&[
        (
            &names("\"a.example\", \"a.example\""),
            &["t.toml:9:23: `tls.acme.names[1]`: is named twice"],
        ),
        (
            &acme(
                "names = [\"a.example\"]\nterms_agreed = false\ndirectory = \"http://ca/\"\ncontact = [\"a@b\"]",
            ),
            &[
                "t.toml:10:16: `tls.acme.terms_agreed`: must be true: the authority issues nothing unless you agree to its terms of service",
                "t.toml:11:13: `tls.acme.directory`: is no https:// URL",
                "t.toml:12:12: `tls.acme.contact[0]`: is no `mailto:` address",
            ],
        ),
        (
            &acme("names = [\"a.example\"]\nterms_agreed = true\ndirectory = \"https://[\""),
            &[
                "t.toml:11:13: `tls.acme.directory`: is no URL such as https://acme-v02.api.letsencrypt.org/directory",
            ],
        ),
        (
            &acme("names = [\"a.example\"]\nterms_agreed = true\ndirectory = \"https://u:p@ca/\""),
            &["t.toml:11:13: `tls.acme.directory`: has credentials in it"],
        ),
        (
            "[tls.acme]\nnames = [\"a.example\"]\nterms_agreed = true\n",
            &[
                "t.toml:4:1: `tls.acme`: there is no folder for keys and certificates: set `tls.acme.path` or `state.path`",
            ],
        ),
    ]);
    let own = "[tls.acme]\nnames = [\"a.example\"]\nterms_agreed = true\npath = \"/keys\"\n";
    assert_eq!(
        warned(own),
        [
            "t.toml:4:1: `tls.acme`: no address of `http.listen` says `tls = true`: the authority cannot see that the names lead here",
        ]
    );
}
