//! A `CustomResourceDefinition` as the checks see it.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use super::canonical::kind;
use super::read::WrongType;
use super::record::{Pool, Record};
use super::skeleton::{self, Schemas};
use crate::error::{Classify, Disposition};

/// The API version of the CRDs that are compared; the reference lets any other pass unseen.
const API_VERSION: &str = "apiextensions.k8s.io/v1";

/// The kind.
const KIND: &str = "CustomResourceDefinition";

/// JSON that is no CRD.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DefinitionError {
    /// Another kind or API version.
    #[error("cannot read a CRD: the object is {api_version} {kind}, not {API_VERSION} {KIND}")]
    NotACrd {
        /// What stands in `apiVersion`.
        api_version: String,
        /// What stands in `kind`.
        kind: String,
    },
    /// No JSON.
    #[error("cannot read a CRD")]
    Syntax(#[source] Arc<serde_json::Error>),
    /// Not an object, or a field of another type than it must have.
    #[error("cannot read CRD {crd:?}: field {field} is {found}, which is no {wanted}")]
    Field {
        /// The CRD's name, if it could be read.
        crd: String,
        /// The path of the field.
        field: String,
        /// What it is.
        found: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
    /// A schema that does not fit.
    #[error("cannot read CRD {crd:?}, version {version:?}")]
    Schema {
        /// The CRD's name.
        crd: String,
        /// The version's name.
        version: String,
        /// What is wrong.
        #[source]
        source: WrongType,
    },
}

impl Classify for DefinitionError {
    fn disposition(&self) -> Disposition {
        Disposition::Retry
    }
}

/// How a resource of one version becomes one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConversionStrategy {
    /// Only `apiVersion` changes.
    None,
    /// A webhook is asked.
    Webhook,
}

impl ConversionStrategy {
    /// The word for it in a CRD.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Webhook => "Webhook",
        }
    }
}

/// One version of a CRD.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) is_served: bool,
    pub(super) is_storage: bool,
    pub(super) schema: Option<Record>,
    pub(super) subresources: Vec<String>,
    pub(super) columns: Vec<String>,
}

/// A CRD.
#[derive(Debug, Clone)]
pub struct Definition {
    /// `metadata.name`.
    pub name: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) short_names: Vec<String>,
    pub(super) scope: String,
    pub(super) versions: Vec<Version>,
    pub(super) stored_versions: Vec<String>,
    pub(super) conversion: ConversionStrategy,
    pub(super) preserves_unknown_fields: bool,
}

impl Definition {
    /// Whether an object is a CRD of the version that is compared.
    pub fn is_crd(object: &Value) -> bool {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        text("apiVersion")
            .zip(text("kind"))
            .is_some_and(|(version, kind)| Self::is_named(version, kind))
    }

    /// Whether this is what a CRD of the version that is compared says of itself.
    pub fn is_named(api_version: &str, kind: &str) -> bool {
        api_version == API_VERSION && kind == KIND
    }

    /// Reads a CRD. What is to be compared is read with one pool.
    ///
    /// # Errors
    /// When the object is not one, or a field that the checks look at has a wrong type.
    pub fn read(pool: &mut Pool, object: &Value) -> Result<Self, DefinitionError> {
        let syntax = |error| DefinitionError::Syntax(Arc::new(error));
        let (skeleton, schemas) = skeleton::read(object, pool).map_err(syntax)?;
        Self::of_skeleton(&skeleton, schemas)
    }

    /// Reads a CRD from its JSON, which is never a tree in memory.
    ///
    /// # Errors
    /// As [`Self::read`], and when it is no JSON.
    pub fn parse(pool: &mut Pool, json: &[u8]) -> Result<Self, DefinitionError> {
        let syntax = |error| DefinitionError::Syntax(Arc::new(error));
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let (skeleton, schemas) = skeleton::read(&mut deserializer, pool).map_err(syntax)?;
        deserializer.end().map_err(syntax)?;
        Self::of_skeleton(&skeleton, schemas)
    }

    /// Reads a CRD in which indices stand in place of its schemas.
    fn of_skeleton(object: &Value, mut schemas: Schemas) -> Result<Self, DefinitionError> {
        if !Self::is_crd(object) {
            let text = |name: &str| {
                let found = object.get(name).and_then(Value::as_str);
                found.unwrap_or("without one").to_owned()
            };
            return Err(DefinitionError::NotACrd {
                api_version: text("apiVersion"),
                kind: text("kind"),
            });
        }
        let name = Reader::new("", object).child("metadata").text("name")?;
        let root = Reader::new(&name, object);
        let spec = root.child("spec");
        let names = spec.child("names");
        let versions = spec
            .list("versions")?
            .iter()
            .map(|version| read_version(&name, version, &mut schemas))
            .collect::<Result<_, _>>()?;
        let strategy = spec.child("conversion").text("strategy")?;
        Ok(Self {
            group: spec.text("group")?,
            kind: names.text("kind")?,
            plural: names.text("plural")?,
            short_names: names.texts("shortNames")?,
            scope: spec.text("scope")?,
            versions,
            stored_versions: root.child("status").texts("storedVersions")?,
            conversion: match strategy.as_str() {
                "Webhook" => ConversionStrategy::Webhook,
                _ => ConversionStrategy::None,
            },
            preserves_unknown_fields: spec.member("preserveUnknownFields")
                == Some(&Value::Bool(true)),
            name,
        })
    }

    /// The version of a name.
    pub(super) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }
}

fn read_version(
    crd: &str,
    value: &Value,
    schemas: &mut Schemas,
) -> Result<Version, DefinitionError> {
    let reader = Reader::new(crd, value);
    let name = reader.text("name")?;
    let schema = reader.child("schema").member("openAPIV3Schema");
    let mut schema_at = |index: &Value| {
        let index = usize::try_from(index.as_u64()?).ok()?;
        let schema = schemas.get_mut(index)?;
        Some(std::mem::replace(schema, Ok(Record::default())))
    };
    let subresources = reader.child("subresources");
    let columns = reader.list("additionalPrinterColumns")?.iter();
    Ok(Version {
        is_served: reader.boolean("served")?,
        is_storage: reader.boolean("storage")?,
        schema: schema
            .and_then(&mut schema_at)
            .transpose()
            .map_err(|source| DefinitionError::Schema {
                crd: crd.to_owned(),
                version: name.clone(),
                source,
            })?,
        subresources: ["status", "scale"]
            .into_iter()
            .filter(|name| subresources.has(name))
            .map(str::to_owned)
            .collect(),
        columns: columns
            .map(|column| Reader::new(crd, column).text("name"))
            .collect::<Result<_, _>>()?,
        name,
    })
}

/// A value and the way to it, for errors.
struct Reader<'a> {
    crd: &'a str,
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Reader<'a> {
    fn new(crd: &'a str, value: &'a Value) -> Self {
        Self {
            crd,
            path: String::new(),
            value: Some(value),
        }
    }

    fn member(&self, name: &str) -> Option<&'a Value> {
        self.value?.get(name).filter(|value| !value.is_null())
    }

    fn has(&self, name: &str) -> bool {
        self.member(name).is_some()
    }

    fn child(&self, name: &str) -> Self {
        Self {
            crd: self.crd,
            path: self.path_of(name),
            value: self.member(name),
        }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn wrong(&self, name: &str, value: &Value, wanted: &'static str) -> DefinitionError {
        DefinitionError::Field {
            crd: self.crd.to_owned(),
            field: self.path_of(name),
            found: kind(value),
            wanted,
        }
    }

    fn text(&self, name: &str) -> Result<String, DefinitionError> {
        match self.member(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.wrong(name, other, "string")),
        }
    }

    fn boolean(&self, name: &str) -> Result<bool, DefinitionError> {
        match self.member(name) {
            None => Ok(false),
            Some(Value::Bool(bool)) => Ok(*bool),
            Some(other) => Err(self.wrong(name, other, "boolean")),
        }
    }

    fn list(&self, name: &str) -> Result<&'a [Value], DefinitionError> {
        match self.member(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(self.wrong(name, other, "list")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, DefinitionError> {
        self.list(name)?
            .iter()
            .map(|value| match value {
                Value::String(text) => Ok(text.clone()),
                other => Err(self.wrong(name, other, "string")),
            })
            .collect()
    }
}

/// Orders names of versions as Kubernetes does, the one to prefer last: others, then alpha, beta, stable.
pub(super) fn by_priority(a: &str, b: &str) -> Ordering {
    match (parts(a), parts(b)) {
        (None, None) => b.cmp(a),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => a.cmp(&b),
    }
}

/// How stable a version is, its number, and the number of its alpha or beta.
fn parts(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = major.parse().ok()?;
    for (stability, word) in [(0, "alpha"), (1, "beta")] {
        if let Some(minor) = rest.strip_prefix(word) {
            let is_number = !minor.is_empty() && minor.chars().all(|c| c.is_ascii_digit());
            return Some((stability, major, minor.parse().ok().filter(|_| is_number)?));
        }
    }
    rest.is_empty().then_some((2, major, 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::chain;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut names = [
            "v2",
            "v10",
            "v1",
            "v1beta2",
            "v1alpha1",
            "v11alpha2",
            "foo",
            "bar",
            "v1beta",
        ];
        names.sort_by(|a, b| by_priority(a, b));
        assert_eq!(
            names,
            [
                "v1beta",
                "foo",
                "bar",
                "v1alpha1",
                "v11alpha2",
                "v1beta2",
                "v1",
                "v2",
                "v10"
            ]
        );
    }

    #[track_caller]
    fn refuses(object: &Value, expected: &str) {
        let error = Definition::read(&mut Pool::default(), object).unwrap_err();
        assert_eq!(chain(&error), expected);
    }

    #[test]
    fn what_is_no_crd_is_refused() {
        refuses(
            &json!({"apiVersion": "v1", "kind": "Pod"}),
            "cannot read a CRD: the object is v1 Pod, not apiextensions.k8s.io/v1 CustomResourceDefinition",
        );
        let crd = |spec: Value| json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a.b"}, "spec": spec});
        refuses(
            &crd(json!({"names": {"kind": 1}})),
            "cannot read CRD \"a.b\": field spec.names.kind is a number, which is no string",
        );
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"x": {"type": []}}}}});
        refuses(
            &crd(json!({"versions": [version]})),
            "cannot read CRD \"a.b\", version \"v1\": field \"Type\" of the schema is an array, which is no string",
        );
    }
}
