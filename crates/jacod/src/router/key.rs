//! Another key for the tunnel of this node, as an operator asks for it.
//!
//! The private key is made by the router and stays there. Its public part is reported as a fact of the node, like the one
//! before; once the state has it, plans name it, and this router and those of the others take it over.

use std::time::Duration;

use jaco_net::RouterClient;
use tokio::time::timeout;

use super::RouterHandle;

/// How long it may take until the router has the key: facts are reported once a second, while a leader may be elected.
const PATIENCE: Duration = Duration::from_secs(15);

impl RouterHandle {
    /// Returns the new public key once the tunnel has it.
    pub(super) async fn take_another_key(&self) -> Result<[u8; 32], String> {
        let made = RouterClient::make_key(&self.runtime_dir).await;
        let key = made.map_err(|error| format!("its router made no key: {error}"))?;
        let mut view = self.view.clone();
        let has_it = |view: &super::RouterView| {
            view.status
                .as_ref()
                .is_some_and(|status| status.key() == key && status.next_key().is_none())
        };
        match timeout(PATIENCE, view.wait_for(has_it)).await {
            Ok(Ok(_)) => Ok(key.0),
            Ok(Err(_)) => Err("its daemon is being stopped".to_owned()),
            Err(_) => Err(format!(
                "its router has made a key, and still uses the one before after {} s: it takes the new one by itself \
                 once the cluster knows it",
                PATIENCE.as_secs()
            )),
        }
    }
}
