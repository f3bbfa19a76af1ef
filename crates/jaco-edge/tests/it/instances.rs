//! Instances of services: servers of this process, each at a loopback address of its own.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::lab::PORT;

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A server at an address of its own. It ends when it is dropped, with all its connections.
pub(crate) struct Server {
    pub(crate) address: Ipv4Addr,
    /// Connections that it accepted.
    pub(crate) connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// An address that nobody else of this machine's tests has, with its socket.
pub(crate) fn socket() -> (Ipv4Addr, std::net::TcpListener) {
    loop {
        let address = address();
        if let Ok(socket) = std::net::TcpListener::bind((address, PORT)) {
            socket.set_nonblocking(true).unwrap();
            return (address, socket);
        }
    }
}

/// An address that this process has not used before.
pub(crate) fn address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, high, low, _] = std::process::id().to_be_bytes().map(|byte| byte % 200);
    let process = u32::from(high) * 200 + u32::from(low);
    Ipv4Addr::from_bits(0x7f40_0000 + (process % 0x2000) * 0x100 % 0x3f_0000 + number)
}

/// An instance that does not answer, as its queue of connections is full.
pub(crate) struct Silent {
    pub(crate) address: Ipv4Addr,
    socket: std::net::TcpListener,
    /// Those in the queue.
    waiting: Vec<TcpStream>,
}

pub(crate) async fn silent() -> Silent {
    let (address, socket) = socket();
    // Again, with the shortest queue.
    socket2::SockRef::from(&socket).listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let attempt = TcpStream::connect((address, PORT));
        match tokio::time::timeout(Duration::from_millis(300), attempt).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    assert!(!waiting.is_empty(), "they fill the queue");
    Silent { address, socket, waiting }
}

impl Silent {
    /// It accepts from now on, and answers whatever it is sent.
    pub(crate) fn answering(self, answer: &'static str) -> Server {
        drop(self.waiting);
        serving(self.address, self.socket, move |mut stream, _| async move {
            // Those that waited in the queue are gone.
            if crate::wire::read_head(&mut stream).await.is_some() {
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _ended = stream.read_to_end(&mut Vec::new()).await.is_ok();
            }
        })
    }
}

/// A server that hands its connections, with their number, to `serve`.
pub(crate) fn raw<F, Fut>(serve: F) -> Server
where
    F: Fn(TcpStream, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (address, socket) = socket();
    serving(address, socket, serve)
}

fn serving<F, Fut>(address: Ipv4Addr, socket: std::net::TcpListener, serve: F) -> Server
where
    F: Fn(TcpStream, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let listener = TcpListener::from_std(socket).unwrap();
    let task = tokio::spawn(async move {
        let mut open = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let number = counted.fetch_add(1, Ordering::SeqCst);
            open.spawn(serve(stream, number));
        }
    });
    Server { address, connections, task }
}

/// A server of HTTP/1.1.
pub(crate) fn http1<F, Fut>(answer: F) -> Server
where
    F: Fn(Request<Incoming>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let answer = Arc::new(answer);
    raw(move |stream, _| {
        let answer = Arc::clone(&answer);
        async move {
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            // Clients break off in some tests.
            let _ended = serving.await;
        }
    })
}

/// A server of HTTP/2 in clear.
pub(crate) fn http2<F, Fut>(answer: F) -> Server
where
    F: Fn(Request<Incoming>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let answer = Arc::new(answer);
    raw(move |stream, _| {
        let answer = Arc::clone(&answer);
        async move {
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            let _ended = serving.await;
        }
    })
}

/// A server that answers with a text.
pub(crate) fn saying(text: &'static str) -> Server {
    http1(move |request| async move {
        let _body = request.into_body().collect().await;
        full(text)
    })
}

/// A server that answers with what it was asked: the request line, the fields, an empty line and the body.
pub(crate) fn echo() -> Server {
    http1(|request| async move { full(described(request).await) })
}

/// What a request is, as text.
pub(crate) async fn described(request: Request<Incoming>) -> String {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
    }
    text.push('\n');
    match body.collect().await {
        Ok(body) => text.push_str(&String::from_utf8_lossy(&body.to_bytes())),
        Err(_) => text.push_str("(broken)"),
    }
    text
}

/// A response with this body.
pub(crate) fn full(body: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(body.into()).boxed())
}
