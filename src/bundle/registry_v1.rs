//! A registry+v1 bundle: files in, a typed bundle out, or the reference's words for what is wrong.
//!
//! Three fixed places are read; the annotations that name other directories, the labels of the image and all other
//! files are not looked at:
//!
//! ```text
//! metadata/annotations.yaml   the package's name
//! metadata/properties.yaml    optional, merged into the CSV's annotation
//! manifests/*                 every file, whatever its name; no directories
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Classify, Disposition, Reason};
use crate::fbc::yaml;

use super::csv::ClusterServiceVersion;
use super::manifest::{self, ManifestError};
use super::property::{self, PROPERTIES_ANNOTATION, PropertyError};
use super::typed::{self, TypeMismatch, kind_of};

/// The files of a bundle: path from its root, with `/` between the parts, to content.
pub type Files = BTreeMap<String, Vec<u8>>;

const ANNOTATIONS_FILE: &str = "metadata/annotations.yaml";
const PROPERTIES_FILE: &str = "metadata/properties.yaml";
const MANIFESTS: &str = "manifests";
/// Annotations of the CSV for who installs it. Consoles prefer the template.
const SUGGESTED_NAMESPACE: &str = "operatorframework.io/suggested-namespace";
const SUGGESTED_NAMESPACE_TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";
const PACKAGE_ANNOTATION: &str = "operators.operatorframework.io.bundle.package.v1";

/// A registry+v1 bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryV1 {
    /// The package's name; empty when the annotation is missing, which a validator reports.
    pub package: String,
    /// The `ClusterServiceVersion`, properties merged into its annotations. Of several the last counts.
    pub csv: ClusterServiceVersion,
    /// The `CustomResourceDefinition`s as Go prints them, in order of their files, without status.
    pub crds: Vec<Value>,
    /// All other objects as they are, in order of their files.
    pub others: Vec<Value>,
}

/// Why a bundle cannot be read. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// `metadata/annotations.yaml` is missing.
    #[error("open {ANNOTATIONS_FILE}: no such file or directory")]
    NoAnnotations,
    /// `metadata/annotations.yaml` is no YAML, or holds other types.
    #[error("{0}")]
    Annotations(String),
    /// There is no directory `manifests`.
    #[error("stat {MANIFESTS}: no such file or directory")]
    NoManifests,
    /// A directory below `manifests`.
    #[error(
        "subdirectories are not allowed within the \"{MANIFESTS}\" directory of the bundle image filesystem: found {path:?}"
    )]
    Subdirectory {
        /// The directory.
        path: String,
    },
    /// A manifest that cannot be read.
    #[error("error parsing objects in {path:?}: {cause}")]
    Manifest {
        /// The file.
        path: String,
        /// What is wrong with it.
        cause: ManifestError,
    },
    /// No `ClusterServiceVersion` among the manifests.
    #[error("no ClusterServiceVersion found in \"{MANIFESTS}\"")]
    NoCsv,
    /// Properties that cannot be read.
    #[error(transparent)]
    Properties(#[from] PropertyError),
}

impl Classify for LoadError {
    /// A bundle's content never changes: only another bundle or another spec helps.
    fn disposition(&self) -> Disposition {
        Disposition::Terminal(Reason::Blocked)
    }
}

impl RegistryV1 {
    /// Reads a bundle from its files.
    ///
    /// # Errors
    /// The first defect, in the order in which the reference looks: annotations, manifests, the CSV, properties.
    pub fn load(files: &Files) -> Result<Self, LoadError> {
        let package = package_name(files)?;
        let mut content = Content::default();
        let mut manifests = manifests(files).peekable();
        if manifests.peek().is_none() {
            return Err(LoadError::NoManifests);
        }
        for (name, bytes) in manifests {
            if let Some((directory, _)) = name.split_once('/') {
                return Err(LoadError::Subdirectory {
                    path: format!("{MANIFESTS}/{directory}"),
                });
            }
            let path = format!("{MANIFESTS}/{name}");
            manifest::read(&path, bytes, &mut |object| content.add(object))
                .map_err(|cause| LoadError::Manifest { path, cause })?;
        }
        let mut csv = content.csv.ok_or(LoadError::NoCsv)?;
        let annotations = &mut csv.metadata.annotations;
        let properties = property::merged(
            annotations.get(PROPERTIES_ANNOTATION).map(String::as_str),
            files.get(PROPERTIES_FILE).map(Vec::as_slice),
        )?;
        if let Some(properties) = properties {
            annotations.insert(PROPERTIES_ANNOTATION.to_owned(), properties);
        }
        Ok(Self {
            package,
            csv,
            crds: content.crds,
            others: content.others,
        })
    }

    /// The namespace that the bundle would be installed in: the one of its template, else the one that it names.
    pub fn suggested_namespace(&self) -> Option<String> {
        let template = self.namespace_template();
        let of_template = template.as_ref().and_then(|template| {
            let name = template.pointer("/metadata/name")?.as_str()?;
            Some(name.to_owned())
        });
        let annotations = &self.csv.metadata.annotations;
        of_template
            .or_else(|| annotations.get(SUGGESTED_NAMESPACE).cloned())
            .filter(|name| !name.is_empty())
    }

    /// The `Namespace` that the bundle wants, with its labels and annotations. What is no JSON object is none.
    pub fn namespace_template(&self) -> Option<Value> {
        let text = self
            .csv
            .metadata
            .annotations
            .get(SUGGESTED_NAMESPACE_TEMPLATE)?;
        serde_json::from_str(text).ok().filter(Value::is_object) // See above.
    }

    /// The merged properties as JSON text, absent when neither the CSV nor the file has any.
    pub fn properties(&self) -> Option<&str> {
        let annotations = &self.csv.metadata.annotations;
        annotations.get(PROPERTIES_ANNOTATION).map(String::as_str)
    }
}

/// The objects of a bundle as they are found.
#[derive(Default)]
struct Content {
    csv: Option<ClusterServiceVersion>,
    crds: Vec<Value>,
    others: Vec<Value>,
}

impl Content {
    /// Sorts an object by its kind alone; group and version are not looked at.
    fn add(&mut self, object: Value) -> Result<(), TypeMismatch> {
        match object.get("kind").and_then(Value::as_str) {
            Some("ClusterServiceVersion") => {
                let typed = typed::reencode("csv.ClusterServiceVersion", object)?;
                let csv = serde_json::from_value(typed)
                    .expect("the table gives every field the type that the struct has");
                self.csv = Some(csv);
            }
            Some("CustomResourceDefinition") => {
                let mut crd = typed::reencode("crd.CustomResourceDefinition", object)?;
                if let Some(members) = crd.as_object_mut() {
                    members.remove("status");
                }
                self.crds.push(crd);
            }
            _ => self.others.push(object),
        }
        Ok(())
    }
}

/// The package's name; a file that says none gives an empty one.
fn package_name(files: &Files) -> Result<String, LoadError> {
    let bytes = files
        .get(ANNOTATIONS_FILE)
        .ok_or(LoadError::NoAnnotations)?;
    let document = yaml::value(bytes).map_err(|error| LoadError::Annotations(error.to_string()))?;
    let misfit = |value: &Value, place: &str| {
        LoadError::Annotations(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go {place}",
            kind_of(value)
        ))
    };
    let annotations = match &document {
        Value::Null => return Ok(String::new()),
        Value::Object(members) => members.get("annotations"),
        other => return Err(misfit(other, "value of type bundle.AnnotationsFile")),
    };
    let package = match annotations {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::Object(annotations)) => annotations.get(PACKAGE_ANNOTATION),
        Some(other) => {
            return Err(misfit(
                other,
                "struct field AnnotationsFile.annotations of type bundle.Annotations",
            ));
        }
    };
    match package {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(name)) => Ok(name.clone()),
        // sigs.k8s.io/yaml turns scalars into text where text is wanted.
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(value)) => Ok(value.to_string()),
        Some(other) => Err(misfit(
            other,
            &format!("struct field Annotations.annotations.{PACKAGE_ANNOTATION} of type string"),
        )),
    }
}

/// The manifest files by name below their directory, in byte order.
pub(super) fn manifests(files: &Files) -> impl Iterator<Item = (&str, &[u8])> {
    files.iter().filter_map(|(path, bytes)| {
        let name = path.strip_prefix(MANIFESTS)?.strip_prefix('/')?;
        Some((name, bytes.as_slice()))
    })
}
