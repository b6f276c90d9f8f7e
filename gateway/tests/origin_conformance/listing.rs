//! The duties of an origin towards a reader of names.

use tidegate_origin::{self, List, ListedObject, PageStart};

use crate::{Lack, Subject, key, list};

fn names(objects: &[ListedObject]) -> Vec<&str> {
    objects.iter().map(|object| object.key.as_str()).collect()
}

pub(super) async fn lists_pages(subject: &Subject) {
    let keys = [
        "list/a",
        "list/a b",
        "list/b/c/d",
        "list/b/e",
        "list/c",
        "list/ü/☃",
        "listen",
    ];
    for key in keys {
        subject.bucket.put(key, "12345").await;
    }
    let page = |request| async { subject.origin.list(request).await.expect("a page") };
    let folder = page(list("list/", true, 1000)).await;
    assert_eq!(folder.next, None);
    assert_eq!(folder.folders, ["list/b/", "list/ü/"]);
    assert_eq!(names(&folder.objects), ["list/a", "list/a b", "list/c"]);
    let head = subject
        .origin
        .head(&key("list/a"))
        .await
        .expect("an object");
    let listed = &folder.objects[0];
    assert_eq!(listed.size, 5);
    assert_eq!(listed.last_modified, head.last_modified);
    match subject.lacks(Lack::ListedETags) {
        true => assert_eq!(listed.etag, None),
        false => assert_eq!(listed.etag, Some(head.etag)),
    }
    // One key answers whether a folder of this name exists.
    let proof = page(list("list/b/", false, 1)).await;
    assert_eq!(names(&proof.objects), ["list/b/c/d"]);
    assert!(proof.folders.is_empty() && proof.next.is_some());
    let after = page(List {
        after: Some(PageStart::Key("list/a b".to_owned())),
        ..list("list/", false, 2)
    });
    assert_eq!(names(&after.await.objects), ["list/b/c/d", "list/b/e"]);
    let nothing = page(list("list/none/", false, 1)).await;
    assert_eq!(nothing, tidegate_origin::Listing::default());
    subject.bucket.delete("list/c").await;
    let gone = page(list("list/c", false, 1)).await;
    assert!(gone.objects.is_empty());
    if !subject.lacks(Lack::Encoding) {
        let odd = ["odd/%2F", "odd/+ &<>", "odd/q?x=1", "odd/\u{1}"];
        for key in odd {
            subject.bucket.put(key, "x").await;
        }
        let mut sorted = odd.to_vec();
        sorted.sort_unstable();
        assert_eq!(names(&page(list("odd/", true, 1000)).await.objects), sorted);
    }
}

pub(super) async fn lists_in_order_whatever_the_page(subject: &Subject) {
    let mut all = std::collections::BTreeSet::new();
    for n in 0..40_u32 {
        let key = match n % 3 {
            0 => format!("pages/{n}"),
            1 => format!("pages/f{}/{n}", n % 7),
            _ => format!("pages/f{}-{n}", n % 7),
        };
        subject.bucket.put(&key, "x").await;
        let rest = &key["pages/".len()..];
        all.insert(match rest.split_once('/') {
            Some((folder, _)) => format!("pages/{folder}/"),
            None => key,
        });
    }
    for limit in [1, 2, 7, 1000] {
        let (mut after, mut seen, mut last) = (None, Vec::new(), String::new());
        loop {
            let request = List {
                after,
                ..list("pages/", true, limit)
            };
            let page = subject.origin.list(request).await.expect("a page");
            let keys = page.objects.into_iter().map(|object| object.key);
            let mut names: Vec<_> = keys.chain(page.folders).collect();
            names.sort();
            assert!(names.len() <= usize::from(limit));
            assert!(names.first().is_none_or(|first| *first > last), "{names:?}");
            last = names.last().cloned().unwrap_or(last);
            seen.extend(names);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(seen.iter().eq(all.iter()), "{limit}: {seen:?}");
    }
}
