//! Where the container engine is.

use std::os::unix::fs::FileTypeExt;

use super::{Config, ConfigError, EngineKind};

impl Config {
    /// Checks that the socket of the Docker Engine exists. A daemon starts without it, because the engine may
    /// start later.
    ///
    /// # Errors
    /// When there is no socket.
    pub(crate) fn check_engine(&self) -> Result<(), ConfigError> {
        if self.engine == EngineKind::Fake {
            return Ok(());
        }
        let path = self.docker_socket()?;
        let problem = match std::fs::metadata(&path) {
            Ok(found) if found.file_type().is_socket() => return Ok(()),
            Ok(_) => "it is no socket".to_owned(),
            Err(error) => error.to_string(),
        };
        let path = path.display();
        let reason =
            format!("the Docker Engine is not at {path} ({problem}): install and start it");
        Err(ConfigError::Value { key: "docker_host", reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--check` finds a Docker Engine that is not installed or not where it is looked for.
    #[test]
    fn missing_engine_socket_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let check = |engine: &str| {
            let text = format!("engine: {engine}\ndocker_host: unix://{}\n", path.display());
            Config::parse(&text).unwrap().check_engine().map_err(|error| error.to_string())
        };
        let refused = check("docker").unwrap_err();
        assert!(refused.contains("docker_host") && refused.contains("docker.sock"), "{refused}");
        assert_eq!(check("fake"), Ok(()));
        std::fs::write(&path, "").unwrap();
        assert!(check("docker").unwrap_err().contains("it is no socket"));
        std::fs::remove_file(&path).unwrap();
        let _engine = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(check("docker"), Ok(()));
    }
}
