//! The shipped files of `config/`, with only names, ports and passwords replaced.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::Places;
use crate::peers::Origin;
use crate::peers::minio::{ACCESS_KEY, SECRET_KEY};

/// Reads a shipped file.
///
/// # Errors
/// If no file has that name.
pub fn read(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../config")
        .join(name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Replaces every occurrence of each name.
///
/// # Errors
/// If a name does not occur: the recipe has changed, and the test would not run it as written.
pub fn replaced(text: &str, names: &[(&str, String)]) -> Result<String> {
    let mut text = text.to_owned();
    for (name, by) in names {
        ensure!(text.contains(name), "the recipe does not say `{name}`");
        text = text.replace(name, by);
    }
    Ok(text)
}

/// The folder and addresses of a recipe's gateway.
#[derive(Debug, Clone)]
pub struct Home {
    /// The gateway's own folder.
    pub dir: PathBuf,
    /// The admin listener, in place of the recipe's 127.0.0.1:8081.
    pub admin: std::net::SocketAddr,
}

impl Home {
    /// Makes the folder and the files with secrets.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn make(dir: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join("token"), TOKEN)?;
        std::fs::write(dir.join("s3-secret"), SECRET_KEY)?;
        Ok(Self {
            dir,
            admin: crate::child::free_addr(),
        })
    }

    /// Returns the public socket of a recipe for nginx on the same machine.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("http.sock")
    }

    /// Returns the path of `name` below the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

/// The token of the admin listener.
pub const TOKEN: &str = "the-token-of-a-test-site";

/// Returns the store's names in each recipe, with those of `origin`.
#[must_use]
pub fn store(origin: &Origin) -> [(&'static str, String); 2] {
    [
        ("http://127.0.0.1:9000", format!("http://{}", origin.addr)),
        (
            "access_key_id = \"tidegate\"",
            format!("access_key_id = \"{ACCESS_KEY}\""),
        ),
    ]
}

/// Returns a configuration with `commit = "close"` in place of `background`.
///
/// # Errors
/// As [`replaced`].
pub fn closing(toml: &str) -> Result<String> {
    let commit = ("commit = \"background\"", "commit = \"close\"".to_owned());
    replaced(toml, &[commit])
}

/// Returns the configuration of recipe 3 with a `ttl` of an hour in place of 10 s: nothing that is read again has to be
/// confirmed, however long a run takes.
///
/// # Errors
/// As [`replaced`].
pub fn lasting(toml: &str) -> Result<String> {
    replaced(toml, &[("ttl = \"10s\"", "ttl = \"1h\"".to_owned())])
}

/// Returns a gateway's configuration from `config/NAME`, for `origin`, with `root` in place of WordPress' document
/// root.
///
/// # Errors
/// As [`replaced`].
pub fn gateway(name: &str, home: &Home, root: &Path, origin: &Origin) -> Result<String> {
    let text = read(name)?;
    let unit = match text.contains("[[mount]]") {
        true => "tidegate-mount",
        false => "tidegate",
    };
    let own = [
        (format!("/run/{unit}/http.sock"), home.path("http.sock")),
        (format!("/var/cache/{unit}"), home.path("cache")),
        (format!("/var/lib/{unit}"), home.path("state")),
    ];
    let mut names = vec![
        ("$CREDENTIALS_DIRECTORY/token", home.path("token")),
        ("$CREDENTIALS_DIRECTORY/s3-secret", home.path("s3-secret")),
        ("127.0.0.1:8081", home.admin.to_string()),
        (
            "bucket = \"wordpress\"",
            format!("bucket = \"{}\"", origin.bucket),
        ),
    ];
    names.extend(store(origin));
    names.extend(own.iter().map(|(name, by)| (name.as_str(), by.clone())));
    if text.contains("[[mount]]") {
        names.push(("/var/www/wordpress", root.display().to_string()));
    }
    replaced(&text, &names)
}

/// Returns nginx's `http` block from `config/nginx/NAME`.
///
/// # Errors
/// As [`replaced`].
pub fn nginx(name: &str, home: &Home, places: &Places) -> Result<String> {
    let text = read(&format!("nginx/{name}"))?;
    let socket = match text.contains("/run/tidegate-mount/") {
        true => "/run/tidegate-mount/http.sock",
        false => "/run/tidegate/http.sock",
    };
    let names = [
        (socket, home.path("http.sock")),
        ("listen 80;", format!("listen {};", places.addr)),
        ("/var/www/wordpress", places.root.display().to_string()),
        (
            "/run/php/php-fpm.sock",
            places.php_socket().display().to_string(),
        ),
        (
            "include fastcgi_params;",
            "include /etc/nginx/fastcgi_params;".to_owned(),
        ),
    ];
    replaced(&text, &names)
}
