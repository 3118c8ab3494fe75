//! Where an image is asked for: the registry itself or a mirror, by HTTPS or plain HTTP.

use std::net::IpAddr;

use crate::oci::reference::Repository;

/// One address that may serve a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Host and optional port, as configured.
    pub(super) authority: String,
    /// The repository there; a mirror may hold it under another path.
    pub(super) path: String,
    /// How the other side proves who it is.
    pub(super) security: Security,
}

/// How an endpoint is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// HTTPS with a verified certificate.
    Verified,
    /// A host that cannot be anywhere else: HTTPS with a verified certificate if it speaks TLS, else plain HTTP.
    Loopback,
    /// The administrator said `insecure`: HTTPS with any certificate, else plain HTTP.
    Insecure,
}

impl Endpoint {
    /// The registry that a repository names.
    pub(super) fn of(repository: &Repository) -> Self {
        Self::new(repository.registry(), repository.path(), false)
    }

    pub(super) fn new(authority: &str, path: &str, insecure: bool) -> Self {
        let security = if insecure {
            Security::Insecure
        } else if is_loopback(authority) {
            Security::Loopback
        } else {
            Security::Verified
        };
        Self {
            authority: authority.to_owned(),
            path: path.to_owned(),
            security,
        }
    }

    /// Host and port to connect to: Docker Hub's API does not live at the name of its images.
    pub(super) fn address(&self) -> &str {
        if self.authority == "docker.io" {
            "registry-1.docker.io"
        } else {
            &self.authority
        }
    }

    /// For messages: authority and path.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.authority, self.path)
    }
}

/// Whether the host of `authority` is this machine: 127.0.0.0/8, `[::1]` or `localhost`.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for yes in [
            "127.0.0.1",
            "127.9.9.9:5000",
            "localhost",
            "localhost:1",
            "[::1]",
            "[::1]:5000",
        ] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in [
            "128.0.0.1",
            "localhost.example.com",
            "127.0.0.1.example.com:1",
            "[::2]:1",
            "quay.io",
            "",
        ] {
            assert!(!is_loopback(no), "{no}");
        }
    }

    #[test]
    fn docker_hub_lives_elsewhere() {
        assert_eq!(
            Endpoint::new("docker.io", "a/b", false).address(),
            "registry-1.docker.io"
        );
    }
}
