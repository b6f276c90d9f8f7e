use http::HeaderValue;

use super::*;

fn tokens() -> Tokens {
    let one = |name: &str, secret: &str, expires| NamedToken {
        name: name.to_owned(),
        token: Token::new(secret).expect("a token"),
        expires,
    };
    let end = Some(Timestamp::from_secs(1000));
    Tokens::new(vec![
        one("alice", "secret-a", None),
        one("bob", "secret:b", end),
    ])
}

fn found(tokens: &Tokens, lines: &[&str], now: i64) -> Result<String, Option<Refusal>> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(AUTHORIZATION, HeaderValue::from_str(line).expect("a value"));
    }
    match tokens.check(&headers, Timestamp::from_secs(now)) {
        Finding::Admits(name) => Ok(name.to_owned()),
        Finding::Refuses(reason) => Err(Some(reason)),
        Finding::Absent => Err(None),
    }
}

#[test]
fn a_token_is_shown_as_bearer_or_as_password() {
    let basic = |text: &str| format!("Basic {}", base64_simd::STANDARD.encode_to_string(text));
    let wrong = Err(Some(Refusal::Token));
    let rows = [
        ("Bearer secret-a".to_owned(), Ok("alice".to_owned())),
        ("bEARER  secret-a ".to_owned(), Ok("alice".to_owned())),
        ("Bearer secret:b".to_owned(), Ok("bob".to_owned())),
        (basic("anybody:secret-a"), Ok("alice".to_owned())),
        (basic(":secret:b"), Ok("bob".to_owned())),
        (basic("secret-a"), wrong.clone()),
        (basic("secret-a:"), wrong.clone()),
        (basic(""), wrong.clone()),
        ("Bearer secret-".to_owned(), wrong.clone()),
        ("Bearer ".to_owned(), wrong.clone()),
        ("Basic %%%".to_owned(), wrong.clone()),
        ("Digest secret-a".to_owned(), wrong.clone()),
        (format!("Bearer {}", "x".repeat(100_000)), wrong.clone()),
        (String::new(), wrong.clone()),
    ];
    for (line, expected) in rows {
        assert_eq!(found(&tokens(), &[&line], 0), expected, "{line:.40}");
    }
    assert_eq!(found(&tokens(), &[], 0), Err(None));
    let twice = ["Bearer secret-a", "Bearer secret-a"];
    assert_eq!(found(&tokens(), &twice, 0), wrong);
    let none = Tokens::new(vec![]);
    assert_eq!(found(&none, &["Bearer x"], 0), Err(None));
}

#[test]
fn a_token_ends_at_its_time_and_only_its_holder_learns_of_it() {
    let tokens = tokens();
    let bob = "Bearer secret:b";
    assert_eq!(found(&tokens, &[bob], 999), Ok("bob".to_owned()));
    for now in [1000, i64::MAX] {
        assert_eq!(found(&tokens, &[bob], now), Err(Some(Refusal::Expired)));
        let wrong = found(&tokens, &["Bearer secret:c"], now);
        assert_eq!(wrong, Err(Some(Refusal::Token)));
    }
}

#[test]
fn no_secret_is_shown() {
    let shown = format!("{:?}", tokens());
    assert!(
        shown.contains("alice") && !shown.contains("secret"),
        "{shown}"
    );
}
