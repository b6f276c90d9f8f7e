use super::*;
use proptest::prelude::*;

fn render(template: &str, escape: Escape, value: &str) -> String {
    let template = Template::parse(template).expect("a template");
    template.render(escape, |_| Cow::Borrowed(value))
}

#[test]
fn braces_of_json_are_text() {
    for (template, expected) in [
        ("", ""),
        ("no field", "no field"),
        ("{key}", "v"),
        ("{{key}}", "{v}"),
        ("a{key}b{folder}c", "avbvc"),
        (r#"{"a":{"b":"{key}"},"c":{}}"#, r#"{"a":{"b":"v"},"c":{}}"#),
        ("{Key} { key} {key", "{Key} { key} {key"),
    ] {
        assert_eq!(render(template, Escape::Json, "v"), expected, "{template}");
    }
}

#[test]
fn a_wrong_template_is_told() {
    let unknown = Template::parse("{key}{keys}").map(|_| ());
    assert_eq!(unknown, Err(TemplateError::UnknownField("keys".into())));
    let many = "{key}".repeat(Template::MAX_FIELDS);
    assert!(Template::parse(&many).is_ok());
    let many = Template::parse(&format!("{many}{{key}}")).map(|_| ());
    assert_eq!(many, Err(TemplateError::TooManyFields));
}

#[test]
fn values_keep_to_their_place() {
    let value = "a \"b\"\\\n{key}&c=d/ü#?%2F";
    assert_eq!(
        render("x={key}", Escape::Percent, value),
        "x=a%20%22b%22%5C%0A%7Bkey%7D%26c%3Dd/%C3%BC%23%3F%252F"
    );
    assert_eq!(
        render("\"{key}\"", Escape::Json, value),
        "\"a \\u0022b\\u0022\\u005c\\u000a{key}&c=d/ü#?%2F\""
    );
}

#[test]
fn a_secret_in_the_text_is_not_shown() {
    let template = Template::parse("token=s3cret&key={key}").expect("a template");
    assert_eq!(format!("{template:?}"), "{Key}");
}

proptest! {
    #[test]
    fn an_escaped_value_is_read_back(value: String) {
        let decoded = percent_encoding::percent_decode_str(&Escape::Percent.apply(&value))
            .decode_utf8()
            .map(Cow::into_owned);
        prop_assert_eq!(decoded.as_deref(), Ok(&*value));
        let json = Escape::Json.apply(&value).into_owned();
        prop_assert!(!json.contains(|c: char| c == '"' || c < ' '));
    }
}
