//! What identifies any Kubernetes object, whatever its kind.

use std::fmt;

use serde_json::Value;

/// The kind of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl Gvk {
    /// From an `apiVersion` and a `kind` as they stand in a manifest.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether this is the kind `kind` of `group`, in any version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// `CustomResourceDefinition`.
    pub fn crd() -> Self {
        Self::new("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    }

    /// Whether this is a `CustomResourceDefinition`.
    pub fn is_crd(&self) -> bool {
        self.is("apiextensions.k8s.io", "CustomResourceDefinition")
    }
}

/// `Kind.group/version`, the way the reference names kinds in its messages.
impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.api_version())
    }
}

/// What identifies one object. Ordered by group, version, kind, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The kind.
    pub gvk: Gvk,
    /// The namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A manifest that does not say what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("manifest has no {0}")]
pub struct InvalidObject(pub &'static str);

impl ObjectKey {
    /// Group, kind, namespace and name: what tells an object from all others. In which version of its kind somebody writes
    /// it makes no difference.
    pub fn identity(&self) -> (&str, &str, &str, &str) {
        let Gvk { group, kind, .. } = &self.gvk;
        (group, kind, &self.namespace, &self.name)
    }

    /// Reads the identity out of a manifest.
    ///
    /// # Errors
    /// When `apiVersion`, `kind` or `metadata.name` is missing or empty.
    pub fn of(object: &Value) -> Result<Self, InvalidObject> {
        let text = |pointer: &str, what| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .ok_or(InvalidObject(what))
        };
        Ok(Self {
            gvk: Gvk::new(text("/apiVersion", "apiVersion")?, text("/kind", "kind")?),
            namespace: object
                .pointer("/metadata/namespace")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            name: text("/metadata/name", "metadata.name")?.to_owned(),
        })
    }
}

/// `Kind.group/version namespace/name`; of a cluster-scoped object the namespace is empty.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.gvk, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_named_as_in_the_reference() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let key = |object| ObjectKey::of(object).unwrap().to_string();
        assert_eq!(key(&deployment), "Deployment.apps/v1 n/a");
        assert_eq!(key(&namespace), "Namespace.v1 /n");
    }

    #[test]
    fn a_manifest_without_identity_is_refused() {
        for (object, what) in [
            (
                json!({"kind": "A", "metadata": {"name": "a"}}),
                "apiVersion",
            ),
            (
                json!({"apiVersion": "v1", "metadata": {"name": "a"}}),
                "kind",
            ),
            (json!({"apiVersion": "v1", "kind": "A"}), "metadata.name"),
            (
                json!({"apiVersion": "v1", "kind": 7, "metadata": {"name": "a"}}),
                "kind",
            ),
            (json!(null), "apiVersion"),
        ] {
            assert_eq!(ObjectKey::of(&object), Err(InvalidObject(what)));
        }
    }
}
