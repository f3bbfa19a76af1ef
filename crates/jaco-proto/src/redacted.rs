//! How messages are shown that hold a secret: without it.

use std::fmt;

use crate::v1::StoreRegistryRequest;

impl fmt::Debug for StoreRegistryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StoreRegistryRequest");
        out.field("registry", &self.registry).field("username", &self.username);
        out.field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: what is printed of a request has no password.
    #[test]
    fn a_password_is_not_shown() {
        let (registry, password) = ("ghcr.io".to_owned(), "hunter2".to_owned());
        let request =
            StoreRegistryRequest { registry, password, ..StoreRegistryRequest::default() };
        let shown = format!("{request:?} {request:#?}");
        assert!(shown.contains("ghcr.io") && !shown.contains("hunter2"), "{shown}");
    }
}
