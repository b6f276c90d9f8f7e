//! The stacks of `docker/`: their gateways, nginx, PHP's settings and health checks, with the files' own configuration.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use loadtest::child::free_addr;
use loadtest::peers::minio::{ACCESS_KEY, SECRET_KEY};
use loadtest::wordpress::gateway::{Gateway, PublicListener};
use loadtest::wordpress::recipe::{self, Home, TOKEN};
use loadtest::wordpress::{Browser, Curl, Places, SharedFolder, Site, Web, must, photos};

use crate::door::Door;
use crate::world::{PROGRAM, Store};

/// Returns the path of a file in `docker/`.
fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docker")
        .join(name)
}

/// Returns the gateway's configuration from a file in `docker/`.
fn configuration(
    file: &str,
    home: &Home,
    bucket: SocketAddr,
    public: SocketAddr,
    more: &[(&str, String)],
) -> Result<String> {
    let mut names = vec![
        ("0.0.0.0:8080", public.to_string()),
        ("0.0.0.0:8081", home.admin.to_string()),
        ("/var/cache/tidegate", home.path("cache")),
        ("/var/lib/tidegate", home.path("state")),
        ("http://minio:9000", format!("http://{bucket}")),
        (
            "access_key_id = \"tidegate\"",
            format!("access_key_id = \"{ACCESS_KEY}\""),
        ),
    ];
    names.extend(more.iter().cloned());
    recipe::replaced(&recipe::read(&format!("../docker/{file}"))?, &names)
}

/// The gateway of the compose file for WordPress.
struct Composed {
    gateway: Gateway,
    home: Home,
    public: SocketAddr,
    mount: PathBuf,
    /// The folder of the mount, as `propagation: rshared` makes it. Dropped last.
    _above: SharedFolder,
}

impl Composed {
    fn start(store: &Store) -> Result<Self> {
        Self::on(store, store.cloud.addr())
    }

    /// Starts one whose bucket is at that address.
    fn on(store: &Store, bucket: SocketAddr) -> Result<Self> {
        let dir = store.dir.path();
        let home = Home::make(dir.join("gateway"))?;
        let (public, above) = (free_addr(), dir.join("above"));
        let mount = above.join("uploads");
        fs::create_dir_all(&mount)?;
        let shared = SharedFolder::new(&above)?;
        let more = [
            ("/run/gateway/token", home.path("token")),
            ("/run/bucket/secret", home.path("s3-secret")),
            ("/mnt/wordpress", above.display().to_string()),
        ];
        let toml = configuration("wordpress/tidegate.toml", &home, bucket, public, &more)?;
        let (listens, at) = (PublicListener::Tcp(public), Some(mount.clone()));
        Ok(Self {
            gateway: Gateway::start_on(Path::new(PROGRAM), &home, &toml, at, listens)?,
            home,
            public,
            mount,
            _above: shared,
        })
    }

    /// Starts the site of the compose file, whose uploads are a link to the mount.
    fn site(&self, store: &Store) -> Result<Site> {
        let places = Places::lay_out(&store.dir.path().join("site"))?;
        fs::remove_dir(places.uploads())?;
        symlink(&self.mount, places.uploads())?;
        let php = places.php_socket();
        let names = [
            (
                "server gateway:8080 resolve;",
                format!("server {};", self.public),
            ),
            (
                "server wordpress:9000 resolve;",
                format!("server unix:{};", php.display()),
            ),
            ("/var/www/html", places.root.display().to_string()),
            (
                "include fastcgi_params;",
                "include /etc/nginx/fastcgi_params;".to_owned(),
            ),
        ];
        let http = nginx("wordpress/nginx.conf", &places, &names)?;
        Site::start(places, &http)
    }

    /// Tells whether the container would be healthy.
    fn is_healthy(&self) -> Result<bool> {
        is_healthy(self.home.admin, Some(&self.mount))
    }
}

/// Runs the health check of the image.
fn is_healthy(admin: SocketAddr, mount: Option<&Path>) -> Result<bool> {
    let mut check = Command::new("bash");
    check.arg(shipped("healthcheck")).arg(admin.to_string());
    Ok(check.args(mount).output()?.status.success())
}

/// Returns nginx's `http` block from a file in `docker/`, without Docker's names of hosts. `resolve` of an upstream's server
/// is newer than Debian's nginx.
fn nginx(file: &str, places: &Places, names: &[(&str, String)]) -> Result<String> {
    let mut all = vec![("listen 80;", format!("listen {};", places.addr))];
    all.extend(names.iter().cloned());
    recipe::replaced(&recipe::read(&format!("../docker/{file}"))?, &all)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_the_compose_file_mounts_serves_and_takes_its_token() -> Result<()> {
    let store = Store::start().await?;
    let composed = Composed::start(&store)?;
    fs::write(composed.mount.join("photo.jpg"), "a photo")?;
    let visitor = Curl::new(composed.public, None);
    let seen = visitor.get("/wp-content/uploads/photo.jpg")?;
    assert_eq!((seen.status, seen.text().as_str()), (200, "a photo"));
    let operator = Curl::new(composed.home.admin, None);
    assert_eq!(operator.get("/healthz")?.status, 200);
    let purge = "/purge?path=/wp-content/uploads/photo.jpg";
    let bucket = &store.bucket;
    crate::world::until(async || bucket.get("uploads/photo.jpg").await.is_ok()).await?;
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for (method, path, body, done) in [
        ("POST", purge, "", 200),
        (
            "POST",
            "/warm",
            r#"{"paths":["/wp-content/uploads/photo.jpg"]}"#,
            200,
        ),
        (
            "PUT",
            "/pins",
            r#"{"path":"/wp-content/uploads/","limit":"1GiB"}"#,
            200,
        ),
        (
            "POST",
            "/overrides",
            r#"{"key":"cache.memory","value":"600MiB"}"#,
            200,
        ),
    ] {
        let order = ["-X", method, "-d", body];
        let answer = operator.run(path, &[&order[..], &["-H", &bearer]].concat())?;
        assert_eq!(answer.status, done, "{path}: {}", answer.text());
        if path == "/warm" {
            assert!(answer.text().contains("\"done\":true"), "{}", answer.text());
        }
        let refused = operator.run(path, &order)?;
        assert_eq!(refused.status, 401, "{path} without the token");
    }
    Ok(())
}

/// Healthy is mounted: not after an unmount, nor after a kill, which leaves the mount in the table.
#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_the_compose_file_is_healthy_while_its_mount_answers() -> Result<()> {
    let store = Store::start().await?;
    let mut composed = Composed::start(&store)?;
    ensure!(composed.is_healthy()?);
    must(Command::new("umount").arg("--lazy").arg(&composed.mount))?;
    ensure!(!composed.is_healthy()?, "it is not mounted");
    let lives = is_healthy(composed.home.admin, None)?;
    ensure!(lives, "the process goes on");
    composed.gateway.restart()?;
    ensure!(composed.is_healthy()?);
    composed.gateway.kill()?;
    ensure!(!composed.is_healthy()?);
    // Another process answers in its place, and the mount is dead.
    let elsewhere = Store::start().await?;
    let other = Composed::start(&elsewhere)?;
    let (admin, dead) = (other.home.admin, &composed.mount);
    ensure!(is_healthy(admin, None)? && !is_healthy(admin, Some(dead))?);
    Ok(())
}

/// The whole stack without its containers: nginx and PHP have the settings of `docker/wordpress/`.
#[tokio::test(flavor = "multi_thread")]
async fn the_site_of_the_compose_file_takes_uploads_and_shows_them() -> Result<()> {
    let store = Store::start().await?;
    let composed = Composed::start(&store)?;
    let site = composed.site(&store)?;
    let photo = store.dir.path().join("photo.jpg");
    photos::photo(&photo, photos::SMALL, 1)?;
    let media = site.log_in()?.upload(&photo)?;
    for path in &media.paths {
        let seen = site.curl().get(path)?;
        ensure!(
            seen.status == 200 && seen.body.ends_with(&[0xff, 0xd9]),
            "{path}"
        );
    }
    let last = media.paths.last().context("a size")?;
    let part = site.curl().run(last, &["-r", "0-1"])?;
    ensure!((part.status, &*part.body) == (206, &[0xff, 0xd8][..]));
    let closed = composed.mount.join("woocommerce_uploads");
    fs::create_dir(&closed)?;
    fs::write(closed.join("book.zip"), "a book")?;
    fs::write(composed.mount.join("a.PHP"), "<?php")?;
    for path in ["woocommerce_uploads/book.zip", "a.PHP"] {
        let path = format!("/wp-content/uploads/{path}");
        ensure!(site.curl().get(&path)?.status == 404, "{path}");
    }
    Ok(())
}

/// A photo that was uploaded, with the bytes of its sizes.
fn upload(site: &Site, editor: &Browser, photo: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let media = editor.upload(photo)?;
    let read = |path: String| {
        let file = site.places.root.join(path.trim_start_matches('/'));
        let bytes = fs::read(file)?;
        ensure!(bytes.ends_with(&[0xff, 0xd9]), "{path}: a JPEG cut short");
        Ok((path, bytes))
    };
    media.paths.into_iter().map(read).collect()
}

/// Checks that visitors and PHP are given these bytes, and that they are in the bucket or arrive there.
async fn shows(site: &Site, store: &Store, files: &[(String, Vec<u8>)]) -> Result<()> {
    for (path, bytes) in files {
        let seen = site.curl().get(path)?;
        ensure!(seen.status == 200, "{path}: {}", seen.status);
        ensure!(seen.body == *bytes, "{path}: other bytes over HTTP");
        let file = site.places.root.join(path.trim_start_matches('/'));
        ensure!(fs::read(file)? == *bytes, "{path}: other bytes in PHP");
        let key = path.replace("/wp-content/", "");
        let arrived = async || {
            let stored = store.bucket.get(&key).await;
            stored.is_ok_and(|stored| stored == *bytes)
        };
        crate::world::until(arrived).await.context(key.clone())?;
    }
    Ok(())
}

/// Docker starts the gateway alone anew: not `prepare`, nor PHP and nginx, which wait for it at their own start only.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_of_the_compose_file_that_was_killed_comes_back_with_the_uploads() -> Result<()> {
    let store = Store::start().await?;
    let door = Door::to(store.cloud.addr()).await;
    let mut composed = Composed::on(&store, door.address())?;
    let site = composed.site(&store)?;
    let editor = site.log_in()?;
    let photo = |seed: u32| {
        let file = store.dir.path().join(format!("photo-{seed}.jpg"));
        photos::photo(&file, photos::SMALL, seed).map(|()| file)
    };
    let arrived = upload(&site, &editor, &photo(1)?)?;
    shows(&site, &store, &arrived).await?;
    // The bucket gets nothing of the second photo before the kill.
    door.shut();
    let waiting = upload(&site, &editor, &photo(2)?)?;
    composed.gateway.kill()?;
    ensure!(!composed.is_healthy()?);
    let seen = site.curl().get(&waiting[0].0)?;
    ensure!(seen.status == 502, "{}", seen.status);
    let refused = editor.try_upload(&photo(3)?)?.text();
    ensure!(!refused.contains("\"success\":true"), "{refused}");
    door.open();
    composed.gateway.restart()?;
    ensure!(composed.is_healthy()?);
    shows(&site, &store, &arrived).await?;
    shows(&site, &store, &waiting).await?;
    let after = upload(&site, &editor, &photo(4)?)?;
    shows(&site, &store, &after).await?;
    editor.delete(editor.upload(&photo(5)?)?.id)?;
    Ok(())
}

/// nginx takes no less than PHP, and PHP reads its file.
#[test]
fn php_and_nginx_of_the_compose_file_take_uploads_of_one_size() -> Result<()> {
    let mut php = Command::new("php");
    php.arg("-n")
        .arg("-c")
        .arg(shipped("../config/wordpress/uploads.ini"));
    php.args(["-r", "foreach (['upload_max_filesize', 'post_max_size', 'memory_limit', 'max_execution_time'] as $key) { echo $key, '=', ini_get($key), ' '; }"]);
    let said = String::from_utf8(must(&mut php)?.stdout)?;
    ensure!(
        said.contains("upload_max_filesize=2G post_max_size=2G memory_limit=512M"),
        "{said}"
    );
    let http = recipe::read("../docker/wordpress/nginx.conf")?;
    ensure!(http.contains("client_max_body_size 2g;"));
    ensure!(http.contains("fastcgi_read_timeout 300s;"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stack_without_wordpress_serves_through_nginx_and_is_healthy() -> Result<()> {
    let store = Store::start().await?;
    let dir = store.dir.path();
    let (home, public) = (Home::make(dir.join("gateway"))?, free_addr());
    let bucket = [("bucket = \"media\"", "bucket = \"wordpress\"".to_owned())];
    let toml = configuration("tidegate.toml", &home, store.cloud.addr(), public, &bucket)?;
    // The secret is the container's variable.
    let program = dir.join("with-password");
    let text = format!("#!/bin/sh\nMINIO_ROOT_PASSWORD={SECRET_KEY} exec {PROGRAM} \"$@\"\n");
    fs::write(&program, text)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let file = home.dir.join("tidegate.toml");
    fs::write(&file, &toml)?;
    let checked = must(
        Command::new(&program)
            .arg("check")
            .arg("--config")
            .arg(&file),
    )?;
    let said = String::from_utf8(checked.stdout)?;
    ensure!(!said.contains("warning"), "{said}");
    let listens = PublicListener::Tcp(public);
    let mut gateway = Gateway::start_on(&program, &home, &toml, None, listens)?;
    let places = Places::lay_out(&dir.join("site"))?;
    let names = [("server gateway:8080 resolve;", format!("server {public};"))];
    let web = Web::start(&places, &nginx("nginx.conf", &places, &names)?)?;
    store
        .bucket
        .put("hello.txt", "Hello from the bucket.".into())
        .await?;
    let curl = web.curl();
    let part = curl.run("/hello.txt", &["-r", "0-4"])?;
    ensure!((part.status, &*part.text()) == (206, "Hello"));
    ensure!(curl.get("/missing.txt")?.status == 404);
    ensure!(curl.get("/nginx-health")?.status == 204);
    ensure!(is_healthy(home.admin, None)?);
    gateway.stop();
    ensure!(!is_healthy(home.admin, None)?);
    let (dead, alive) = (
        curl.get("/hello.txt")?.status,
        curl.get("/nginx-health")?.status,
    );
    ensure!((dead, alive) == (502, 204), "{dead} {alive}");
    Ok(())
}
