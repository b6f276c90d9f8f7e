//! The stacks of `docker/`: their gateways, nginx, PHP's settings and health checks, with the files' own configuration.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use loadtest::child::free_addr;
use loadtest::peers::minio::{ACCESS_KEY, SECRET_KEY};
use loadtest::wordpress::gateway::{Gateway, Listens};
use loadtest::wordpress::recipe::{self, Home, TOKEN};
use loadtest::wordpress::{Curl, Places, Site, Web, must};

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
    store: &Store,
    public: SocketAddr,
    more: &[(&str, String)],
) -> Result<String> {
    let mut names = vec![
        ("0.0.0.0:8080", public.to_string()),
        ("0.0.0.0:8081", home.admin.to_string()),
        ("/var/cache/tidegate", home.path("cache")),
        ("/var/lib/tidegate", home.path("state")),
        (
            "http://minio:9000",
            format!("http://{}", store.cloud.addr()),
        ),
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
}

impl Composed {
    fn start(store: &Store) -> Result<Self> {
        let dir = store.dir.path();
        let home = Home::make(dir.join("gateway"))?;
        let (public, above) = (free_addr(), dir.join("above"));
        let mount = above.join("uploads");
        fs::create_dir_all(&mount)?;
        let more = [
            ("/run/gateway/token", home.path("token")),
            ("/run/bucket/secret", home.path("s3-secret")),
            ("/mnt/wordpress", above.display().to_string()),
        ];
        let toml = configuration("wordpress/tidegate.toml", &home, store, public, &more)?;
        let (listens, at) = (Listens::Tcp(public), Some(mount.clone()));
        Ok(Self {
            gateway: Gateway::start_on(Path::new(PROGRAM), &home, &toml, at, listens)?,
            home,
            public,
            mount,
        })
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
    let places = Places::lay_out(&store.dir.path().join("site"))?;
    fs::remove_dir(places.uploads())?;
    symlink(&composed.mount, places.uploads())?;
    let php = places.php_socket();
    let names = [
        (
            "server gateway:8080 resolve;",
            format!("server {};", composed.public),
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
    let site = Site::start(places, &http)?;
    let photo = store.dir.path().join("photo.jpg");
    loadtest::wordpress::photos::photo(&photo, loadtest::wordpress::photos::SMALL, 1)?;
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
    let toml = configuration("tidegate.toml", &home, &store, public, &bucket)?;
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
    let listens = Listens::Tcp(public);
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
