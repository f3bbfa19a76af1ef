//! Sends a mail once: to all recipients, or to none.

use std::time::Duration;

use jaco_https::causes;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

use super::endpoint::MailEndpoint;
use super::letter::{Mail, letter};
use super::server::{Encryption, MailServer};
use crate::failure::{SendError, SmtpStep};

/// How long the end of a conversation may take once the mail is accepted.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// Sends a mail, and returns with what the server accepted it. Whoever asks bounds the time.
pub(crate) async fn send(
    to: &MailEndpoint,
    id: &str,
    mail: &Mail,
    authorities: &[CertificateDer<'static>],
) -> Result<u16, SendError> {
    let letter = letter(to, id, mail)?;
    let mut connection = connect(to.server(), authorities).await?;
    let sent = deliver(&mut connection, to, &letter).await;
    // What was accepted is, and what was not is not, whatever the server says to that.
    timeout(FAREWELL_LIMIT, connection.abort()).await.ok();
    sent
}

async fn connect(
    server: &MailServer,
    authorities: &[CertificateDer<'static>],
) -> Result<AsyncSmtpConnection, SendError> {
    let tls = match server.encryption() {
        Encryption::Loopback => None,
        Encryption::Whole | Encryption::StartTls => Some(parameters(server, authorities)?),
    };
    let (host, port) = server.place();
    let from_the_first_byte = match server.encryption() {
        Encryption::Whole => tls.clone(),
        Encryption::StartTls | Encryption::Loopback => None,
    };
    let hello = ClientId::default();
    let opened =
        AsyncSmtpConnection::connect_tokio1((host, port), None, &hello, from_the_first_byte, None);
    let connecting = |error| failure(SmtpStep::Hello, &error);
    let mut connection = opened.await.map_err(connecting)?;
    if let Some(tls) = tls.filter(|_| server.encryption() == Encryption::StartTls) {
        if !connection.can_starttls() {
            return Err(SendError::NoStartTls);
        }
        connection.starttls(tls, &hello).await.map_err(connecting)?;
    }
    Ok(connection)
}

fn parameters(
    server: &MailServer,
    authorities: &[CertificateDer<'static>],
) -> Result<TlsParameters, SendError> {
    if authorities.is_empty() {
        return Err(SendError::NoRoots);
    }
    let unusable = |error: Error| SendError::Connect(causes(&error));
    let (host, _) = server.place();
    let mut builder =
        TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::None);
    for authority in authorities {
        let authority = Certificate::from_der(authority.to_vec()).map_err(unusable)?;
        builder = builder.add_root_certificate(authority);
    }
    builder.build_rustls().map_err(unusable)
}

async fn deliver(
    connection: &mut AsyncSmtpConnection,
    to: &MailEndpoint,
    letter: &[u8],
) -> Result<u16, SendError> {
    if let Some(user) = to.server().user() {
        let credentials = Credentials::new(user.to_owned(), to.password().to_owned());
        let signed_in = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await;
        signed_in.map_err(|error| match error.is_client() {
            true => SendError::NoSignIn,
            false => failure(SmtpStep::SignIn, &error),
        })?;
    }
    let from = MailFrom::new(Some(to.from().inner().clone()), Vec::new());
    connection.command(from).await.map_err(|error| failure(SmtpStep::Sender, &error))?;
    for one in to.to() {
        let recipient = Rcpt::new(one.inner().clone(), Vec::new());
        let refused = |error| failure(SmtpStep::Recipient(one.to_string()), &error);
        connection.command(recipient).await.map_err(refused)?;
    }
    let message = |error| failure(SmtpStep::Message, &error);
    connection.command(Data).await.map_err(message)?;
    let accepted = connection.message(letter).await.map_err(message)?;
    Ok(accepted.code().into())
}

/// What a failure is told as. The texts of a server are not: they may repeat what is secret.
fn failure(step: SmtpStep, error: &Error) -> SendError {
    if let Some(code) = error.status() {
        return SendError::Smtp { step, code: code.into() };
    }
    if error.is_response() {
        return SendError::Broken("it does not answer as a mail server does".to_owned());
    }
    match step {
        SmtpStep::Hello => SendError::Connect(causes(error)),
        SmtpStep::SignIn | SmtpStep::Sender | SmtpStep::Recipient(_) | SmtpStep::Message => {
            SendError::Broken(causes(error))
        }
    }
}
