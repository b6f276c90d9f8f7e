use super::*;
use tidegate_origin::{FakeOrigin, Origin};

/// A mount keeps the context that its route had when it was made.
#[test]
fn a_route_that_stays_takes_other_events_and_profiles() {
    let env = Environment::default();
    let config = |more: &str, ttl: &str| {
        let text = format!(
            "[[origin]]\nname = \"o\"\nbucket = \"b\"\n[profile.web]\nttl = \"{ttl}\"\n\
             [[events]]\nname = \"e\"\norigin = \"o\"\ntoken = \"t0ken-of-the-tests\"\n\
             [[route]]\npath = \"/\"\norigin = \"o\"\n{more}"
        );
        let loaded = tidegate_config::parse("t.toml", &text, &env);
        loaded.expect("it is right").config
    };
    let origin: Arc<dyn Origin> = Arc::new(FakeOrigin::new());
    let origins: Origins = [("o".to_owned(), origin)].into();
    let bare = config("", "1h");
    let proofs = Proofs::default().next(&bare, &origins);
    let metrics = tidegate_auth::Metrics::default();
    let mut parts = routes(&bare, &env, (&origins, &proofs), &metrics).expect("right");
    let mounted = parts.routes[0].source.clone();
    let hour = "events = \"e\"\nevents_max_age = \"1h\"\n";
    for (more, ttl) in [
        (hour, "1h"),
        ("events = \"e\"\nevents_max_age = \"2h\"\n", "1h"),
        ("", "2h"),
        (hour, "3h"),
    ] {
        let new = config(more, ttl);
        let expected = proofs.coverage(&new.routes()[0]).expect("right");
        let before = mounted.events.load_full();
        let mut next = rebuild(&new, &env, (&origins, &proofs), &parts).expect("right");
        assert!(mounted.events.load_full() == before, "not in force yet");
        next.apply();
        assert!(
            mounted.events.load().as_deref() == expected.as_ref(),
            "{more}"
        );
        let profile = new.profile("web").expect("there");
        assert_eq!(**mounted.profile.load(), profile, "{ttl}");
        parts = next;
    }
}
