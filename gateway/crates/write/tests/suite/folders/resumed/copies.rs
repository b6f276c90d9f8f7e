//! Objects under new names that may be copies, or another program's.

use super::*;

/// The key of a file that was copied before the machine stopped, and the bytes of another program's object in its place.
struct Doubt {
    file: &'static str,
    others: Bytes,
}

impl Cut {
    /// Returns a cut at which a file is copied, and another one is not.
    async fn with_copy_of(file: &str, hides_tags: bool) -> Self {
        let desk = with_a_folder().await;
        if hides_tags {
            desk.bucket().hide_tags();
        }
        let late = [Fault::Latency(secs(9))];
        // The file of several parts goes first.
        match file {
            "parts" => desk.bucket().fail_from("copy", [], late),
            _ => desk.bucket().fail_from("copy", late, []),
        }
        let cut = tokio::select! {
            _ = rename(&desk) => unreachable!("a copy is missing"),
            cut = async { pass(secs(5)).await; Self::of(&desk) } => cut,
        };
        let copied = there(&cut.bucket, "new/");
        assert!(copied.contains(&file) && copied.len() < 5, "{copied:?}");
        cut
    }

    /// Puts an object in the place of a copy: it has the length and the headers of that one.
    fn replace(&self, doubt: &Doubt) {
        let key = format!("new/{}", doubt.file);
        let (version, bytes) = self.bucket.object(&key).expect("copied");
        assert_eq!(bytes.len(), doubt.others.len());
        let headers = version.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().expect("text")));
        let headers: Vec<_> = headers.collect();
        self.bucket.put_with(&key, doubt.others.clone(), &headers);
    }
}

/// An object of the same length and the same headers, but with other bytes, is neither taken for the copy nor overwritten
/// nor removed, whatever its tag looks like. Nothing is renamed then.
#[tokio::test(start_paused = true)]
async fn an_object_that_looks_like_a_copy_is_none() {
    let of_one_part = || Doubt {
        file: "a",
        others: Bytes::from_static(b"z"),
    };
    let of_several = || Doubt {
        file: "parts",
        others: sample(2, 3 * PART),
    };
    for (doubt, hides_tags) in [
        (of_one_part(), false),
        (of_one_part(), true),
        (of_several(), false),
        (of_several(), true),
    ] {
        let cut = Cut::with_copy_of(doubt.file, hides_tags).await;
        cut.replace(&doubt);
        let keys = cut.bucket.keys();
        let desk = cut.start();
        desk.has_ended().await;
        let key = format!("new/{}", doubt.file);
        assert_eq!(desk.object(&key), Some(doubt.others), "{key} {hides_tags}");
        assert_eq!(there(desk.bucket(), "old/"), FILES, "{key} {hides_tags}");
        assert_eq!(desk.bucket().keys(), keys, "{key} {hides_tags}");
        assert_eq!(desk.records(), 0);
    }
}

/// A copy whose tag differs from its source's is told by its bytes, and not made again.
#[tokio::test(start_paused = true)]
async fn a_copy_with_another_tag_is_told_by_its_bytes() {
    for (file, hides_tags) in [("parts", false), ("parts", true), ("a", true)] {
        let cut = Cut::with_copy_of(file, hides_tags).await;
        let key = format!("new/{file}");
        let (copy, _) = cut.bucket.object(&key).expect("copied");
        let (old, _) = cut.bucket.object(&format!("old/{file}")).expect("there");
        assert_ne!(copy.etag, old.etag);
        let desk = cut.start();
        desk.has_ended().await;
        assert_eq!(desk.halves(), (vec![], FILES.to_vec()), "{file}");
        let (now, _) = desk.bucket().object(&key).expect("there");
        assert_eq!(now.etag, copy.etag, "{file}: not copied again");
    }
}

/// Bytes that were compared are not read again while the bucket refuses the copies that are missing.
#[tokio::test(start_paused = true)]
async fn an_outage_reads_no_copy_twice() {
    let cut = Cut::with_copy_of("parts", true).await;
    let desk = cut.start();
    desk.bucket().fail_from("copy", [down()], []);
    desk.has_ended().await;
    assert_eq!(desk.halves(), (vec![], FILES.to_vec()));
    let gets = desk.bucket().log();
    let gets = gets.iter().filter(|get| get.key.as_str() == "old/parts");
    assert_eq!(gets.count(), 1);
}

/// Two gateways that rename one folder at once lose no file, whichever fails.
#[tokio::test(start_paused = true)]
async fn two_gateways_that_rename_one_folder_lose_nothing() {
    let mut failed = 0;
    for n in 0..40 {
        let one = with_a_folder().await;
        let world = Setup::bucket(one.bucket().seen_by("other")).build();
        let folder = tempfile::tempdir().expect("a folder");
        let other = Desk::over(world, folder, &Terms::default());
        spread(one.bucket());
        let later = async {
            pass(Duration::from_millis(200 * n)).await;
            rename(&other).await
        };
        let (first, second) = tokio::join!(rename(&one), later);
        failed += usize::from(first.is_err() || second.is_err());
        let (old, new) = one.halves();
        for file in FILES.iter().filter(|file| !file.is_empty()) {
            let is_there = old.contains(file) || new.contains(file);
            assert!(
                is_there,
                "{n}: {file} of {old:?} {new:?}, {first:?} {second:?}"
            );
        }
    }
    assert!(failed > 3, "{failed}");
}
