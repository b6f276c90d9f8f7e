//! A folder that is being renamed is seen under one of both names.

use crate::gateway::{Gateway, status};

/// Returns the statuses of an object under both names, and of one that has the new folder's own name.
async fn seen(gateway: &Gateway) -> [u16; 3] {
    let mut seen = [0; 3];
    for (at, path) in ["/old/a", "/new/a", "/new"].into_iter().enumerate() {
        seen[at] = status(&gateway.get(path, &[]).await);
    }
    seen
}

#[tokio::test]
async fn a_folder_is_seen_under_one_name_at_a_time() {
    let gateway = Gateway::start().await;
    let (core, origin) = (&gateway.core, gateway.source.origin.id());
    for key in ["old/a", "new/a", "new"] {
        gateway.origin.put(key, "bytes");
    }
    // As a rename does: the new folder is hidden until it is whole.
    let mut hidden = core.hide_folder(origin, "new/", false);
    assert_eq!(seen(&gateway).await, [200, 404, 200]);
    let asked = gateway.origin.gets();
    assert_eq!(
        status(
            &gateway
                .get("/new/a", &[("cache-control", "no-cache")])
                .await
        ),
        404
    );
    assert_eq!(gateway.origin.gets(), asked, "the bucket is not asked");
    // From then on the old one is hidden, which is read from the cache as well.
    hidden.hide_instead("old/");
    assert_eq!(seen(&gateway).await, [404, 200, 200]);
    // No answer was remembered.
    drop(hidden);
    assert_eq!(seen(&gateway).await, [200, 200, 200]);
    gateway.end().await;
}
