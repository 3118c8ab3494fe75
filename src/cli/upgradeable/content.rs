//! Catalogs with the maxima of their bundles.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::catalogs::{self, Source, views};
use super::super::cluster::Cluster;
use super::super::source::{self, Sources};
use crate::fbc::meta::Meta;
use crate::fbc::package::Packages;
use crate::resolve::{self, Availability, Catalog};
use crate::store::catalog::read_directory_or_file;
use crate::upgradeable::{InvalidProperty, Minor, maximum};

/// What the catalogs hold of one package.
pub(super) struct Content {
    sources: Vec<Source>,
    /// The properties of bundles as JSON, by catalog and bundle.
    properties: BTreeMap<(String, String), String>,
}

impl Content {
    /// What resolution sees.
    pub(super) fn catalogs(&self) -> Vec<Catalog<'_>> {
        views(&self.sources)
    }

    /// The catalogs that could not be asked, each with why.
    pub(super) fn unread(&self) -> Vec<String> {
        let wanted = self.catalogs().into_iter();
        wanted
            .filter(|catalog| catalog.availability == Availability::Available)
            .filter_map(|catalog| match catalog.content {
                resolve::Content::Unreadable(why) => Some(format!("{}: {why}", catalog.name)),
                _ if !catalog.serving => Some(format!("{}: it is not served", catalog.name)),
                _ => None,
            })
            .collect()
    }

    /// The maximum of a bundle.
    pub(super) fn maximum(
        &self,
        catalog: &str,
        bundle: &str,
    ) -> Result<Option<Minor>, InvalidProperty> {
        let key = (catalog.to_owned(), bundle.to_owned());
        self.properties
            .get(&key)
            .map_or(Ok(None), |properties| maximum(properties))
    }
}

/// The properties of an `olm.bundle` blob as JSON.
fn properties(meta: &Meta) -> String {
    #[derive(serde::Deserialize)]
    struct Blob<'a> {
        #[serde(borrow)]
        properties: Option<&'a RawValue>,
    }
    let blob = serde_json::from_slice::<Blob<'_>>(&meta.blob);
    let listed = blob.ok().and_then(|blob| blob.properties); // It is JSON: see its type.
    listed.map_or("[]", RawValue::get).to_owned()
}

/// What the catalogs of a cluster hold of a package.
///
/// # Errors
/// When the cluster does not say which catalogs there are.
pub(super) fn of_cluster(cluster: &Cluster, package: &str) -> anyhow::Result<Content> {
    let mut properties_of = BTreeMap::new();
    let sources = catalogs::of_cluster_with(cluster, package, &mut |catalog, meta| {
        if meta.schema == Meta::BUNDLE {
            let key = (catalog.to_owned(), meta.name.clone());
            properties_of.insert(key, properties(meta));
        }
    })?;
    Ok(Content {
        sources,
        properties: properties_of,
    })
}

/// Catalogs on disk or in registries, by package.
pub(super) struct Shelf(BTreeMap<String, Content>);

impl Shelf {
    /// Reads the catalogs `[NAME=]PATH|IMAGE`.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(super) fn open(texts: &[String], images: &Sources) -> anyhow::Result<Self> {
        let mut packages: BTreeMap<String, Content> = BTreeMap::new();
        for text in texts {
            let (name, source) = source::named(text)?;
            let opened = images.catalog(source)?;
            let mut read = Packages::default();
            let mut properties_of = Vec::new();
            let walked = read_directory_or_file(opened.path(), &mut |_, located| {
                let meta = &located.meta;
                if meta.schema == Meta::BUNDLE {
                    properties_of.push((meta.package.clone(), meta.name.clone(), properties(meta)));
                }
                read.add(meta);
            });
            walked.with_context(|| format!("cannot read catalog {source}"))?;
            for (package, contents) in read.finish() {
                let content = packages.entry(package.clone()).or_insert_with(|| Content {
                    sources: Vec::new(),
                    properties: BTreeMap::new(),
                });
                content
                    .sources
                    .push(catalogs::of_contents(&name, &package, contents));
            }
            for (package, bundle, properties) in properties_of {
                if let Some(content) = packages.get_mut(&package) {
                    content
                        .properties
                        .insert((name.clone(), bundle), properties);
                }
            }
        }
        Ok(Self(packages))
    }

    /// What the catalogs hold of a package.
    pub(super) fn package(&self, name: &str) -> Option<&Content> {
        self.0.get(name)
    }

    /// The bundle that `text` means: its name, or `PACKAGE@VERSION`.
    ///
    /// # Errors
    /// When no catalog has such a bundle with a version, or several do.
    pub(super) fn bundle(&self, text: &str) -> anyhow::Result<Found> {
        let named = |package: &str, bundle: &str, properties: &str| match text.split_once('@') {
            Some((of, wanted)) => of == package && version(properties).as_deref() == Some(wanted),
            None => bundle == text,
        };
        let mut found = self.0.iter().flat_map(|(package, content)| {
            let properties = content.properties.iter();
            properties
                .filter(|((_, bundle), properties)| named(package, bundle, properties))
                .map(move |((_, bundle), properties)| (package, bundle, properties))
        });
        let Some((package, name, properties)) = found.next() else {
            bail!(
                "no catalog has a bundle {text:?}: `oxolm catalog list SRC PACKAGE` lists what there is"
            );
        };
        // The same bundle may stand in several catalogs.
        if let Some((other, of, _)) = found.find(|(other, of, _)| (*other, *of) != (package, name))
        {
            bail!(
                "bundle {text:?} is {name} of package {package} and {of} of package {other}: name one of them"
            );
        }
        let version = version(properties).with_context(|| {
            format!("bundle {name:?} has no olm.package property with a version")
        })?;
        Ok(Found {
            package: package.clone(),
            name: name.clone(),
            version,
            properties: properties.clone(),
        })
    }
}

/// A bundle of a catalog.
pub(super) struct Found {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) version: String,
    /// A JSON list.
    pub(super) properties: String,
}

fn version(properties: &str) -> Option<String> {
    let listed: Vec<Value> = serde_json::from_str(properties).ok()?; // Then there is none.
    let package = listed.iter().find(|property| {
        property
            .get("type")
            .is_some_and(|kind| kind == "olm.package")
    })?;
    let version = package.pointer("/value/version")?;
    version.as_str().map(str::to_owned)
}
