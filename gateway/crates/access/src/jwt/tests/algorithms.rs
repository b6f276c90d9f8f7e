//! The algorithm and the key of a token: the set says which, and the head chooses none.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};

use super::*;

/// A key of 2,048 bits, and a token that `openssl dgst -sha256 -sign` has signed with its other half.
const RSA_MODULUS: &str = "yViW-8uk3qZJVOdlz3WdfqJ0cwS4gmRmwhwVpZKOV5IIqpYAOl7N0anrPB3PJHsH9uwybmxeaO9FNPf0_cvChSOIWbU6CyC_bauMUS-wtmPpNSV7XnAH4tVY35flXONOvmVsJlrQyFpqf2jLkI6Lp6Jo0-quLkovlrIUZnuswxJW85NnAo-Dx6IHQccczNJZu77AQdqwepJMzb-uDaY4J6y-Fk4LyW1dHE7AZvDBSeh4MAIhO89sBDV6STghd7AStu62Itj2yDP4_BiYpFvDXMUp1xUihw4_03-71JBqvLGGsYKdPeWC17v66MdzHR7iE1n6yORHjMYv9Y91vy8kWw";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwLCJwYXRocyI6WyIvbS8iXX0.fDEcczRNE_T5cHeCElGeglb7OLJ21dEO2cDnUyPrLRZYDCIwxpNVeimZHyPtlZNd2fMU-LIWEkQmR-c_7w9eA2ph9ReiNK00-R73jhflzNIATxx8Uo5SSqG51CaoQGdSNZSj6JWo6nBNK7n0xl4jzvijI6nRuiYLsjopZrIFsuNQrLSZym8JG-gHcgvpg6PFdlgRhpqoYxiWf3ANfysGg5SghcYAB2H3yHNBM1CpqAFiCxkYevP4yQe26uX6Rn3BZfie0PON7otpRJs-n4CGC1BuEDpA2VKLBvmxxjERqGlPgTRJCgmxYYx-8dD_xmhUWpiwCZIGktaH_iIIBqNYYw";

#[test]
fn each_algorithm_admits_with_its_key_and_no_other() {
    let random = SystemRandom::new();
    let ed = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
    let ed = Ed25519KeyPair::from_pkcs8(ed.as_ref()).expect("a key");
    let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let ec = EcdsaKeyPair::generate_pkcs8(curve, &random).expect("a key");
    let ec = EcdsaKeyPair::from_pkcs8(curve, ec.as_ref(), &random).expect("a key");
    let point = ec.public_key().as_ref();
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    let x_of_ed = encode(ed.public_key().as_ref());
    let keys = [
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"e1","x":"{x_of_ed}"}}"#),
        format!(r#"{{"kty":"EC","crv":"P-256","kid":"p1","x":"{x}","y":"{y}"}}"#),
        format!(r#"{{"kty":"RSA","kid":"r1","n":"{RSA_MODULUS}","e":"AQAB"}}"#),
        format!(
            r#"{{"kty":"oct","kid":"s1","k":"{}"}}"#,
            encode(SECRET.as_bytes())
        ),
    ];
    let by_ed = |message: &[u8]| ed.sign(message).as_ref().to_vec();
    let by_ec = |message: &[u8]| {
        let signature = ec.sign(&random, message).expect("signs");
        signature.as_ref().to_vec()
    };
    let tokens = [
        signed(r#"{"alg":"EdDSA","kid":"e1"}"#, CLAIMS, by_ed),
        signed(r#"{"alg":"ES256","kid":"p1"}"#, CLAIMS, by_ec),
        RSA_TOKEN.to_owned(),
        signed(r#"{"alg":"HS256","kid":"s1"}"#, CLAIMS, with_secret),
    ];
    for (nth, key) in keys.iter().enumerate() {
        let jwt = Jwt::new(rules(key_set(key)));
        for (other, token) in tokens.iter().enumerate() {
            let expected = if nth == other {
                alice()
            } else {
                Err(Refusal::Key)
            };
            assert_eq!(bears(&jwt, token), expected, "{nth} {other}");
        }
    }
    let all = Jwt::new(rules(key_set(&keys.join(","))));
    for token in &tokens {
        assert_eq!(bears(&all, token), alice(), "{token:.40}");
        // A token without its last byte, and one whose claims were exchanged.
        let (message, signature) = token.rsplit_once('.').expect("a signature");
        let (head, _) = message.split_once('.').expect("claims");
        let other = encode(CLAIMS.replace("alice", "mallory").as_bytes());
        for bad in [
            format!("{message}."),
            format!("{message}.{}", &signature[..signature.len() - 4]),
            format!("{message}.{signature}AAAA"),
            format!("{head}.{other}.{signature}"),
        ] {
            assert_eq!(bears(&all, &bad), Err(Refusal::Signature), "{bad:.40}");
        }
    }
}

#[test]
fn a_head_chooses_neither_the_algorithm_nor_the_key() {
    let public = format!(r#"{{"kty":"RSA","kid":"r1","n":"{RSA_MODULUS}","e":"AQAB"}}"#);
    let jwt = Jwt::new(rules(key_set(&public)));
    let modulus = URL_SAFE_NO_PAD.decode_to_vec(RSA_MODULUS).expect("base64");
    let with_public_key = |message: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &modulus);
        hmac::sign(&key, message).as_ref().to_vec()
    };
    let unsigned = |_: &[u8]| Vec::new();
    let unreadable = Err(Refusal::Signature);
    let unknown = Err(Refusal::Key);
    for (head, expected) in [
        (r#"{"alg":"none"}"#, unreadable.clone()),
        (r#"{"alg":"None","kid":"r1"}"#, unreadable.clone()),
        (r#"{"alg":""}"#, unreadable.clone()),
        (r#"{"kid":"r1"}"#, unreadable.clone()),
        (
            r#"{"alg":"RS256","alg":"none","kid":"r1"}"#,
            unreadable.clone(),
        ),
        (
            r#"{"alg":"RS256","kid":"r1","kid":"r1"}"#,
            unreadable.clone(),
        ),
        (r#"{"alg":"RS256","kid":"r1"}"#, unreadable.clone()),
        (r#"{"alg":"RS256"}"#, unreadable.clone()),
        (r#"{"alg":"HS256","kid":"r1"}"#, unreadable.clone()),
        (r#"{"alg":"HS512","kid":"x"}"#, unreadable.clone()),
        (
            r#"{"alg":"RS256","kid":"../../../../etc/passwd"}"#,
            unknown.clone(),
        ),
        (r#"{"alg":"RS256","kid":"/dev/zero"}"#, unknown.clone()),
        (r#"{"alg":"RS256","kid":"x' OR 1=1"}"#, unknown.clone()),
        (r#"{"alg":"RS256","kid":17}"#, unreadable.clone()),
        (
            r#"{"alg":"RS256","kid":"r1","jku":"http://127.0.0.1/"}"#,
            unreadable.clone(),
        ),
        ("[]", unreadable.clone()),
        ("", unreadable.clone()),
    ] {
        for token in [
            signed(head, CLAIMS, unsigned),
            signed(head, CLAIMS, with_public_key),
        ] {
            assert_eq!(bears(&jwt, &token), expected, "{head}");
        }
    }
    let critical = r#"{"alg":"HS256","crit":["b64"],"b64":false}"#;
    let found = bears(&shared(), &signed(critical, CLAIMS, with_secret));
    assert_eq!(found, Err(Refusal::Signature));
}
