//! Recipe 2: plugins that put uploads into a bucket, each with its own keys and its own addresses.

use std::path::Path;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use loadtest::wordpress::gateway::Gateway;
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Places, Web};

use crate::world::{PROGRAM, Store};

/// The key of a plugin's photo, and the address that it writes into pages.
struct Layout {
    key: &'static str,
    host: &'static str,
    path: &'static str,
}

/// The layouts with each plugin's own defaults.
const LAYOUTS: [Layout; 5] = [
    // WP Offload Media Lite 3.2: "Path", "Year/Month" and "Object Versioning", which is the day and the time of day.
    // https://deliciousbrains.com/wp-offload-media/doc/settings/
    Layout {
        key: "wp-content/uploads/2026/11/25093012/photo-300x225.jpg",
        host: "media.example.org",
        path: "/wp-content/uploads/2026/11/25093012/photo-300x225.jpg",
    },
    // S3-Uploads 3, with and without `S3_UPLOADS_BUCKET_URL`. https://github.com/humanmade/S3-Uploads
    Layout {
        key: "uploads/2026/11/photo-300x225.jpg",
        host: "media.example.org",
        path: "/uploads/2026/11/photo-300x225.jpg",
    },
    Layout {
        key: "uploads/2026/11/other.jpg",
        host: "www.example.org",
        path: "/wp-content/uploads/2026/11/other.jpg",
    },
    // WP Offload Media: a second site of a network.
    Layout {
        key: "wp-content/uploads/sites/2/2026/11/25093012/photo.jpg",
        host: "media.example.org",
        path: "/wp-content/uploads/sites/2/2026/11/25093012/photo.jpg",
    },
    // Media Cloud 4: "Upload Path".
    // https://docs.mediacloud.press/articles/documentation/cloud-storage/upload-handling-settings
    Layout {
        key: "2026/11/photo-300x225.jpg",
        host: "media.example.org",
        path: "/2026/11/photo-300x225.jpg",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn each_plugins_keys_are_found_under_its_addresses() -> Result<()> {
    let store = Store::start().await?;
    let dir = store.dir.path();
    let places = Places::lay_out(&dir.join("site"))?;
    let home = Home::make(dir.join("gateway"))?;
    let toml = recipe::gateway(
        "wordpress-offload.toml",
        &home,
        &places.root,
        &store.origin(),
    )?;
    let _gateway = Gateway::start(Path::new(PROGRAM), &home, &toml, None)?;
    let http = recipe::nginx("wordpress-offload.conf", &home, &places)?;
    let web = Web::start(&places, &http)?;
    for layout in &LAYOUTS {
        store
            .bucket
            .put(layout.key, Bytes::from_static(layout.key.as_bytes()))
            .await?;
    }
    for layout in &LAYOUTS {
        let host = format!("Host: {}", layout.host);
        let answer = web.curl().run(layout.path, &["-H", &host])?;
        assert_eq!((answer.status, answer.text().as_str()), (200, layout.key));
        let kept = answer.header("cache-control").unwrap_or_default();
        assert_eq!(kept, "public, max-age=300", "{}", layout.path);
        // Another host has no such objects: its requests go to PHP, which does not run here.
        let other = web.curl().run(layout.path, &["-H", "Host: example.net"])?;
        assert!(other.status >= 400, "{}: {}", layout.path, other.status);
    }
    Ok(())
}

/// Takes the comments off the recipe's option for uploads that are on this server alone.
fn with_local_files(http: &str, places: &Places) -> Result<String> {
    let root = places.root.display();
    let option = [
        (
            "# proxy_intercept_errors on;",
            "proxy_intercept_errors on;".to_owned(),
        ),
        (
            "# error_page 404 = @local_uploads;",
            "error_page 404 = @local_uploads;".to_owned(),
        ),
        (
            &*format!("    # location @local_uploads {{\n    #     root {root};\n    # }}\n"),
            format!("    location @local_uploads {{\n        root {root};\n    }}\n"),
        ),
    ];
    recipe::replaced(http, &option)
}

/// The host of the plugin's addresses, and uploads that are on this server alone while a plugin still copies them.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_refused_at_both_hosts_and_has_no_local_file_in_its_place() -> Result<()>
{
    let store = Store::start().await?;
    let dir = store.dir.path();
    let places = Places::lay_out(&dir.join("site"))?;
    let home = Home::make(dir.join("gateway"))?;
    let toml = recipe::gateway(
        "wordpress-offload.toml",
        &home,
        &places.root,
        &store.origin(),
    )?;
    let _gateway = Gateway::start(Path::new(PROGRAM), &home, &toml, None)?;
    let http = recipe::nginx("wordpress-offload.conf", &home, &places)?;
    let web = Web::start(&places, &with_local_files(&http, &places)?)?;
    let see = |host: &str, path: &str| {
        let host = format!("Host: {host}");
        let answer = web.curl().run(path, &["-H", &host])?;
        anyhow::Ok((answer.status, answer.text()))
    };
    let refused = [
        "woocommerce_uploads/book.zip",
        "a.php",
        "b.PHP",
        "c.phtml",
        ".htaccess",
    ];
    for name in refused.into_iter().chain(["2026/photo.jpg"]) {
        let file = places.uploads().join(name);
        std::fs::create_dir_all(file.parent().context("a folder")?)?;
        std::fs::write(file, "local")?;
    }
    let local = see("www.example.org", "/wp-content/uploads/2026/photo.jpg")?;
    assert_eq!(local, (200, "local".to_owned()));
    for name in refused {
        for prefix in ["uploads/", "wp-content/uploads/", ""] {
            let key = format!("{prefix}{name}");
            store
                .bucket
                .put(&key, Bytes::from_static(b"stored"))
                .await?;
            let seen = see("media.example.org", &format!("/{key}"))?;
            assert_eq!(seen.0, 404, "media {key}");
        }
        let seen = see("www.example.org", &format!("/wp-content/uploads/{name}"))?;
        assert_eq!(seen.0, 404, "www {name}");
    }
    Ok(())
}
