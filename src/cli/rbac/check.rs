//! `oxolm rbac check`: asks a cluster what an account lacks.

#![expect(clippy::disallowed_types, reason = "shell: asks the API server")]

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use kube::Client;

use super::super::Answer;
use super::super::installer::{Bundle, Installation, Target, leaving};
use super::super::objects::answer;
use crate::apply::crd_upgrade::{CrdUpgradeCheck, Resources};
use crate::apply::discovery::Discovery;
use crate::apply::permissions::{PreflightError, Preflighter};
use crate::error::chain;
use crate::identity::accounts::Accounts;
use crate::identity::{DefaultAccount, ExcludedNamespaces, Identity, IdentityError};
use crate::revision::Account;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// The bundle: a directory, a tar archive or an image, or a package of a catalog with the versions that will do;
    /// several bundles of one package for an upgrade to the last of them
    #[arg(value_name = "SRC|PACKAGE[@VERSION]", required = true)]
    bundles: Vec<String>,
    /// The account
    #[arg(long, value_name = "NAME")]
    service_account: String,
    #[command(flatten)]
    installation: Installation,
}

pub(super) fn run(arguments: &Check) -> anyhow::Result<Answer> {
    let installation = &arguments.installation;
    let account = installation.account(&arguments.service_account)?;
    let cluster = installation.catalogs.live.connect()?;
    let target = Target::new(Some(&cluster), &account)?;
    let bundles = installation.bundles(&arguments.bundles, target);
    let mut verdict = Answer::Yes;
    let read = answer(bundles, |bundles| {
        let lacks = cluster.ask(|client| lacks(client, account.clone(), &bundles))?;
        let mut text = match lacks {
            Some(lacks) => {
                verdict = Answer::No;
                lacks
            }
            None => format!(
                "service account {account} has all that {} needs",
                named(&bundles)
            ),
        };
        let upgrade = installation.upgrade("check", &arguments.bundles, &bundles, target);
        for line in upgrade.iter().flat_map(|upgrade| upgrade.lines()) {
            text.push('\n');
            text.push_str(line);
        }
        writeln!(anstream::stdout(), "{text}").context("cannot write to standard output")
    })?;
    Ok(match read {
        Answer::Yes => verdict,
        Answer::No => Answer::No,
    })
}

/// A bundle, or the upgrade to it.
fn named(bundles: &[Bundle]) -> String {
    let names: Vec<&str> = bundles.iter().map(Bundle::name).collect();
    match names.split_last() {
        Some((last, earlier)) if !earlier.is_empty() => {
            format!("the upgrade from {} to {last}", earlier.join(" and "))
        }
        _ => names.concat(),
    }
}

/// What the controller would say to the last of `bundles`, where the others are installed; nothing when it would go on.
async fn lacks(
    client: Client,
    account: Account,
    bundles: &[Bundle],
) -> anyhow::Result<Option<String>> {
    let Some(bundle) = bundles.last() else {
        return Ok(None);
    };
    let accounts: Arc<Accounts> = Arc::default();
    let identity = Identity::new(
        client.clone(),
        Arc::clone(&accounts),
        // Whether it is excluded was asked before.
        ExcludedNamespaces::new(Vec::<String>::new()),
        DefaultAccount::None,
    );
    match identity.check_exists(&account).await {
        Ok(()) => {}
        Err(error @ IdentityError::Missing { .. }) => return Ok(Some(chain(&error))),
        // Who may not look at the account may act as it all the same: then it is told by what it may do.
        Err(IdentityError::Unread(error)) if error.is_forbidden() => {}
        Err(error) => return Err(error.into()),
    }
    let asking = Preflighter {
        own: &client,
        client: &identity.client_for(&account)?,
        discovery: &Discovery::new(client.clone()),
        accounts: &accounts,
    };
    let lack = match asking
        .lack(&account, &bundle.manifests(), &leaving(bundles))
        .await
    {
        Ok(mut lack) => {
            let check = CrdUpgradeCheck {
                own: &client,
                account: asking.client,
                user: &account.to_string(),
                resources: Resources::Looked,
            };
            // A CRD that cannot be read is another matter than rights: `oxolm crd check` tells it.
            let unlisted = check.unlisted(&bundle.objects).await;
            lack.missing.extend(unlisted.unwrap_or_default());
            Ok(lack)
        }
        Err(error) => Err(error),
    };
    match lack {
        Ok(lack) if lack.is_empty() => Ok(None),
        Ok(lack) => Ok(Some(chain(&PreflightError::Lacking(Box::new(lack))))),
        Err(error @ PreflightError::Needs(_)) => Ok(Some(chain(&error))),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bundle::RegistryV1;
    use crate::testing::api_server::ApiServer;

    fn bundle() -> Bundle {
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
        Bundle {
            loaded: RegistryV1 {
                package: "p".into(),
                csv: crate::bundle::csv::ClusterServiceVersion::default(),
                crds: Vec::new(),
                others: Vec::new(),
            },
            certificates: None,
            objects: vec![config_map],
            secrets: Vec::new(),
        }
    }

    /// What is said to an account with rules on config maps, by verbs with and without a name.
    async fn said(server: &ApiServer, verbs: &[&str], bundles: &[Bundle]) -> Option<String> {
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs});
        server.set_rules("n:a", &[("n", rule)]);
        let account = Account {
            namespace: "n".into(),
            name: "a".into(),
        };
        lacks(server.client(), account, bundles).await.unwrap()
    }

    #[tokio::test]
    async fn the_answer_is_that_of_the_preflight() {
        let server = ApiServer::new();
        let all = ["create", "get", "patch", "delete"];
        let missing = said(&server, &all, &[bundle()]).await.unwrap();
        assert!(missing.ends_with("kubectl create serviceaccount a --namespace n"));
        server.add(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}}));
        assert_eq!(said(&server, &all, &[bundle()]).await, None);
        assert_eq!(
            said(&server, &["create", "get"], &[bundle()])
                .await
                .unwrap(),
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  \
             Namespace:\"n\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete,patch,update]"
        );
        let mut unknown = bundle();
        unknown.objects[0]["apiVersion"] = json!("unknown/v1");
        let text = said(&server, &all, &[unknown]).await.unwrap();
        assert!(
            text.ends_with(r#"no matches for kind "ConfigMap" in version "unknown/v1": install what defines it first"#),
            "{text}"
        );
    }

    #[tokio::test]
    async fn what_an_upgrade_drops_has_to_be_taken_down() {
        let server = ApiServer::new();
        server.add(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}}));
        let mut old = bundle();
        let dropped = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}});
        old.objects.push(dropped);
        let all = ["create", "get", "patch", "update", "delete"];
        assert_eq!(said(&server, &all, &[bundle()]).await, None);
        let missing = said(&server, &all, &[old, bundle()]).await.unwrap();
        assert!(
            missing.ends_with(r#"Namespace:"n" APIGroups:[] Resources:[services] ResourceNames:[s] Verbs:[delete,get]"#),
            "{missing}"
        );
    }

    #[tokio::test]
    async fn whoever_may_not_look_at_the_account_is_answered_all_the_same() {
        let server = ApiServer::new();
        server.fail_next("GET /api/v1/namespaces/n/serviceaccounts/a", 403);
        let all = ["create", "get", "patch", "update", "delete"];
        assert_eq!(said(&server, &all, &[bundle()]).await, None);
    }

    #[tokio::test]
    async fn a_cluster_that_does_not_answer_is_no_answer() {
        let server = ApiServer::new();
        server.fail_next("GET /api/v1/namespaces/n/serviceaccounts/a", 500);
        let account = Account {
            namespace: "n".into(),
            name: "a".into(),
        };
        assert!(lacks(server.client(), account, &[bundle()]).await.is_err());
    }
}
