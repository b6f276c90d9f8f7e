use super::*;

fn bucket(endpoint: &str) -> Bucket {
    Bucket::new(Some(endpoint), "media")
}

#[test]
fn one_place_has_many_spellings() {
    let rows = [
        ("http://a", "http://a:80", true),
        ("http://a", "HTTP://A/", true),
        ("http://a", "https://a:443", true),
        ("http://a", "http://a.", true),
        ("http://a:9000", "http://a", false),
        ("http://a:9000", "http://b:9000", false),
        ("http://127.0.0.1:9000", "http://localhost:9000", true),
        ("http://127.0.0.1:9000", "http://[::1]:9000", true),
        ("http://127.0.0.1:9000", "http://localhost:9001", false),
        ("http://[2001:db8::1]", "http://[2001:DB8:0::1]", true),
        (
            "https://s3.amazonaws.com",
            "https://s3.eu-central-1.amazonaws.com",
            true,
        ),
        (
            "https://s3.amazonaws.com",
            "https://amazonaws.com.example",
            false,
        ),
    ];
    for (one, other, same) in rows {
        assert_eq!(bucket(one) == bucket(other), same, "{one} {other}");
    }
    assert_eq!(
        Bucket::new(None, "media"),
        bucket("https://s3.us-west-2.amazonaws.com")
    );
    assert_ne!(Bucket::new(None, "media"), Bucket::new(None, "books"));
}

#[test]
fn an_access_without_a_name_has_the_identity_that_caches_and_spools_have_of_old() {
    let here = bucket("http://a:9000/");
    assert_eq!(
        here.identity_for(None),
        OriginId::new("http://a:9000", "media")
    );
    assert_eq!(
        Bucket::new(None, "media").identity_for(None),
        OriginId::new("aws", "media")
    );
}

/// Each pair may be two stores with a bucket of the same name.
#[test]
fn what_may_be_two_places_shares_nothing_under_one_name() {
    let rows = [
        ("http://a", "https://a"),
        ("http://127.0.0.1:9000", "http://127.0.0.2:9000"),
        ("http://one.localhost", "http://two.localhost"),
        (
            "https://s3.us-east-1.amazonaws.com",
            "https://s3.cn-north-1.amazonaws.com.cn",
        ),
    ];
    for (one, other) in rows {
        let (one, other) = (bucket(one), bucket(other));
        assert_eq!(one, other, "the other hears of a change of one");
        assert_ne!(
            one.identity_for(Some("all")),
            other.identity_for(Some("all"))
        );
    }
    let upper = Bucket::new(Some("http://a"), "Media");
    assert_ne!(
        upper.identity_for(Some("all")),
        bucket("http://a").identity_for(Some("all"))
    );
}

#[test]
fn accesses_share_by_name_alone() {
    let (one, other) = (bucket("http://a"), bucket("HTTP://A/"));
    assert_eq!(
        one.identity_for(Some("staff")),
        other.identity_for(Some("staff"))
    );
    let ids = [None, Some("staff"), Some("public"), Some("Public")];
    for (at, id) in ids.iter().enumerate() {
        for other in &ids[..at] {
            assert_ne!(one.identity_for(*id), one.identity_for(*other));
        }
    }
    assert_ne!(
        one.identity_for(Some("staff")),
        bucket("http://b").identity_for(Some("staff"))
    );
}
