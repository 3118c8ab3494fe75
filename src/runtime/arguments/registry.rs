//! The arguments of `oxolm run` about registries: trust, credentials, mirrors, proxies, limits.

#![expect(
    clippy::disallowed_methods,
    reason = "the home directory is in the environment"
)]

use std::path::{Path, PathBuf};

use clap::Args;

use crate::controller::pull_secrets::SecretName;
use crate::fbc::document;
use crate::registry::config::RegistryOptions;
use crate::registry::limits::MAX_LAYER_BYTES;
use crate::store::limits::Limits;

/// How catalog and bundle images are pulled and unpacked.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Registries")]
pub struct RegistryArguments {
    /// A flat directory of further CAs (*.crt) and of client certificates (*.cert with *.key) for registries; a change is
    /// seen at the next pull
    #[arg(long, env = "OXOLM_PULL_CAS_DIR", value_name = "DIR")]
    pub pull_cas_dir: Option<PathBuf>,

    /// A Secret with credentials for registries, beside the imagePullSecrets of oxolm's own service account; changes are
    /// seen at once
    #[arg(long, env = "OXOLM_GLOBAL_PULL_SECRET", value_name = "NAMESPACE/NAME")]
    pub global_pull_secret: Option<SecretName>,

    /// Mirrors, insecure and blocked registries; drop-ins lie in FILE.d (default: ~/.config/containers/registries.conf,
    /// else /etc/containers/registries.conf)
    #[arg(long, env = "OXOLM_REGISTRIES_CONF", value_name = "FILE")]
    pub registries_conf: Option<PathBuf>,

    /// Which images may be pulled; a requirement that oxolm cannot check refuses the image (default:
    /// ~/.config/containers/policy.json, else /etc/containers/policy.json)
    #[arg(long, env = "OXOLM_SIGNATURE_POLICY", value_name = "FILE")]
    pub signature_policy: Option<PathBuf>,

    /// The proxy to registries.
    #[arg(
        long,
        help = "The proxy to registries, but for hosts in NO_PROXY (default: what HTTPS_PROXY and HTTP_PROXY say)",
        env = "OXOLM_REGISTRY_PROXY",
        value_name = "URL",
        hide_env_values = true
    )]
    pub registry_proxy: Option<String>,

    /// The largest layer, as it is transferred
    #[arg(long, env = "OXOLM_MAX_LAYER_SIZE", value_name = "SIZE", default_value = "4Gi", value_parser = size)]
    pub max_layer_size: u64,

    /// The most that is kept of one image, unpacked
    #[arg(long, env = "OXOLM_MAX_UNPACKED_SIZE", value_name = "SIZE", default_value = "4Gi", value_parser = size)]
    pub max_unpacked_size: u64,

    /// The most files, directories and links in all layers of one image
    #[arg(long, env = "OXOLM_MAX_IMAGE_ENTRIES", value_name = "N", default_value_t = Limits::default().entries)]
    pub max_image_entries: u64,

    /// The largest document in a catalog, at most 64Mi; one document is held in memory
    #[arg(long, env = "OXOLM_MAX_DOCUMENT_SIZE", value_name = "SIZE", default_value = "16Mi", value_parser = document_size)]
    pub max_document_size: usize,
}

impl RegistryArguments {
    /// The options of the registry client; files that are not named are looked for where podman looks.
    pub fn options(&self) -> RegistryOptions {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let mut options = RegistryOptions {
            ca_directory: self.pull_cas_dir.clone(),
            system_certificates: system_certificates(),
            proxy: self.registry_proxy.clone().filter(|url| !url.is_empty()),
            max_layer_bytes: self.max_layer_size.min(i64::MAX.unsigned_abs()),
            ..RegistryOptions::default()
        }
        .with_system_files(home.as_deref().map(Path::new));
        if let Some(path) = &self.registries_conf {
            options.registries_conf = Some(path.clone());
        }
        if let Some(path) = &self.signature_policy {
            options.policy = Some(path.clone());
        }
        options
    }

    /// The limits of unpacking.
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            entries: self.max_image_entries,
            kept_bytes: self.max_unpacked_size,
            uncompressed_bytes: default
                .uncompressed_bytes
                .max(self.max_unpacked_size.saturating_mul(4)),
            ..default
        }
    }
}

/// Where the environment says that the system's CA certificates are. TLS itself looks there, too.
fn system_certificates() -> Vec<PathBuf> {
    let file = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let directories = std::env::var_os("SSL_CERT_DIR").unwrap_or_default();
    let all = file.into_iter().chain(std::env::split_paths(&directories));
    all.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Bytes: a number, or one with Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000), as Kubernetes writes them.
///
/// # Errors
/// When the text is no such number, or zero.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text.strip_prefix(digits).unwrap_or_default() {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => 0,
    };
    let number = digits.parse::<u64>().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected bytes above 0, such as 10485760, 512Mi or 4Gi".to_owned())
}

fn document_size(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(size(text)?).unwrap_or(usize::MAX);
    if bytes > document::EXPANDED_LIMIT_BYTES {
        return Err("a document is held in memory: 64Mi is the most".to_owned());
    }
    Ok(bytes)
}

// The texts above name these.
const _: () = assert!(MAX_LAYER_BYTES == 4 << 30);
const _: () = assert!(document::EXPANDED_LIMIT_BYTES == 64 << 20);
const _: () = assert!(document::DOCUMENT_LIMIT_BYTES == 16 << 20);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        registry: RegistryArguments,
    }

    fn parse(arguments: &[&str]) -> Result<RegistryArguments, clap::Error> {
        let all = std::iter::once("x").chain(arguments.iter().copied());
        Command::try_parse_from(all).map(|command| command.registry)
    }

    #[test]
    fn sizes_are_written_as_kubernetes_does() {
        for (text, expected) in [
            ("1", Some(1)),
            ("10Ki", Some(10_240)),
            ("2M", Some(2_000_000)),
            ("4Gi", Some(4 << 30)),
            ("0", None),
            ("", None),
            ("Gi", None),
            ("1.5Gi", None),
            ("-1", None),
            ("1Gib", None),
            ("99999999999Ti", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn arguments_become_options_and_limits() {
        let arguments = parse(&[
            "--pull-cas-dir=/cas",
            "--global-pull-secret=openshift-config/pull-secret",
            "--registries-conf=/r.conf",
            "--signature-policy=/p.json",
            "--registry-proxy=http://proxy:3128",
            "--max-layer-size=1Gi",
            "--max-unpacked-size=8Gi",
            "--max-image-entries=7",
            "--max-document-size=1Mi",
        ])
        .unwrap();
        let options = arguments.options();
        assert_eq!(options.ca_directory, Some("/cas".into()));
        assert_eq!(options.registries_conf, Some("/r.conf".into()));
        assert_eq!(options.policy, Some("/p.json".into()));
        assert_eq!(options.proxy.as_deref(), Some("http://proxy:3128"));
        assert_eq!(options.max_layer_bytes, 1 << 30);
        let limits = arguments.limits();
        assert_eq!((limits.entries, limits.kept_bytes), (7, 8 << 30));
        assert_eq!(limits.uncompressed_bytes, 32 << 30);
        assert_eq!(arguments.max_document_size, 1 << 20);
        assert_eq!(
            arguments.global_pull_secret.unwrap().to_string(),
            "openshift-config/pull-secret"
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_client_and_of_podmans_files() {
        let arguments = parse(&[]).unwrap();
        assert_eq!(arguments.options().max_layer_bytes, MAX_LAYER_BYTES);
        assert!(arguments.options().registries_conf.is_some());
        assert!(arguments.options().policy.is_some());
        let (limits, default) = (arguments.limits(), Limits::default());
        assert_eq!(limits.kept_bytes, default.kept_bytes);
        assert_eq!(limits.uncompressed_bytes, default.uncompressed_bytes);
        assert_eq!(limits.entries, default.entries);
        assert_eq!(arguments.max_document_size, document::DOCUMENT_LIMIT_BYTES);
    }

    #[test]
    fn wrong_values_are_refused() {
        for wrong in [
            "--global-pull-secret=name",
            "--global-pull-secret=a/b/c",
            "--global-pull-secret=/b",
            "--max-document-size=65Mi",
            "--max-layer-size=much",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }
}
