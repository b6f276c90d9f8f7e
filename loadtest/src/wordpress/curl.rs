//! `curl` with a cookie jar.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::must;

/// Time limit for a request in seconds, long enough for a large upload.
const TIMEOUT: &str = "300";

/// A client of one site.
#[derive(Debug, Clone)]
pub struct Curl {
    addr: SocketAddr,
    jar: Option<PathBuf>,
    /// Whether answers change the jar.
    is_open: bool,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its status line and header fields, as sent.
    pub head: String,
    /// Its body.
    pub body: Vec<u8>,
    /// The time from the start of the transfer to its end.
    pub took: Duration,
}

impl Answer {
    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns a header field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Curl {
    /// Returns a client that keeps its cookies in the file `jar`.
    #[must_use]
    pub const fn new(addr: SocketAddr, jar: Option<PathBuf>) -> Self {
        Self {
            addr,
            jar,
            is_open: true,
        }
    }

    /// Returns the same client, which does not write the jar: concurrent requests could read a half-written one.
    #[must_use]
    pub(super) fn with_closed_jar(self) -> Self {
        Self {
            is_open: false,
            ..self
        }
    }

    /// Returns the same client of another server of the site. Cookies do not depend on the port (RFC 6265, 8.5).
    pub(super) fn at(&self, addr: SocketAddr) -> Self {
        Self {
            addr,
            ..self.clone()
        }
    }

    /// Sends a GET.
    ///
    /// # Errors
    /// If nothing answers.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.run(path, &[])
    }

    /// Sends a POST of a form.
    ///
    /// # Errors
    /// If nothing answers.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Result<Answer> {
        let mut args = vec![];
        for (name, value) in fields {
            args.push("--data-urlencode".to_owned());
            args.push(format!("{name}={value}"));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.run(path, &args)
    }

    /// Sends a request with further arguments of curl.
    ///
    /// # Errors
    /// If nothing answers.
    pub fn run(&self, path: &str, args: &[&str]) -> Result<Answer> {
        let mut command = Command::new("curl");
        command.args(["-sS", "-i", "--max-time", TIMEOUT, "-H", "Expect:"]);
        command.args(["-w", "\n%{http_code} %{time_total}"]);
        if let Some(jar) = &self.jar {
            command.arg("-b").arg(jar);
            if self.is_open {
                command.arg("-c").arg(jar);
            }
        }
        command
            .args(args)
            .arg(format!("http://{}{path}", self.addr));
        let output = must(&mut command).with_context(|| path.to_owned())?;
        parse(output.stdout).with_context(|| format!("curl's output for {path}"))
    }
}

/// Splits the output into head, body, and the line that curl itself adds.
fn parse(mut output: Vec<u8>) -> Result<Answer> {
    let last = output.iter().rposition(|&byte| byte == b'\n');
    let line = output.split_off(last.context("no line at the end")?);
    let line = String::from_utf8(line)?;
    let (status, took) = line.trim().split_once(' ').context("two figures")?;
    let begins = output.windows(4).position(|four| four == b"\r\n\r\n");
    let body = output.split_off(begins.context("no head")? + 4);
    let status: u16 = status.parse()?;
    ensure!(status >= 200, "status {status}");
    Ok(Answer {
        status,
        head: String::from_utf8_lossy(&output).into_owned(),
        body,
        took: Duration::from_secs_f64(took.parse()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let text = b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\n\r\nbo\ndy\n200 0.25".to_vec();
        let answer = parse(text).expect("an answer");
        assert_eq!((answer.status, &*answer.body), (200, &b"bo\ndy"[..]));
        assert_eq!(answer.header("etag"), Some("\"a\""));
        assert_eq!(answer.took, Duration::from_millis(250));
    }
}
