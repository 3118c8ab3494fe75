//! `oxolm new`: everything that a first install needs.

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Map, Value, json};

use super::Answer;
use super::installer::{Bundle, Installation, Roles, Target, is_source};
use super::objects::{Form, answer, json_list, yaml_stream};
use crate::render::subdomain_problems;
use crate::resolve::Query;

/// Print everything that a first install of a package needs, ready for kubectl apply.
///
/// The namespace, the installing account, the least roles for the bundle that would be chosen now, and the
/// extension. A later version may take more rights: the extension says so before it is upgraded, and
/// `oxolm rbac generate` prints them, of the installed version and the later one together.
///
/// Exit code 0: printed; 1: no catalog has such a bundle, or it is refused; 2: the input cannot be used.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm new my-operator --cluster --namespace my-operator | kubectl apply -f -\n  \
        oxolm new my-operator@1.x --cluster -n my-operator | kubectl apply -f -\n  \
        oxolm new my-operator --catalog ./my-catalog -n my-operator --version 1.x --channel stable"
)]
pub(super) struct New {
    /// The package, with the versions that will do
    #[arg(value_name = "PACKAGE[@VERSION]")]
    package: String,
    /// Only versions in this range
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    version: Option<String>,
    /// Only bundles of this channel; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// The name of the extension [default: the package's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The installing account [default: PACKAGE-installer]
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// How to print them; json is one List
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    installation: Installation,
}

/// Runs `oxolm new`.
pub(super) fn run(arguments: &New) -> anyhow::Result<Answer> {
    answer(arguments.text(), |text| {
        anstream::stdout()
            .write_all(text.as_bytes())
            .context("cannot write to standard output")
    })
}

impl New {
    /// The package, and the range of its versions.
    fn wanted(&self) -> anyhow::Result<(&str, Option<&str>)> {
        ensure!(
            !is_source(&self.package),
            "{} is a bundle by itself, and an extension takes a package of a catalog: name that, with --catalog or --cluster",
            self.package
        );
        let Some((package, version)) = self.package.split_once('@') else {
            return Ok((&self.package, self.version.as_deref()));
        };
        ensure!(
            self.version.is_none(),
            "{} names a version already: leave out --version",
            self.package
        );
        Ok((package, Some(version).filter(|version| !version.is_empty())))
    }

    /// What is printed.
    fn text(&self) -> anyhow::Result<String> {
        let (package, version) = self.wanted()?;
        let name = self.name.as_deref().unwrap_or(package);
        ensure!(
            subdomain_problems(name).is_empty(),
            "{name:?} cannot be the name of a ClusterExtension: give one with --name"
        );
        let installation = &self.installation;
        let account = match &self.service_account {
            Some(account) => account.clone(),
            None => format!("{package}-installer"),
        };
        let account = installation.account(&account)?;
        let config = installation.configuration()?;
        let query = Query {
            package: package.to_owned(),
            version: version.unwrap_or_default().to_owned(),
            channels: self.channels.clone(),
            ..Query::default()
        };
        let cluster = installation.cluster()?;
        let target = Target::new(cluster.as_ref(), &account)?;
        let bundle = installation.chosen(&query, target)?;
        let mut objects = vec![
            namespace(&installation.namespace, &bundle),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account.name, "namespace": account.namespace},
            }),
        ];
        let extension = self.extension(name, &account.name, &query, config);
        let bundles = [bundle];
        let mut roles = Roles::of(&bundles, None, &account)?;
        let text = match version {
            Some(version) => format!("{package}@{version}"),
            None => package.to_owned(),
        };
        let upgrade = installation.upgrade("generate", &[text], &bundles, target);
        roles.say(upgrade.as_deref());
        let has_crds = bundles.iter().any(Bundle::has_crds);
        roles.say(has_crds.then(|| removal(name)).as_deref());
        objects.extend(roles.manifests);
        objects.push(extension);
        match self.output {
            Form::Json => json_list(&objects),
            Form::Yaml => Ok(roles.comment + &yaml_stream(&objects)?),
        }
    }

    fn extension(&self, name: &str, account: &str, query: &Query, config: Option<Value>) -> Value {
        let mut catalog = Map::from_iter([("packageName".to_owned(), json!(query.package))]);
        if !query.version.is_empty() {
            catalog.insert("version".to_owned(), json!(query.version));
        }
        if !query.channels.is_empty() {
            catalog.insert("channels".to_owned(), json!(query.channels));
        }
        let mut extension = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
            "spec": {
                "namespace": self.installation.namespace,
                "serviceAccount": {"name": account},
                "source": {"sourceType": "Catalog", "catalog": catalog},
            },
        });
        // The API refuses an empty configuration; none means the same.
        let inline = config.filter(|config| config.as_object().is_some_and(|it| !it.is_empty()));
        if let (Some(inline), Some(spec)) = (inline, extension.pointer_mut("/spec")) {
            spec["config"] = json!({"configType": "Inline", "inline": inline});
        }
        extension
    }
}

/// What there is to know before all this is taken away again.
fn removal(name: &str) -> String {
    format!(
        "To remove it, delete the extension first and then the rest: the account that has lost its roles cannot see whether\n\
         definitions (CRDs) are in use, and leaves them.\n  \
         kubectl delete clusterextension {name} && kubectl delete --ignore-not-found -f FILE"
    )
}

/// The namespace, with the labels and annotations that the bundle wants on it.
fn namespace(name: &str, bundle: &Bundle) -> Value {
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
    let template = bundle.loaded.namespace_template().unwrap_or_default();
    for member in ["labels", "annotations"] {
        let wanted = template.get("metadata").and_then(|it| it.get(member));
        if let Some(wanted) = wanted.filter(|it| it.as_object().is_some_and(|it| !it.is_empty())) {
            metadata.insert(member.to_owned(), wanted.clone());
        }
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

#[cfg(test)]
mod tests;
