//! The objects that a bundle means for an extension: canonicalize, fetch, render, put into phases.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::api::ClusterExtension;
use crate::bundle::{LoadError, RegistryV1};
use crate::controller::metrics::Metrics;
use crate::error::{Classify, Disposition, Reason};
use crate::fetch::{FetchError, Fetcher, ImageKind};
use crate::oci::reference::{CanonicalReference, Reference, ReferenceError};
use crate::render::{self, Provider, RenderError, RenderOptions};
use crate::store::bundle::{ReadBundleError, read_bundle_files};

/// After this time a tag is looked up again although neither spec nor catalog changed.
const TAG_LIFETIME: Duration = Duration::from_mins(15);

/// How much memory rendered bundles may take that are remembered.
const RENDERED_BYTES: usize = 8 << 20;

/// Why there is no content.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContentError {
    /// The catalog names no image, or not properly.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The image cannot be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The files of the bundle cannot be read.
    #[error(transparent)]
    Read(#[from] ReadBundleError),
    /// It is not a registry+v1 bundle.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It cannot be rendered as asked.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The task that renders died.
    #[error("rendering the bundle was interrupted")]
    Interrupted,
}

impl Classify for ContentError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Reference(error) => error.disposition(),
            Self::Fetch(error) => error.disposition(),
            Self::Render(error) => error.disposition(),
            Self::Load(_) => Disposition::Terminal(Reason::Blocked),
            Self::Read(_) | Self::Interrupted => Disposition::Retry,
        }
    }
}

impl ContentError {
    /// Whether only the image could not be had: what is installed from it can stay meanwhile.
    pub(super) fn is_unavailable(&self) -> bool {
        match self {
            Self::Fetch(_) | Self::Read(_) | Self::Interrupted => true,
            Self::Reference(_) | Self::Load(_) | Self::Render(_) => false,
        }
    }
}

/// A rendered bundle.
#[derive(Debug)]
pub(super) struct Content {
    /// The objects, as rendered.
    pub(super) objects: Vec<Value>,
    /// The Secrets that are written while applying.
    pub(super) secrets: Vec<Value>,
    /// The merged properties, a JSON array; none if it has none.
    pub(super) properties: Option<String>,
    /// Whether it has webhooks, which need certificates.
    pub(super) needs_certificates: bool,
    /// The lowest Kubernetes version that it runs on, as written.
    pub(super) min_kube_version: String,
    /// About how much memory it takes.
    memory_bytes: usize,
}

/// Which digests tags had, by extension.
#[derive(Debug, Default)]
pub(super) struct Tags(Mutex<BTreeMap<String, Tag>>);

#[derive(Debug, Clone)]
struct Tag {
    key: String,
    canonical: CanonicalReference,
    looked_up: Instant,
}

impl Tags {
    /// The digest of `image` for `extension`; `key` changes with spec and catalog. A tag is looked up once per key, and
    /// again after [`TAG_LIFETIME`].
    pub(super) async fn canonicalize(
        &self,
        fetcher: &Fetcher,
        extension: &str,
        image: &str,
        key: &str,
    ) -> Result<CanonicalReference, ContentError> {
        let reference = Reference::parse(image)?;
        if let Some(canonical) = reference.canonical() {
            return Ok(canonical);
        }
        let key = format!("{image} {key}");
        let known = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(extension)
            .cloned();
        if let Some(tag) =
            known.filter(|tag| tag.key == key && tag.looked_up.elapsed() < TAG_LIFETIME)
        {
            return Ok(tag.canonical);
        }
        let canonical = fetcher.canonicalize(&reference).await?;
        let tag = Tag {
            key,
            canonical: canonical.clone(),
            looked_up: Instant::now(),
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(extension.to_owned(), tag);
        Ok(canonical)
    }

    /// Forgets a deleted extension.
    pub(super) fn forget(&self, extension: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(extension);
    }
}

/// The bundles that were rendered last. A rollout that waits for somebody (rights, an older revision) asks for the same
/// content in every pass.
#[derive(Debug, Default)]
pub(super) struct Rendered(Mutex<VecDeque<(String, Arc<Content>)>>);

impl Rendered {
    /// The content of `image` for `extension`: fetched and rendered, unless it was the same not long ago.
    pub(super) async fn content(
        &self,
        fetcher: &Fetcher,
        extension: &ClusterExtension,
        image: &CanonicalReference,
        certificates: Provider,
        metrics: &Metrics,
    ) -> Result<Arc<Content>, ContentError> {
        let namespace = extension.spec.namespace.clone();
        let config = extension
            .spec
            .config
            .as_ref()
            .and_then(|config| config.inline.clone())
            .map(Value::Object);
        let written = config.as_ref().map(Value::to_string).unwrap_or_default();
        let key = format!("{} {namespace} {certificates} {written}", image.digest);
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let unpacked = fetcher.fetch(image, ImageKind::Bundle).await?;
        let started = Instant::now();
        // Reading and rendering a large bundle takes tens of milliseconds.
        let work = spawn_blocking(move || {
            render_files(&unpacked.root, &namespace, config.as_ref(), certificates)
        });
        let content = work.await.map_err(|_join| ContentError::Interrupted);
        let content = content.flatten();
        metrics.rendered(content.is_ok(), started.elapsed());
        let content = content?;
        let content = Arc::new(content);
        self.keep(key, &content);
        Ok(content)
    }

    /// What is asked for again comes to the front.
    fn known(&self, key: &str) -> Option<Arc<Content>> {
        let mut rendered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = rendered.iter().position(|(known, _)| known == key)?;
        let found = rendered.remove(at)?;
        let content = Arc::clone(&found.1);
        rendered.push_front(found);
        Some(content)
    }

    fn keep(&self, key: String, content: &Arc<Content>) {
        let mut rendered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.retain(|(known, _)| *known != key);
        rendered.push_front((key, Arc::clone(content)));
        let mut bytes = 0;
        rendered.retain(|(_, content)| {
            bytes += content.memory_bytes;
            bytes <= RENDERED_BYTES
        });
    }
}

fn render_files(
    root: &Path,
    namespace: &str,
    config: Option<&Value>,
    certificates: Provider,
) -> Result<Content, ContentError> {
    let files = read_bundle_files(root)?;
    let bundle = RegistryV1::load(&files)?;
    let options = RenderOptions {
        install_namespace: namespace,
        config,
        certificates,
    };
    let manifests = render::render(&bundle, &options)?;
    let all = manifests.objects.iter().chain(&manifests.secrets);
    Ok(Content {
        memory_bytes: all.map(memory_bytes).sum(),
        objects: manifests.objects,
        secrets: manifests.secrets,
        properties: bundle.properties().map(str::to_owned),
        needs_certificates: !bundle.csv.spec.webhook_definitions.is_empty(),
        min_kube_version: bundle.csv.spec.min_kube_version,
    })
}

/// About how much memory a parsed manifest takes: mostly its maps, whose smallest part has room for eleven entries. It is
/// ten times the manifest's text and more, and less the longer its texts are.
fn memory_bytes(manifest: &Value) -> usize {
    const PART: usize = 11 * size_of::<(String, Value)>();
    match manifest {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.capacity(),
        Value::Array(items) => {
            let items_bytes = items.capacity() * size_of::<Value>();
            items_bytes + items.iter().map(memory_bytes).sum::<usize>()
        }
        Value::Object(map) => {
            let entries = map.iter();
            let entries_bytes = entries.map(|(key, value)| key.capacity() + memory_bytes(value));
            map.len().div_ceil(11) * PART + entries_bytes.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(memory_bytes: usize) -> Arc<Content> {
        Arc::new(Content {
            objects: Vec::new(),
            secrets: Vec::new(),
            properties: None,
            needs_certificates: false,
            min_kube_version: String::new(),
            memory_bytes,
        })
    }

    #[test]
    fn small_maps_weigh_more_than_their_text() {
        let manifest =
            serde_json::json!({"kind": "Role", "rules": [{"verbs": ["get"]}], "count": 1});
        let text = manifest.to_string().len();
        let parts = 2 * 11 * size_of::<(String, Value)>();
        let bytes = memory_bytes(&manifest);
        assert!(
            bytes > parts && bytes < parts + 512 && bytes > 10 * text,
            "{bytes}"
        );
        let long = Value::String("a".repeat(5000));
        assert!((5000..6000).contains(&memory_bytes(&long)));
    }

    #[test]
    fn what_was_used_last_is_remembered_as_far_as_there_is_room() {
        let rendered = Rendered::default();
        let third = content(RENDERED_BYTES / 3);
        for key in ["a", "b", "c"] {
            rendered.keep(key.to_owned(), &third);
        }
        assert!(rendered.known("a").is_some());
        rendered.keep("d".to_owned(), &third);
        let known = ["a", "b", "c", "d"].map(|key| rendered.known(key).is_some());
        assert_eq!(known, [true, false, true, true]);
        rendered.keep("large".to_owned(), &content(RENDERED_BYTES + 1));
        assert!(rendered.known("large").is_none());
    }
}
