//! Mail, with a real server on loopback.

use std::time::Duration;

use jaco_notify::{
    Content, Endpoint, Mail, MailEndpoint, Message, Roots, SendError, Sender, SmtpStep,
};

use crate::LIMIT;
use crate::mail_server::{Encryption, MailServer, PASSWORD, USER};

fn message(text: &str) -> Message {
    let (subject, text) = ("[critical] sun: node_status".to_owned(), text.to_owned());
    let mail = Mail { subject, text, at_secs: 1_700_000_000 };
    Message { id: "abc/120/1".to_owned(), content: Content::Mail(mail) }
}

fn endpoint(url: &str, password: &str) -> Endpoint {
    let to = ["ann@example.com", "bob@example.com"].map(ToOwned::to_owned);
    Endpoint::Mail(MailEndpoint::new(url, password, "jaco@example.com", &to).unwrap())
}

async fn sent_by(server: &MailServer, password: &str, limit: Duration) -> Result<u16, SendError> {
    let sender = Sender::new(Roots::These(vec![server.certificate.der().clone()]));
    sender.send(&endpoint(&server.url(), password), &message("down\n"), 1, limit).await
}

/// R-OPS-1: a mail arrives as it is, with dots at the beginning of lines, for all recipients, from whoever signs in; user,
/// password, addresses and text are encrypted, one way or the other.
#[tokio::test]
async fn a_mail_is_sent_encrypted() {
    for (encryption, clear) in
        [(Encryption::StartTls, "EHLO [127.0.0.1]\nSTARTTLS\n"), (Encryption::Whole, "")]
    {
        let server = MailServer::start(encryption);
        let sender = Sender::new(Roots::These(vec![server.certificate.der().clone()]));
        let text = "n1 is down\n.\n..\nQUIT\n";
        let to = endpoint(&server.url(), PASSWORD);
        assert_eq!(sender.send(&to, &message(text), 1, LIMIT).await, Ok(250));
        assert_eq!(server.in_clear(), clear, "{encryption:?}");
        let received = server.received();
        assert_eq!((received.len(), received[0].user.as_deref()), (1, Some(USER)));
        let one = &received[0];
        assert_eq!((one.from.as_str(), one.to.len()), ("jaco@example.com", 2));
        assert_eq!(one.to, ["ann@example.com", "bob@example.com"]);
        assert_eq!(one.header("Message-ID"), "<abc.120.1@example.com>");
        assert_eq!(one.header("Auto-Submitted"), "auto-generated");
        let body = one.data.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.trim_end(), text.trim_end().replace('\n', "\r\n"));
    }
}

/// R-OPS-1: without encryption nothing is told to a server but the name of who asks, and to a server of this machine it is.
#[tokio::test]
async fn nothing_is_sent_in_clear_text() {
    let server = MailServer::start(Encryption::Nothing);
    assert_eq!(sent_by(&server, PASSWORD, LIMIT).await, Err(SendError::NoStartTls));
    assert!(!server.in_clear().contains("AUTH") && !server.in_clear().contains("MAIL"));
    assert_eq!(server.received(), []);
    let sender = Sender::new(Roots::These(Vec::new()));
    let own = endpoint(&format!("smtp://127.0.0.1:{}", server.port), "");
    assert_eq!(sender.send(&own, &message("down\n"), 1, LIMIT).await, Ok(250));
    assert_eq!((server.received().len(), server.received()[0].user.clone()), (1, None));
    for encryption in [Encryption::StartTls, Encryption::Whole] {
        let server = MailServer::start(encryption);
        let to = endpoint(&server.url(), PASSWORD);
        let nobody = sender.send(&to, &message("down\n"), 1, LIMIT).await;
        assert_eq!(nobody, Err(SendError::NoRoots));
        let other = MailServer::start(encryption).certificate.der().clone();
        let stranger = Sender::new(Roots::These(vec![other]));
        let refused = stranger.send(&to, &message("down\n"), 1, LIMIT).await.unwrap_err();
        assert!(
            matches!(&refused, SendError::Connect(why) if why.contains("certificate")),
            "{refused}"
        );
        assert!(!server.in_clear().contains("AUTH") && server.received().is_empty());
    }
}

/// R-OPS-1: what a server refuses is told by its number, to what it was, and without its text; from 500 on it is a refusal,
/// below it is worth another attempt; and a mail that one recipient does not get, none gets.
#[tokio::test]
async fn failures_say_nothing_of_the_password() {
    let server = MailServer::start(Encryption::StartTls);
    let wrong = sent_by(&server, "hunter3", LIMIT).await.unwrap_err();
    assert_eq!(wrong.to_string(), "answered 535 to user and password");
    assert!(wrong.is_refusal() && wrong.advice().contains("check user and password"));
    let echo = format!("{PASSWORD} is what you said");
    let ann = SmtpStep::Recipient("ann@example.com".to_owned());
    for (command, code, step, is_refusal) in [
        ("AUTH", 454, SmtpStep::SignIn, false),
        ("MAIL", 553, SmtpStep::Sender, true),
        ("RCPT", 550, ann.clone(), true),
        ("RCPT", 451, ann, false),
        ("DATA", 554, SmtpStep::Message, true),
        (".", 552, SmtpStep::Message, true),
        (".", 421, SmtpStep::Message, false),
    ] {
        server.works();
        server.answers(command, &format!("{code}-{echo}\r\n{code} {echo}"));
        let failed = sent_by(&server, PASSWORD, LIMIT).await.unwrap_err();
        assert_eq!(failed, SendError::Smtp { step, code });
        assert_eq!((failed.is_refusal(), failed.status()), (is_refusal, code));
        assert!(!failed.to_string().contains(PASSWORD), "{failed}");
    }
    assert_eq!(server.received(), []);
    server.works();
    server.answers("EHLO", &format!("250 {PASSWORD}"));
    assert_eq!(sent_by(&server, PASSWORD, LIMIT).await, Err(SendError::NoStartTls));
    server.works();
    server.answers("MAIL", PASSWORD);
    let strange = sent_by(&server, PASSWORD, LIMIT).await.unwrap_err();
    assert!(matches!(&strange, SendError::Broken(why) if !why.contains(PASSWORD)), "{strange}");
    let whole = MailServer::start(Encryption::Whole);
    whole.answers("EHLO", "250 localhost");
    assert_eq!(sent_by(&whole, PASSWORD, LIMIT).await, Err(SendError::NoSignIn));
}

/// R-OPS-1: a server that hangs, wherever that is, costs no more than the limit.
#[tokio::test]
async fn a_mail_server_that_hangs_is_left() {
    let limit = Duration::from_millis(500);
    for command in ["EHLO", "AUTH", "RCPT", "."] {
        let server = MailServer::start(Encryption::Whole);
        server.answers(command, "");
        let silent = sent_by(&server, PASSWORD, limit).await;
        assert_eq!(silent, Err(SendError::Timeout { limit }), "{command}");
    }
}
