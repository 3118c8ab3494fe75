//! The validator of stored resources against the API server itself: equal verdicts on generated schemas and on real
//! CRDs.

mod edges;
mod generate;
mod rules;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use oxolm::preflight::resource::{Validator, Verdict};
use serde_json::{Value, json};

use crate::harness::{Cluster, Outcome};
use generate::{FORMATS, Generator, TEXT_RULES, TEXTS};

/// Where recorded cases are; the real CRDs are among them.
const DATA: &str = "OXOLM_CONFORMANCE";
/// How many generated schemas one CRD holds, each as a field of its own.
const SCHEMAS: usize = 60;
/// How many generated CRDs there are.
const CRDS: u64 = 4;
/// How many resources are made for each generated schema.
const VALUES: usize = 8;
/// How many resources are made for each real CRD.
const RESOURCES: usize = 25;
/// How many real CRDs are used: an API server keeps about 4 MiB for each.
const REAL: usize = 24;
/// How long a CRD may take until it is served.
const SERVED: Duration = Duration::from_secs(30);

/// Schemas of every construct, with values that fit and values that do not.
pub(crate) async fn generated_schemas(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let mut tally = Tally::default();
    for seed in 0..CRDS {
        let mut generator = Generator::new(seed);
        let mut schemas: BTreeMap<String, Value> = (0..SCHEMAS)
            .map(|index| (format!("x{index}"), generator.schema(0)))
            .collect();
        let group = format!("generated{seed}.example.com");
        let served = Served::install_fields(&cluster, &group, &mut schemas).await?;
        for (name, schema) in &schemas {
            for _ in 0..VALUES {
                let value = generator.value(schema, 0);
                let mut resource = served.resource();
                resource[name.as_str()] = value;
                served.compare(&resource, &mut tally).await?;
            }
        }
        served.remove().await?;
    }
    tally.finish("generated schemas", 1_000)
}

/// Every format and every rule about a text, with every text.
pub(crate) async fn formats_and_functions(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let formats = FORMATS
        .iter()
        .map(|format| json!({"type": "string", "format": format}));
    let rules = TEXT_RULES.iter().map(|rule| {
        json!({"type": "string", "maxLength": 100, "x-kubernetes-validations": [{"rule": rule}]})
    });
    let schemas = formats.chain(rules).enumerate();
    let mut schemas: BTreeMap<String, Value> = schemas
        .map(|(index, schema)| (format!("x{index}"), schema))
        .collect();
    let all = schemas.len();
    let served = Served::install_fields(&cluster, "texts.example.com", &mut schemas).await?;
    ensure!(
        schemas.len() == all,
        "the API server takes only {schemas:?}"
    );
    let mut tally = Tally::default();
    for name in schemas.keys() {
        for text in TEXTS {
            let mut resource = served.resource();
            resource[name.as_str()] = json!(text);
            served.compare(&resource, &mut tally).await?;
        }
    }
    served.remove().await?;
    tally.finish("formats and functions", 4_000)
}

/// The edges of what schemas and rules say.
pub(crate) async fn edges(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let mut tally = Tally::default();
    let (mut schemas, mut values) = (BTreeMap::new(), BTreeMap::new());
    for (index, (schema, some)) in edges::schemas().into_iter().enumerate() {
        schemas.insert(format!("x{index}"), schema);
        values.insert(format!("x{index}"), some);
    }
    let rules = rules::RULES.iter().map(|rule| json!({"rule": rule}));
    for (index, validation) in rules.chain(rules::validations()).enumerate() {
        let mut schema = rules::object();
        schema["x-kubernetes-validations"] = json!([validation]);
        schemas.insert(format!("r{index}"), schema);
        values.insert(format!("r{index}"), rules::objects());
    }
    let all: Vec<Value> = schemas.values().cloned().collect();
    // One CRD of all rules would cost more than the API server allows.
    let mut taken = Vec::new();
    for (number, part) in all_parts(schemas).into_iter().enumerate() {
        let mut part = part;
        let group = format!("edges{number}.example.com");
        let served = Served::install_fields(&cluster, &group, &mut part).await?;
        for name in part.keys() {
            for value in &values[name] {
                let mut resource = served.resource();
                resource[name.as_str()] = value.clone();
                served.compare(&resource, &mut tally).await?;
            }
        }
        served.remove().await?;
        taken.extend(part.into_values());
    }
    let refused: Vec<&Value> = all.iter().filter(|one| !taken.contains(one)).collect();
    for one in &refused {
        println!(
            "refused: {}",
            one.get("x-kubernetes-validations").unwrap_or(one)
        );
    }
    tally.finish("edges", 1_000)
}

fn all_parts(schemas: BTreeMap<String, Value>) -> Vec<BTreeMap<String, Value>> {
    let mut parts: Vec<BTreeMap<String, Value>> = Vec::new();
    for (index, (name, schema)) in schemas.into_iter().enumerate() {
        if index % SCHEMAS == 0 {
            parts.push(BTreeMap::new());
        }
        if let Some(part) = parts.last_mut() {
            part.insert(name, schema);
        }
    }
    parts
}

/// CRDs that are published, with resources made from their schemas.
pub(crate) async fn real_crds(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let crds = recorded()?;
    if crds.is_empty() {
        return Ok(Outcome::Skipped("OXOLM_CONFORMANCE holds no real CRDs"));
    }
    let mut tally = Tally::default();
    let step = (crds.len() / REAL).max(1);
    for (seed, crd) in (0_u64..).zip(crds.values().step_by(step).take(REAL)) {
        let served = match Served::install(&cluster, crd).await {
            Ok(served) => served,
            // Not every published CRD is one that this API server takes.
            Err(error) if is_refusal(&error) => continue,
            Err(error) => return Err(error),
        };
        let mut generator = Generator::new(seed);
        for _ in 0..RESOURCES {
            let mut resource = generator.value(&served.schema, 0);
            if !resource.is_object() {
                resource = json!({});
            }
            if let (Some(into), Some(from)) =
                (resource.as_object_mut(), served.resource().as_object())
            {
                into.extend(from.clone());
                into.remove("status");
            }
            served.compare(&resource, &mut tally).await?;
        }
        served.remove().await?;
    }
    tally.finish("real CRDs", 200)
}

/// The fields that a refusal of the API server names, one after the other.
fn refused_fields(error: &anyhow::Error) -> String {
    let status = error
        .chain()
        .find_map(|cause| match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) if status.code == 422 => Some(status),
            _ => None,
        });
    let details = status.and_then(|status| status.details.as_ref());
    let causes = details
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    causes
        .iter()
        .flat_map(|cause| [cause.field.as_str(), " "])
        .collect()
}

fn is_refusal(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 422)
    })
}

/// What became of the comparisons.
#[derive(Default)]
struct Tally {
    valid: usize,
    invalid: usize,
    skipped: usize,
    different: Vec<String>,
}

impl Tally {
    fn finish(self, what: &str, least: usize) -> anyhow::Result<Outcome> {
        let Self {
            valid,
            invalid,
            skipped,
            different,
        } = self;
        let count = valid + invalid;
        if !different.is_empty() {
            let shown: Vec<&str> = different.iter().take(40).map(String::as_str).collect();
            bail!(
                "{} of {} verdicts differ:\n{}",
                different.len(),
                count + different.len(),
                shown.join("\n\n")
            );
        }
        ensure!(
            count >= least,
            "only {count} verdicts about {what}, {skipped} skipped"
        );
        ensure!(
            valid * 10 >= count,
            "only {valid} of {count} about {what} are valid"
        );
        ensure!(
            invalid * 10 >= count,
            "only {invalid} of {count} about {what} are not valid"
        );
        Ok(Outcome::Passed)
    }
}

/// A CRD that the API server serves, and our validator of it.
struct Served {
    crds: Api<DynamicObject>,
    name: String,
    things: Api<DynamicObject>,
    api_version: String,
    kind: String,
    schema: Value,
    validator: Validator,
}

impl Served {
    async fn install(cluster: &Cluster, crd: &Value) -> anyhow::Result<Self> {
        let text = |pointer: &str| {
            crd.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (group, kind, plural) = (
            text("/spec/group"),
            text("/spec/names/kind"),
            text("/spec/names/plural"),
        );
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let version = versions
            .into_iter()
            .flatten()
            .find(|version| version["storage"] == true)
            .context("a CRD has a storage version")?;
        let version_name = version["name"].as_str().unwrap_or_default();
        let schema = version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .unwrap_or(json!({}));
        let preserves = crd.pointer("/spec/preserveUnknownFields") == Some(&json!(true));
        let resource_of = |group: &str, version: &str, kind: &str, plural: &str| {
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
        };
        let crds: Api<DynamicObject> = Api::all_with(
            cluster.client.clone(),
            &resource_of(
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            ),
        );
        let thing = resource_of(group, version_name, kind, plural);
        let things = if text("/spec/scope") == "Namespaced" {
            Api::namespaced_with(cluster.client.clone(), "default", &thing)
        } else {
            Api::all_with(cluster.client.clone(), &thing)
        };
        let served = Self {
            name: text("/metadata/name").to_owned(),
            crds,
            things,
            api_version: format!("{group}/{version_name}"),
            kind: kind.to_owned(),
            validator: Validator::new(&schema, preserves)?,
            schema,
        };
        let name = &served.name;
        served
            .crds
            .patch(
                name,
                &PatchParams::apply("oxolm-e2e").force(),
                &Patch::Apply(crd),
            )
            .await
            .with_context(|| format!("cannot install {name}"))?;
        let answers = async {
            // Answers to a creation come a little later than the condition that says so.
            while matches!(served.create(&served.resource()).await, Err(kube::Error::Api(status)) if status.code == 404)
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(SERVED, answers)
            .await
            .with_context(|| format!("{name} is not served"))?;
        Ok(served)
    }

    /// A CRD with a field for each schema. Rules that the API server finds too costly, or whose types do not fit, are
    /// left out, and taken from `schemas`.
    async fn install_fields(
        cluster: &Cluster,
        group: &str,
        schemas: &mut BTreeMap<String, Value>,
    ) -> anyhow::Result<Self> {
        loop {
            let crd = crd(group, &json!({"type": "object", "properties": schemas}));
            match Self::install(cluster, &crd).await {
                Ok(served) => return Ok(served),
                Err(error) => {
                    let named = refused_fields(&error);
                    let before = schemas.len();
                    schemas.retain(|name, _| !named.contains(&format!(".properties[{name}]")));
                    if schemas.len() == before {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// A resource without content.
    fn resource(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "example"}})
    }

    async fn create(&self, resource: &Value) -> Result<DynamicObject, kube::Error> {
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object = serde_json::from_value(resource.clone()).map_err(kube::Error::SerdeError)?;
        self.things.create(&parameters, &object).await
    }

    async fn compare(&self, resource: &Value, tally: &mut Tally) -> anyhow::Result<()> {
        let ours = match self.validator.judge(resource) {
            Verdict::Valid if !self.validator.gaps().is_empty() => {
                tally.skipped += 1;
                return Ok(());
            }
            Verdict::Valid => None,
            Verdict::Undecided(_) => {
                tally.skipped += 1;
                return Ok(());
            }
            Verdict::Invalid(violations) => Some(violations),
        };
        let theirs = match self.create(resource).await {
            Ok(_) => None,
            // 400 is for metadata of an embedded object that is of a wrong type.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                Some(status.message.clone())
            }
            Err(error) => return Err(error).context(format!("{resource}")),
        };
        match (&ours, &theirs) {
            (None, None) => tally.valid += 1,
            (Some(_), Some(_)) => tally.invalid += 1,
            _ => tally.different.push(format!(
                "{}: {resource}\n  ours {ours:?}\n  the API server's {theirs:?}",
                self.name
            )),
        }
        Ok(())
    }

    async fn remove(&self) -> anyhow::Result<()> {
        self.crds
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

fn crd(group: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// The new CRDs of the recorded cases, by name, without their webhooks.
fn recorded() -> anyhow::Result<BTreeMap<String, Value>> {
    let mut crds = BTreeMap::new();
    let Some(root) = std::env::var_os(DATA) else {
        return Ok(crds);
    };
    let Ok(entries) = std::fs::read_dir(std::path::Path::new(&root).join("oracle/crdsafety"))
    else {
        return Ok(crds);
    };
    for entry in entries {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(".tar.gz") {
            continue;
        }
        let file = flate2::read::GzDecoder::new(std::fs::File::open(path)?);
        for entry in tar::Archive::new(file).entries()? {
            let mut entry = entry?;
            if !entry.path()?.ends_with("new.json") {
                continue;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            let mut crd: Value = serde_json::from_slice(&bytes)?;
            let Some(name) = crd["metadata"]["name"].as_str().map(str::to_owned) else {
                continue;
            };
            crd["metadata"] = json!({"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}});
            if let Some(spec) = crd["spec"].as_object_mut() {
                spec.remove("conversion");
            }
            crds.insert(name, crd);
        }
    }
    Ok(crds)
}
