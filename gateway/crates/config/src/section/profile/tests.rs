use super::*;

fn overlays(list: &[(&str, Option<&str>, Option<u32>)]) -> BTreeMap<String, Overlay> {
    let overlay = |extends: Option<&str>, streams| Overlay {
        extends: extends.map(str::to_owned),
        streams,
        ..Overlay::default()
    };
    list.iter()
        .map(|(name, extends, streams)| ((*name).to_owned(), overlay(*extends, *streams)))
        .collect()
}

#[test]
fn overlays_lie_over_each_other() {
    let all = overlays(&[
        ("web", None, Some(5)),
        ("plain", None, None),
        ("chapters", Some("books"), Some(3)),
        ("books", Some("stream"), Some(9)),
        ("stream", Some("backup"), None),
    ]);
    let get = |name| resolve(&all, name).expect(name);
    assert_eq!(
        get("web"),
        Profile {
            streams: 5,
            ..Profile::web()
        }
    );
    assert_eq!(get("plain"), Profile::web());
    assert_eq!(get("documents"), Profile::documents());
    assert_eq!(get("stream"), Profile::backup());
    assert_eq!(
        get("chapters"),
        Profile {
            streams: 3,
            ..Profile::backup()
        }
    );
}

#[test]
fn unknown_names_and_cycles_are_told() {
    let all = overlays(&[
        ("a", Some("b"), None),
        ("b", Some("a"), None),
        ("c", Some("wob"), None),
    ]);
    let names = ["a", "b", "a"].map(str::to_owned).to_vec();
    assert_eq!(resolve(&all, "a"), Err(ProfileError::Cycle(names)));
    let unknown = |name: &str| Err(ProfileError::Unknown(name.to_owned()));
    assert_eq!(resolve(&all, "c"), unknown("wob"));
    assert_eq!(resolve(&all, "d"), unknown("d"));
}
