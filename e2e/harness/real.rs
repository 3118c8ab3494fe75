//! The real bundles of the conformance folder (`OXOLM_CONFORMANCE`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use oxolm::bundle::{Files, RegistryV1};
use oxolm::render::{Manifests, Provider, RenderOptions, render};
use serde_json::{Value, json};

/// Why a story about them is skipped.
pub(crate) const MISSING: &str = "no conformance data: OXOLM_CONFORMANCE is not set";

/// A real bundle as it is installed.
pub(crate) struct Rendered {
    pub(crate) manifests: Manifests,
    /// Its configuration: with which namespace it is content.
    pub(crate) config: Option<Value>,
}

/// The bundle in whatever mode it supports, its certificates made by oxolm; none if it is refused.
pub(crate) fn rendered(files: &Files, namespace: &str, watched: &str) -> Option<Rendered> {
    let bundle = RegistryV1::load(files).ok()?;
    let watching = |namespace: &str| json!({"watchNamespace": namespace});
    let configs = [None, Some(watching(namespace)), Some(watching(watched))];
    configs.into_iter().find_map(|config| {
        let options = RenderOptions {
            install_namespace: namespace,
            config: config.as_ref(),
            certificates: Provider::SelfSigned,
        };
        let manifests = render(&bundle, &options).ok()?;
        Some(Rendered { manifests, config })
    })
}

/// The files of every real bundle, by package and version; none without the folder.
pub(crate) fn bundles() -> anyhow::Result<Option<BTreeMap<(String, String), Files>>> {
    let Some(root) = std::env::var_os("OXOLM_CONFORMANCE").map(PathBuf::from) else {
        return Ok(None);
    };
    let mut bundles: BTreeMap<(String, String), Files> = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("oracle/render"))? {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(".tar.gz") {
            continue;
        }
        let file = File::open(&path)?;
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        for file in archive.entries()? {
            let mut file = file?;
            let path = file.path()?.into_owned();
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            // PART/bundles/PACKAGE/VERSION/…
            let [_, folder, package, version, rest @ ..] = parts.as_slice() else {
                continue;
            };
            if folder != "bundles" || !file.header().entry_type().is_file() {
                continue;
            }
            let key = (package.to_string(), version.to_string());
            let name = rest.join("/");
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            bundles.entry(key).or_default().insert(name, bytes);
        }
    }
    Ok(Some(bundles))
}
