use super::*;
use crate::app::events::Proofs;
use crate::app::routes;
use tidegate_config::{Environment, parse};
use tidegate_origin::{FakeOrigin, Origin};

fn locator() -> Locator {
    let text = "[[origin]]\nname = \"o\"\nbucket = \"b\"\n\
                [[route]]\npath = \"/books/\"\norigin = \"o\"\nkey_prefix = \"p/\"\n\
                [[route]]\npath = \"/books\"\nhost = \"A.example\"\norigin = \"o\"\n\
                [[route]]\npath = \"/\"\norigin = \"o\"\nindex = \"index.html\"\n\
                [[route]]\npath = \"/only/\"\nhost = \"h\"\norigin = \"o\"\n\
                [[route]]\npath = \"/\"\nhost = \"zipped\"\norigin = \"o\"\nindex = \"index.html\"\nprecompressed = [\"br\", \"gzip\"]\n";
    let loaded = parse("t.toml", text, &Environment::default());
    let config = loaded.expect("it is right").config;
    let origin: Arc<dyn Origin> = Arc::new(FakeOrigin::new());
    let origins: Origins = [("o".to_owned(), origin)].into();
    let routes = routes::routes(
        &config,
        &Environment::default(),
        (&origins, &Proofs::default()),
        &tidegate_auth::Metrics::default(),
    )
    .expect("routes");
    Locator::new(&config, &routes.routes, &origins)
}

fn place(path: &str, host: Option<&str>) -> Place {
    Place {
        path: path.to_owned(),
        host: host.map(str::to_owned),
    }
}

#[test]
fn a_path_leads_where_a_request_for_it_would() {
    let locator = locator();
    let keys = |path: &str, host: Option<&str>| {
        let found = locator.objects(&place(path, host)).expect("somewhere");
        let keys = found.into_iter().map(|one| one.key.as_str().to_owned());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys("/books/a%20b", Some("b.example")), ["p/a b"]);
    assert_eq!(keys("/books/a%20b", Some("a.EXAMPLE:80")), ["a b"]);
    assert_eq!(keys("/books/a%20b", None), ["p/a b", "a b"]);
    assert_eq!(keys("/x/", None), ["x/index.html"]);
    let dots = locator.objects(&place("/../x", None)).map(drop);
    assert!(matches!(dots, Err(PlaceError::BadPath(_))), "{dots:?}");
}

#[test]
fn an_object_has_the_siblings_of_all_its_routes() {
    let locator = locator();
    let siblings = |host: Option<&str>| {
        let found = locator.objects(&place("/app.js", host)).expect("somewhere");
        let keys = found.into_iter().flat_map(|one| one.siblings);
        keys.map(|key| key.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(siblings(None), ["app.js.br", "app.js.gz"]);
    assert_eq!(siblings(Some("zipped")), ["app.js.br", "app.js.gz"]);
    assert!(siblings(Some("plain")).is_empty());
}

#[test]
fn below_a_path_lies_one_place_or_it_is_said() {
    let locator = locator();
    let below = |path: &str, host| locator.below(&place(path, host)).map(|one| one.prefix);
    assert_eq!(below("/books/fant", Some("b")), Ok("p/fant".to_owned()));
    assert_eq!(below("/books/", Some("b")), Ok("p/".to_owned()));
    assert_eq!(below("/", None), Ok(String::new()));
    assert_eq!(below("/books/", None), Err(PlaceError::Several));
}

#[test]
fn what_begins_like_a_path_lies_in_all_of_these() {
    let locator = locator();
    let beginning = |path: &str, host: Option<&str>| {
        let found = locator.beginning(&place(path, host)).expect("somewhere");
        let prefixes = found.into_iter().map(|one| one.prefix);
        prefixes.collect::<Vec<_>>()
    };
    assert_eq!(beginning("/books/fant", Some("b")), ["p/fant"]);
    assert_eq!(beginning("/books/fant", None), ["p/fant", "fant"]);
    assert_eq!(beginning("/book", Some("b")), ["p/", "book"]);
    assert_eq!(beginning("/", None), ["p/", ""]);
    assert_eq!(beginning("/bookshelf", None), ["bookshelf"]);
    let dots = locator.beginning(&place("/../x", None)).map(drop);
    assert!(matches!(dots, Err(PlaceError::BadPath(_))), "{dots:?}");
}

#[test]
fn a_key_has_the_path_that_leads_back_to_it() {
    let locator = locator();
    let root = locator.below(&place("/", None)).expect("a route");
    let path = |key: &str| locator.path(&root, key);
    assert_eq!(path("a b&c+d/ü").as_deref(), Some("/a%20b%26c%2Bd/%C3%BC"));
    assert_eq!(path("x//y").as_deref(), Some("/x//y"));
    assert_eq!(path("books/x"), None, "another route has it");
    assert_eq!(path("x/"), None, "the index answers for it");
    assert_eq!(path("x/../y"), None);
    let books = locator.below(&place("/books/", Some("b"))).expect("one");
    assert_eq!(locator.path(&books, "p/x").as_deref(), Some("/books/x"));
    assert_eq!(locator.path(&books, "q/x"), None);
}

#[test]
fn what_lies_below_is_judged_for_the_host_that_was_asked_for() {
    let locator = locator();
    let paths = |host: Option<&str>| {
        let below = locator.below(&place("/", host)).expect("one");
        let folder = locator.folder_path(&below, "only/");
        let governed_by = folder.expect("there").governed_by;
        (locator.path(&below, "only/x"), governed_by)
    };
    assert_eq!(paths(None), (Some("/only/x".to_owned()), None));
    assert_eq!(paths(Some("h")), (None, Some("/only/".to_owned())));
}

#[test]
fn a_folder_has_its_path_also_where_an_index_answers_for_it() {
    let locator = locator();
    let root = locator.below(&place("/", None)).expect("a route");
    let folder = |prefix: &str| {
        let found = locator.folder_path(&root, prefix)?;
        let other = found.governed_by.unwrap_or_default();
        Some((found.path, other))
    };
    let own = |path: &str| Some((path.to_owned(), String::new()));
    assert_eq!(folder("x/"), own("/x/"));
    assert_eq!(folder("a b&c/ü/"), own("/a%20b%26c/%C3%BC/"));
    assert_eq!(folder("x//"), own("/x//"));
    assert_eq!(folder("x/../y/"), None, "no request can have it");
    let other = Some(("/books/".to_owned(), "/books/".to_owned()));
    assert_eq!(folder("books/"), other, "another route governs it");
    let books = locator.below(&place("/books/", Some("b"))).expect("one");
    let own = locator.folder_path(&books, "p/new/").expect("a path");
    assert_eq!((&*own.path, own.governed_by), ("/books/new/", None));
    assert_eq!(locator.folder_path(&books, "q/"), None);
}
