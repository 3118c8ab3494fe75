//! What an account needs that installs a bundle: the part that `oxolm rbac` and `oxolm new` share.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use super::catalogs::Catalogs;
use super::objects::{Certificates, configuration};
use super::source::Sources;
use crate::bundle::RegistryV1;
use crate::preflight::permissions::{Needs, Right, built_in, defined_kinds, needs};
use crate::render::{self, RenderError, RenderOptions, subdomain_problems};
use crate::resolve::Query;
use crate::revision::Account;

/// How a bundle is installed.
#[derive(Debug, Clone, Args)]
pub(super) struct Installation {
    /// The namespace that it is installed in, and that the account is in
    #[arg(short, long, value_name = "NS")]
    pub(super) namespace: String,
    /// The extension's spec.config.inline, as YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Who makes the certificates of webhooks
    #[arg(long, value_enum, default_value_t = Certificates::SelfSigned)]
    pub(super) certificates: Certificates,
    #[command(flatten)]
    pub(super) catalogs: Catalogs,
    #[command(flatten)]
    pub(super) sources: Sources,
}

/// A bundle, rendered.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) loaded: RegistryV1,
    /// The objects, and the Secrets that are written while applying.
    pub(super) manifests: Vec<Value>,
}

/// The roles of an installing account.
#[derive(Debug)]
pub(super) struct Roles {
    /// What they are, as the comment above them.
    pub(super) comment: String,
    /// The roles and their bindings.
    pub(super) manifests: Vec<Value>,
}

impl Installation {
    /// The bundle that `text` names: what holds a `/` or exists on disk is a SRC, anything else `PACKAGE[@VERSION]`.
    ///
    /// # Errors
    /// When it cannot be had; a [`super::objects::refusal`] if it is refused.
    pub(super) fn bundle(&self, text: &str) -> anyhow::Result<Bundle> {
        if text.contains('/') || Path::new(text).exists() {
            return self.rendered(text);
        }
        let (package, version) = text.split_once('@').unwrap_or((text, ""));
        self.chosen(&Query {
            package: package.to_owned(),
            version: version.to_owned(),
            ..Query::default()
        })
    }

    /// The bundle that the catalogs have for `query`.
    ///
    /// # Errors
    /// As [`Self::bundle`].
    pub(super) fn chosen(&self, query: &Query) -> anyhow::Result<Bundle> {
        let chosen = self.catalogs.choose(&self.sources, query)?;
        self.rendered(&chosen.image)
    }

    fn rendered(&self, source: &str) -> anyhow::Result<Bundle> {
        let config = self.configuration()?;
        let files = self.sources.bundle_files(source)?;
        let loaded =
            RegistryV1::load(&files).with_context(|| format!("cannot read bundle {source}"))?;
        let options = RenderOptions {
            install_namespace: &self.namespace,
            config: config.as_ref(),
            certificates: self.certificates.into(),
        };
        let rendered = render::render(&loaded, &options).map_err(|error| {
            let lacking = match (&error, &config) {
                (RenderError::Configuration(_), None) => " without --config",
                _ => "",
            };
            let context = format!("cannot render bundle {source}{lacking}");
            anyhow::Error::new(error).context(context)
        })?;
        let mut manifests = rendered.objects;
        manifests.extend(rendered.secrets);
        Ok(Bundle { loaded, manifests })
    }

    /// What `--config` holds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn configuration(&self) -> anyhow::Result<Option<Value>> {
        self.config.as_deref().map(configuration).transpose()
    }

    /// The account that installs.
    ///
    /// # Errors
    /// When its name or that of its namespace is none that Kubernetes takes.
    pub(super) fn account(&self, name: &str) -> anyhow::Result<Account> {
        let namespace = &self.namespace;
        ensure!(
            is_label(namespace),
            "{namespace:?} cannot be the name of a namespace: up to 63 lower case letters, digits and '-' can"
        );
        ensure!(
            subdomain_problems(name).is_empty(),
            "{name:?} cannot be the name of a service account: up to 253 lower case letters, digits, '-' and '.' can"
        );
        Ok(Account {
            namespace: namespace.clone(),
            name: name.to_owned(),
        })
    }
}

/// Whether `name` is a DNS label.
fn is_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && subdomain_problems(name).is_empty()
}

impl Bundle {
    pub(super) fn name(&self) -> &str {
        &self.loaded.csv.metadata.name
    }

    fn needs(&self) -> anyhow::Result<Needs> {
        needs(&self.manifests, &built_in)
            .with_context(|| format!("cannot tell the rights that {} needs", self.name()))
    }
}

impl Roles {
    /// The least ones with which `account` can install each of `bundles`, and upgrade one to another.
    ///
    /// # Errors
    /// When they are of several packages, or one has an object of a kind that nobody knows.
    pub(super) fn of(bundles: &[Bundle], account: &Account) -> anyhow::Result<Self> {
        let packages: BTreeSet<&str> = bundles
            .iter()
            .map(|bundle| bundle.loaded.package.as_str())
            .collect();
        let package = packages.first().copied().unwrap_or_default();
        ensure!(
            packages.len() == 1,
            "these are bundles of several packages: {}",
            packages.iter().copied().collect::<Vec<_>>().join(", ")
        );
        let (mut all, mut unlisted) = (Needs::default(), BTreeSet::new());
        for bundle in bundles {
            let needs = bundle.needs()?;
            unlisted.extend(unlisted_resources(bundle, &needs));
            all = all.and(&needs);
        }
        Ok(Self {
            comment: comment(account, bundles, &unlisted),
            manifests: all
                .least()
                .manifests(&account.namespace, &account.name, package),
        })
    }
}

/// The resources that the bundle defines and that nobody who has `needs` may list everywhere, as `plural.group`.
fn unlisted_resources(bundle: &Bundle, needs: &Needs) -> Vec<String> {
    let held = needs.least();
    defined_kinds(&bundle.manifests)
        .into_values()
        .filter(|kind| {
            let list = Right::Resource {
                group: kind.group.clone(),
                resource: kind.plural.clone(),
                name: None,
                verb: "list".to_owned(),
            };
            let everywhere = held.by_namespace().get("").into_iter().flatten();
            !everywhere.into_iter().any(|rule| rule.covers(&list))
        })
        .map(|kind| format!("{}.{}", kind.plural, kind.group))
        .collect()
}

fn comment(account: &Account, bundles: &[Bundle], unlisted: &BTreeSet<String>) -> String {
    let names: Vec<&str> = bundles.iter().map(Bundle::name).collect();
    let mut text = format!(
        "# What service account {account} needs to install, maintain and remove {}, and no more.\n\
         # Rules with resourceNames are about the objects of the bundle. The others are there to create them, or are given\n\
         # to the accounts of the bundle itself: nobody may give away what he has not.\n",
        names.join(" and "),
    );
    if !unlisted.is_empty() {
        text.push_str(
            "# The account may not list these resources everywhere. Their definitions are therefore kept when the extension is\n\
             # removed, since nobody knows whether any are left:\n",
        );
        for resource in unlisted {
            text.push_str("#   ");
            text.push_str(resource);
            text.push('\n');
        }
    }
    text
}
