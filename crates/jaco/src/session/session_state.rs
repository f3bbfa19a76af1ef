//! The output and the client of one command.

use std::path::PathBuf;
use std::time::Duration;

use jaco_client::{Client, Staleness};
use jaco_pki::TrustBundle;
use jaco_proto::v1::GetAuthorityRequest;
use jaco_types::code::ExitCode;
use tokio::time::Instant;

use crate::connect::{self, Choice, ContextFolder, CredentialSource, Environment};
use crate::error::CliError;
use crate::format::time;
use crate::options::GlobalOptions;
use crate::output::{Confirmation, Show, Ui};

/// How long a command may take to learn of another authority.
const LEARNING_LIMIT: Duration = Duration::from_secs(3);

/// The exit code of a command, or why it failed.
pub(crate) type CommandResult = Result<ExitCode, CliError>;

/// The output and the client of one command.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) ui: Ui,
    options: GlobalOptions,
    client: Option<Client>,
    /// The files of the context that the client comes from.
    context: Option<ContextFolder>,
    /// The file of the authority that the client trusts.
    ca: Option<PathBuf>,
    /// When the time limit of the command is reached.
    deadline: Option<Instant>,
    age: AgeNote,
}

/// The files of a client certificate.
#[derive(Debug)]
pub(crate) struct OwnCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) context: Option<ContextFolder>,
}

/// Whether the age of answers that are not current is still to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgeNote {
    Due,
    Shown,
}

impl Session {
    pub(crate) fn new(options: GlobalOptions, ui: Ui) -> Self {
        let (client, context, ca, deadline) = (None, None, None, None);
        Self { ui, options, client, context, ca, deadline, age: AgeNote::Due }
    }

    /// The client of the chosen cluster. Nothing is connected before the first call of the client.
    pub(crate) fn client(&mut self) -> Result<Client, CliError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let environment = Environment::of_process();
        let contexts = connect::load_contexts()?;
        let choice = connect::choose(&self.options, &environment, &contexts)?;
        let client = Client::new(connect::target(&choice, &environment)?).until(self.deadline);
        if self.ui.prints_notes() {
            client.on_long_wait(|why| Ui::note_wait(&why.to_string()));
        }
        (self.context, self.ca) = match choice {
            Choice::Servers { context, ca, .. } => {
                (context.as_deref().and_then(ContextFolder::of), ca)
            }
            Choice::Socket(_) => (None, None),
        };
        Ok(self.client.insert(client).clone())
    }

    /// Refuses unless the daemon of this machine is used: what is about its node cannot be asked of another one.
    ///
    /// # Errors
    /// If the cluster is used over the network.
    pub(crate) fn require_own_node(&self) -> Result<(), CliError> {
        let (environment, contexts) = (Environment::of_process(), connect::load_contexts()?);
        match connect::choose(&self.options, &environment, &contexts)? {
            Choice::Socket(_) => Ok(()),
            Choice::Servers { .. } => Err(CliError::usage(
                "this is about the node of this machine, and the cluster is used over the network",
                "run it on the node with --socket, or use `jaco node rm NODE`",
            )),
        }
    }

    /// The client certificate of the chosen cluster, and the files of the context that it comes from.
    ///
    /// # Errors
    /// If the cluster is used with a token, or over a socket.
    pub(crate) fn own_certificate(&self) -> Result<OwnCertificate, CliError> {
        let (environment, contexts) = (Environment::of_process(), connect::load_contexts()?);
        match connect::choose(&self.options, &environment, &contexts)? {
            Choice::Servers {
                context,
                credential: CredentialSource::Certificate { certificate, key },
                ..
            } => {
                let context = context.as_deref().and_then(ContextFolder::of);
                Ok(OwnCertificate { certificate, key, context })
            }
            Choice::Servers { .. } | Choice::Socket(_) => Err(CliError::usage(
                "the cluster is not used with a client certificate, so there is none to renew",
                "an admin renews another one's: jaco token renew NAME --csr FILE",
            )),
        }
    }

    /// Limits the time of the whole command.
    pub(crate) fn limit(&mut self, limit: Duration) {
        self.deadline = Some(Instant::now() + limit);
        self.client = self.client.take().map(|client| client.until(self.deadline));
    }

    /// When the time limit of the command is reached.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The result of this command says itself how old it may be.
    pub(crate) fn shows_age(&mut self) {
        self.age = AgeNote::Shown;
    }

    /// Prints how old the answers may be that the command got, if they were not current.
    pub(crate) fn note_age(&mut self) {
        let staleness = self.client.as_ref().and_then(Client::staleness);
        if let Some(Staleness { node, age }) = staleness.filter(|_| self.age == AgeNote::Due) {
            let age = time::elapsed(age);
            self.ui.note(&format!(
                "warning: {node} has no contact with a quorum: this is as of {age} ago"
            ));
        }
    }

    /// Remembers for the next command which server of the context answered, and the members of its cluster.
    pub(crate) fn remember_members(&self) {
        let (Some(context), Some(client)) = (&self.context, &self.client) else { return };
        if let Some(answering) = client.answering() {
            // It saves time only: a home directory that cannot be written is no reason to complain.
            context.remember(&answering, &client.members()).ok();
        }
    }

    /// Trusts from the next command on what the node trusts that answered: while the authority of the cluster is being
    /// rotated, the new one as well; after it, that one only. A certificate that a flag or the environment names is the
    /// user's own, and stays as it is.
    pub(crate) async fn learn_authorities(&mut self) {
        let (Some(context), Some(client)) = (&self.context, &self.client) else { return };
        let Some(named) = client.authorities() else { return };
        let ca = context.ca();
        if self.ca.as_ref() != Some(&ca) {
            return;
        }
        let Ok((_, known)) = connect::trust(&ca) else { return };
        if known.digest() == named {
            return;
        }
        let until = Instant::now() + LEARNING_LIMIT;
        let asked = client.until(Some(until)).get_authority(GetAuthorityRequest {}).await;
        // A node that had not heard of it yet brings nothing new; the next command asks again.
        let Ok(answer) = asked else { return };
        let Ok(trust) = TrustBundle::from_pem(&answer.ca_certificate_pem) else { return };
        if trust.cluster() != known.cluster() || trust.digest() == known.digest() {
            return;
        }
        if let Err(error) = context.keep_ca(&trust.to_pem()) {
            self.ui.note(&format!(
                "warning: the cluster's authority is being rotated, and {} cannot be replaced: {error}",
                ca.display()
            ));
        }
        let is_rotated = trust.authorities().len() > known.authorities().len();
        if is_rotated && self.own_certificate().is_ok() {
            self.ui.note(
                "warning: the cluster's authority is being rotated, and will refuse your client certificate at the end: renew \
                 it now (jaco token renew)",
            );
        }
    }

    /// Uses this client from now on.
    pub(crate) fn use_client(&mut self, client: Client) {
        self.client = Some(client);
        self.context = None;
    }

    /// Asks before something is deleted or changed.
    ///
    /// # Errors
    /// If the user declines, or nobody can be asked.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<(), CliError> {
        let answer = self.ui.confirm(question);
        match answer.map_err(|error| CliError::local("cannot read the answer", error))? {
            Confirmation::Yes => Ok(()),
            Confirmation::No => {
                Err(CliError::Interrupted { message: "Nothing was changed.".to_owned() })
            }
            Confirmation::NobodyToAsk => Err(CliError::usage(
                "stdin is no terminal, so nobody can be asked for confirmation",
                "add --yes to go on without a question",
            )),
        }
    }

    /// Prints the result of a successful command.
    pub(crate) fn done(&mut self, result: &dyn Show) -> CommandResult {
        self.ui.result(result).map_err(CliError::Output)?;
        Ok(ExitCode::Converged)
    }
}
