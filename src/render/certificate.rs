//! Certificates of webhooks: who makes them, and what that takes in the rendered objects.

use serde_json::{Map, Value, json};

use crate::bundle::csv::Deployment;

use super::Context;
use super::name::WebhookNames;
use super::webhook;

/// Who makes the serving certificates of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// cert-manager, by an `Issuer` and a `Certificate` for each Deployment.
    CertManager,
    /// The service CA of `OpenShift`, by annotations.
    ServiceCa,
    /// oxolm itself, while applying; rendering leaves the places that it fills.
    SelfSigned,
    /// Nobody: a bundle with webhooks is refused.
    None,
}

/// A volume that holds a certificate: its name, where it is mounted, and the names of its files there.
struct Mount {
    volume: &'static str,
    path: &'static str,
    certificate: &'static str,
    key: &'static str,
}

/// The second one is for API services, and is added although those are not supported.
const MOUNTS: [Mount; 2] = [
    Mount {
        volume: "webhook-cert",
        path: "/tmp/k8s-webhook-server/serving-certs",
        certificate: "tls.crt",
        key: "tls.key",
    },
    Mount {
        volume: "apiservice-cert",
        path: "/apiserver.local.config/certificates",
        certificate: "apiserver.crt",
        key: "apiserver.key",
    },
];

/// The word of `--certificates` and of the revision's annotation.
impl std::fmt::Display for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CertManager => "cert-manager",
            Self::ServiceCa => "service-ca",
            Self::SelfSigned => "self",
            Self::None => "none",
        })
    }
}

impl Provider {
    /// Reads the word that `Display` writes.
    pub fn parse(word: &str) -> Option<Self> {
        [
            Self::CertManager,
            Self::ServiceCa,
            Self::SelfSigned,
            Self::None,
        ]
        .into_iter()
        .find(|provider| provider.to_string() == word)
    }

    /// Marks a webhook configuration or a converted definition so that the provider puts its CA in.
    pub(super) fn annotate_trust(
        self,
        object: &mut Value,
        install_namespace: &str,
        names: &WebhookNames,
    ) {
        match self {
            Self::CertManager => annotate(
                object,
                "cert-manager.io/inject-ca-from",
                &format!("{install_namespace}/{}", names.certificate),
            ),
            Self::ServiceCa => {
                annotate(object, "service.beta.openshift.io/inject-cabundle", "true");
            }
            Self::SelfSigned | Self::None => {}
        }
    }

    /// Marks a Service so that the provider makes its certificate.
    pub(super) fn annotate_service(self, service: &mut Value, names: &WebhookNames) {
        match self {
            Self::ServiceCa => annotate(
                service,
                "service.beta.openshift.io/serving-cert-secret-name",
                &names.certificate,
            ),
            Self::CertManager | Self::SelfSigned | Self::None => {}
        }
    }
}

fn annotate(object: &mut Value, key: &str, value: &str) {
    let annotations = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .map(|metadata| {
            metadata
                .entry("annotations")
                .or_insert_with(|| Value::Object(Map::new()))
        });
    if let Some(Value::Object(annotations)) = annotations {
        annotations.insert(key.to_owned(), Value::from(value));
    }
}

/// The provider's own objects, for each Deployment that serves webhooks, in order of the CSV.
pub(super) fn objects(ctx: &Context<'_>) -> Vec<Value> {
    match ctx.certificates {
        Provider::CertManager => webhook::serving_deployments(ctx)
            .flat_map(|deployment| issuer_and_certificate(ctx, deployment))
            .collect(),
        Provider::ServiceCa | Provider::SelfSigned | Provider::None => Vec::new(),
    }
}

/// The Secrets that oxolm itself makes, for each Deployment that serves webhooks, in order of the CSV.
pub(super) fn secrets(ctx: &Context<'_>) -> Vec<Value> {
    let secret = |deployment: &Deployment| {
        let name = WebhookNames::of(&deployment.name).certificate;
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": ctx.install_namespace},
        })
    };
    match ctx.certificates {
        Provider::SelfSigned => webhook::serving_deployments(ctx).map(secret).collect(),
        Provider::CertManager | Provider::ServiceCa | Provider::None => Vec::new(),
    }
}

fn issuer_and_certificate(ctx: &Context<'_>, deployment: &Deployment) -> [Value; 2] {
    let names = WebhookNames::of(&deployment.name);
    let host = format!("{}.{}", names.service, ctx.install_namespace);
    let issuer = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": {"name": names.issuer, "namespace": ctx.install_namespace},
        "spec": {"selfSigned": {}},
    });
    let certificate = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": names.certificate, "namespace": ctx.install_namespace},
        "spec": {
            "commonName": host,
            "dnsNames": [host, format!("{host}.svc"), format!("{host}.svc.cluster.local")],
            "duration": "17520h0m0s",
            "issuerRef": {"name": names.issuer},
            "renewBefore": "24h0m0s",
            "secretName": names.certificate,
            "usages": ["server auth"],
        },
    });
    [issuer, certificate]
}

/// Puts the certificate's volumes into the pod, in place of what the bundle has at their names and paths. Init
/// containers stay as they are.
pub(super) fn mount(pod: &mut Map<String, Value>, deployment: &str) {
    let names = WebhookNames::of(deployment);
    let replaced = replaced_volumes(pod);
    let mut volumes = members_without(pod.remove("volumes"), &replaced);
    volumes.extend(MOUNTS.iter().map(|mount| {
        json!({
            "name": mount.volume,
            "secret": {
                "secretName": names.certificate,
                "items": [
                    {"key": "tls.crt", "path": mount.certificate},
                    {"key": "tls.key", "path": mount.key},
                ],
            },
        })
    }));
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        let Some(container) = container.as_object_mut() else {
            continue;
        };
        let mut mounts = members_without(container.remove("volumeMounts"), &replaced);
        mounts.extend(
            MOUNTS
                .iter()
                .map(|mount| json!({"name": mount.volume, "mountPath": mount.path})),
        );
        container.insert("volumeMounts".to_owned(), Value::Array(mounts));
    }
}

/// The volumes that make room: those of our names, and those that some container mounts at our paths.
fn replaced_volumes(pod: &Map<String, Value>) -> Vec<String> {
    let mounted = pod
        .get("containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("volumeMounts")?.as_array())
        .flatten()
        .filter(|authored| {
            let path = authored.get("mountPath").and_then(Value::as_str);
            MOUNTS.iter().any(|mount| path == Some(mount.path))
        })
        .filter_map(|authored| authored.get("name")?.as_str())
        .map(str::to_owned);
    MOUNTS
        .iter()
        .map(|mount| mount.volume.to_owned())
        .chain(mounted)
        .collect()
}

/// The list without the members whose name is in `names`.
fn members_without(list: Option<Value>, names: &[String]) -> Vec<Value> {
    let mut members = match list {
        Some(Value::Array(members)) => members,
        _ => Vec::new(),
    };
    members.retain(|member| {
        let name = member.get("name").and_then(Value::as_str);
        !names.iter().any(|n| Some(n.as_str()) == name)
    });
    members
}
