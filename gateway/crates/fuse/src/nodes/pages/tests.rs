use super::*;

const A: VersionId = VersionId(1);
const B: VersionId = VersionId(2);
const LONG: Duration = Duration::from_secs(60);

fn facts(size: u64) -> Facts {
    Facts {
        size,
        modified: Some(Timestamp(size)),
        changed: None,
        attributes: None,
        etag: None,
        version: None,
    }
}

#[test]
fn pages_stay_while_the_version_stands() {
    let mut pages = Pages::default();
    pages.show(&facts(1), LONG);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Keep);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Keep);
    pages.close();
    pages.close();
    assert_eq!(pages.open(A, &facts(1)), PageAction::Keep);
    pages.close();
    assert_eq!(pages.open(B, &facts(1)), PageAction::Drop);
}

#[test]
fn two_versions_never_meet_in_pages() {
    let mut pages = Pages::default();
    pages.show(&facts(1), LONG);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Keep);
    assert_eq!(pages.open(B, &facts(2)), PageAction::Elsewhere);
    assert_eq!(pages.show(&facts(2), LONG), (facts(1), Duration::ZERO));
    assert_eq!(pages.show(&facts(1), LONG), (facts(1), LONG));
    pages.close();
    assert_eq!(pages.show(&facts(2), LONG), (facts(2), LONG));
    assert_eq!(pages.open(B, &facts(2)), PageAction::Drop);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Elsewhere);
}

#[test]
fn what_the_kernel_was_told_wrong_is_dropped() {
    let mut pages = Pages::default();
    pages.show(&facts(1), LONG);
    assert_eq!(pages.open(B, &facts(2)), PageAction::Drop);
}

#[test]
fn what_was_written_stays_in_the_pages() {
    let mut pages = Pages::default();
    pages.show(&facts(1), LONG);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Keep);
    assert!(!pages.begin(Some(A), 1), "they are of the base");
    pages.follow();
    assert!(pages.is_draft() && pages.pinned().is_none());
    pages.show_draft(5);
    pages.close();
    pages.settle(Some((B, facts(5))));
    assert_eq!(pages.pinned(), Some(&facts(5)), "the reader went along");
    assert_eq!(pages.open(B, &facts(5)), PageAction::Keep);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Elsewhere);
    pages.close();
    pages.close();
    // Its time of writing is known only now; the bytes are the same.
    let dated = Facts {
        modified: Some(Timestamp(9)),
        ..facts(5)
    };
    assert_eq!(pages.open(B, &dated), PageAction::Keep);
    pages.close();
    assert_eq!(pages.open(A, &facts(1)), PageAction::Drop);
}

#[test]
fn a_draft_never_meets_pages_of_another_version() {
    let mut pages = Pages::default();
    assert!(!pages.begin(None, 0), "there is nothing yet");
    pages.settle(Some((A, facts(1))));
    assert!(pages.begin(Some(B), 1), "it was changed elsewhere");
    pages.settle(None);
    assert!(pages.begin(Some(A), 1), "it is unknown what they are of");
    pages.settle(None);
    pages.show(&facts(1), LONG);
    assert_eq!(pages.open(A, &facts(1)), PageAction::Drop);
}

#[test]
fn a_draft_has_the_size_that_the_kernel_believes() {
    let begin = |told: u64, base, size| {
        let mut pages = Pages::default();
        pages.show(&facts(told), LONG);
        let opened = pages.begin(base, size);
        assert!(
            !pages.begin(base, size + 9),
            "who joins is told as it grows"
        );
        opened
    };
    assert!(!begin(5, Some(A), 5));
    assert!(begin(5, Some(B), 10), "it was never opened, and has grown");
    assert!(begin(5, None, 0), "it was replaced by nothing");
    let mut pages = Pages::default();
    pages.show(&facts(5), LONG);
    pages.open(A, &facts(5));
    pages.show_draft(7);
    assert!(
        pages.begin(Some(A), 5),
        "the pages are right, the size is not"
    );
}

#[test]
fn what_was_not_told_after_all_is_not_believed() {
    let untold = || {
        let mut pages = Pages::default();
        pages.show(&facts(1), LONG);
        pages.show(&facts(2), LONG);
        pages.forget_shown();
        pages
    };
    assert_eq!(untold().open(A, &facts(2)), PageAction::Drop);
    assert!(untold().begin(Some(A), 2));
    let mut again = untold();
    again.show(&facts(2), LONG);
    assert_eq!(again.open(A, &facts(2)), PageAction::Keep);
}

#[test]
fn pages_keep_to_a_version_that_is_renamed() {
    let mut pages = Pages::default();
    pages.show(&facts(1), LONG);
    pages.open(A, &facts(1));
    pages.moved(A, B, &facts(1));
    assert_eq!(pages.open(B, &facts(1)), PageAction::Keep);
    pages.moved(A, A, &facts(1));
    assert_eq!(pages.open(A, &facts(1)), PageAction::Elsewhere);
}
