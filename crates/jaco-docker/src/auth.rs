//! Registry credentials as Docker expects them: in a header of the pull request. Docker does not
//! store them.

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use jaco_agent::RegistryCredentials;

/// Docker's address of the default registry.
const DEFAULT_REGISTRY: &str = "https://index.docker.io/v1/";

/// The header that carries them.
const HEADER: &str = "x-registry-auth";

/// The credentials in Docker's format.
pub(crate) fn for_docker(credentials: &RegistryCredentials) -> DockerCredentials {
    let registry = match credentials.registry.as_str() {
        "docker.io" => DEFAULT_REGISTRY,
        name => name,
    };
    DockerCredentials {
        username: Some(credentials.username.to_string()),
        password: Some(credentials.password().to_owned()),
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    }
}

/// Docker decodes the header as URL-safe base64, but the client library writes standard base64.
/// They differ in two characters, which occur for passwords with `?`, `>`, `~` or non-ASCII
/// letters; Docker would then silently pull anonymously.
pub(crate) fn url_safe_auth_header(mut request: BollardRequest) -> BollardRequest {
    if let Some(header) = request.headers_mut().get_mut(HEADER) {
        let url_safe = header.to_str().map(url_safe).unwrap_or_default();
        *header = url_safe.parse().expect("base64 is made of visible characters");
        header.set_sensitive(true);
    }
    request
}

fn url_safe(base64: &str) -> String {
    base64.replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use jaco_types::{RegistryName, RegistryUsername};

    use super::*;

    /// R-CLI-6: Docker gets user, password and registry.
    #[test]
    fn credentials_are_converted_for_docker() {
        let convert = |registry: &str| {
            let username = RegistryUsername::new("robot").unwrap();
            let registry = RegistryName::new(registry).unwrap();
            for_docker(&RegistryCredentials::new(registry, username, "hunter2".to_owned()))
        };
        let hub = convert("docker.io");
        assert_eq!(hub.username.as_deref(), Some("robot"));
        assert_eq!(hub.password.as_deref(), Some("hunter2"));
        assert_eq!(hub.serveraddress.as_deref(), Some(DEFAULT_REGISTRY));
        assert_eq!(convert("localhost:5000").serveraddress.as_deref(), Some("localhost:5000"));
    }

    /// R-CLI-6: no character of a password makes Docker pull anonymously.
    #[test]
    fn header_is_url_safe_base64() {
        assert_eq!(url_safe("eyJwIjoiYT8/fn4+In0="), "eyJwIjoiYT8_fn4-In0=");
    }
}
