//! `oxolm resolve --batch`: what the resolver alone says, question by question.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Answer, batch};
use super::Packages;
use crate::error::quoted;
use crate::fbc::package::Deprecation;
use crate::resolve::{
    Availability, Catalog, Content, Installed, MajorUpgrades, Query, UpgradePolicy, resolve,
};
use crate::store::catalog;

/// One line in.
#[derive(Debug, Deserialize)]
pub(super) struct Question {
    #[serde(default)]
    id: Value,
    package: String,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    channels: Option<Vec<String>>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    selector: Option<LabelSelector>,
    #[serde(default)]
    installed: Option<QuestionInstalled>,
    #[serde(default)]
    catalogs: Vec<QuestionCatalog>,
}

#[derive(Debug, Deserialize)]
struct QuestionInstalled {
    name: String,
    version: String,
    #[serde(default)]
    release: Option<String>,
    #[serde(default)]
    catalog: Option<String>,
}

#[derive(Debug, Deserialize)]
struct QuestionCatalog {
    name: String,
    path: PathBuf,
    #[serde(default)]
    priority: Option<i32>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    availability: Option<String>,
    #[serde(default)]
    serving: Option<bool>,
    #[serde(default)]
    cached: Option<bool>,
}

/// One line out.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Answered {
    Resolved {
        id: Value,
        bundle: String,
        version: String,
        release: Option<String>,
        catalog: String,
        deprecation: Vec<Deprecation>,
    },
    Unresolved {
        id: Value,
        error: AnsweredError,
    },
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct AnsweredError {
    reason: &'static str,
    message: String,
}

pub(super) fn run(source: &Path, major_upgrades: MajorUpgrades) -> anyhow::Result<Answer> {
    let mut shelf = Shelf::default();
    batch::answer(source, |question: Question| {
        shelf.answer(question, major_upgrades)
    })?;
    Ok(Answer::Yes)
}

/// The catalogs read so far.
#[derive(Default)]
pub(super) struct Shelf {
    by_path: BTreeMap<PathBuf, Rc<Packages>>,
}

impl Shelf {
    /// # Errors
    /// When a member has a value that it cannot have, or a catalog cannot be read.
    pub(super) fn answer(
        &mut self,
        question: Question,
        major_upgrades: MajorUpgrades,
    ) -> anyhow::Result<Answered> {
        let query = Query {
            package: question.package,
            version: question.version.unwrap_or_default(),
            channels: question.channels.unwrap_or_default(),
            selector: question.selector,
            policy: match question.policy.as_deref() {
                None | Some("" | "CatalogProvided") => UpgradePolicy::CatalogProvided,
                Some("SelfCertified") => UpgradePolicy::SelfCertified,
                Some(other) => {
                    bail!("{other:?} is no policy: expected CatalogProvided or SelfCertified")
                }
            },
            installed: question.installed.map(|installed| Installed {
                name: installed.name,
                version: installed.version,
                release: installed.release,
                catalog: installed.catalog,
                digest: None,
            }),
            major_upgrades,
        };
        let mut shelves = Vec::new();
        for catalog in &question.catalogs {
            // What cannot be read need not exist.
            shelves.push(match catalog.cached {
                Some(false) => None,
                Some(true) | None => Some(self.packages(&catalog.path)?),
            });
        }
        let mut catalogs = Vec::new();
        for (catalog, packages) in question.catalogs.into_iter().zip(&shelves) {
            catalogs.push(Catalog {
                labels: catalog.labels.unwrap_or_default(),
                priority: catalog.priority.unwrap_or_default(),
                // As in the reference, only this one word takes a catalog out.
                availability: match catalog.availability.as_deref() {
                    Some("Unavailable") => Availability::Unavailable,
                    Some(_) | None => Availability::Available,
                },
                serving: catalog.serving.unwrap_or(true),
                content: match packages {
                    Some(packages) => content(packages, &query.package),
                    None => Content::Unreadable(format!(
                        "cache for catalog {} not found",
                        quoted(&catalog.name)
                    )),
                },
                name: catalog.name,
            });
        }
        let id = question.id;
        Ok(match resolve(&query, &catalogs).outcome {
            Ok(bundle) => Answered::Resolved {
                id,
                version: bundle.version.to_string(),
                release: bundle.release.as_ref().map(ToString::to_string),
                deprecation: bundle.applying_deprecations().cloned().collect(),
                bundle: bundle.name,
                catalog: bundle.catalog,
            },
            Err(error) => Answered::Unresolved {
                id,
                error: AnsweredError {
                    reason: error.reason().as_str(),
                    message: error.to_string(),
                },
            },
        })
    }

    fn packages(&mut self, path: &Path) -> anyhow::Result<Rc<Packages>> {
        if let Some(packages) = self.by_path.get(path) {
            return Ok(Rc::clone(packages));
        }
        let packages = catalog::packages(path)
            .with_context(|| format!("cannot read catalog {}", path.display()))?;
        let packages = Rc::new(packages);
        self.by_path.insert(path.to_owned(), Rc::clone(&packages));
        Ok(packages)
    }
}

/// What a catalog that was read holds of a package.
fn content<'a>(packages: &'a Packages, package: &str) -> Content<'a> {
    match packages.get(package) {
        None => Content::NoSuchPackage,
        Some(Ok(contents)) => Content::Package(contents),
        Some(Err(error)) => Content::Unreadable(format!(
            "error loading package {}: {error}",
            quoted(package)
        )),
    }
}
