use super::*;

fn draft(key: &str) -> Draft {
    Draft {
        id: format!("000000000000002a/{key}"),
        origin: None,
        key: key.to_owned(),
        stage: "refused".to_owned(),
        trouble: None,
        size: 3,
        spooled: 3,
        sent: 0,
        next_try: None,
        modified: 0.0,
        base: None,
        asked: false,
        theirs: None,
        choices: vec![Choice::Ours, Choice::Theirs, Choice::Aside],
    }
}

/// Returns the decision of the first button on a page, as a browser sends it.
fn decided(page: &str) -> Option<Decision> {
    let (_, value) = page.split_once("name=\"decide\" value=\"")?;
    let (value, _) = value.split_once('"')?;
    read(&value.replace("\r\n", "\n").replace('\n', "\r\n"))
}

#[test]
fn each_name_is_sent_whole() {
    for key in ["a\nb", "a\r\nb", "a\"b&lt;%41+ä"] {
        let text = refused(&draft(key)).into_string();
        let decision = decided(&text).expect("it is known");
        assert_eq!(decision.id, format!("000000000000002a/{key}"), "{text}");
    }
}

#[test]
fn a_draft_that_no_configured_origin_has_is_decided_by_its_id() {
    let text = refused(&draft("a b/c d")).into_string();
    assert!(text.contains("no configured origin"), "{text}");
    let decision = decided(&text).expect("it is known");
    assert_eq!(decision.choice, Choice::Ours);
    assert_eq!(decision.id, "000000000000002a/a b/c d");
    assert_eq!(read("none 000000000000002a/a"), None);
    assert_eq!(read("ours 000000000000002a%2F%FF"), None, "no text");
}

#[test]
fn a_bucket_that_was_not_asked_is_not_one_without_an_answer() {
    for (asked, said) in [
        (false, "The bucket is not asked yet."),
        (true, "The bucket does not say."),
    ] {
        let draft = Draft {
            asked,
            ..draft("a")
        };
        let text = theirs(&draft).into_string();
        assert!(text.contains(said), "{text}");
    }
}
