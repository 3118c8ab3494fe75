//! What an administrator says about pulling: options, and what is wrong with the files that they name.

use std::io;
use std::path::{Path, PathBuf};

use super::limits::{MAX_LAYER_BYTES, RetryPolicy};
use crate::oci::manifest::Platform;

/// How a [`super::RegistryClient`] behaves. The default: system roots, no files, no credentials, this machine's platform.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// The platform to choose from an index; `None` is that of this process.
    pub platform: Option<Platform>,
    /// A flat directory of CAs (`*.crt`) and client certificates (`*.cert` with `*.key`), read again when it changes.
    pub ca_directory: Option<PathBuf>,
    /// Files and directories of the system's own CA certificates; the clients are made anew when they change.
    pub system_certificates: Vec<PathBuf>,
    /// `registries.conf`; its drop-ins lie beside it, in `registries.conf.d`. Read at every pull.
    pub registries_conf: Option<PathBuf>,
    /// `policy.json`. Read at every pull.
    pub policy: Option<PathBuf>,
    /// A proxy for everything but loopback; `None` means what the environment says.
    pub proxy: Option<String>,
    /// How often a request is tried again.
    pub retry: RetryPolicy,
    /// The largest layer as it is transferred, in bytes.
    pub max_layer_bytes: u64,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            platform: None,
            ca_directory: None,
            system_certificates: Vec::new(),
            registries_conf: None,
            policy: None,
            proxy: None,
            retry: RetryPolicy::default(),
            max_layer_bytes: MAX_LAYER_BYTES,
        }
    }
}

impl RegistryOptions {
    /// The same with the files of this system: `registries.conf` and `policy.json` of `home` where they exist, else
    /// those of `/etc/containers`, which need not exist.
    #[must_use]
    pub fn with_system_files(mut self, home: Option<&Path>) -> Self {
        let system_file = |name: &str| {
            let own = home.map(|home| home.join(".config/containers").join(name));
            own.filter(|path| path.exists())
                .unwrap_or_else(|| Path::new("/etc/containers").join(name))
        };
        self.registries_conf = Some(system_file("registries.conf"));
        self.policy = Some(system_file("policy.json"));
        self
    }
}

/// A file or value of configuration that cannot be used, or that forbids an image.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is there but cannot be read, or a directory is not there.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not of its format.
    #[error("malformed {}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A pull secret is not of its format. The content is not told.
    #[error("malformed pull secret {origin}: {reason}")]
    PullSecret {
        /// Where it came from.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// The registry is blocked.
    #[error("registry {prefix} is blocked in {}", path.display())]
    Blocked {
        /// The entry of `registries.conf`.
        prefix: String,
        /// The file.
        path: PathBuf,
    },
    /// The signature policy rejects the image.
    #[error("rejected by the policy for {scope:?} in {}", path.display())]
    Rejected {
        /// The scope of `policy.json`.
        scope: String,
        /// The file.
        path: PathBuf,
    },
    /// The signature policy demands something that oxolm does not check.
    #[error(
        "the policy for {scope:?} in {} requires {requirement}, which oxolm cannot check",
        path.display()
    )]
    Unchecked {
        /// The scope of `policy.json`.
        scope: String,
        /// The requirement's type.
        requirement: String,
        /// The file.
        path: PathBuf,
    },
    /// The HTTP client refuses its configuration.
    #[error("cannot set up HTTPS: {0}")]
    Tls(String),
    /// A proxy address that is none.
    #[error("invalid proxy address")]
    Proxy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_home_directory_come_before_the_systems() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".config/containers");
        std::fs::DirBuilder::new()
            .recursive(true)
            .create(&own)
            .unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(own.join("policy.json"))
            .unwrap();
        let options = RegistryOptions::default().with_system_files(Some(home.path()));
        assert_eq!(options.policy, Some(own.join("policy.json")));
        assert_eq!(
            options.registries_conf,
            Some("/etc/containers/registries.conf".into())
        );
    }
}
