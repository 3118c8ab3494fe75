//! Who serves webhooks among rendered objects, and who has to trust them: the places that [`Provider::SelfSigned`]
//! leaves open, found again in the objects alone, so that a revision needs to remember nothing but its provider.
//!
//! [`Provider::SelfSigned`]: super::Provider::SelfSigned

use serde_json::{Map, Value};

use super::name::certificate_of;
use crate::api::object::{Gvk, ObjectKey};

/// One server of webhooks: a Service before a Deployment that mounts the certificate's Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The Secret that holds the certificate and its key.
    pub secret: ObjectKey,
    /// The names that the API server and others call it by, the API server's first.
    pub hosts: Vec<String>,
    /// The Deployments that mount the Secret.
    pub deployments: Vec<ObjectKey>,
    /// Who calls it.
    pub callers: Vec<Caller>,
}

/// A field `clientConfig` that names the server, and whose `caBundle` has to hold its CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The object.
    pub key: ObjectKey,
    /// The name of the webhook in its configuration; none: the conversion of a definition.
    pub webhook: Option<String>,
}

/// The servers of webhooks among `objects`, in their order, each with all its callers.
///
/// A Service counts if a Deployment beside it mounts the Secret that its name gives: what a bundle wires up itself is
/// left alone.
pub fn servings<'a>(objects: impl Iterator<Item = &'a Value> + Clone) -> Vec<Serving> {
    let keyed = objects.filter_map(|object| Some((ObjectKey::of(object).ok()?, object))); // What is no object serves nothing.
    let services = keyed
        .clone()
        .filter(|(key, _)| key.gvk == Gvk::new("v1", "Service"));
    services
        .filter_map(|(service, _)| {
            let secret = ObjectKey {
                gvk: Gvk::new("v1", "Secret"),
                namespace: service.namespace.clone(),
                name: certificate_of(&service.name),
            };
            let deployments: Vec<ObjectKey> = keyed
                .clone()
                .filter(|(_, object)| mounts(object, &secret))
                .map(|(key, _)| key)
                .collect();
            if deployments.is_empty() {
                return None;
            }
            let host = format!("{}.{}", service.name, service.namespace);
            Some(Serving {
                hosts: vec![
                    format!("{host}.svc"),
                    format!("{host}.svc.cluster.local"),
                    host,
                ],
                secret,
                deployments,
                callers: keyed
                    .clone()
                    .flat_map(|(key, object)| callers(&key, object, &service))
                    .collect(),
            })
        })
        .collect()
}

/// Whether a Deployment has a volume of a webhook certificate that is `secret`.
fn mounts(deployment: &Value, secret: &ObjectKey) -> bool {
    let text = |pointer| deployment.pointer(pointer).and_then(Value::as_str);
    let volumes = deployment
        .pointer("/spec/template/spec/volumes")
        .and_then(Value::as_array);
    text("/kind") == Some("Deployment")
        && text("/metadata/namespace") == Some(secret.namespace.as_str())
        && volumes.into_iter().flatten().any(|volume| {
            volume.pointer("/secret/secretName").and_then(Value::as_str)
                == Some(secret.name.as_str())
        })
}

/// The fields of one object that name `service`.
fn callers(key: &ObjectKey, object: &Value, service: &ObjectKey) -> Vec<Caller> {
    let names = |config: Option<&Value>| {
        let text = |pointer| config?.pointer(pointer)?.as_str();
        text("/service/name") == Some(service.name.as_str())
            && text("/service/namespace") == Some(service.namespace.as_str())
    };
    if key.gvk.is_crd() {
        let config = object.pointer("/spec/conversion/webhook/clientConfig");
        let caller = names(config).then(|| Caller {
            key: key.clone(),
            webhook: None,
        });
        return caller.into_iter().collect();
    }
    if key.gvk.group != "admissionregistration.k8s.io" {
        return Vec::new();
    }
    let webhooks = object.get("webhooks").and_then(Value::as_array);
    let calling = webhooks.into_iter().flatten();
    calling
        .filter(|webhook| names(webhook.get("clientConfig")))
        .filter_map(|webhook| webhook.get("name")?.as_str())
        .map(|name| Caller {
            key: key.clone(),
            webhook: Some(name.to_owned()),
        })
        .collect()
}

/// The `caBundle` that a live object has for `webhook`, as it is written: base64.
pub fn trusted<'a>(live: &'a Value, webhook: Option<&str>) -> Option<&'a str> {
    let config = match webhook {
        None => live.pointer("/spec/conversion/webhook/clientConfig"),
        Some(name) => live
            .get("webhooks")?
            .as_array()?
            .iter()
            .find(|webhook| webhook.get("name").and_then(Value::as_str) == Some(name))?
            .get("clientConfig"),
    };
    config?.get("caBundle")?.as_str()
}

/// The fields of an object that say whom it trusts: `bundles` has the base64 of each webhook (none: the conversion).
pub fn trusting(bundles: &[(Option<String>, String)]) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut webhooks = Vec::new();
    for (webhook, bundle) in bundles {
        let config = serde_json::json!({"caBundle": bundle});
        match webhook {
            None => {
                let conversion = serde_json::json!({"webhook": {"clientConfig": config}});
                fields.insert(
                    "spec".to_owned(),
                    serde_json::json!({"conversion": conversion}),
                );
            }
            Some(name) => {
                webhooks.push(serde_json::json!({"name": name, "clientConfig": config}));
            }
        }
    }
    if !webhooks.is_empty() {
        fields.insert("webhooks".to_owned(), Value::Array(webhooks));
    }
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Deployment that mounts the Secret `secret`, its Service, and everything that may call it.
    fn objects(secret: &str) -> Vec<Value> {
        let config = |service: &str| json!({"service": {"name": service, "namespace": "n"}});
        let of = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        let mut deployment = of("apps/v1", "Deployment", "op");
        deployment["metadata"]["namespace"] = json!("n");
        deployment["spec"]["template"]["spec"]["volumes"] =
            json!([{"name": "webhook-cert", "secret": {"secretName": secret}}]);
        let mut service = of("v1", "Service", "op-service");
        service["metadata"]["namespace"] = json!("n");
        let mut admission = of(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "v",
        );
        admission["webhooks"] = json!([
            {"name": "ours", "clientConfig": config("op-service")},
            {"name": "theirs", "clientConfig": config("other")},
        ]);
        let mut crd = of(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "things.g",
        );
        crd["spec"]["conversion"] =
            json!({"strategy": "Webhook", "webhook": {"clientConfig": config("op-service")}});
        let plain = of(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "plain.g",
        );
        vec![crd, plain, deployment, admission, service]
    }

    #[test]
    fn a_server_is_found_with_those_who_call_it() {
        let found = servings(objects("op-service-cert").iter());
        let [serving] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(serving.secret.to_string(), "Secret.v1 n/op-service-cert");
        assert_eq!(
            serving.hosts,
            [
                "op-service.n.svc",
                "op-service.n.svc.cluster.local",
                "op-service.n"
            ]
        );
        let callers: Vec<_> = serving
            .callers
            .iter()
            .map(|caller| (caller.key.name.as_str(), caller.webhook.as_deref()))
            .collect();
        assert_eq!(callers, [("things.g", None), ("v", Some("ours"))]);
    }

    #[test]
    fn a_service_whose_secret_nobody_mounts_is_left_alone() {
        assert_eq!(servings(objects("another").iter()), []);
        assert_eq!(servings([json!("no object")].iter()), []);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let bundles = [
            (Some("a".to_owned()), "QQ==".to_owned()),
            (None, "Qg==".to_owned()),
        ];
        let object = Value::Object(trusting(&bundles));
        assert_eq!(trusted(&object, Some("a")), Some("QQ=="));
        assert_eq!(trusted(&object, None), Some("Qg=="));
        assert_eq!(trusted(&object, Some("b")), None);
        assert_eq!(trusted(&json!({}), None), None);
        assert_eq!(Value::Object(trusting(&[])), json!({}));
    }
}
