//! The arguments of `oxolm run`. Every flag can be set by an environment variable, too.

mod registry;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use jiff::SignedDuration;

pub use self::registry::RegistryArguments;
use crate::apply::teardown;
use crate::identity::DefaultAccount;
use crate::render::Provider;
use crate::resolve::MajorUpgrades;
use crate::runtime::telemetry::LogFormat;
use crate::serve::Profile;

/// The shortest period of anything that asks the API server again and again.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);

/// The port of metrics, as the reference's.
const METRICS_PORT: u16 = 7443;

/// Run the controllers and the catalog content server.
///
/// In a cluster it uses the Pod's service account, elsewhere the current context of the kubeconfig.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example, outside a cluster:\n  oxolm run --kubeconfig ~/.kube/config --cache-dir /tmp/oxolm --log-level debug"
)]
pub struct RunArguments {
    /// The namespace that oxolm keeps its lease and the content of revisions in (default: the Pod's, else olmv1-system)
    #[arg(long, env = "OXOLM_SYSTEM_NAMESPACE")]
    pub system_namespace: Option<String>,

    /// The kubeconfig to use (default: $KUBECONFIG, ~/.kube/config, or the Pod's service account)
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// Where catalogs and bundles are kept; it survives a restart
    #[arg(long, env = "OXOLM_CACHE_DIR", default_value = "/var/cache/oxolm")]
    pub cache_dir: PathBuf,

    /// How much the cache may hold, such as 4Gi; content that does not fit is not taken, and what is served stays
    /// (default: what the disk holds)
    #[arg(long, env = "OXOLM_CACHE_MAX_BYTES", value_name = "SIZE", value_parser = registry::size)]
    pub cache_max_bytes: Option<u64>,

    /// The address of the catalog content server (HTTPS)
    #[arg(long, env = "OXOLM_CATALOGS_SERVER_ADDR", default_value = "0.0.0.0:8443", value_parser = address)]
    pub catalogs_server_addr: SocketAddr,

    /// The host, and the port if it is not 443, under which people reach the content server; it stands in
    /// status.urls (default: catalogd-service.NAMESPACE.svc)
    #[arg(long, env = "OXOLM_EXTERNAL_ADDRESS")]
    pub external_address: Option<String>,

    /// The serving certificate of the content server, PEM; made by oxolm itself when not given
    #[arg(long, env = "OXOLM_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of the serving certificate, PEM
    #[arg(long, env = "OXOLM_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// The Secret of the system namespace in which oxolm keeps the certificate that it makes itself, and the CA behind
    /// it (ca.crt, for clients), so that all replicas serve the same (default: each replica makes one of its own at start)
    #[arg(long, env = "OXOLM_TLS_SECRET", value_name = "NAME", conflicts_with_all = ["tls_cert", "tls_key"])]
    pub tls_secret: Option<String>,

    /// What clients of the content server must speak: modern is TLS 1.3, intermediate also TLS 1.2
    #[arg(
        long,
        env = "OXOLM_TLS_PROFILE",
        value_name = "modern|intermediate",
        default_value = "intermediate"
    )]
    pub tls_profile: Profile,

    /// The address of /healthz and /readyz (HTTP)
    #[arg(long, env = "OXOLM_HEALTH_PROBE_BIND_ADDRESS", default_value = "0.0.0.0:8081", value_parser = address)]
    pub health_probe_bind_address: SocketAddr,

    /// The address of /metrics and /log-level; 0 turns them off (default: 0.0.0.0:7443, or 127.0.0.1:7443 where nobody is
    /// asked for a right)
    #[arg(long, env = "OXOLM_METRICS_BIND_ADDRESS", value_name = "ADDRESS", value_parser = optional_address)]
    pub metrics_bind_address: Option<OptionalAddress>,

    /// Whether metrics are told over HTTPS, with the certificate of the content server, and only to those whose token may
    /// get /metrics; else over plain HTTP, to everybody who reaches the address, and the log level cannot be changed
    #[arg(long, env = "OXOLM_METRICS_SECURE", value_name = "true|false", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set, hide_possible_values = true)]
    pub metrics_secure: bool,

    /// The account of extensions that name none: NAME in each extension's namespace, or NAMESPACE/NAME for all
    #[arg(long, env = "OXOLM_DEFAULT_SERVICE_ACCOUNT")]
    pub default_service_account: Option<DefaultAccount>,

    /// Namespaces whose accounts are never used: names, or beginnings and *, separated by commas
    #[arg(long, env = "OXOLM_EXCLUDED_NAMESPACES", default_value = "kube-*")]
    pub excluded_namespaces: String,

    /// Whether the admission policies on who may name an account must be in force before anything is written
    #[arg(long, env = "OXOLM_ACCOUNT_POLICY", value_enum, default_value_t)]
    pub account_policy: AccountPolicy,

    /// What an automatic upgrade to a higher major version takes
    #[arg(long, env = "OXOLM_MAJOR_UPGRADES", value_enum, default_value_t)]
    pub major_upgrades: MajorUpgradesArgument,

    /// Whether CRDs that a bundle leaves behind are deleted while resources of them exist
    #[arg(long, env = "OXOLM_CRD_DELETION", value_enum, default_value_t)]
    pub crd_deletion: CrdDeletion,

    /// How often installed objects are read as the account of their extension where neither oxolm nor the account may
    /// watch their kind: 10m, 90s
    #[arg(long, env = "OXOLM_REREAD_PERIOD", value_name = "PERIOD", default_value = "10m", value_parser = period)]
    pub reread_period: Duration,

    /// Who makes the certificates of webhooks, for extensions whose first install is still to come: auto is cert-manager
    /// where it is served, else the service CA of `OpenShift` where that is, else oxolm itself
    #[arg(long, env = "OXOLM_WEBHOOK_CERTIFICATES", value_enum, default_value_t)]
    pub webhook_certificates: WebhookCertificates,

    /// How images are pulled.
    #[command(flatten)]
    pub registry: RegistryArguments,

    /// The level of logs: error, warn, info, debug, trace, or directives such as oxolm=debug,kube=warn; PUT /log-level, where
    /// metrics are, changes it while oxolm runs
    #[arg(long, env = "OXOLM_LOG_LEVEL", default_value = "info")]
    pub log_level: String,

    /// The shape of log lines
    #[arg(long, env = "OXOLM_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

impl RunArguments {
    /// Where metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        match self.metrics_bind_address {
            Some(OptionalAddress(address)) => address,
            None if self.metrics_secure => Some((Ipv4Addr::UNSPECIFIED, METRICS_PORT).into()),
            // What asks nobody for a right is not for the network, unless somebody says so.
            None => Some((Ipv4Addr::LOCALHOST, METRICS_PORT).into()),
        }
    }

    /// The default account as its flag has it; empty when there is none.
    pub fn default_account_text(&self) -> String {
        match &self.default_service_account {
            None | Some(DefaultAccount::None) => String::new(),
            Some(DefaultAccount::InOwnNamespace(name)) => name.clone(),
            Some(DefaultAccount::One(account)) => account.to_string(),
        }
    }
}

/// `--account-policy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum AccountPolicy {
    /// Nothing is written until the policies are in force in their shipped form.
    #[default]
    Required,
    /// The administrator does without: everyone who may write a `ClusterExtension` can use every account.
    None,
}

/// `--major-upgrades`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum MajorUpgradesArgument {
    /// An upgrade edge of the catalog, as any other upgrade.
    #[default]
    Edges,
    /// The extension must be set to `SelfCertified`.
    Forced,
}

impl From<MajorUpgradesArgument> for MajorUpgrades {
    fn from(argument: MajorUpgradesArgument) -> Self {
        match argument {
            MajorUpgradesArgument::Edges => Self::Edges,
            MajorUpgradesArgument::Forced => Self::Forced,
        }
    }
}

/// `--crd-deletion`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CrdDeletion {
    /// A CRD that still has resources is kept and reported.
    #[default]
    KeepIfUsed,
    /// CRDs go with all their resources.
    Delete,
}

impl From<CrdDeletion> for teardown::CrdDeletion {
    fn from(argument: CrdDeletion) -> Self {
        match argument {
            CrdDeletion::KeepIfUsed => Self::KeepIfUsed,
            CrdDeletion::Delete => Self::Delete,
        }
    }
}

/// `--webhook-certificates`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum WebhookCertificates {
    /// What the cluster offers, else oxolm.
    #[default]
    Auto,
    /// cert-manager.
    CertManager,
    /// The service CA of `OpenShift`.
    ServiceCa,
    /// oxolm.
    #[value(name = "self")]
    SelfSigned,
}

impl From<WebhookCertificates> for Option<Provider> {
    fn from(argument: WebhookCertificates) -> Self {
        match argument {
            WebhookCertificates::Auto => None,
            WebhookCertificates::CertManager => Some(Provider::CertManager),
            WebhookCertificates::ServiceCa => Some(Provider::ServiceCa),
            WebhookCertificates::SelfSigned => Some(Provider::SelfSigned),
        }
    }
}

/// An address, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalAddress(pub Option<SocketAddr>);

/// `host:port`, or `:port` for all addresses, as the reference's flags take it.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    full.parse()
        .map_err(|_invalid| "expected ADDRESS:PORT or :PORT, for example 0.0.0.0:8443".to_owned())
}

/// A time of at least [`SHORTEST_PERIOD`].
fn period(text: &str) -> Result<Duration, String> {
    let period = text.parse::<SignedDuration>().ok();
    let period = period.and_then(|period| Duration::try_from(period).ok());
    period
        .filter(|period| *period >= SHORTEST_PERIOD)
        .ok_or_else(|| {
            format!(
                "expected a time of at least {} seconds, for example 10m",
                SHORTEST_PERIOD.as_secs()
            )
        })
}

fn optional_address(text: &str) -> Result<OptionalAddress, String> {
    if text == "0" || text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    address(text).map(|address| OptionalAddress(Some(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_time_that_is_not_too_short() {
        assert_eq!(period("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(period("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["", "10", "9s", "-10m"] {
            assert!(period(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn metrics_that_ask_nobody_stay_on_the_machine_unless_somebody_says_so() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            run: RunArguments,
        }
        let address = |flags: &[&str]| {
            let line = [&["oxolm"], flags].concat();
            let parsed = <Line as clap::Parser>::try_parse_from(line).unwrap();
            parsed
                .run
                .metrics_address()
                .map(|address| address.to_string())
        };
        assert_eq!(address(&[]).as_deref(), Some("0.0.0.0:7443"));
        assert_eq!(
            address(&["--metrics-secure=false"]).as_deref(),
            Some("127.0.0.1:7443")
        );
        let open = ["--metrics-secure=false", "--metrics-bind-address=:9090"];
        assert_eq!(address(&open).as_deref(), Some("0.0.0.0:9090"));
        assert_eq!(address(&["--metrics-bind-address", "0"]), None);
    }

    #[test]
    fn addresses_may_leave_out_the_host() {
        assert_eq!(address(":8443").unwrap().to_string(), "0.0.0.0:8443");
        assert_eq!(address("127.0.0.1:1").unwrap().to_string(), "127.0.0.1:1");
        assert!(address("8443").is_err());
        assert_eq!(optional_address("0").unwrap(), OptionalAddress(None));
    }
}
