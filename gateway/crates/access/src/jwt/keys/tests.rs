use super::*;

const RSA: &str = "sXchDaQebHnPiGvyDOAT4saGEUetSyo9MKLOoWFsueri23bOdgWp4Dy1WlUzewbgBHod5pcM9H95GQRV3JDXboIRROSBigeC5yjU1hGzHHyXss8UDprecbAYxknTcQkhslANGRUZmdTOQ5qTRsLAt6BTYuyvVRdhS8exSZEy_c4gs_7svlJJQ4H9_NxsiIoLwAEk7-Q3UXERGYw_75IDrGA84-lA_-Ct4eTlXHBIY2EaV7t7LjJaynVJCpkv4LKjTTAumiGUIuQhrNhZLuF_RJLqHpM2kgWFLU7-VTdL1VbC2tejvcI2BlMkEpk1BzBZI0KQB0GaDWFLN-aEAw3vRw";

fn read(keys: &str, secret: bool) -> Result<usize, JwtKeysError> {
    let text = format!("{{\"keys\":[{keys}]}}");
    KeySet::from_jwks(text.as_bytes(), secret).map(|set| set.len())
}

#[test]
fn keys_of_other_kinds_sizes_and_uses_are_left_out() {
    let okp = r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;
    let shared = format!(r#"{{"kty":"oct","k":"{}"}}"#, "A".repeat(43));
    let good = format!("{{{okp}}}");
    let empty = Err(JwtKeysError::Empty);
    for (key, expected) in [
        (good.clone(), Ok(1)),
        (format!(r#"{{{okp},"use":"sig","alg":"EdDSA"}}"#), Ok(1)),
        (format!(r#"{{{okp},"key_ops":["verify"]}}"#), Ok(1)),
        (format!(r#"{{{okp},"use":"enc"}}"#), empty),
        (format!(r#"{{{okp},"key_ops":["sign"]}}"#), empty),
        (format!(r#"{{{okp},"alg":"ES256"}}"#), empty),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#.into(), empty),
        (format!(r#"{{"kty":"RSA","n":"{RSA}","e":"AQAB"}}"#), Ok(1)),
        (r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#.into(), empty),
        (
            r#"{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}"#.into(),
            empty,
        ),
        (
            r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#.into(),
            empty,
        ),
        (r#"{"kty":"PQ","k":"AAAA"}"#.into(), empty),
        (r#"17"#.into(), empty),
        (format!("17,{good},{{}}"), Ok(1)),
        (shared.clone(), empty),
    ] {
        assert_eq!(read(&key, false), expected, "{key}");
    }
    assert_eq!(read(&shared, true), Ok(1));
    assert_eq!(read(r#"{"kty":"oct","k":"AAAA"}"#, true), empty);
    let many = vec![good; MAX_KEYS + 1].join(",");
    assert_eq!(read(&many, false), Err(JwtKeysError::TooMany));
}

#[test]
fn other_texts_are_no_set() {
    let deep = "[".repeat(100_000);
    for text in ["", "{}", "[]", "{\"keys\":{}}", "{\"keys\":[]", &deep] {
        let found = KeySet::from_jwks(text.as_bytes(), true).err();
        assert_eq!(found, Some(JwtKeysError::Format), "{text:.20}");
    }
    assert_eq!(read("", true), Err(JwtKeysError::Empty));
    let short = KeySet::shared(" 0123456789012345678901234567890 ").err();
    assert_eq!(short, Some(JwtKeysError::Short));
}

#[test]
fn no_secret_is_shown() {
    let set = KeySet::shared("a shared secret of thirty-two and more").expect("long");
    let keys = JwtKeys::new(Some(set), false);
    assert!(!format!("{keys:?}").contains("shared secret"), "{keys:?}");
    assert_eq!(keys.len(), 1);
}
