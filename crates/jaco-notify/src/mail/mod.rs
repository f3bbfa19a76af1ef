//! Notifications as mail. Must never send a password or a message over a network that is not encrypted, nor let what a
//! notification says become a header, an address or a command.
//!
//! ```text
//! server     where a mail server is, and how the connection is encrypted
//! address    from whom and to whom
//! endpoint   all of a target of mail
//! letter     the bytes of a mail
//! attempt    sends them once
//! ```

mod address;
mod attempt;
mod endpoint;
mod letter;
mod server;

pub use address::{MailAddress, MailAddressError};
pub(crate) use attempt::send;
pub use endpoint::{MailEndpoint, MailEndpointError, RECIPIENTS_MAX};
pub use letter::Mail;
pub use server::{MailServer, MailServerError};
