//! `ClusterCatalog`.

use std::sync::Arc;

use oxolm::api::ClusterCatalog;
use serde_json::{Value, json};

use super::{dry_run, object, removed, stored, wire};
use crate::harness::rules::{Row, admitted, check, refused};
use crate::harness::{Cluster, Outcome};

const DOMAIN: &str = "the reference must begin with a registry: letters, digits and hyphens separated by '.', optionally followed by ':' and a port";
const NAME: &str = "the registry must be followed by '/' and the name of a repository: lower-case letters and digits separated by '.', '_', '__', '-' or '/'";
const END: &str = "the reference must end with a tag or a digest";
const TAG_LENGTH: &str = "the tag must not be longer than 127 characters";
const TAG: &str = "the tag must begin with a letter, a digit or '_', followed by letters, digits, '_', '.' or '-'";
const ALGORITHM: &str = "the algorithm of the digest must begin with a letter and consist of letters and digits, separated by '-', '_', '+' or '.'";
const ENCODED_LENGTH: &str = "the digest must have at least 32 characters after ':'";
const ENCODED: &str = "the digest must be hexadecimal after ':' (0-9, a-f, A-F)";
const UNION: &str = "image is required when type is Image, and forbidden otherwise";
const POLL: &str =
    "pollIntervalMinutes cannot be set for a reference with a digest, whose content never changes";

const REF: &str = "spec.source.image.ref";
const RESOLVED_REF: &str = "status.resolvedSource.image.ref";

fn valid(name: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": "quay.io/operatorhubio/catalog:latest"}}},
    })
}

fn reference(text: &str) -> Value {
    json!({"spec": {"source": {"image": {"ref": text}}}})
}

fn digest(repository: &str, encoded: usize) -> String {
    format!("{repository}@sha256:{}", "a".repeat(encoded))
}

fn creation_rows() -> Vec<Row> {
    let mut rows = vec![
        admitted("the object as it is", json!({})),
        refused("no spec", json!({"spec": null}), "spec", "Required value"),
        refused(
            "no source",
            json!({"spec": {"source": null}}),
            "spec.source",
            "Required value",
        ),
        refused(
            "type Image without image",
            json!({"spec": {"source": {"image": null}}}),
            "spec.source",
            UNION,
        ),
        refused(
            "the type of before 1.0",
            json!({"spec": {"source": {"type": "image"}}}),
            "spec.source.type",
            "Unsupported value: \"image\": supported values: \"Image\"",
        ),
        refused(
            "digest and poll interval",
            json!({"spec": {"source": {"image": {"ref": digest("quay.io/a/b", 64), "pollIntervalMinutes": 5}}}}),
            "spec.source.image",
            POLL,
        ),
        admitted(
            "tag and poll interval",
            json!({"spec": {"source": {"image": {"pollIntervalMinutes": 1}}}}),
        ),
        refused(
            "an interval of nothing",
            json!({"spec": {"source": {"image": {"pollIntervalMinutes": 0}}}}),
            "spec.source.image.pollIntervalMinutes",
            "spec.source.image.pollIntervalMinutes in body should be greater than or equal to 1",
        ),
        admitted(
            "the lowest priority",
            json!({"spec": {"priority": i32::MIN}}),
        ),
        Row {
            why: "a priority beyond 32 bits",
            change: json!({"spec": {"priority": i64::from(i32::MAX) + 1}}),
            refused: vec![
                (
                    "<nil>",
                    "Checked value must be of type integer with format int32 in spec.priority",
                ),
                (
                    "spec.priority",
                    "spec.priority in body should be less than or equal to 2147483647",
                ),
            ],
        },
        admitted(
            "switched off",
            json!({"spec": {"availabilityMode": "Unavailable"}}),
        ),
        refused(
            "an unknown mode",
            json!({"spec": {"availabilityMode": "Maybe"}}),
            "spec.availabilityMode",
            "Unsupported value: \"Maybe\": supported values: \"Available\", \"Unavailable\"",
        ),
    ];
    rows.extend(reference_rows());
    rows
}

fn reference_rows() -> Vec<Row> {
    vec![
        admitted("digest", reference(&digest("quay.io/a/b", 64))),
        admitted(
            "a digest of 33 characters is left to the controller",
            reference(&digest("quay.io/a/b", 33)),
        ),
        admitted(
            "upper-case hexadecimal is left to the controller",
            reference(&format!("quay.io/a/b@sha256:{}", "A".repeat(64))),
        ),
        admitted("a port", reference("localhost:5000/a/b:1")),
        admitted(
            "a tag that ends with -",
            reference("docker.io/foo/bar:latest-"),
        ),
        admitted(
            "127 characters of tag",
            reference(&format!("docker.io/foo/bar:{}", "x".repeat(127))),
        ),
        admitted(
            "upper case later in the name is left to the controller",
            reference("quay.io/foo/BAR:latest"),
        ),
        refused(
            "a domain that begins with -",
            reference(&digest("-quay.io/foo/bar", 64)),
            REF,
            DOMAIN,
        ),
        refused(
            "a domain that begins with + ",
            reference(&digest("+quay.io/foo/bar", 64)),
            REF,
            DOMAIN,
        ),
        refused(
            "upper case in the name",
            reference(&digest("docker.io/FOO/BAR", 64)),
            REF,
            NAME,
        ),
        refused("no name", reference("docker.io:8080"), REF, NAME),
        refused(
            "neither tag nor digest",
            reference("docker.io/foo/bar"),
            REF,
            END,
        ),
        refused(
            "128 characters of tag",
            reference(&format!("docker.io/foo/bar:{}", "x".repeat(128))),
            REF,
            TAG_LENGTH,
        ),
        refused(
            "a tag that begins with -",
            reference("docker.io/foo/bar:-foo"),
            REF,
            TAG,
        ),
        refused(
            "an algorithm that begins with a digit",
            reference(&format!("docker.io/foo/bar@99problems:{}", "a".repeat(64))),
            REF,
            ALGORITHM,
        ),
        refused(
            "31 characters of digest",
            reference(&digest("docker.io/foo/bar", 31)),
            REF,
            ENCODED_LENGTH,
        ),
        refused(
            "a digest that is not hexadecimal",
            reference(&format!("docker.io/foo/bar@sha256:{}", "x".repeat(64))),
            REF,
            ENCODED,
        ),
        refused(
            "1001 characters",
            reference(&format!("docker.io/{}:tag", "a".repeat(987))),
            REF,
            "Too long: may not be more than 1000 bytes",
        ),
        refused(
            "no reference",
            json!({"spec": {"source": {"image": {"ref": null, "pollIntervalMinutes": 5}}}}),
            REF,
            "Required value",
        ),
    ]
}

/// What a new catalog may say.
pub(crate) async fn creation(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let api = wire::<ClusterCatalog>(&cluster.client);
    check(&valid("rules-creation"), creation_rows(), |value| {
        let api = api.clone();
        async move { api.create(&dry_run(), &object(value)).await }
    })
    .await?;
    Ok(Outcome::Passed)
}

fn resolved(text: &str) -> Value {
    json!({"status": {"resolvedSource": {"type": "Image", "image": {"ref": text}}}})
}

fn status_rows() -> Vec<Row> {
    let base = |text: &str| json!({"status": {"urls": {"base": text}}});
    vec![
        admitted("nothing", json!({})),
        admitted("a digest", resolved(&digest("quay.io/a/b", 64))),
        refused(
            "a tag",
            resolved("quay.io/a/b:latest"),
            RESOLVED_REF,
            "the reference must end with a digest",
        ),
        Row {
            why: "neither name nor digest",
            change: resolved("docker.io:8080"),
            refused: vec![
                (RESOLVED_REF, NAME),
                (RESOLVED_REF, "the reference must end with a digest"),
            ],
        },
        refused(
            "a short digest",
            resolved(&digest("quay.io/a/b", 31)),
            RESOLVED_REF,
            ENCODED_LENGTH,
        ),
        refused(
            "type Image without image",
            json!({"status": {"resolvedSource": {"type": "Image"}}}),
            "status.resolvedSource",
            UNION,
        ),
        admitted(
            "https",
            base("https://catalogd-service.olmv1-system.svc/catalogs/a"),
        ),
        admitted("http", base("http://localhost/catalogs/a")),
        refused(
            "a file",
            base("file://somefile"),
            "status.urls.base",
            "base must be a URL with scheme http or https",
        ),
        refused(
            "no URL",
            base("nothing"),
            "status.urls.base",
            "base must be a URL",
        ),
        refused(
            "526 characters",
            base(&format!("https://{}", "a".repeat(518))),
            "status.urls.base",
            "Too long: may not be more than 525 bytes",
        ),
        refused(
            "a condition without reason",
            json!({"status": {"conditions": [{"type": "Serving", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
            "status.conditions[0].reason",
            "conditions[0].reason in body should be at least 1 chars long",
        ),
    ]
}

/// What the status of a catalog may say.
pub(crate) async fn status(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let name = "rules-status";
    let api = wire::<ClusterCatalog>(&cluster.client);
    let found = serde_json::to_value(stored(&api, &valid(name)).await?)?;
    let result = check(&found, status_rows(), |value| {
        let api = api.clone();
        async move { api.replace_status(name, &dry_run(), &object(value)).await }
    })
    .await;
    removed(&api, name).await?;
    result?;
    Ok(Outcome::Passed)
}
