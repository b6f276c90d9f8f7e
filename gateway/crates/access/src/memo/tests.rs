use super::*;

fn found(memo: &Memo<usize>, text: &str) -> Option<usize> {
    memo.recall(text.as_bytes(), |learned| *learned)
}

#[test]
fn a_credential_is_found_whole_and_in_no_other_form() {
    let memo = Memo::new(true);
    let text = "a=1&proof=abcd&b=2";
    assert_eq!(found(&memo, text), None);
    memo.remember(text.as_bytes(), 10..14, (7, 0));
    assert_eq!(found(&memo, text), Some(7));
    for at in 0..text.len() {
        let mut other = text.to_owned().into_bytes();
        other[at] ^= 1;
        let other = String::from_utf8(other).expect("ASCII");
        assert_eq!(found(&memo, &other), None, "{other}");
        assert_eq!(found(&memo, &text[..at]), None);
    }
    assert_eq!(found(&memo, &format!("{text}&")), None);
    // Compared with the entry itself, whatever slot another text has.
    let entry = Entry {
        text: text.as_bytes().into(),
        proof: 10..14,
        learned: (),
    };
    assert!(entry.is(text.as_bytes()));
    for other in [
        "a=1&proof=abce&b=2",
        "a=2&proof=abcd&b=2",
        "a=1&proof=abcd&b=3",
        "",
    ] {
        assert!(!entry.is(other.as_bytes()), "{other}");
    }
}

#[test]
fn its_size_is_bounded() {
    let memo = Memo::new(true);
    let long = "p".repeat(MAX_BYTES + 1);
    memo.remember(long.as_bytes(), 0..1, (0, 0));
    memo.remember(b"short", 0..5, (0, MAX_BYTES));
    memo.remember(b"text", 0..5, (0, 0));
    for text in [&long, "short", "text"] {
        assert_eq!(found(&memo, text), None);
    }
    let text = |nth: usize| format!("credential {nth}");
    for nth in 0..10 * SLOTS {
        memo.remember(text(nth).as_bytes(), 0..10, (nth, 0));
        assert_eq!(found(&memo, &text(nth)), Some(nth));
    }
    let kept = (0..10 * SLOTS).filter(|nth| found(&memo, &text(*nth)).is_some());
    let kept = kept.count();
    assert!(kept <= SLOTS && kept > SLOTS / 2, "{kept}");
    let unused = Memo::new(false);
    unused.remember(b"text", 0..4, (0, 0));
    assert_eq!(found(&unused, "text"), None);
}

#[test]
fn no_credential_is_shown() {
    let memo = Memo::new(true);
    memo.remember(b"credential", 0..10, ("learned", 0));
    assert_eq!(format!("{memo:?}"), "Memo(1024)");
}
