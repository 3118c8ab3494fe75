//! What an account needs that installs a bundle: the part that `oxolm rbac` and `oxolm new` share.

pub(super) mod held;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use self::held::Held;
use super::catalogs::Catalogs;
use super::cluster::Cluster;
use super::installed::Installed;
use super::objects::{Maker, configuration};
use super::range::check_spec_range;
use super::source::Sources;
use crate::api::object::ObjectKey;
use crate::apply::discovery::Discovery;
use crate::bundle::RegistryV1;
use crate::identity::IdentityError;
use crate::preflight::permissions::{Needs, Right, built_in, defined_kinds, needs};
use crate::render::{self, Provider, RenderError, RenderOptions, subdomain_problems};
use crate::resolve::Query;
use crate::revision::Account;
use crate::revision::phase::{self, ObjectMarks};

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

/// Where a bundle is to be installed, and by whom.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The cluster, if one is asked.
    pub(super) cluster: Option<&'a Cluster>,
    pub(super) account: &'a Account,
}

impl<'a> Target<'a> {
    /// As `account`, in `cluster` if one is asked.
    ///
    /// # Errors
    /// When the controller there acts as no account of that namespace.
    pub(super) fn new(cluster: Option<&'a Cluster>, account: &'a Account) -> anyhow::Result<Self> {
        let excluded = cluster.map(Cluster::excluded_namespaces);
        if excluded.is_some_and(|excluded| excluded.contain(&account.namespace)) {
            let error = IdentityError::Excluded(account.clone());
            return Err(error).context("choose another namespace");
        }
        Ok(Self { cluster, account })
    }
}

/// A bundle, rendered.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) loaded: RegistryV1,
    /// Who makes the certificates of its webhooks; none when it has no webhooks.
    pub(super) certificates: Option<Made>,
    /// The objects.
    pub(super) objects: Vec<Value>,
    /// The Secrets that are written while applying.
    pub(super) secrets: Vec<Value>,
}

/// Who makes certificates, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) by: Provider,
    pub(super) known: Known,
}

/// How it is known who makes certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// `--certificates` says so.
    Named,
    /// No cluster was asked.
    Unasked,
    /// The cluster's APIs decide for a first install.
    Discovered,
    /// It was recorded when the extension was installed.
    Recorded { extension: String, revision: String },
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Named => "",
            Self::Unasked => ", since no cluster was asked",
            Self::Discovered => ", as the cluster's APIs decide for a first install",
            Self::Recorded {
                extension,
                revision,
            } => {
                return write!(
                    f,
                    ",\n# as revision {revision} of ClusterExtension {extension} has recorded"
                );
            }
        })
    }
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

    /// The bundle that `text` names, for `target`: what holds a `/` or exists on disk is a SRC, anything else
    /// `PACKAGE[@VERSION]`.
    ///
    /// # Errors
    /// When it cannot be had; a [`super::objects::refusal`] if it is refused.
    pub(super) fn bundle(&self, text: &str, target: Target<'_>) -> anyhow::Result<Bundle> {
        if is_source(text) {
            return self.rendered(text, target);
        }
        let (package, version) = text.split_once('@').unwrap_or((text, ""));
        let query = Query {
            package: package.to_owned(),
            version: version.to_owned(),
            ..Query::default()
        };
        self.chosen(&query, target)
    }

    /// The bundles that `texts` name, all of one package.
    ///
    /// # Errors
    /// As [`Self::bundle`]; when they are of several packages.
    pub(super) fn bundles(
        &self,
        texts: &[String],
        target: Target<'_>,
    ) -> anyhow::Result<Vec<Bundle>> {
        let bundles = texts
            .iter()
            .map(|text| self.bundle(text, target))
            .collect::<anyhow::Result<Vec<Bundle>>>()?;
        let packages: BTreeSet<&str> = bundles
            .iter()
            .map(|bundle| bundle.loaded.package.as_str())
            .collect();
        ensure!(
            packages.len() == 1,
            "these are bundles of several packages: {}",
            packages.iter().copied().collect::<Vec<_>>().join(", ")
        );
        Ok(bundles)
    }

    /// The bundle that the catalogs have for `query`, for `target`.
    ///
    /// # Errors
    /// As [`Self::bundle`].
    pub(super) fn chosen(&self, query: &Query, target: Target<'_>) -> anyhow::Result<Bundle> {
        if !query.version.is_empty() {
            check_spec_range(&query.version).context("the version cannot be used")?;
        }
        let chosen = self.catalogs.choose(&self.sources, query)?;
        self.rendered(&chosen.image, target)
    }

    /// What the cluster has installed, if it is another version than any of `bundles`, which `texts` name: that, and with
    /// which `command` both are looked at.
    pub(super) fn upgrade(
        &self,
        command: &str,
        texts: &[String],
        bundles: &[Bundle],
        target: Target<'_>,
    ) -> Option<String> {
        let package = bundles.first()?.loaded.package.as_str();
        // This is only a hint: who may not see what is installed goes without.
        let found = Installed::find(target.cluster?, package, target.account).ok()??;
        let version = found.version?;
        if (bundles.iter()).any(|bundle| bundle.loaded.csv.spec.version == version) {
            return None;
        }
        let Account { namespace, name } = target.account;
        let mut line = format!(
            "oxolm rbac {command} {package}@{version} {}",
            texts
                .iter()
                .map(|text| word(text))
                .collect::<Vec<_>>()
                .join(" ")
        );
        for file in &self.catalogs.files {
            line = format!("{line} --catalog {file}");
        }
        if self.catalogs.files.is_empty() {
            line.push_str(" --cluster");
        }
        line.push_str(&self.catalogs.live.written());
        if let Some(config) = &self.config {
            line = format!("{line} --config {}", config.display());
        }
        Some(format!(
            "ClusterExtension {} has {version} installed; its upgrade takes the rights for both:\n  \
             {line} --namespace {namespace} --service-account {name}",
            found.extension
        ))
    }

    fn rendered(&self, source: &str, target: Target<'_>) -> anyhow::Result<Bundle> {
        let config = self.configuration()?;
        let files = self.sources.bundle_files(source)?;
        let loaded =
            RegistryV1::load(&files).with_context(|| format!("cannot read bundle {source}"))?;
        // Without webhooks nobody makes any, and nobody need be asked.
        let has_webhooks = !loaded.csv.spec.webhook_definitions.is_empty();
        let certificates = has_webhooks.then(|| maker(self.certificates, &loaded.package, target));
        let certificates = certificates.transpose()?;
        let options = RenderOptions {
            install_namespace: &self.namespace,
            config: config.as_ref(),
            certificates: certificates.as_ref().map_or(Provider::None, |made| made.by),
        };
        let rendered = render::render(&loaded, &options).map_err(|error| {
            let lacking = match (&error, &config) {
                (RenderError::Configuration(_), None) => " without --config",
                _ => "",
            };
            let context = format!("cannot render bundle {source}{lacking}");
            anyhow::Error::new(error).context(context)
        })?;
        // What cannot be put into a revision is refused by the controller, too.
        phase::phases(&rendered.objects, &ObjectMarks::default())
            .with_context(|| format!("bundle {source} cannot be installed"))?;
        Ok(Bundle {
            loaded,
            certificates,
            objects: rendered.objects,
            secrets: rendered.secrets,
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

/// Who makes certificates: the one that is named, or whom the controller would choose in the cluster that is asked. It keeps
/// to whom it chose at the first install.
fn maker(named: Maker, package: &str, target: Target<'_>) -> anyhow::Result<Made> {
    let (by, known) = match (named, target.cluster) {
        (Maker::Known(certificates), _) => (certificates.into(), Known::Named),
        (Maker::Auto, None) => (Provider::SelfSigned, Known::Unasked),
        (Maker::Auto, Some(cluster)) => {
            let made = made_in(cluster, package, target.account);
            return made.context("cannot find out who makes the certificates of webhooks (name it with --certificates)");
        }
    };
    Ok(Made { by, known })
}

fn made_in(cluster: &Cluster, package: &str, account: &Account) -> anyhow::Result<Made> {
    if let Some(Installed {
        extension,
        certificates: Some((by, revision)),
        ..
    }) = Installed::find(cluster, package, account)?
    {
        let known = Known::Recorded {
            extension,
            revision,
        };
        return Ok(Made { by, known });
    }
    let by = cluster.ask(|client| async { Discovery::new(client).certificates().await })?;
    Ok(Made {
        by,
        known: Known::Discovered,
    })
}

/// `text` as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@./:_-+=".contains(c);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Whether `text` names a bundle itself, and no package of a catalog.
pub(super) fn is_source(text: &str) -> bool {
    text.contains('/') || Path::new(text).exists()
}

/// Whether `name` is a DNS label.
fn is_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && subdomain_problems(name).is_empty()
}

impl Bundle {
    pub(super) fn name(&self) -> &str {
        &self.loaded.csv.metadata.name
    }

    /// Whether it defines kinds.
    pub(super) fn has_crds(&self) -> bool {
        let mut keys = self.objects.iter().filter_map(|it| ObjectKey::of(it).ok()); // Phases were made of all.
        keys.any(|key| key.gvk.is_crd())
    }

    /// All that is written: the objects, and the Secrets.
    pub(super) fn manifests(&self) -> Vec<Value> {
        [&self.objects[..], &self.secrets].concat()
    }

    fn needs(&self) -> anyhow::Result<Needs> {
        needs(&self.manifests(), &built_in)
            .with_context(|| format!("cannot tell the rights that {} needs", self.name()))
    }
}

impl Roles {
    /// The least ones with which `account` can install each of `bundles`, and upgrade one to another, or what an extension
    /// has to them.
    ///
    /// # Errors
    /// When one has an object of a kind that nobody knows, or the extension is of another package.
    pub(super) fn of(
        bundles: &[Bundle],
        held: Option<&Held>,
        account: &Account,
    ) -> anyhow::Result<Self> {
        let package = (bundles.first()).map_or("", |bundle| bundle.loaded.package.as_str());
        let held_package = held.map_or(package, |held| held.package.as_str());
        ensure!(
            bundles.is_empty() || package == held_package,
            "the extension is of package {held_package}, the bundles are of {package}"
        );
        let package = held_package;
        let (mut all, mut unlisted) = (Needs::default(), BTreeSet::new());
        for bundle in bundles {
            let needs = bundle.needs()?;
            unlisted.extend(unlisted_resources(bundle, &needs));
            all = all.and(&needs);
        }
        let mut names: Vec<&str> = bundles.iter().map(Bundle::name).collect();
        for (revision, manifests) in held.iter().flat_map(|held| &held.revisions) {
            let needs = needs(manifests, &built_in);
            let needs = needs.with_context(|| {
                format!("cannot tell the rights that revision {revision} needs")
            })?;
            all = all.and(&needs);
            names.push(revision);
        }
        Ok(Self {
            comment: comment(account, &names, bundles, &unlisted),
            manifests: all.and_to_watch_secrets().least().manifests(
                &account.namespace,
                &account.name,
                package,
            ),
        })
    }
}

impl Roles {
    /// Adds what there is to know to the comment.
    pub(super) fn say(&mut self, text: Option<&str>) {
        for line in text.iter().flat_map(|text| text.lines()) {
            _ = writeln!(self.comment, "# {line}");
        }
    }
}

/// The namespaces of the objects that neither are where everything is installed nor come with the bundles.
///
/// They are somebody's own: that a manifest made them would mean that deleting what it made deletes them.
fn other_namespaces(bundles: &[Bundle], account: &Account) -> BTreeSet<String> {
    let objects = || bundles.iter().flat_map(|bundle| &bundle.objects);
    let keys = objects().filter_map(|object| ObjectKey::of(object).ok()); // Phases were made of all.
    let mut namespaces = BTreeSet::new();
    let mut made = BTreeSet::from([String::new(), account.namespace.clone()]);
    for key in keys {
        if key.gvk.is("", "Namespace") {
            made.insert(key.name);
        }
        namespaces.insert(key.namespace);
    }
    namespaces.difference(&made).cloned().collect()
}

/// What an upgrade to the last of `bundles` drops of those before it.
pub(super) fn leaving(bundles: &[Bundle]) -> Vec<Value> {
    let Some((last, earlier)) = bundles.split_last() else {
        return Vec::new();
    };
    let key = |object: &Value| ObjectKey::of(object).ok(); // Phases were made of all.
    let mut seen: BTreeSet<ObjectKey> = last.manifests().iter().filter_map(key).collect();
    let objects = earlier.iter().flat_map(|bundle| &bundle.objects);
    objects
        .filter(|object| key(object).is_some_and(|key| seen.insert(key)))
        .cloned()
        .collect()
}

/// The resources that the bundle defines and that nobody who has `needs` may list everywhere, as `plural.group`.
fn unlisted_resources(bundle: &Bundle, needs: &Needs) -> Vec<String> {
    let held = needs.least();
    defined_kinds(&bundle.objects)
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

fn comment(
    account: &Account,
    names: &[&str],
    bundles: &[Bundle],
    unlisted: &BTreeSet<String>,
) -> String {
    let mut text = format!(
        "# What service account {account} needs to install, maintain and remove {}, and no more.\n\
         # Rules with resourceNames are about the objects of the bundle. The others are there to create them, or are given\n\
         # to the accounts of the bundle itself: nobody may give away what he has not.\n",
        names.join(" and "),
    );
    let mut makers = bundles
        .iter()
        .filter_map(|bundle| bundle.certificates.as_ref());
    if let Some(Made { by, known }) = makers.next() {
        let maker = format!(
            "# The certificates of webhooks are taken to be made as with --certificates {by}{known}.\n"
        );
        text.push_str(&maker);
    }
    for namespace in other_namespaces(bundles, account) {
        _ = writeln!(
            text,
            "# Namespace {namespace} is used, too, and must exist: kubectl create namespace {namespace}"
        );
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
