//! An S3 store over real sockets, for tests of S3 clients.
//!
//! [`FakeOrigin`] has the objects, their versions and most faults; this module only speaks HTTP for
//! it. It is written by hand so that it can break HTTP as well: any answer can be replaced by raw
//! bytes, after which the connection closes. Signatures are not checked.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::StreamExt;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tidegate_origin::settings::Credentials;
use tidegate_origin::{
    Answer, Condition, Content, FakeOrigin, Get, List, Listing, Origin, OriginError, PageStart,
    Priority, Settings,
};
use tidegate_plan::{ETag, ObjectKey, RangeSpec, Timestamp, Version};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The only bucket of the store.
pub(crate) const BUCKET: &str = "media";

/// A running store; it ends when dropped.
pub(crate) struct FakeS3 {
    /// Its objects and faults.
    pub(crate) bucket: FakeOrigin,
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
    server: JoinHandle<()>,
}

struct Shared {
    bucket: FakeOrigin,
    raw: Mutex<VecDeque<Bytes>>,
    requests: Mutex<Vec<Request>>,
}

/// A request as it was received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
}

impl FakeS3 {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let bucket = FakeOrigin::new();
        let shared = Arc::new(Shared {
            bucket: bucket.clone(),
            raw: Mutex::default(),
            requests: Mutex::default(),
        });
        let server = tokio::spawn(accept(listener, shared.clone()));
        Self {
            bucket,
            shared,
            address,
            server,
        }
    }

    /// Returns settings that lead to this store.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new("fake", BUCKET);
        settings.endpoint = Some(format!("http://{}", self.address));
        settings.path_style = true;
        settings.credentials = Credentials::Static {
            access_key_id: "id".to_owned(),
            secret_access_key: "secret".to_owned(),
            session_token: None,
        };
        settings
    }

    /// Answers the next request with exactly these bytes, then closes the connection. Several calls
    /// apply to several requests.
    pub(crate) fn answer_next(&self, raw: impl Into<Bytes>) {
        self.shared.raw.lock().expect("raw").push_back(raw.into());
    }

    /// Returns every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("requests").clone()
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // The task drops this at its end, and the connections with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).expect("a socket option");
        connections.spawn(serve(BufStream::new(stream), shared.clone()));
    }
}

/// Serves one connection. An error, ours or a fault's, ends it with a reset.
async fn serve(mut stream: BufStream<TcpStream>, shared: Arc<Shared>) {
    loop {
        match exchange(&mut stream, &shared).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                let _ = stream.get_ref().set_zero_linger();
                return;
            }
        }
    }
}

/// Serves one request; returns whether the connection goes on.
async fn exchange(stream: &mut BufStream<TcpStream>, shared: &Shared) -> io::Result<bool> {
    let Some(request) = read(stream).await? else {
        return Ok(false);
    };
    shared
        .requests
        .lock()
        .expect("requests")
        .push(request.clone());
    let raw = shared.raw.lock().expect("raw").pop_front();
    if let Some(raw) = raw {
        stream.write_all(&raw).await?;
        stream.flush().await?;
        return Ok(false);
    }
    let path = request.target.split('?').next().unwrap_or_default();
    let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let head_only = request.method == "HEAD";
    if bucket != BUCKET {
        return refuse(stream, &OriginError::NoSuchBucket, head_only).await;
    }
    let result = match (request.method.as_str(), key) {
        ("HEAD", "") => {
            return match shared.bucket.probe().await {
                Ok(()) => plain(stream, "200 OK", "content-length: 0\r\n").await,
                Err(error) => refuse(stream, &error, true).await,
            };
        }
        ("HEAD", _) => match shared.bucket.head(&decoded(key)).await {
            Ok(version) => {
                let head = format!("{}content-length: {}\r\n", headers(&version), version.size);
                return plain(stream, "200 OK", &head).await;
            }
            Err(error) => Err(error),
        },
        ("GET", "") => {
            return match shared.bucket.list(listing_question(&request)).await {
                Ok(page) => send_page(stream, &page).await,
                Err(error) => refuse(stream, &error, false).await,
            };
        }
        ("GET", _) => shared.bucket.get(question(&request, key)).await,
        _ => Err(OriginError::BadAnswer("method")),
    };
    match result {
        Ok(Answer::Content(content)) => send(stream, &request, content).await,
        Ok(Answer::NotModified { last_modified }) => {
            let head = last_modified.map(modified).unwrap_or_default();
            plain(stream, "304 Not Modified", &head).await
        }
        Err(error) => refuse(stream, &error, head_only).await,
    }
}

async fn read(stream: &mut BufStream<TcpStream>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next(), words.next());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(Some(Request {
        method: method.unwrap_or_default(),
        target: target.unwrap_or_default(),
        headers,
    }))
}

fn decoded(key: &str) -> ObjectKey {
    let key = percent_decode_str(key).decode_utf8().expect("UTF-8");
    ObjectKey::new(&key).expect("a valid key")
}

/// Parses a GET.
fn question(request: &Request, key: &str) -> Get {
    let tag = |name: &str| request.headers.get(name).and_then(|text| ETag::parse(text));
    let version_id = request
        .target
        .split(['?', '&'])
        .find_map(|pair| pair.strip_prefix("versionId="));
    let condition = match (tag("if-match"), tag("if-none-match")) {
        (Some(etag), _) => Condition::Match {
            etag,
            version_id: version_id.map(str::to_owned),
        },
        (_, Some(etag)) => Condition::NoneMatch(etag),
        _ => Condition::None,
    };
    Get {
        key: decoded(key),
        range: request.headers.get("range").and_then(|text| range(text)),
        condition,
        priority: Priority::Demand,
    }
}

/// Parses a request for a listing.
fn listing_question(request: &Request) -> List {
    let value = |name: &str| {
        let mut pairs = request.target.split(['?', '&']).skip(1);
        let text = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
        let text = percent_decode_str(text).decode_utf8().expect("UTF-8");
        Some(text.into_owned())
    };
    let token = value("continuation-token").map(PageStart::Token);
    List {
        prefix: value("prefix").unwrap_or_default(),
        delimiter: value("delimiter").is_some(),
        after: token.or(value("start-after").map(PageStart::Key)),
        limit: value("max-keys").map_or(1000, |keys| keys.parse().expect("a number")),
    }
}

/// Sends a page in S3's format, its keys encoded (S3 API reference, `ListObjectsV2`).
async fn send_page(stream: &mut BufStream<TcpStream>, page: &Listing) -> io::Result<bool> {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut xml = "<ListBucketResult><EncodingType>url</EncodingType>".to_owned();
    for object in &page.objects {
        let (key, size) = (encode(&object.key), object.size);
        let etag = object.etag.as_ref().expect("an ETag").as_str();
        let etag = etag.replace('"', "&quot;");
        let seconds = object.last_modified.expect("a time").secs();
        let time = aws_smithy_types::DateTime::from_secs(i64::try_from(seconds).expect("soon"));
        let time = time.fmt(aws_smithy_types::date_time::Format::DateTime);
        let time = time.expect("a date");
        xml += &format!(
            "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>{etag}</ETag>\
             <LastModified>{time}</LastModified></Contents>"
        );
    }
    for folder in &page.folders {
        let folder = encode(folder);
        xml += &format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>");
    }
    if let Some(PageStart::Token(token)) = &page.next {
        xml += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    let truncated = page.next.is_some();
    xml += &format!("<IsTruncated>{truncated}</IsTruncated></ListBucketResult>");
    let head = format!(
        "content-type: application/xml\r\ncontent-length: {}\r\n",
        xml.len()
    );
    plain(stream, "200 OK", &head).await?;
    stream.write_all(xml.as_bytes()).await?;
    stream.flush().await?;
    Ok(true)
}

fn range(text: &str) -> Option<RangeSpec> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    Some(match (first, last) {
        ("", length) => RangeSpec::Suffix(length.parse().ok()?),
        (first, "") => RangeSpec::From(first.parse().ok()?),
        (first, last) => RangeSpec::Bounded {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
        },
    })
}

/// Returns the headers of a version.
fn headers(version: &Version) -> String {
    let mut text = format!("etag: {}\r\n", version.etag.as_str());
    text += &version.last_modified.map(modified).unwrap_or_default();
    if let Some(id) = &version.version_id {
        text += &format!("x-amz-version-id: {id}\r\n");
    }
    for (name, value) in &version.headers {
        text += &format!("{name}: {}\r\n", value.to_str().expect("text"));
    }
    text
}

fn modified(time: Timestamp) -> String {
    let date = httpdate::fmt_http_date(SystemTime::from(time));
    format!("last-modified: {date}\r\n")
}

async fn send(
    stream: &mut BufStream<TcpStream>,
    request: &Request,
    content: Content,
) -> io::Result<bool> {
    let Content {
        version,
        range: sent,
        mut body,
    } = content;
    let asked = request.headers.get("range").and_then(|text| range(text));
    let ignored = asked
        .is_some_and(|spec| sent.len() == version.size && spec.resolve(version.size) != Some(sent));
    let mut head = headers(&version);
    head += &format!("content-length: {}\r\n", sent.len());
    let status = if asked.is_some() && !ignored {
        let last = i128::from(sent.end) - 1;
        head += &format!(
            "content-range: bytes {}-{last}/{}\r\n",
            sent.start, version.size
        );
        "206 Partial Content"
    } else {
        "200 OK"
    };
    plain(stream, status, &head).await?;
    let mut left = sent.len();
    while let Some(frame) = body.next().await {
        let frame = frame.map_err(io::Error::other)?;
        left = left.saturating_sub(frame.len() as u64);
        stream.write_all(&frame).await?;
        stream.flush().await?;
    }
    // If bytes are missing, the connection cannot be used any more.
    Ok(left == 0)
}

async fn plain(stream: &mut BufStream<TcpStream>, status: &str, head: &str) -> io::Result<bool> {
    let head = format!("HTTP/1.1 {status}\r\n{head}\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    Ok(true)
}

/// Sends an error in S3's format (S3 API reference, "Error responses").
async fn refuse(
    stream: &mut BufStream<TcpStream>,
    error: &OriginError,
    head_only: bool,
) -> io::Result<bool> {
    let mut head = String::new();
    let (status, code) = match error {
        OriginError::NotFound => ("404 Not Found", "NoSuchKey"),
        OriginError::NoSuchBucket => ("404 Not Found", "NoSuchBucket"),
        OriginError::Forbidden => ("403 Forbidden", "AccessDenied"),
        OriginError::Changed => ("412 Precondition Failed", "PreconditionFailed"),
        OriginError::Unsatisfiable { size } => {
            if let Some(size) = size {
                head = format!("content-range: bytes */{size}\r\n");
            }
            ("416 Range Not Satisfiable", "InvalidRange")
        }
        OriginError::Throttled { retry_after } => {
            if let Some(pause) = retry_after {
                head = format!("retry-after: {}\r\n", pause.as_secs());
            }
            ("503 Slow Down", "SlowDown")
        }
        _ => ("500 Internal Server Error", "InternalError"),
    };
    let xml = format!("<Error><Code>{code}</Code><Resource>/secret/path</Resource></Error>");
    head += &format!(
        "content-type: application/xml\r\ncontent-length: {}\r\n",
        xml.len()
    );
    plain(stream, status, &head).await?;
    if !head_only {
        stream.write_all(xml.as_bytes()).await?;
        stream.flush().await?;
    }
    Ok(true)
}
