//! A user of WordPress that logs in, uploads, edits and deletes, with the same requests as the
//! admin pages.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::curl::{Answer, Curl};
use super::{Site, USER};

/// A logged-in user.
#[derive(Debug, Clone)]
pub struct Browser {
    curl: Curl,
    /// The nonce of `async-upload.php`.
    upload_nonce: String,
    /// The nonce of the REST API.
    rest_nonce: String,
}

/// An uploaded file, as reported by WordPress.
#[derive(Debug, Clone)]
pub struct Media {
    /// Its id.
    pub id: u64,
    /// Its address.
    pub url: String,
    /// The paths of all its sizes, sorted.
    pub paths: Vec<String>,
    /// The duration of the upload's request.
    pub took: Duration,
    edit_nonce: String,
}

/// A step of the image editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// A rotation by degrees to the left.
    Rotate(i32),
    /// A crop to x, y, width, height.
    Crop(u32, u32, u32, u32),
}

impl Browser {
    pub(super) fn log_in(addr: SocketAddr, jar: &Path) -> Result<Self> {
        let curl = Curl::new(addr, Some(jar.to_owned()));
        // The login checks that cookies come back.
        curl.get("/wp-login.php")?;
        let (log, pwd) = USER;
        let fields = [
            ("log", log),
            ("pwd", pwd),
            ("testcookie", "1"),
            ("wp-submit", "Log In"),
        ];
        let answer = curl.post("/wp-login.php", &fields)?;
        ensure!(answer.status == 302, "no login: {}", answer.text());
        let page = curl.get("/wp-admin/media-new.php")?.text();
        let upload_nonce = between(&page, "\"_wpnonce\":\"", "\"")
            .or_else(|| between(&page, "name=\"_wpnonce\" value=\"", "\""))
            .context("no nonce for uploads")?
            .to_owned();
        let rest_nonce = curl
            .get("/wp-admin/admin-ajax.php?action=rest-nonce")?
            .text();
        ensure!(
            rest_nonce.len() < 40,
            "no nonce for the REST API: {rest_nonce}"
        );
        Ok(Self {
            curl: curl.with_closed_jar(),
            upload_nonce,
            rest_nonce,
        })
    }

    /// Returns the same user on another web server of the site, as a balancer sends it there.
    #[must_use]
    pub fn at(&self, site: &Site) -> Self {
        Self {
            curl: self.curl.at(site.places.addr),
            ..self.clone()
        }
    }

    /// Returns the client with its cookies.
    #[must_use]
    pub const fn curl(&self) -> &Curl {
        &self.curl
    }

    /// Uploads a file as the media page does; returns any answer, even a refusal.
    ///
    /// # Errors
    /// If nothing answers.
    pub fn try_upload(&self, file: &Path) -> Result<Answer> {
        let name = file.file_name().context("a file")?.to_string_lossy();
        let args = [
            format!("name={name}"),
            "action=upload-attachment".to_owned(),
            format!("_wpnonce={}", self.upload_nonce),
            format!("async-upload=@{};filename={name}", file.display()),
        ];
        let args: Vec<&str> = args.iter().flat_map(|arg| ["-F", arg.as_str()]).collect();
        self.curl.run("/wp-admin/async-upload.php", &args)
    }

    /// Uploads a file as the media page does.
    ///
    /// # Errors
    /// If WordPress refuses it.
    pub fn upload(&self, file: &Path) -> Result<Media> {
        let answer = self.try_upload(file)?;
        let said: Value = serde_json::from_slice(&answer.body)
            .with_context(|| format!("{}: {}", answer.status, answer.text()))?;
        ensure!(said["success"] == json!(true), "refused: {said}");
        let data = &said["data"];
        let id = data["id"].as_u64().context("a number")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Media {
            id,
            url: text(&data["url"]).context("an address")?,
            paths: self.paths(id)?,
            took: answer.took,
            edit_nonce: text(&data["nonces"]["edit"]).unwrap_or_default(),
        })
    }

    /// Uploads a file over the REST API.
    ///
    /// # Errors
    /// If WordPress refuses it.
    pub fn upload_rest(&self, file: &Path, kind: &str) -> Result<Media> {
        let name = file.file_name().context("a file")?.to_string_lossy();
        let args = [
            "-H".to_owned(),
            format!("X-WP-Nonce: {}", self.rest_nonce),
            "-H".to_owned(),
            format!("Content-Disposition: attachment; filename={name}"),
            "-H".to_owned(),
            format!("Content-Type: {kind}"),
            "--data-binary".to_owned(),
            format!("@{}", file.display()),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = self.curl.run("/index.php?rest_route=/wp/v2/media", &args)?;
        ensure!(answer.status == 201, "{}: {}", answer.status, answer.text());
        let said: Value = serde_json::from_slice(&answer.body)?;
        let id = said["id"].as_u64().context("a number")?;
        Ok(Media {
            id,
            url: said["source_url"]
                .as_str()
                .context("an address")?
                .to_owned(),
            paths: self.paths(id)?,
            took: answer.took,
            edit_nonce: String::new(),
        })
    }

    /// Returns the paths of a picture that WordPress has read back after it wrote them: it knows the width of the picture, and
    /// the length of each size. PHP ignores a failed close, so it may record a file that the mount did not take. `None`: it
    /// could not read the picture itself.
    ///
    /// # Errors
    /// If WordPress knows no such file.
    pub fn read_back(&self, media: &Media) -> Result<Option<Vec<String>>> {
        let route = format!("/wp/v2/media/{}&context=edit", media.id);
        let details = &self.rest("GET", &route, None)?["media_details"];
        if details["width"].as_u64().unwrap_or_default() == 0 {
            return Ok(None);
        }
        let sizes = details["sizes"].as_object().into_iter().flatten();
        let unread: Vec<_> = sizes
            .filter(|(_, size)| size["filesize"].as_u64() == Some(0))
            .filter_map(|(_, size)| size["file"].as_str())
            .collect();
        let name_of = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_read = |path: &&String| !unread.contains(&&*name_of(path));
        Ok(Some(media.paths.iter().filter(is_read).cloned().collect()))
    }

    /// Returns the current paths of all sizes of a file.
    ///
    /// # Errors
    /// If WordPress knows no such file.
    pub fn paths(&self, id: u64) -> Result<Vec<String>> {
        let said = self.rest("GET", &format!("/wp/v2/media/{id}&context=edit"), None)?;
        let path = |value: &Value| {
            let url = value.as_str()?;
            Some(url[url.find("/wp-content/")?..].to_owned())
        };
        let mut paths: Vec<_> = path(&said["source_url"]).into_iter().collect();
        if let Some(sizes) = said["media_details"]["sizes"].as_object() {
            paths.extend(sizes.values().filter_map(|size| path(&size["source_url"])));
        }
        // The original of a picture that WordPress has scaled down.
        if let Some(original) = said["media_details"]["original_image"].as_str() {
            let folder = paths[0].rsplit_once('/').context("a path")?.0.to_owned();
            paths.push(format!("{folder}/{original}"));
        }
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Sends a request of the REST API.
    ///
    /// # Errors
    /// If the answer is an error.
    pub fn rest(&self, method: &str, route: &str, body: Option<Value>) -> Result<Value> {
        let nonce = format!("X-WP-Nonce: {}", self.rest_nonce);
        let mut args = vec!["-X", method, "-H", &nonce];
        let body = body.map(|body| body.to_string());
        if let Some(body) = &body {
            args.extend([
                "-H",
                "Content-Type: application/json",
                "--data-binary",
                body,
            ]);
        }
        let answer = self
            .curl
            .run(&format!("/index.php?rest_route={route}"), &args)?;
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {route}: {}: {}",
            answer.status,
            answer.text()
        );
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Edits a picture in the image editor and saves it in all its sizes; returns the new paths.
    ///
    /// # Errors
    /// If WordPress refuses.
    pub fn edit(&self, media: &Media, edits: &[Edit]) -> Result<Vec<String>> {
        let steps: Vec<Value> = edits
            .iter()
            .map(|edit| match *edit {
                Edit::Rotate(by) => json!({ "r": by }),
                Edit::Crop(x, y, w, h) => json!({ "c": { "x": x, "y": y, "w": w, "h": h } }),
            })
            .collect();
        let (id, history) = (media.id.to_string(), Value::from(steps).to_string());
        let fields = [
            ("action", "image-editor"),
            ("_ajax_nonce", media.edit_nonce.as_str()),
            ("postid", id.as_str()),
            ("history", history.as_str()),
            ("target", "all"),
            ("do", "save"),
        ];
        let answer = self.curl.post("/wp-admin/admin-ajax.php", &fields)?;
        let text = answer.text();
        ensure!(
            answer.status == 200 && text.contains("saved"),
            "not saved: {text}"
        );
        self.paths(media.id)
    }

    /// Deletes a file for good.
    ///
    /// # Errors
    /// If WordPress refuses.
    pub fn delete(&self, id: u64) -> Result<()> {
        let route = format!("/wp/v2/media/{id}&force=true");
        self.rest("DELETE", &route, None).map(|_| ())
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let begin = text.find(before)? + before.len();
    let len = text[begin..].find(after)?;
    Some(&text[begin..begin + len])
}
