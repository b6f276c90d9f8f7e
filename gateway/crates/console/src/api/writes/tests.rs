use super::*;

fn object(key: &str) -> ObjectId {
    ObjectId {
        origin: tidegate_plan::OriginId(1),
        key: ObjectKey::new(key).expect("a key"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_hangs_takes_no_longer_than_one_question() {
    let versions = KnownVersions::default();
    let ids = || (0..MAX_ASKED).map(|n| object(&format!("k{n}"))).collect();
    let begun = Instant::now();
    let gone = RefusedVersions {
        theirs: Some(TheirVersion::of(None)),
        possible: None,
    };
    let theirs = async |id: ObjectId| match id.key.as_str() {
        "k3" => Ok(TheirVersion::of(None)),
        _ => std::future::pending().await,
    };
    let hangs = std::future::pending;
    versions.ask(ids(), |id| (theirs(id), hangs())).await;
    assert_eq!(begun.elapsed(), ASK_TIMEOUT);
    assert_eq!(versions.of(&object("k3")), gone, "the other answer is late");
    assert_eq!(versions.of(&object("k4")), RefusedVersions::default());
    let again = |_| -> (std::future::Ready<_>, std::future::Ready<_>) {
        panic!("it was asked a moment ago")
    };
    versions.ask(ids(), again).await;
    tokio::time::advance(REUSE).await;
    let told = async || Ok(TheirVersion::of(None));
    let fails = async || Err(ResolveError::WrittenMeanwhile);
    versions.ask(ids(), |_| (told(), fails())).await;
    assert_eq!(versions.of(&object("k4")), gone, "asked again");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_draft_that_is_tried_again_meanwhile_is_not_kept() {
    let versions = KnownVersions::default();
    let ids = || vec![object("k")];
    let told = async || Ok(TheirVersion::of(None));
    let is_tried = async || Err(ResolveError::NotRefused);
    versions.ask(ids(), |_| (told(), is_tried())).await;
    assert_eq!(versions.of(&object("k")), RefusedVersions::default());
    let none = PossibleChoices {
        keep_ours: false,
        save_aside: false,
    };
    versions.ask(ids(), |_| (told(), async { Ok(none) })).await;
    assert_eq!(versions.of(&object("k")).choices(), [Choice::Theirs]);
}

#[test]
fn a_choice_that_must_fail_is_not_offered() {
    use Choice::{Aside, Ours, Theirs};
    let choices = |possible: Option<(bool, bool)>| {
        let possible = possible.map(|(keep_ours, save_aside)| PossibleChoices {
            keep_ours,
            save_aside,
        });
        let theirs = None;
        RefusedVersions { theirs, possible }.choices()
    };
    assert_eq!(choices(None), [Ours, Theirs, Aside]);
    assert_eq!(choices(Some((true, true))), [Ours, Theirs, Aside]);
    assert_eq!(choices(Some((true, false))), [Ours, Theirs]);
    assert_eq!(choices(Some((false, false))), [Theirs]);
}

#[test]
fn a_name_beside_another_keeps_folder_and_extension() {
    for (key, aside) in [
        ("a/b/report.odt", "a/b/report (saved 17).odt"),
        ("report", "report (saved 17)"),
        (".hidden", ".hidden (saved 17)"),
        ("a/x.tar.gz", "a/x.tar (saved 17).gz"),
    ] {
        assert_eq!(aside_name(key, 17), aside);
    }
}
