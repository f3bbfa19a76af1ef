//! An object store on loopback, as far as backups need one: objects in memory, by requests whose signatures it verifies as the
//! protocol defines them, and not by what the product uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use data_encoding::{BASE64, HEXLOWER};
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

/// What a page of a list has at most.
const PAGE: usize = 3;

/// What the store does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAnswer {
    /// What it asks for.
    Obeys,
    /// Refuses what this method asks for, with this status and this code.
    Refuses(&'static str, u16, &'static str),
    /// Answers nothing to what this method asks for, until the sender hangs up.
    Never(&'static str),
    /// Hangs up in the middle of what is read.
    BreaksOff,
    /// Returns less than was written.
    Truncates,
    /// Answers with a redirect to another store.
    SendsOn,
}

/// The store.
#[derive(Debug)]
pub struct ObjectStore {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    answer: StoreAnswer,
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
    /// `METHOD KEY` of each request that was taken.
    requests: Vec<String>,
}

#[derive(Debug, Clone)]
struct Object {
    content: Vec<u8>,
    sha256: String,
}

#[derive(Debug)]
struct Upload {
    key: String,
    sha256: String,
    parts: BTreeMap<u16, Vec<u8>>,
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl ObjectStore {
    /// The id of the key.
    pub const KEY: &str = "AKIDEXAMPLE";
    /// Its secret.
    pub const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    /// Its region.
    pub const REGION: &str = "us-east-1";
    /// Its bucket.
    pub const BUCKET: &str = "sun-backups";

    /// Starts one, which ends with the process.
    ///
    /// # Panics
    /// When there is no port.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it starts a thread")]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let inner = Inner {
            answer: StoreAnswer::Obeys,
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            requests: Vec::new(),
        };
        let inner = Arc::new(Mutex::new(inner));
        let all = Arc::clone(&inner);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let all = Arc::clone(&all);
                thread::spawn(move || serve(stream.expect("a connection"), &all));
            }
        });
        Self { address, inner }
    }

    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it does this.
    pub fn answers(&self, answer: StoreAnswer) {
        self.locked().answer = answer;
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.locked().objects.keys().cloned().collect()
    }

    /// What is in an object.
    #[must_use]
    pub fn content(&self, key: &str) -> Option<Vec<u8>> {
        self.locked().objects.get(key).map(|object| object.content.clone())
    }

    /// Stores an object that nobody has sent.
    pub fn plant(&self, key: &str, content: &[u8]) {
        let object = Object { content: content.to_vec(), sha256: String::new() };
        self.locked().objects.insert(key.to_owned(), object);
    }

    /// How many uploads in parts were begun and neither completed nor aborted.
    #[must_use]
    pub fn open_uploads(&self) -> usize {
        self.locked().uploads.len()
    }

    /// `METHOD KEY` of each request that was signed as it should be.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.locked().requests.clone()
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, inner: &Mutex<Inner>) {
    let Some(request) = read(&stream) else { return };
    let answer = match refusal(&request) {
        Some(code) => failure(403, code),
        None => {
            let answer = locked(inner).answer;
            let key = path_of(&request);
            locked(inner).requests.push(format!("{} {key}", request.method));
            match answer {
                StoreAnswer::Refuses(method, status, code) if request.method == method => {
                    failure(status, code)
                }
                StoreAnswer::Never(method) if request.method == method => {
                    return drop(stream.read(&mut [0]));
                }
                StoreAnswer::SendsOn => Answer {
                    headers: "location: http://127.0.0.1:1/\r\n".to_owned(),
                    ..failure(307, "TemporaryRedirect")
                },
                StoreAnswer::Obeys
                | StoreAnswer::Refuses(..)
                | StoreAnswer::Never(_)
                | StoreAnswer::BreaksOff
                | StoreAnswer::Truncates => obey(&mut locked(inner), &request),
            }
        }
    };
    let reads = request.method == "GET" && !request.query.contains("list-type");
    let (sent, length) = match locked(inner).answer {
        StoreAnswer::Truncates if reads => (answer.body.len() / 2, answer.body.len() / 2),
        StoreAnswer::BreaksOff if reads => (answer.body.len() / 2, answer.body.len()),
        StoreAnswer::Obeys
        | StoreAnswer::Refuses(..)
        | StoreAnswer::Never(_)
        | StoreAnswer::BreaksOff
        | StoreAnswer::Truncates
        | StoreAnswer::SendsOn => (answer.body.len(), answer.body.len()),
    };
    let Answer { status, headers, body } = answer;
    let head = format!(
        "HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // Who is killed reads no answer.
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(&body[..sent]).ok();
}

/// The bucket and the key that a request is about, which its path has encoded.
fn path_of(request: &Request) -> String {
    let path = request.path.trim_start_matches('/');
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut words = first.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            text => {
                let (name, value) = text.split_once(':')?;
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
    }
    let length = headers.get("content-length").map_or(Some(0), |text| text.parse().ok())?;
    let mut body = vec![0; length];
    // Who is killed sends half of a request.
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, query, headers, body })
}

/// Verifies the signature of a request (AWS4-HMAC-SHA256, in its query), and the checksum of what it brings.
fn refusal(request: &Request) -> Option<&'static str> {
    let pairs: Vec<&str> = request.query.split('&').collect();
    let of = |name: &str| {
        let found = pairs.iter().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_default()
    };
    let credential = of("X-Amz-Credential").replace("%2F", "/");
    let Some((id, scope)) = credential.split_once('/') else { return Some("AccessDenied") };
    let date_time = of("X-Amz-Date");
    let date = date_time.get(..8).unwrap_or_default();
    if of("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" || id != ObjectStore::KEY {
        return Some("InvalidAccessKeyId");
    }
    if scope != format!("{date}/{}/s3/aws4_request", ObjectStore::REGION) {
        return Some("AuthorizationHeaderMalformed");
    }
    let signed_headers = of("X-Amz-SignedHeaders").replace("%3B", ";");
    let mut query: Vec<&str> =
        pairs.iter().copied().filter(|pair| !pair.starts_with("X-Amz-Signature=")).collect();
    query.sort_unstable();
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, query.join("&"));
    for name in signed_headers.split(';') {
        let value = request.headers.get(name).map(String::as_str).unwrap_or_default();
        writeln!(canonical, "{name}:{value}").expect("it is in memory");
    }
    write!(canonical, "\n{signed_headers}\nUNSIGNED-PAYLOAD").expect("it is in memory");
    let hashed = HEXLOWER.encode(&Sha256::digest(&canonical));
    let to_sign = format!("AWS4-HMAC-SHA256\n{date_time}\n{scope}\n{hashed}");
    let mut key = format!("AWS4{}", ObjectStore::SECRET).into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part.as_bytes());
    }
    if HEXLOWER.encode(&hmac(&key, to_sign.as_bytes())) != of("X-Amz-Signature") {
        return Some("SignatureDoesNotMatch");
    }
    let signed: Vec<&str> = signed_headers.split(';').collect();
    let is_signed = |name: &&String| !name.starts_with("x-amz-") || signed.contains(&name.as_str());
    if !request.headers.keys().all(|name| is_signed(&name)) {
        return Some("AccessDenied");
    }
    let checksum = BASE64.encode(&Sha256::digest(&request.body));
    let said = request.headers.get("x-amz-checksum-sha256");
    said.is_some_and(|said| *said != checksum).then_some("BadDigest")
}

/// HMAC-SHA256, as its definition has it.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    match key.len() > block.len() {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let padded = |byte: u8| block.map(|one| one ^ byte);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

fn answer(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer { status, headers: String::new(), body: body.into() }
}

fn failure(status: u16, code: &str) -> Answer {
    answer(status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>"))
}

fn obey(inner: &mut Inner, request: &Request) -> Answer {
    let query: BTreeMap<String, String> =
        form_urlencoded::parse(request.query.as_bytes()).into_owned().collect();
    let path = path_of(request);
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    if bucket != ObjectStore::BUCKET {
        return failure(404, "NoSuchBucket");
    }
    let sha256 = request.headers.get("x-amz-meta-sha256").cloned().unwrap_or_default();
    let upload = query.get("uploadId");
    match (request.method.as_str(), upload) {
        ("GET", None) if key.is_empty() => list(inner, &query),
        ("GET", None) => match inner.objects.get(key) {
            None => failure(404, "NoSuchKey"),
            Some(object) => Answer {
                headers: format!("x-amz-meta-sha256: {}\r\n", object.sha256),
                ..answer(200, object.content.clone())
            },
        },
        ("PUT", None) => {
            let content = request.body.clone();
            inner.objects.insert(key.to_owned(), Object { content, sha256 });
            Answer { headers: "etag: \"1\"\r\n".to_owned(), ..answer(200, "") }
        }
        ("DELETE", None) => {
            inner.objects.remove(key);
            answer(204, "")
        }
        ("POST", None) if query.contains_key("uploads") => {
            let id = format!("upload-{}", inner.requests.len());
            let upload = Upload { key: key.to_owned(), sha256, parts: BTreeMap::new() };
            inner.uploads.insert(id.clone(), upload);
            let begun = "InitiateMultipartUploadResult";
            answer(
                200,
                format!("<{begun} xmlns=\"{NAMESPACE}\"><UploadId>{id}</UploadId></{begun}>"),
            )
        }
        ("PUT", Some(id)) => {
            let number = query.get("partNumber").and_then(|text| text.parse().ok());
            let (Some(upload), Some(number)) = (inner.uploads.get_mut(id), number) else {
                return failure(404, "NoSuchUpload");
            };
            upload.parts.insert(number, request.body.clone());
            Answer { headers: format!("etag: \"part-{number}\"\r\n"), ..answer(200, "") }
        }
        ("POST", Some(id)) => complete(inner, id, &String::from_utf8_lossy(&request.body)),
        ("DELETE", Some(id)) => {
            inner.uploads.remove(id);
            answer(204, "")
        }
        (_, _) => failure(405, "MethodNotAllowed"),
    }
}

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

fn complete(inner: &mut Inner, id: &str, body: &str) -> Answer {
    let Some(upload) = inner.uploads.get(id) else { return failure(404, "NoSuchUpload") };
    let named = upload.parts.keys().all(|number| {
        let tag = format!("part-{number}");
        body.contains(&format!("<PartNumber>{number}</PartNumber>")) && body.contains(&tag)
    });
    let all = upload.parts.keys().copied().eq(1..=u16::try_from(upload.parts.len()).unwrap_or(0));
    if !named || !all {
        return failure(400, "InvalidPart");
    }
    let content = upload.parts.values().flatten().copied().collect();
    let object = Object { content, sha256: upload.sha256.clone() };
    let key = upload.key.clone();
    inner.objects.insert(key, object);
    inner.uploads.remove(id);
    let done = "CompleteMultipartUploadResult";
    answer(200, format!("<{done} xmlns=\"{NAMESPACE}\"><ETag>\"x\"</ETag></{done}>"))
}

fn list(inner: &Inner, query: &BTreeMap<String, String>) -> Answer {
    let of = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let (prefix, after) = (of("prefix"), of("continuation-token"));
    let is_listed = |key: &&String| {
        let rest = key.strip_prefix(prefix);
        key.as_str() > after
            && rest.is_some_and(|rest| of("delimiter").is_empty() || !rest.contains('/'))
    };
    let mut found = inner.objects.iter().filter(|(key, _)| is_listed(key));
    let page: Vec<_> = found.by_ref().take(PAGE).collect();
    let mut body = format!("<ListBucketResult xmlns=\"{NAMESPACE}\">");
    for (key, object) in &page {
        let size = object.content.len();
        write!(body, "<Contents><Key>{key}</Key><Size>{size}</Size></Contents>")
            .expect("it is in memory");
    }
    let more = found.next().is_some();
    write!(body, "<IsTruncated>{more}</IsTruncated>").expect("it is in memory");
    if let Some((last, _)) = page.last().filter(|_| more) {
        write!(body, "<NextContinuationToken>{last}</NextContinuationToken>")
            .expect("it is in memory");
    }
    body += "</ListBucketResult>";
    answer(200, body)
}
