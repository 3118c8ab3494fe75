//! What extensions keep in the API server, and what they would in the reference.

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use oxolm::revision::pack::unpack;
use oxolm::revision::phase::ObjectMarks;
use oxolm::revision::probe::default_probes;
use serde_json::{Value, json};

/// The probes that the reference's revisions have, all of them; those of oxolm begin with the same.
const REFERENCES_PROBES: usize = 7;
/// The conditions that the reference writes on a revision.
const REFERENCES_CONDITIONS: [&str; 3] = ["Progressing", "Available", "Succeeded"];

/// Bytes of all revisions and their Secrets, as JSON.
pub(super) struct Stored {
    pub(super) ours: usize,
    /// The same revisions as the reference writes them: an object up to 900 KiB is not compressed, every revision has all
    /// default probes, and `managedFields` are kept. What only oxolm has is left out.
    pub(super) references: usize,
}

impl Stored {
    pub(super) async fn of(client: &Client) -> anyhow::Result<Self> {
        let list = async |path: &str| -> anyhow::Result<Vec<Value>> {
            let request = http::Request::get(path).body(Vec::new())?;
            let list: Value = client.request(request).await?;
            Ok(list["items"].as_array().cloned().unwrap_or_default())
        };
        let sets = list("/apis/olm.operatorframework.io/v1/clusterobjectsets").await?;
        let secrets = list("/api/v1/namespaces/olmv1-system/secrets").await?;
        let secrets: Vec<Value> = secrets
            .into_iter()
            .filter(|secret| secret["type"] == "olm.operatorframework.io/object-data")
            .collect();
        let size = |objects: &[Value]| objects.iter().map(|one| one.to_string().len()).sum();
        let [of_sets, of_secrets]: [usize; 2] = [size(&sets), size(&secrets)];
        let marks_of = |secret: &Value| -> anyhow::Result<ObjectMarks> {
            let revision = &secret["metadata"]["labels"]["olm.operatorframework.io/revision-name"];
            let set = sets.iter().find(|set| set["metadata"]["name"] == *revision);
            let set = set.context("every Secret has its revision")?;
            let metadata = serde_json::from_value(set["metadata"].clone())?;
            Ok(ObjectMarks::of_revision(&metadata))
        };
        let as_secrets: Vec<Value> = secrets
            .iter()
            .map(|secret| as_reference_packs(secret, &marks_of(secret)?))
            .collect::<anyhow::Result<_>>()?;
        let as_sets: Vec<Value> = sets.iter().map(as_reference_writes).collect();
        let [like_sets, like_secrets]: [usize; 2] = [size(&as_sets), size(&as_secrets)];
        println!(
            "revisions {of_sets} B, their Secrets {of_secrets} B; the reference: {like_sets} B, {like_secrets} B"
        );
        Ok(Self {
            ours: of_sets + of_secrets,
            references: like_sets + like_secrets,
        })
    }
}

/// The Secret with its objects as plain JSON, and a record of who wrote what.
fn as_reference_packs(secret: &Value, marks: &ObjectMarks) -> anyhow::Result<Value> {
    let mut secret = secret.clone();
    if let Some(data) = secret["data"].as_object_mut() {
        for (key, stored) in data {
            let bytes = BASE64_STANDARD.decode(stored.as_str().unwrap_or_default())?;
            let object = marks.added_to(unpack(&bytes, "of a revision", key)?);
            *stored = json!(BASE64_STANDARD.encode(object.to_string()));
        }
    }
    let written = json!({
        "data": secret["data"], "immutable": true, "type": secret["type"],
        "metadata": {"labels": secret["metadata"]["labels"], "ownerReferences": secret["metadata"]["ownerReferences"]},
    });
    secret["metadata"]["managedFields"] =
        json!([entry("v1", "operator-controller", "Update", &written)]);
    Ok(secret)
}

/// The revision without what only oxolm puts there, with all default probes of the reference, and a record of who wrote
/// what.
fn as_reference_writes(set: &Value) -> Value {
    let mut set = set.clone();
    if let Some(annotations) = set["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !key.starts_with("oxolm.dev/"));
    }
    let probes = default_probes().into_iter().take(REFERENCES_PROBES);
    set["spec"]["progressionProbes"] = json!(probes.collect::<Vec<_>>());
    if let Some(conditions) = set["status"]["conditions"].as_array_mut() {
        conditions.retain(|one| {
            REFERENCES_CONDITIONS
                .iter()
                .any(|known| one["type"] == *known)
        });
    }
    let metadata = &set["metadata"];
    let applied = json!({"spec": set["spec"], "metadata": {
        "annotations": metadata["annotations"], "labels": metadata["labels"],
        "ownerReferences": metadata["ownerReferences"],
    }});
    let finalizers = json!({"metadata": {"finalizers": metadata["finalizers"]}});
    let status = json!({"status": set["status"]});
    let version = "olm.operatorframework.io/v1";
    let mut of_status = entry(version, "operator-controller", "Update", &status);
    of_status["subresource"] = json!("status");
    set["metadata"]["managedFields"] = json!([
        entry(
            version,
            "olm.operatorframework.io/clusterextension-controller",
            "Apply",
            &applied
        ),
        entry(version, "operator-controller", "Update", &finalizers),
        of_status,
    ]);
    set
}

/// An entry of `managedFields`: these fields are `manager`'s.
fn entry(version: &str, manager: &str, operation: &str, written: &Value) -> Value {
    json!({
        "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields("", written),
        "manager": manager, "operation": operation, "time": "2026-01-01T00:00:00Z",
    })
}

/// `value`, the field `name`, as the API server records it.
fn fields(name: &str, value: &Value) -> Value {
    let by_key = |key: &str, items: &[Value]| -> Value {
        let of = |item: &Value| (format!("k:{}", json!({key: item[key]})), fields("", item));
        items.iter().map(of).collect()
    };
    match (name, value) {
        ("ownerReferences", Value::Array(items)) => {
            let of = |item: &Value| (format!("k:{}", json!({"uid": item["uid"]})), json!({}));
            items.iter().map(of).collect()
        }
        ("phases" | "observedPhases", Value::Array(items)) => by_key("name", items),
        ("conditions", Value::Array(items)) => by_key("type", items),
        ("finalizers", Value::Array(items)) => items
            .iter()
            .map(|item| (format!("v:{item}"), json!({})))
            .collect(),
        (_, Value::Object(all)) => {
            let of = |(key, value): (&String, &Value)| (format!("f:{key}"), fields(key, value));
            all.iter().map(of).collect()
        }
        _ => json!({}),
    }
}
