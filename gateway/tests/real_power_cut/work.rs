//! Workers that write, read, purge and delete until the power is cut.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::draw::Draw;
use crate::house::{Scene, WRITE_TOKEN};
use crate::model::{Known, content, edition_of};
use crate::mount::{TOKEN, blocking};

/// Number of keys of a worker; it is small, so that most writes overwrite an object.
const KEYS: u64 = 8;

/// Bytes that a program writes at a time.
const PIECE: usize = 128 << 10;

/// Timeout of a request; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Heard {
    /// This status, with this body.
    Said(u16, Bytes),
    /// No answer, or not all of it.
    Nothing,
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(status, body) => {
                let end = body.len().min(200);
                write!(f, "{status} {}", String::from_utf8_lossy(&body[..end]))
            }
            Self::Nothing => write!(f, "no answer"),
        }
    }
}

/// Sends one request, which may find no server.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, body: Vec<u8>) -> Heard {
    let token = if method == "POST" { TOKEN } else { WRITE_TOKEN };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address.to_string())
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let asked = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.ok()?;
        tokio::spawn(connection);
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some(Heard::Said(head.status.as_u16(), body))
    };
    let answered = timeout(LONG, asked).await;
    let Ok(answered) = answered else {
        panic!("{method} {path} has no answer after {LONG:?}");
    };
    answered.unwrap_or(Heard::Nothing)
}

/// A writer of some keys, and its knowledge of them.
pub(crate) struct Worker {
    draw: Draw,
    next: u64,
    pub(crate) keys: BTreeMap<String, Known>,
    /// The old name, the new name and the edition of the move under way.
    pub(crate) moving: Option<(String, String, u64)>,
    /// Changes that were acknowledged.
    pub(crate) acknowledged: u64,
}

/// Whether the gateway was alive.
type Alive = bool;

impl Worker {
    pub(crate) fn new(who: u64, seed: u64) -> Self {
        let key = |number| (format!("k/{who}-{number}"), Known::default());
        Self {
            draw: Draw::new(seed * 1000 + who),
            next: who * 10_000_000 + 1,
            keys: (0..KEYS).map(key).collect(),
            moving: None,
            acknowledged: 0,
        }
    }

    /// Works until the gateway is gone.
    pub(crate) async fn work(mut self, scene: Arc<Scene>) -> Self {
        loop {
            let key = self.any_key();
            let alive = match self.draw.below(20) {
                0..5 => self.put(&scene, &key).await,
                5..11 => self.write(&scene, &key).await,
                11 => self.delete(&scene, &key).await,
                12 => self.unlink(&scene, &key).await,
                13 => self.rename(&scene, &key).await,
                14 => self.change_behind(&scene, &key).await,
                15 => self.purge(&scene, &key).await,
                16 => self.read_mount(&scene, &key).await,
                _ => self.read(&scene, &key).await,
            };
            scene.call();
            if !alive {
                return self;
            }
        }
    }

    fn any_key(&mut self) -> String {
        let at = self.draw.below(KEYS) as usize;
        self.keys.keys().nth(at).expect("there").clone()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn known(&mut self, key: &str) -> &mut Known {
        self.keys.get_mut(key).expect("one of its own")
    }

    /// Records the start of a change of a key. It ends the record of an earlier move to or from it, whose edition may
    /// be gone then.
    fn begin(&mut self, key: &str, edition: Option<u64>) {
        let meets = |(from, to, _): &(String, String, u64)| from == key || to == key;
        self.moving.take_if(|moving| meets(moving));
        self.known(key).begin(edition);
    }

    fn promise(&mut self, key: &str, edition: Option<u64>) {
        self.known(key).promise(edition);
        self.acknowledged += 1;
    }

    async fn put(&mut self, scene: &Scene, key: &str) -> Alive {
        let number = self.number();
        self.begin(key, Some(number));
        let heard = ask(scene.http, "PUT", &format!("/{key}"), content(number)).await;
        self.known(key).note(format!("PUT {number}: {heard}"));
        match heard {
            Heard::Said(201 | 204, _) => self.promise(key, Some(number)),
            Heard::Said(..) => {}
            Heard::Nothing => return false,
        }
        true
    }

    async fn delete(&mut self, scene: &Scene, key: &str) -> Alive {
        self.begin(key, None);
        let heard = ask(scene.http, "DELETE", &format!("/{key}"), Vec::new()).await;
        self.known(key).note(format!("DELETE: {heard}"));
        match heard {
            Heard::Said(204, _) => self.promise(key, None),
            Heard::Said(..) => {}
            Heard::Nothing => return false,
        }
        true
    }

    /// Writes a whole file. Its `fsync` is a promise, and so is its `close`.
    async fn write(&mut self, scene: &Scene, key: &str) -> Alive {
        let (number, path) = (self.number(), scene.folder.join(key));
        let syncs = self.draw.below(2) == 0;
        self.begin(key, Some(number));
        let written = blocking(move || -> (bool, std::io::Result<()>) {
            let mut synced = false;
            let write = || {
                let mut file = File::create(path)?;
                for piece in content(number).chunks(PIECE) {
                    file.write_all(piece)?;
                }
                if syncs {
                    file.sync_all()?;
                    synced = true;
                }
                Ok(nix::unistd::close(file)?)
            };
            let done = write();
            (synced, done)
        })
        .await;
        let (synced, done) = written;
        let told = format!("written {number}, fsync returned: {synced}, all: {done:?}");
        self.known(key).note(told);
        if synced || done.is_ok() {
            self.promise(key, Some(number));
        }
        done.is_ok() || !scene.is_gone().await
    }

    async fn unlink(&mut self, scene: &Scene, key: &str) -> Alive {
        self.begin(key, None);
        let path = scene.folder.join(key);
        let removed = blocking(move || std::fs::remove_file(path)).await;
        self.known(key).note(format!("unlinked: {removed:?}"));
        match removed {
            Ok(()) => self.promise(key, None),
            Err(_) => return !scene.is_gone().await,
        }
        true
    }

    /// Moves a file whose content is certain over another.
    async fn rename(&mut self, scene: &Scene, from: &str) -> Alive {
        let to = self.any_key();
        let Some(Some(number)) = self.known(from).certain() else {
            return true;
        };
        if from == to {
            return true;
        }
        self.begin(from, None);
        self.begin(&to, Some(number));
        self.moving = Some((from.to_owned(), to.clone(), number));
        let (old, new) = (scene.folder.join(from), scene.folder.join(&to));
        let moved = blocking(move || std::fs::rename(old, new)).await;
        let told = format!("{number} moved from {from} to {to}: {moved:?}");
        self.known(from).note(told.clone());
        self.known(&to).note(told);
        match moved {
            Ok(()) => {
                self.moving = None;
                self.promise(from, None);
                self.promise(&to, Some(number));
                true
            }
            Err(_) => !scene.is_gone().await,
        }
    }

    /// Changes an object behind the gateway, and purges it; only if no write of ours is pending.
    async fn change_behind(&mut self, scene: &Scene, key: &str) -> Alive {
        if !scene.closes_commit() || self.known(key).certain().is_none() {
            return true;
        }
        let number = self.number();
        self.begin(key, Some(number));
        scene.bucket.put(key, content(number)).await;
        self.known(key).note(format!("behind {number}"));
        self.promise(key, Some(number));
        self.known(key).unpurged = true;
        self.purge(scene, key).await
    }

    async fn purge(&mut self, scene: &Scene, key: &str) -> Alive {
        let path = format!("/purge?path=/{key}");
        match ask(scene.admin, "POST", &path, Vec::new()).await {
            Heard::Said(200, _) => self.known(key).unpurged = false,
            Heard::Said(..) => {}
            Heard::Nothing => return false,
        }
        self.read(scene, key).await
    }

    async fn read(&mut self, scene: &Scene, key: &str) -> Alive {
        let found = match ask(scene.http, "GET", &format!("/{key}"), Vec::new()).await {
            Heard::Said(200, body) => match edition_of(&body) {
                Ok(edition) => Some(edition),
                Err(wrong) => self.wrong(scene, key, &wrong).await,
            },
            Heard::Said(404, _) => None,
            Heard::Said(..) => return true,
            Heard::Nothing => return false,
        };
        let closes_commit = scene.closes_commit();
        let known = self.known(key);
        // A file whose promise is in the spool only is on the mount, and not in the bucket.
        let allowed = match closes_commit && !known.unpurged {
            true => known.allows(found),
            false => found.is_none() || known.ever.contains(&found),
        };
        assert!(allowed, "{key} over HTTP is {found:?}: {known:?}");
        true
    }

    /// Panics because of bytes that no writer ever wrote.
    async fn wrong(&self, scene: &Scene, key: &str, wrong: &str) -> ! {
        let stored = scene.stored(key).await;
        let stored = stored.map(|bytes| edition_of(&bytes));
        let commits = scene.closes_commit();
        panic!(
            "{key} over HTTP: {wrong}; in the bucket: {stored:?}; a close commits: {commits}; {:?}",
            self.keys[key]
        );
    }

    async fn read_mount(&mut self, scene: &Scene, key: &str) -> Alive {
        let path = scene.folder.join(key);
        let read = blocking(move || std::fs::read(path)).await;
        // A read at the moment of the kill may end early, or see the folder below.
        if scene.is_gone().await {
            return false;
        }
        let found = match read {
            Ok(bytes) => Some(edition_of(&bytes).unwrap_or_else(|wrong| {
                panic!("{key} on the mount: {wrong}: {:?}", self.keys[key]);
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => return true,
        };
        let known = self.known(key);
        assert!(
            known.unpurged || known.allows(found),
            "{key} on the mount is {found:?}: {known:?}"
        );
        true
    }
}

impl Scene {
    fn closes_commit(&self) -> bool {
        let order = std::sync::atomic::Ordering::SeqCst;
        self.commits_on_close.load(order)
    }

    /// Returns whether the gateway is gone, which can explain a failed call.
    async fn is_gone(&self) -> bool {
        self.is_dead() || TcpStream::connect(self.http).await.is_err()
    }
}
