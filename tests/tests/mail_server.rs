//! A mail server on loopback: with a certificate of its own, one user, and answers that a test chooses. What it is told in
//! clear text it keeps apart.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Who may sign in, as a URL has it, and what only the server and the sender know.
pub(crate) const USER: &str = "jaco";
pub(crate) const PASSWORD: &str = "hunter2-of-the-mail";

/// User and password as `AUTH PLAIN` has them.
const SIGN_IN: &str = "AGphY28AaHVudGVyMi1vZi10aGUtbWFpbA==";

/// How a server encrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    Nothing,
    StartTls,
    Whole,
}

/// A mail that was accepted, or that waits for an answer that never comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    /// Its lines end with `\r\n`.
    pub(crate) data: String,
    pub(crate) user: Option<String>,
}

impl Received {
    /// A header, whose name is once there.
    pub(crate) fn header(&self, name: &str) -> String {
        let head = self.data.split_once("\r\n\r\n").expect("a head").0.replace("\r\n ", " ");
        let mut found =
            head.split("\r\n").filter_map(|line| line.strip_prefix(&format!("{name}: ")));
        let value = found.next().unwrap_or_else(|| panic!("no {name}: {head}")).to_owned();
        assert_eq!(found.next(), None, "{name} is there twice");
        value
    }
}

pub(crate) struct MailServer {
    pub(crate) port: u16,
    /// Its certificate, which is the authority to trust as well.
    pub(crate) certificate: rcgen::Certificate,
    shared: Arc<Shared>,
}

struct Shared {
    encryption: Encryption,
    tls: Arc<ServerConfig>,
    answers: Mutex<BTreeMap<&'static str, String>>,
    received: Mutex<Vec<Received>>,
    in_clear: Mutex<String>,
}

impl MailServer {
    pub(crate) fn start(encryption: Encryption) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let provider = rustls::crypto::ring::default_provider().into();
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("a key for its certificate");
        let shared = Arc::new(Shared {
            encryption,
            tls: Arc::new(tls),
            answers: Mutex::default(),
            received: Mutex::default(),
            in_clear: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&all);
                // A client may hang up at any time.
                thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        Self { port, certificate: cert, shared }
    }

    /// Its address by name, so that it is encrypted.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.shared.encryption == Encryption::Whole { "smtps" } else { "smtp" };
        format!("{scheme}://{USER}@localhost:{}", self.port)
    }

    /// From now on this is the answer to a command, or to the end of a mail (`.`); nothing at all if it is empty.
    pub(crate) fn answers(&self, command: &'static str, answer: &str) {
        locked(&self.shared.answers).insert(command, answer.to_owned());
    }

    /// From now on it does what it should.
    pub(crate) fn works(&self) {
        locked(&self.shared.answers).clear();
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        locked(&self.shared.received).clone()
    }

    /// All that it was told without encryption.
    pub(crate) fn in_clear(&self) -> String {
        locked(&self.shared.in_clear).clone()
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no test panics with it")
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    if shared.encryption == Encryption::Whole {
        let mut encrypted = encrypt(stream, shared)?;
        encrypted.write_all(b"220 localhost\r\n")?;
        return Conversation::new(shared, true).run(&mut encrypted).map(drop);
    }
    stream.write_all(b"220 localhost\r\n")?;
    match Conversation::new(shared, false).run(&mut stream)? {
        End::Quit => Ok(()),
        End::StartTls => {
            Conversation::new(shared, true).run(&mut encrypt(stream, shared)?).map(drop)
        }
    }
}

fn encrypt(
    stream: TcpStream,
    shared: &Shared,
) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
    let connection = ServerConnection::new(Arc::clone(&shared.tls)).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// How a conversation ends.
enum End {
    Quit,
    StartTls,
}

struct Conversation<'s> {
    shared: &'s Shared,
    is_encrypted: bool,
    mail: Received,
}

impl<'s> Conversation<'s> {
    fn new(shared: &'s Shared, is_encrypted: bool) -> Self {
        let mail =
            Received { from: String::new(), to: Vec::new(), data: String::new(), user: None };
        Self { shared, is_encrypted, mail }
    }

    fn run(mut self, stream: &mut (impl Read + Write)) -> io::Result<End> {
        loop {
            let line = self.line(stream)?;
            let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
            if let Some(answer) = self.chosen(&verb) {
                stream.write_all(answer.as_bytes())?;
                continue;
            }
            let place = |line: &str| {
                let rest = line.split_once('<').map_or("", |(_, rest)| rest);
                rest.split('>').next().unwrap_or_default().to_owned()
            };
            match verb.as_str() {
                "EHLO" => {
                    let offer = match (self.shared.encryption, self.is_encrypted) {
                        (Encryption::StartTls, false) => "250-STARTTLS\r\n",
                        _ => "",
                    };
                    let answer = format!("250-localhost\r\n{offer}250 AUTH PLAIN\r\n");
                    stream.write_all(answer.as_bytes())?;
                }
                "STARTTLS" => {
                    stream.write_all(b"220 go on\r\n")?;
                    return Ok(End::StartTls);
                }
                "AUTH" if line == format!("AUTH PLAIN {SIGN_IN}") => {
                    self.mail.user = Some(USER.to_owned());
                    stream.write_all(b"235 welcome\r\n")?;
                }
                // As some do: the answer repeats what is secret.
                "AUTH" => stream.write_all(format!("535 {PASSWORD} is wrong\r\n").as_bytes())?,
                "MAIL" => {
                    self.mail.from = place(&line);
                    stream.write_all(b"250 fine\r\n")?;
                }
                "RCPT" => {
                    self.mail.to.push(place(&line));
                    stream.write_all(b"250 fine\r\n")?;
                }
                "DATA" => {
                    stream.write_all(b"354 go on\r\n")?;
                    self.data(stream)?;
                }
                "QUIT" => {
                    stream.write_all(b"221 bye\r\n")?;
                    return Ok(End::Quit);
                }
                _ => stream.write_all(b"500 what?\r\n")?,
            }
        }
    }

    /// A mail to its end. It is kept only if it is accepted, or not answered.
    fn data(&mut self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        let mut data = String::new();
        loop {
            let line = self.line(stream)?;
            if line == "." {
                break;
            }
            data += line.strip_prefix('.').unwrap_or(&line);
            data += "\r\n";
        }
        let answer = self.chosen(".").unwrap_or_else(|| "250 mine now\r\n".to_owned());
        if answer.is_empty() || answer.starts_with('2') {
            locked(&self.shared.received).push(Received { data, ..self.mail.clone() });
        }
        (self.mail.from, self.mail.to) = (String::new(), Vec::new());
        stream.write_all(answer.as_bytes())
    }

    fn chosen(&self, command: &str) -> Option<String> {
        let answers = locked(&self.shared.answers);
        let answer = answers.get(command)?;
        Some(if answer.is_empty() { String::new() } else { format!("{answer}\r\n") })
    }

    /// A line, byte by byte: what is behind it may be encrypted.
    fn line(&self, stream: &mut impl Read) -> io::Result<String> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        let line = String::from_utf8(line).map_err(io::Error::other)?;
        if !self.is_encrypted {
            *locked(&self.shared.in_clear) += &format!("{line}\n");
        }
        Ok(line)
    }
}
