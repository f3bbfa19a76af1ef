//! Sends notifications to webhooks, chats and by mail (R-OPS-1). What is sent, to whom and when is for others to say; this
//! must never print an address beyond its host and whom mail goes to, a secret, or what a receiver answers: that may repeat
//! the address.
//!
//! ```text
//! address     where a webhook is, and what may be shown of it
//! mail        where a mail server is, what a mail looks like, and one attempt to send it
//! endpoint    an address with its secret, as they are sealed
//! signature   what a receiver verifies
//! backoff     when the next attempt is, and which one is the last
//! sender      one attempt
//! failure     why it failed
//! ```

mod address;
mod backoff;
mod endpoint;
mod failure;
mod mail;
mod sender;
mod signature;

pub use address::{Address, AddressError, PlainHttp};
pub use backoff::{ATTEMPTS_IF_REFUSED, DELAY_MAX, Jitter, PATIENCE, delay, gives_up};
pub use endpoint::{Endpoint, SECRET_BYTES_MAX, SECRET_BYTES_MIN, SecretError, WebEndpoint};
pub use failure::{SendError, SmtpStep};
pub use jaco_https::Roots;
pub use mail::{
    Mail, MailAddress, MailAddressError, MailEndpoint, MailEndpointError, MailServer,
    MailServerError, RECIPIENTS_MAX,
};
pub use sender::{Content, Message, SEND_LIMIT, Sender, USER_AGENT};
pub use signature::{SIGNATURE_HEADER, signature};
