//! What an account needs that installs a bundle: the part that `oxolm rbac` and `oxolm new` share.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use super::catalogs::Catalogs;
use super::cluster::Cluster;
use super::objects::{Maker, configuration};
use super::source::Sources;
use crate::apply::discovery::Discovery;
use crate::bundle::RegistryV1;
use crate::identity::IdentityError;
use crate::preflight::permissions::{Needs, Right, built_in, defined_kinds, needs};
use crate::render::{self, Provider, RenderError, RenderOptions, subdomain_problems};
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
    #[arg(long, value_enum, default_value_t = Maker::Auto)]
    pub(super) certificates: Maker,
    #[command(flatten)]
    pub(super) catalogs: Catalogs,
    #[command(flatten)]
    pub(super) sources: Sources,
}

/// A bundle, rendered.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) loaded: RegistryV1,
    /// Who makes the certificates of its webhooks; none when it has no webhooks.
    pub(super) certificates: Option<Provider>,
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
    /// The cluster that bundles are for, if the flags say that one is asked.
    ///
    /// # Errors
    /// When there is no usable kubeconfig.
    pub(super) fn cluster(&self) -> anyhow::Result<Option<Cluster>> {
        let live = &self.catalogs.live;
        let asks = self.catalogs.cluster || live.name_a_cluster();
        asks.then(|| live.connect()).transpose()
    }

    /// The bundle that `text` names, for `cluster`: what holds a `/` or exists on disk is a SRC, anything else
    /// `PACKAGE[@VERSION]`.
    ///
    /// # Errors
    /// When it cannot be had; a [`super::objects::refusal`] if it is refused.
    pub(super) fn bundle(&self, text: &str, cluster: Option<&Cluster>) -> anyhow::Result<Bundle> {
        if text.contains('/') || Path::new(text).exists() {
            return self.rendered(text, cluster);
        }
        let (package, version) = text.split_once('@').unwrap_or((text, ""));
        let query = Query {
            package: package.to_owned(),
            version: version.to_owned(),
            ..Query::default()
        };
        self.chosen(&query, cluster)
    }

    /// The bundle that the catalogs have for `query`, for `cluster`.
    ///
    /// # Errors
    /// As [`Self::bundle`].
    pub(super) fn chosen(
        &self,
        query: &Query,
        cluster: Option<&Cluster>,
    ) -> anyhow::Result<Bundle> {
        let chosen = self.catalogs.choose(&self.sources, query)?;
        self.rendered(&chosen.image, cluster)
    }

    fn rendered(&self, source: &str, cluster: Option<&Cluster>) -> anyhow::Result<Bundle> {
        let config = self.configuration()?;
        let files = self.sources.bundle_files(source)?;
        let loaded =
            RegistryV1::load(&files).with_context(|| format!("cannot read bundle {source}"))?;
        // Without webhooks nobody makes any, and nobody need be asked.
        let has_webhooks = !loaded.csv.spec.webhook_definitions.is_empty();
        let certificates = has_webhooks.then(|| maker(self.certificates, cluster));
        let certificates = certificates.transpose()?;
        let options = RenderOptions {
            install_namespace: &self.namespace,
            config: config.as_ref(),
            certificates: certificates.unwrap_or(Provider::None),
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
        Ok(Bundle {
            loaded,
            certificates,
            manifests,
        })
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

/// Makes sure that the controller of `cluster` would act as `account`.
///
/// # Errors
/// When the accounts of its namespace are excluded there.
pub(super) fn ensure_usable(account: &Account, cluster: &Cluster) -> anyhow::Result<()> {
    if cluster.excluded_namespaces().contain(&account.namespace) {
        let error = IdentityError::Excluded(account.clone());
        return Err(error).context("choose another namespace");
    }
    Ok(())
}

/// Who makes certificates: the one that is named, or whom the controller would choose in the cluster that is asked.
fn maker(named: Maker, cluster: Option<&Cluster>) -> anyhow::Result<Provider> {
    match (named, cluster) {
        (Maker::Known(certificates), _) => Ok(certificates.into()),
        (Maker::Auto, None) => Ok(Provider::SelfSigned),
        (Maker::Auto, Some(cluster)) => {
            let found = cluster.ask(|client| async { Discovery::new(client).certificates().await });
            found.context("cannot find out who makes the certificates of webhooks (name it with --certificates)")
        }
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
    let mut makers = bundles.iter().filter_map(|bundle| bundle.certificates);
    if let Some(maker) = makers.next() {
        let maker = format!(
            "# The certificates of webhooks are taken to be made as with --certificates {maker}.\n"
        );
        text.push_str(&maker);
    }
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
