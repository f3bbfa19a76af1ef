//! Credentials of registries, as Docker takes them: in a header of the one request that they are for.
//! Docker keeps none of it.

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use jaco_agent::registry::RegistryCredentials;

/// What Docker calls the registry of images that name none.
const DEFAULT_REGISTRY: &str = "https://index.docker.io/v1/";

/// The header that they travel in.
const HEADER: &str = "x-registry-auth";

/// The credentials in Docker's words.
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

/// Docker reads its header in the base64 of URLs, and the client writes it in the other one. The two
/// differ in two digits, which passwords with `?`, `>`, `~` or letters beyond ASCII lead to; Docker
/// would pull as nobody then, without a word.
pub(crate) fn in_the_alphabet_of_urls(mut request: BollardRequest) -> BollardRequest {
    if let Some(header) = request.headers_mut().get_mut(HEADER) {
        let translated = header.to_str().map(translated).unwrap_or_default();
        *header = translated.parse().expect("base64 is made of visible characters");
        header.set_sensitive(true);
    }
    request
}

fn translated(base64: &str) -> String {
    base64.replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use jaco_types::{RegistryName, RegistryUsername};

    use super::*;

    /// R-CLI-6: Docker is told for whom, as what, and at which registry.
    #[test]
    fn docker_gets_the_credentials_in_its_own_words() {
        let told = |registry: &str| {
            let username = RegistryUsername::new("robot").unwrap();
            let registry = RegistryName::new(registry).unwrap();
            for_docker(&RegistryCredentials::new(registry, username, "hunter2".to_owned()))
        };
        let hub = told("docker.io");
        assert_eq!(hub.username.as_deref(), Some("robot"));
        assert_eq!(hub.password.as_deref(), Some("hunter2"));
        assert_eq!(hub.serveraddress.as_deref(), Some(DEFAULT_REGISTRY));
        assert_eq!(told("localhost:5000").serveraddress.as_deref(), Some("localhost:5000"));
    }

    /// R-CLI-6: no character of a password makes Docker pull as nobody.
    #[test]
    fn the_header_is_in_the_alphabet_that_docker_reads() {
        assert_eq!(translated("eyJwIjoiYT8/fn4+In0="), "eyJwIjoiYT8_fn4-In0=");
    }
}
