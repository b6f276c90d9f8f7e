use super::*;

#[test]
fn a_key_may_name_an_entry_by_its_name_or_path() {
    let text = "[[route]]\npath = \"/\"\n[[route]]\npath = \"/media/\"\n[[origin]]\nname = \"o\"\n";
    let table = DeTable::parse(text).expect("TOML");
    let found = |key: &str| resolve(table.get_ref(), key).map(|path| path.to_string());
    for (key, path) in [
        ("cache.memory", "cache.memory"),
        ("route[/media/].profile", "route[1].profile"),
        ("route[0].profile", "route[0].profile"),
        ("origin[o].bucket", "origin[0].bucket"),
    ] {
        assert_eq!(found(key).as_deref(), Ok(path));
    }
    for wrong in [
        "",
        ".",
        "a.",
        "a[",
        "a[]",
        "a[0",
        "a[0]b",
        "route[/x/].profile",
        "none[x].y",
    ] {
        assert!(found(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_entry_gets_its_own_name() {
    let text = "[[route]]\npath = \"/\"\n[[route]]\npath = \"/\"\nhost = \"a.example\"\n\
                [[origin]]\nname = \"o\"\n[[hook]]\nurl = \"u\"\n[[hook]]\nname = \"1\"\n";
    let table = DeTable::parse(text).expect("TOML");
    let own = |key: &str| own_name(table.get_ref(), key);
    for (key, name) in [
        ("cache.memory", "cache.memory"),
        ("route[1].profile", "route[a.example/].profile"),
        ("route[a.example/].profile", "route[a.example/].profile"),
        ("origin[0].bucket", "origin[o].bucket"),
    ] {
        assert_eq!(own(key).as_deref(), Ok(name));
    }
    for wrong in [
        "route[0].profile",
        "hook[0].url",
        "hook[1].url",
        "route[2].path",
        "x[0]",
    ] {
        assert!(own(wrong).is_err(), "{wrong}");
    }
}
