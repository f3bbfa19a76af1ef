//! Chromium without a window, driven over the WebDriver protocol by Debian's `chromedriver`.
//!
//! Each browser has a folder of its own as its home, trusts the authority of one cluster as docs/ui.md says, and resolves the
//! name of that cluster to one of its nodes. Both processes end with the value. Panics where the browser refuses something.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{eventually, ran};

/// The key of an element in answers of the protocol (W3C WebDriver, "Elements").
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Whether the pages' scripts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// They do.
    Run,
    /// The user does not allow any.
    Blocked,
}

/// Where the page of a node is.
#[derive(Debug, Clone)]
pub struct Site {
    /// The name that certificates of the cluster have: `<cluster id>.internal`.
    pub name: String,
    /// The node's address, as ip:port.
    pub address: String,
    /// The file with the certificate of the cluster's authority.
    pub authority: PathBuf,
}

/// A browser with one tab.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
    /// Where pages are: `https://<cluster id>.internal:<port>`.
    origin: String,
    _home: tempfile::TempDir,
}

impl Browser {
    /// A browser that reaches one node of a cluster.
    ///
    /// # Panics
    /// If Chromium, `chromedriver` or `certutil` is missing or fails.
    pub async fn start(site: &Site, scripts: Scripts) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        trust(home.path(), &site.authority);
        let (ip, port) = site.address.rsplit_once(':').expect("ip:port");
        let name = &site.name;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        // The browser starts processes that outlive it: they are kept in a namespace.
        let driver = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child=KILL", "--mount-proc", "chromedriver"])
            .arg(format!("--port={}", at.port()))
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is not there: apt-get install chromium-driver, or `cargo xtask test browser` installs it");
        let origin = format!("https://{name}:{port}");
        let mut browser = Self { driver, at, session: String::new(), origin, _home: home };
        eventually("chromedriver answers", || async {
            let status = browser.ask("GET", "/status", Value::Null).await?;
            if status["ready"] == json!(true) { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
        let javascript = match scripts {
            Scripts::Run => 1,
            Scripts::Blocked => 2,
        };
        let options = json!({
            "args": [
                "--headless=new",
                // Its sandbox refuses root, which starts the daemons beside it. It loads nothing but pages of these.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--force-device-scale-factor=1",
                "--hide-scrollbars",
                // So that what is looked at next has come to rest.
                "--force-prefers-reduced-motion",
                "--window-size=1280,800",
                format!("--host-resolver-rules=MAP {name} {ip}, MAP * ~NOTFOUND"),
            ],
            "prefs": {"profile.managed_default_content_settings.javascript": javascript},
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.ask("POST", "/session", wanted).await.expect("a session");
        browser.session = session["sessionId"].as_str().expect("its id").to_owned();
        browser
    }

    /// Where the pages of the node are, without a slash at the end.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Opens a page of the node, and waits until it is loaded.
    pub async fn open(&self, path: &str) {
        let url = format!("{}{path}", self.origin);
        self.command("POST", "/url", json!({"url": url})).await;
    }

    /// The path and query of the page that is shown.
    pub async fn path(&self) -> String {
        let url = self.command("GET", "/url", Value::Null).await;
        let url = url.as_str().expect("an address");
        url.strip_prefix(&self.origin).unwrap_or(url).to_owned()
    }

    /// What a function body returns that is run in the page.
    pub async fn run(&self, body: &str) -> Value {
        self.command("POST", "/execute/sync", json!({"script": body, "args": []})).await
    }

    /// What a function body hands to its last argument, later.
    pub async fn run_async(&self, body: &str) -> Value {
        self.command("POST", "/execute/async", json!({"script": body, "args": []})).await
    }

    /// The visible text of the page.
    pub async fn text(&self) -> String {
        let text = self.run("return document.body.innerText").await;
        text.as_str().expect("a text").to_owned()
    }

    /// Clicks what a CSS selector finds, as a mouse does.
    pub async fn click(&self, selector: &str) {
        let element = self.element(selector).await;
        self.command("POST", &format!("/element/{element}/click"), json!({})).await;
    }

    /// Clicks what a CSS selector finds and leads to another page, and waits until that is loaded.
    pub async fn follow(&self, selector: &str) {
        self.run("document.documentElement.dataset.left = 'yes'").await;
        self.click(selector).await;
        eventually("the next page is loaded", || async {
            let body = "return document.readyState === 'complete' && !document.documentElement.dataset.left";
            let path = format!("/session/{}/execute/sync", self.session);
            let script = json!({"script": body, "args": []});
            match self.ask("POST", &path, script).await {
                Ok(Value::Bool(true)) => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// Types into what a CSS selector finds.
    pub async fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.command("POST", &format!("/element/{element}/clear"), json!({})).await;
        self.command("POST", &format!("/element/{element}/value"), json!({"text": text})).await;
    }

    /// Presses and releases keys one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]});
        self.command("POST", "/actions", actions).await;
    }

    /// Asks Chromium itself, by its own protocol.
    pub async fn chromium(&self, command: &str, parameters: Value) -> Value {
        let wanted = json!({"cmd": command, "params": parameters});
        self.command("POST", "/goog/cdp/execute", wanted).await
    }

    /// The window is so many CSS pixels wide.
    pub async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.chromium("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// What the user prefers: `light` or `dark`.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.chromium("Emulation.setEmulatedMedia", features).await;
    }

    /// A picture of the whole page: PNG in base64. Equal pixels are equal texts.
    ///
    /// # Panics
    /// If Chromium makes none.
    pub async fn picture(&self) -> String {
        // Whatever the pointer was left over does not look as if it were pointed at.
        let away = json!({"type": "mouseMoved", "x": 0, "y": 0});
        self.chromium("Input.dispatchMouseEvent", away).await;
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.chromium("Page.captureScreenshot", whole).await;
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// What the browser complained of since it was asked last: errors of scripts, of policies and of the network.
    pub async fn complaints(&self) -> Vec<String> {
        let entries = self.command("POST", "/se/log", json!({"type": "browser"})).await;
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// What a CSS selector finds, once it is there.
    async fn element(&self, selector: &str) -> String {
        let path = format!("/session/{}/element", self.session);
        eventually(&format!("{selector} is on the page"), || async {
            let wanted = json!({"using": "css selector", "value": selector});
            match self.ask("POST", &path, wanted).await {
                Ok(found) => found[ELEMENT].as_str().map(str::to_owned).ok_or(found.to_string()),
                Err(problem) => Err(format!("{problem}: {}", self.text().await)),
            }
        })
        .await
    }

    async fn command(&self, method: &str, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        match self.ask(method, &path, body).await {
            Ok(value) => value,
            Err(problem) => panic!("{method} {path}: {problem}"),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Value, String> {
        let answer =
            tokio::time::timeout(Duration::from_secs(60), self.exchange(method, path, body));
        let answer = answer.await.map_err(|_| "no answer within 60 s".to_owned())??;
        let mut answer: Value =
            serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(error) => {
                Err(format!("{error}: {}", value["message"].as_str().unwrap_or_default()))
            }
            None => Ok(value),
        }
    }

    async fn exchange(&self, method: &str, path: &str, body: Value) -> Result<Bytes, String> {
        let stream = TcpStream::connect(self.at).await.map_err(|error| error.to_string())?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.at.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body))
            .expect("a request");
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes())
    }
}

impl Drop for Browser {
    /// Ends all processes of the browser, and waits until they are gone: the driver is the first process of a namespace, whose
    /// end is that of all others in it.
    fn drop(&mut self) {
        let holder = self.driver.id();
        let children = format!("/proc/{holder}/task/{holder}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let first = children.split_whitespace().find_map(|pid| pid.parse().ok());
        match first.and_then(Pid::from_raw) {
            // It may have ended by itself.
            Some(driver) => kill_process(driver, Signal::KILL).unwrap_or_default(),
            None => drop(self.driver.kill()),
        }
        drop(self.driver.wait());
    }
}

/// Makes a browser's store of certificates trust this authority for web sites.
fn trust(home: &Path, authority: &Path) {
    let store = home.join(".pki/nssdb");
    std::fs::create_dir_all(&store).expect("a folder");
    let store = format!("sql:{}", store.display());
    ran(Command::new("certutil").args(["-N", "--empty-password", "-d", &store]));
    let import = ["-A", "-t", "C,,", "-n", "jaco", "-d", &store, "-i"];
    ran(Command::new("certutil").args(import).arg(authority));
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}
