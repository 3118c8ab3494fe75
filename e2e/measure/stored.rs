//! What extensions keep in the API server, and what they would in the reference.

use kube::Client;
use oxolm::revision::pack::unpack;
use serde_json::{Value, json};

/// The probes that the reference's revisions have, those of oxolm beginning with the same.
const REFERENCES_PROBES: usize = 7;
/// The conditions that the reference writes on a revision.
const REFERENCES_CONDITIONS: [&str; 3] = ["Progressing", "Available", "Succeeded"];

/// Bytes of all revisions and their Secrets, as JSON.
pub(super) struct Stored {
    pub(super) ours: usize,
    /// The same revisions as the reference packs them (its specification is in `spec/apply.md`, 1.4): an object up to
    /// 900 KiB is not compressed. What only oxolm has is left out.
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
        let as_secrets: Vec<Value> =
            (secrets.iter().map(as_reference_packs)).collect::<Result<_, _>>()?;
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

/// The Secret with its objects as plain JSON.
fn as_reference_packs(secret: &Value) -> anyhow::Result<Value> {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    let mut secret = secret.clone();
    if let Some(data) = secret["data"].as_object_mut() {
        for (key, stored) in data {
            let bytes = BASE64_STANDARD.decode(stored.as_str().unwrap_or_default())?;
            let object = unpack(&bytes, "of a revision", key)?;
            *stored = json!(BASE64_STANDARD.encode(object.to_string()));
        }
    }
    Ok(secret)
}

/// The revision without what only oxolm puts there.
fn as_reference_writes(set: &Value) -> Value {
    let mut set = set.clone();
    if let Some(annotations) = set["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !key.starts_with("oxolm.dev/"));
    }
    if let Some(probes) = set["spec"]["progressionProbes"].as_array_mut() {
        probes.truncate(REFERENCES_PROBES);
    }
    if let Some(conditions) = set["status"]["conditions"].as_array_mut() {
        conditions.retain(|one| {
            REFERENCES_CONDITIONS
                .iter()
                .any(|known| one["type"] == *known)
        });
    }
    set
}
