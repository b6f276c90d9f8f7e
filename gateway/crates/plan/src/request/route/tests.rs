use super::*;
use proptest::prelude::*;

fn table(rows: &[(Option<&str>, &str)]) -> RouteTable {
    RouteTable::new(rows.iter().map(|&(host, path)| RouteRule {
        host: host.map(str::to_owned),
        path: path.to_owned(),
    }))
}

#[test]
fn the_longest_prefix_wins_and_host_narrows() {
    let routes = table(&[
        (None, "/"),
        (None, "/media"),
        (None, "/media/raw/"),
        (Some("Books.Example"), "/media"),
        (Some("only.example"), "/x"),
    ]);
    let rows = [
        ("a", "/", Some((0, ""))),
        ("a", "/k", Some((0, "k"))),
        ("a", "//k", Some((0, "/k"))),
        ("a", "/mediathek", Some((0, "mediathek"))),
        ("a", "/media", Some((1, ""))),
        ("a", "/media/", Some((1, ""))),
        ("a", "/media/k%20l", Some((1, "k%20l"))),
        ("a", "/%6dedia%2Fk", Some((1, "k"))),
        ("a", "/media/raw", Some((1, "raw"))),
        ("a", "/media/raw/k", Some((2, "k"))),
        ("a", "/Media/k", Some((0, "Media/k"))),
        ("BOOKS.example:8080", "/media/k", Some((3, "k"))),
        ("books.example.", "/media/raw/k", Some((2, "k"))),
        ("only.example", "/x/y", Some((4, "y"))),
        ("other.example", "/x/y", Some((0, "x/y"))),
    ];
    for (host, path, expected) in rows {
        assert_eq!(routes.find(host, path), expected, "{host}{path}");
    }
    let bare = |path: &str| without_empty_segments(path);
    assert_eq!(bare("/a/b%2Fc/"), None);
    for (path, expected) in [
        ("//", "/"),
        ("//a", "/a"),
        ("/a///b//", "/a/b/"),
        ("/a/%2f%2Fb%2f", "/a/b/"),
        ("/a%2F/%20/b", "/a/%20/b"),
    ] {
        assert_eq!(bare(path).as_deref(), Some(expected), "{path}");
    }
    for path in [
        "//media/k",
        "/%2Fmedia/k",
        "///media/k",
        "/%2f%2fmedia",
        "/%2F%6dedia/k",
        "/media//raw/k",
        "/media/%2Fraw/k",
    ] {
        assert_eq!(routes.find("a", path), None, "{path}");
    }
    assert_eq!(routes.find("a", "/media//k"), Some((1, "/k")));
    assert_eq!(routes.find("a", "/media/raw//k"), Some((2, "/k")));
    assert_eq!(table(&[(None, "/a")]).find("h", "/b"), None);
    assert_eq!(table(&[]).find("h", "/"), None);
    assert_eq!(bare_host("[::1]:80"), "[::1]");
    assert_eq!(
        table(&[(None, "/ü")]).find("h", "/%C3%BC/k"),
        Some((0, "k"))
    );
}

#[test]
fn what_begins_like_a_path_goes_to_these() {
    let routes = table(&[
        (None, "/"),
        (None, "/media"),
        (None, "/media/raw/"),
        (Some("a.example"), "/media"),
        (None, "/ü"),
        (Some("b.example"), "/media/"),
    ]);
    let rows = [
        ("", "/", vec![(2, ""), (1, ""), (4, ""), (0, "")]),
        ("a.example", "/", vec![(2, ""), (3, ""), (4, ""), (0, "")]),
        ("", "/media", vec![(2, ""), (1, ""), (0, "media")]),
        ("", "/media/", vec![(2, ""), (1, "")]),
        ("", "/media/ra", vec![(2, ""), (1, "ra")]),
        ("", "/media/raw/k%20", vec![(2, "k%20")]),
        ("", "/mediathek/x", vec![(0, "mediathek/x")]),
        ("", "/%C3%BC/k", vec![(4, "k")]),
        ("", "/%C3", vec![(4, ""), (0, "%C3")]),
        ("", "/x", vec![(0, "x")]),
        (
            "b.example",
            "/media",
            vec![(2, ""), (5, ""), (1, ""), (0, "media")],
        ),
    ];
    for (host, path, expected) in rows {
        assert_eq!(routes.routes_under(host, path), expected, "{host}{path}");
    }
    assert_eq!(table(&[(None, "/a")]).routes_under("", "/b"), []);
}

#[test]
fn a_longer_prefix_is_known_whatever_its_host() {
    let routes = table(&[
        (None, "/"),
        (None, "/media/"),
        (Some("a.example"), "/media/raw"),
        (None, "/x"),
        (None, "/x/"),
        (Some("b.example"), "/xyz/"),
    ]);
    let found: Vec<_> = (0..7).map(|index| routes.has_longer(index)).collect();
    assert_eq!(found, [true, true, false, true, true, false, true]);
    assert!(!table(&[(None, "/"), (Some("a"), "/")]).has_longer(0));
}

proptest! {
    /// Each octet of a path may be encoded or not, whatever its neighbours are: no spelling evades the route.
    #[test]
    fn no_spelling_of_a_path_evades_its_route(
        prefix in "(/[aé語]{1,2}){1,3}/?",
        below in "[bü/]{0,4}",
        encoded in prop::collection::vec(any::<bool>(), 64),
    ) {
        let routes = table(&[(None, "/"), (None, &prefix)]);
        let plain = format!("{}/{below}", trimmed(&prefix));
        let spelled = |at: usize, letter: char| match encoded[at % 64] {
            true => letter.to_string().bytes().map(|octet| format!("%{octet:02x}")).collect(),
            false => letter.to_string(),
        };
        let letters = plain.chars().enumerate();
        let path = letters.map(|(at, letter)| spelled(at, letter)).collect::<String>();
        let path = format!("/{}", path.trim_start_matches("%2f").trim_start_matches('/'));
        let index = |path| routes.find("h", path).map(|(index, _)| index);
        prop_assert_eq!(index(&path), index(&plain), "{} {}", path, plain);
    }

    /// Without a longer prefix, the slash below a rule's own decides.
    #[test]
    fn paths_without_a_longer_prefix_stay_on_their_rule(
        rules in prop::collection::vec(("(/[ab]{1,2}){0,3}/?", prop::option::of("[hi]")), 1..6),
        below in "[ab/]{1,6}",
        rest in "[ab/]{0,6}",
        at in 0..6_usize,
    ) {
        let rule = |(path, host): &(String, Option<String>)| RouteRule {
            host: host.clone(),
            path: path.clone(),
        };
        let routes = RouteTable::new(rules.iter().map(rule));
        let (path, _) = &rules[at % rules.len()];
        let path = format!("{}/{below}", trimmed(path));
        if let Some((index, below)) = routes.find("h", &path)
            && !below.is_empty()
            && !routes.has_longer(index)
        {
            let route = path.strip_suffix(below).expect("its end");
            let other = format!("{route}{rest}");
            prop_assert_eq!(routes.find("h", &other), Some((index, &*rest)), "{} {}", path, other);
        }
    }

    /// A plain path is matched like an encoded one.
    #[test]
    fn a_plain_path_is_found_faster_and_alike(
        prefix in "(/[ab]{1,2}){0,3}/?",
        path in "[ab/]{0,8}",
    ) {
        prop_assert_eq!(rest_below_plain(&prefix, &path), rest_below(&prefix, &path));
    }

    /// A store that leaves empty segments out gives no object of another route.
    #[test]
    fn a_path_has_the_route_that_it_has_without_empty_segments(
        prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}/?", 1..6),
        path in "/(/|%2[fF]|a|b|%61){0,8}",
    ) {
        let rule = |path: &String| RouteRule { host: None, path: path.clone() };
        let routes = RouteTable::new(prefixes.iter().map(rule));
        let mut bare = path.replace("%2F", "/").replace("%2f", "/");
        while bare.contains("//") {
            bare = bare.replace("//", "/");
        }
        if let Some((index, _)) = routes.find("h", &path) {
            prop_assert_eq!(routes.find("h", &bare).map(|(index, _)| index), Some(index));
        }
    }

    /// Any path with a given beginning has its route among those of the beginning.
    #[test]
    fn all_that_begins_like_a_path_is_among_these(
        prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}/?", 1..6),
        path in "/[ab/]{0,6}",
        more in "[ab/]{0,6}",
    ) {
        let rule = |path: &String| RouteRule { host: None, path: path.clone() };
        let routes = RouteTable::new(prefixes.iter().map(rule));
        let covers = routes.routes_under("h", &path);
        let whole = format!("{path}{more}");
        if let Some((index, rest)) = routes.find("h", &whole) {
            prop_assert!(
                covers.iter().any(|(at, prefix)| *at == index && rest.starts_with(prefix)),
                "{whole} of {index}: {covers:?}"
            );
        }
    }

    /// Compares with a trial of every rule on the decoded path.
    #[test]
    fn agrees_with_trying_all(
        prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}", 1..6),
        path in "(/[abc]{1,2}){1,5}",
        encode in prop::collection::vec(any::<bool>(), 20),
    ) {
        let routes = RouteTable::new(
            prefixes.iter().map(|p| RouteRule { host: None, path: format!("{p}/") }),
        );
        let spelled: String = path.bytes().zip(&encode).map(|(byte, encoded)| {
            if *encoded { format!("%{byte:02x}") } else { char::from(byte).to_string() }
        }).collect();
        prop_assume!(spelled.starts_with('/'));
        let best = prefixes.iter().enumerate()
            .filter(|(_, p)| path.starts_with(&format!("{p}/")))
            .max_by_key(|(i, p)| (p.len(), std::cmp::Reverse(*i)))
            .map(|(i, p)| (i, path[p.len() + 1..].to_owned()));
        let found = routes.find("h", &spelled).map(|(i, rest)| {
            (i, percent_decode(rest.as_bytes()).decode_utf8_lossy().into_owned())
        });
        prop_assert_eq!(found, best);
    }
}
