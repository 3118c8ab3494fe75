//! How the API server is reached: as a kubeconfig says, or as a Pod does.
//!
//! kube takes the proxy of the environment for every server, and compares `NO_PROXY` with the proxy instead of the server. Here
//! it is as in kubectl: a cluster's own `proxy-url` counts, whatever `NO_PROXY` says; else `HTTPS_PROXY`, unless the server
//! is on this machine or in `NO_PROXY`.

#![expect(
    clippy::disallowed_methods,
    reason = "the environment says how the server is reached"
)]

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};

/// As a kubeconfig says.
///
/// # Errors
/// When it names no such cluster, or what it names cannot be read.
pub async fn by_kubeconfig(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, KubeconfigError> {
    let named = named_proxy(&kubeconfig, options.context.as_deref());
    let config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
    with_proxy(config, named.as_deref())
}

/// As the kubeconfig of the environment says, or as a Pod does where there is none.
///
/// # Errors
/// When there is neither, or what there is cannot be used.
pub async fn by_environment() -> Result<Config, ReachError> {
    match Kubeconfig::read() {
        Ok(kubeconfig) => Ok(by_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?),
        // A Pod reaches its own API server without a proxy.
        Err(_) => Ok(Config::infer().await?),
    }
}

/// Why nobody knows how to reach an API server.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// There is a kubeconfig, and it cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// There is none, and this is no Pod.
    #[error(transparent)]
    Nowhere(#[from] InferConfigError),
}

/// The proxy that a kubeconfig names for the cluster of a context.
fn named_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let wanted = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == wanted)?;
    let cluster = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|one| one.name == *cluster)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.clone();
    proxy.filter(|proxy| !proxy.is_empty())
}

fn with_proxy(mut config: Config, named: Option<&str>) -> Result<Config, KubeconfigError> {
    let proxy = match named {
        Some(named) => Some(named.to_owned()),
        None => proxy_for(&config.cluster_url, |name| std::env::var(name).ok()),
    };
    let parsed = proxy.map(|proxy| proxy.parse().map_err(KubeconfigError::ParseProxyUrl));
    config.proxy_url = parsed.transpose()?;
    Ok(config)
}

/// The proxy that `environment` says is to be used for `server`.
fn proxy_for(server: &Uri, environment: impl Fn(&str) -> Option<String>) -> Option<String> {
    let either = |name: &str| {
        let values = [environment(name), environment(&name.to_lowercase())];
        values.into_iter().flatten().find(|value| !value.is_empty())
    };
    let is_plain = server.scheme_str() == Some("http");
    let proxy = either(if is_plain {
        "HTTP_PROXY"
    } else {
        "HTTPS_PROXY"
    })?;
    let no_proxy = either("NO_PROXY").unwrap_or_default();
    let proxies = Matcher::builder().all(&proxy).no(no_proxy).build();
    if is_on_this_machine(server) || proxies.intercept(server).is_none() {
        return None;
    }
    // As everywhere else, the scheme of a proxy may be left out.
    Some(if proxy.contains("://") {
        proxy
    } else {
        format!("http://{proxy}")
    })
}

fn is_on_this_machine(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_environment_names_a_proxy_for_servers_elsewhere() {
        let none: &[(&str, &str)] = &[];
        let proxy = ("HTTPS_PROXY", "http://p:3128");
        for (server, environment, expected) in [
            ("https://api.example:6443", none, None),
            ("https://api.example:6443", &[proxy], Some("http://p:3128")),
            (
                "https://api.example",
                &[("https_proxy", "u:x@p:3128")],
                Some("http://u:x@p:3128"),
            ),
            (
                "https://api.example",
                &[("HTTPS_PROXY", ""), ("https_proxy", "p")],
                Some("http://p"),
            ),
            ("http://api.example", &[proxy], None),
            (
                "http://api.example",
                &[("HTTP_PROXY", "http://p")],
                Some("http://p"),
            ),
            ("https://localhost:6443", &[proxy], None),
            ("https://127.0.0.2:6443", &[proxy], None),
            ("https://[::1]:6443", &[proxy], None),
            (
                "https://api.example",
                &[proxy, ("NO_PROXY", "a.b,.example")],
                None,
            ),
            (
                "https://api.example",
                &[proxy, ("no_proxy", "example")],
                None,
            ),
            (
                "https://10.0.0.1:6443",
                &[proxy, ("NO_PROXY", "10.0.0.0/8")],
                None,
            ),
            ("https://api.example", &[proxy, ("NO_PROXY", "*")], None),
            (
                "https://api.example",
                &[proxy, ("NO_PROXY", "p")],
                Some("http://p:3128"),
            ),
        ] {
            let value = |name: &str| {
                let found = environment.iter().find(|(key, _)| *key == name)?;
                Some(found.1.to_owned())
            };
            let found = proxy_for(&server.parse().unwrap(), value);
            assert_eq!(found.as_deref(), expected, "{server} {environment:?}");
        }
    }

    #[test]
    fn the_proxy_of_the_context_s_cluster_is_taken() {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "current-context": "a",
            "contexts": [
                {"name": "a", "context": {"cluster": "ca", "user": "u"}},
                {"name": "b", "context": {"cluster": "cb", "user": "u"}},
                {"name": "c", "context": {"cluster": "gone", "user": "u"}},
            ],
            "clusters": [
                {"name": "ca", "cluster": {"server": "https://a"}},
                {"name": "cb", "cluster": {"server": "https://b", "proxy-url": "socks5://p"}},
            ],
        }))
        .unwrap();
        let of = |context| named_proxy(&kubeconfig, context);
        assert_eq!(of(None), None);
        assert_eq!(of(Some("b")).as_deref(), Some("socks5://p"));
        assert_eq!(of(Some("c")), None);
        assert_eq!(of(Some("d")), None);
    }
}
