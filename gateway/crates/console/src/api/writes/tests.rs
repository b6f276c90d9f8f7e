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
    let known = |key| versions.of(&object(key));
    assert_eq!(
        known("k3").as_ref(),
        Some(&gone),
        "the other answer is late"
    );
    assert_eq!(known("k4"), Some(RefusedVersions::default()));
    let again = |_| -> (std::future::Ready<_>, std::future::Ready<_>) {
        panic!("it was asked a moment ago")
    };
    versions.ask(ids(), again).await;
    tokio::time::advance(REUSE).await;
    let told = async || Ok(TheirVersion::of(None));
    let fails = async || Err(ResolveError::WrittenMeanwhile);
    versions.ask(ids(), |_| (told(), fails())).await;
    assert_eq!(known("k4"), Some(gone), "asked again");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_draft_that_is_tried_again_meanwhile_is_not_kept() {
    let versions = KnownVersions::default();
    let ids = || vec![object("k")];
    let told = async || Ok(TheirVersion::of(None));
    let is_tried = async || Err(ResolveError::NotRefused);
    versions.ask(ids(), |_| (told(), is_tried())).await;
    assert_eq!(versions.of(&object("k")), None);
    let none = PossibleChoices {
        keep_ours: false,
        save_aside: false,
    };
    versions.ask(ids(), |_| (told(), async { Ok(none) })).await;
    let known = versions.of(&object("k")).expect("it is asked for again");
    assert_eq!(known.choices(), [Choice::Theirs]);
}

#[tokio::test(start_paused = true)]
async fn each_of_many_refused_objects_has_its_turn() {
    let versions = KnownVersions::default();
    let all: Vec<_> = (0..=MAX_ASKED)
        .map(|n| object(&format!("k{n:02}")))
        .collect();
    let told = async || Ok(TheirVersion::of(None));
    let fails = async || Err(ResolveError::WrittenMeanwhile);
    let ask = async || versions.ask(all.clone(), |_| (told(), fails())).await;
    let not_asked = || -> Vec<_> {
        let left = all.iter().filter(|id| versions.of(id).is_none());
        left.map(|id| id.key.as_str()).collect()
    };
    ask().await;
    assert_eq!(not_asked(), ["k16"]);
    ask().await;
    assert!(not_asked().is_empty(), "the last one is asked for first");
    tokio::time::advance(REUSE).await;
    let oldest = versions.due(all.clone());
    assert_eq!(oldest, all[..MAX_ASKED], "the last one was asked for last");
    assert!(not_asked().is_empty(), "old answers are shown until then");
    let left = || all[1..].to_vec();
    versions.ask(left(), |_| (told(), fails())).await;
    assert_eq!(not_asked(), ["k00"], "it is refused no more");
}

#[test]
fn a_draft_has_an_id_of_its_own_whatever_its_key() {
    let id = |origin, key: &str| {
        let (origin, key) = (tidegate_plan::OriginId(origin), ObjectKey::new(key));
        let key = key.expect("a key");
        draft_id(&ObjectId { origin, key })
    };
    assert_eq!(id(0x2a, "a b/c"), "000000000000002a/a b/c");
    let all: HashSet<_> = [id(1, "a"), id(2, "a"), id(1, "1/a"), id(0x11, "a")].into();
    assert_eq!(all.len(), 4);
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
