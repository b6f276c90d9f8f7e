use http::HeaderValue;
use http::header::{AUTHORIZATION, REFERER};
use tidegate_plan::Token;

use super::*;

fn token(name: &str) -> NamedToken {
    NamedToken {
        name: name.to_owned(),
        token: Token::new(&format!("token of {name}")).expect("a token"),
        expires: None,
    }
}

fn all() -> Rules {
    Rules {
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        tokens: vec![token("alice")],
        clients: vec!["player@example.org".to_owned(), "carol".to_owned()],
        keys: vec![SigningKey::new("k1", "a secret of ours").expect("a key")],
        skew: Duration::from_secs(60),
        ..Rules::default()
    }
}

/// A request for `/m/` and the rest.
struct Asked {
    address: Option<&'static str>,
    bearer: Option<&'static str>,
    signed: Option<&'static str>,
    referer: Option<&'static str>,
    /// The names in the client's certificate.
    certificate: &'static [&'static str],
}

const NOTHING: Asked = Asked {
    address: None,
    bearer: None,
    signed: None,
    referer: None,
    certificate: &[],
};

fn check(rules: Rules, asked: &Asked) -> Result<(String, Option<String>), Refusal> {
    let mut headers = HeaderMap::new();
    if let Some(token) = asked.bearer {
        let line = format!("Bearer {token}");
        headers.insert(AUTHORIZATION, HeaderValue::try_from(line).expect("a value"));
    }
    if let Some(page) = asked.referer {
        headers.insert(REFERER, HeaderValue::from_static(page));
    }
    let key = SigningKey::new("k1", "a secret of ours").expect("a key");
    let below = match asked.signed {
        Some(prefix) => format!("{}/a", key.sign_prefix(prefix, 2_000_000_000)),
        None => "a".to_owned(),
    };
    let path = format!("/m/{below}");
    let certificate: Vec<_> = asked.certificate.iter().map(ToString::to_string).collect();
    let request = Request {
        method: &Method::GET,
        host: "media.example",
        path: &path,
        below: &below,
        query: None,
        headers: &headers,
        address: asked.address.map(|text| text.parse().expect("an address")),
        certificate: &certificate,
        wants_name: true,
    };
    match Access::new(rules).check(&request, Timestamp::from_secs(1_800_000_000)) {
        Verdict::Admitted { below, by } => Ok((below.to_owned(), by.map(Cow::into_owned))),
        Verdict::Refused(refusal) | Verdict::Undecided { refusal, .. } => Err(refusal),
    }
}

#[test]
fn one_of_the_alternatives_is_enough() {
    let (inside, outside) = (Some("10.1.1.1"), Some("192.0.2.1"));
    let (right, wrong) = (Some("token of alice"), Some("token of bob"));
    let by = |name: Option<&str>| Ok(("a".to_owned(), name.map(str::to_owned)));
    let rows = [
        (inside, None, None, by(None)),
        (inside, wrong, None, by(None)),
        (inside, None, Some("/x/"), by(None)),
        (outside, None, None, Err(Refusal::Missing)),
        (None, None, None, Err(Refusal::Missing)),
        (outside, right, None, by(Some("alice"))),
        (None, right, Some("/x/"), by(Some("alice"))),
        (None, wrong, None, Err(Refusal::Token)),
        (None, wrong, Some("/m/"), by(Some("k1"))),
        (None, wrong, Some("/x/"), Err(Refusal::Prefix)),
    ];
    for (nth, (address, bearer, signed, expected)) in rows.into_iter().enumerate() {
        let asked = Asked {
            address,
            bearer,
            signed,
            ..NOTHING
        };
        assert_eq!(check(all(), &asked), expected, "{nth}");
    }
}

#[test]
fn a_name_in_the_client_s_certificate_admits() {
    let cases: [(&'static [&'static str], Option<&str>); 5] = [
        (&["carol"], Some("carol")),
        (&["x", "player@example.org"], Some("player@example.org")),
        (&["Carol"], None),
        (&["carol.example.org", ""], None),
        (&[], None),
    ];
    for (certificate, admitted) in cases {
        let asked = Asked {
            certificate,
            bearer: Some("token of bob"),
            ..NOTHING
        };
        let expected = admitted.map(|name| ("a".to_owned(), Some(name.to_owned())));
        assert_eq!(check(all(), &asked), expected.ok_or(Refusal::Token));
        let others = Rules {
            clients: Vec::new(),
            ..all()
        };
        assert_eq!(check(others, &asked), Err(Refusal::Token));
    }
}

#[test]
fn referers_must_hold_as_well() {
    let only = |rules: Rules| Rules {
        referers: Some(Referers::new(["example.org"]).expect("rules")),
        ..rules
    };
    let good = Some("https://example.org/");
    for rules in [all, Rules::default] {
        let (inside, right) = (Some("10.1.1.1"), Some("token of alice"));
        for asked in [
            Asked {
                address: inside,
                ..NOTHING
            },
            Asked {
                bearer: right,
                ..NOTHING
            },
            Asked {
                signed: Some("/m/"),
                ..NOTHING
            },
        ] {
            assert_eq!(check(only(rules()), &asked), Err(Refusal::Referer));
            let asked = Asked {
                referer: good,
                ..asked
            };
            assert!(check(only(rules()), &asked).is_ok());
        }
    }
    let asked = Asked {
        referer: good,
        ..NOTHING
    };
    assert_eq!(check(only(all()), &asked), Err(Refusal::Missing));
}

#[test]
fn rules_without_a_way_in_admit_nothing() {
    let rows = [
        Asked {
            address: Some("10.1.1.1"),
            ..NOTHING
        },
        Asked {
            bearer: Some("token of alice"),
            referer: Some("https://example.org/"),
            ..NOTHING
        },
        Asked {
            certificate: &["carol"],
            ..NOTHING
        },
        NOTHING,
    ];
    for asked in rows {
        let found = check(Rules::default(), &asked);
        assert_eq!(found, Err(Refusal::Missing));
    }
}

#[test]
fn without_keys_a_segment_is_part_of_the_path() {
    let asked = Asked {
        signed: Some("/m/"),
        bearer: Some("token of alice"),
        ..NOTHING
    };
    let rules = Rules {
        keys: vec![],
        ..all()
    };
    let (below, by) = check(rules, &asked).expect("admitted");
    assert!(below.starts_with("expires=") && by.as_deref() == Some("alice"));
}

#[test]
fn keys_are_checked_and_never_shown() {
    for id in ["", "a/b", "a b", "ü", "a\n"] {
        assert_eq!(
            SigningKey::new(id, "a secret of ours").err(),
            Some(KeyError::Id),
            "{id}"
        );
    }
    assert_eq!(
        SigningKey::new(&"k".repeat(129), "a secret of ours").err(),
        Some(KeyError::Id)
    );
    assert_eq!(
        SigningKey::new("k", " a short secret \n").err(),
        Some(KeyError::Short)
    );
    let shown = format!("{:?}", Access::new(all()));
    assert!(shown.contains("k1") && !shown.contains("secret"), "{shown}");
    let names = Refusal::ALL.map(Refusal::as_str);
    let mut unique = names.to_vec();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
}
