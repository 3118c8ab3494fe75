//! The generated rules of every real bundle: enough, and none can go.
//!
//! The bundles come from the conformance folder; without it the story is skipped. A bundle with a kind that the API
//! server does not serve is named and left out.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use oxolm::api::ClusterExtension;
use oxolm::api::condition::ConditionType;
use oxolm::apply::discovery::Discovery;
use oxolm::apply::permissions::{Lack, PreflightError, Preflighter};
use oxolm::bundle::Files;
use oxolm::identity::accounts::Accounts;
use oxolm::preflight::permissions::NeedsError;
use oxolm::revision::Account;
use serde_json::{Value, json};

use crate::harness::objects::documents;
use crate::harness::package::{Package, entry};
use crate::harness::real::{self, Rendered};
use crate::harness::stage::Stage;
use crate::harness::wait::{message, shape};
use crate::harness::{Cluster, Outcome};

/// How many bundles at the same time.
const AT_ONCE: usize = 4;
/// How long the API server may take to learn of a changed role.
const ROLES_DEADLINE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const TWICE: &str = "duplicate object found: ";
const REFUSED: &str =
    "pre-authorization failed: service account requires the following permissions";

/// With what `oxolm rbac generate` prints each bundle is installed and taken away again; without any one of these
/// rules the preflight says what is missing, and nothing is written.
pub(crate) async fn generated_rules_are_enough_and_none_can_go(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let Some(bundles) = real::bundles()? else {
        return Ok(Outcome::Skipped(real::MISSING));
    };
    let told: Vec<Verdict> = stream::iter(bundles.into_iter().enumerate())
        .map(|(index, ((package, version), files))| {
            let cluster = Arc::clone(&cluster);
            async move {
                let told = tell(cluster, index, &package, &version, &files).await;
                told.with_context(|| format!("{package} {version}"))
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let (mut rules, mut installed) = (0, 0);
    for verdict in told {
        match verdict {
            Verdict::LeftOut(why) => println!("left out: {why}"),
            Verdict::Installed { tried } => {
                rules += tried;
                installed += 1;
            }
        }
    }
    println!("{installed} bundles were installed; {rules} rules were taken away, one by one");
    ensure!(installed > 0, "nothing was installed");
    Ok(Outcome::Passed)
}

/// What came of one bundle.
enum Verdict {
    LeftOut(String),
    /// And so many rules were taken away, one by one.
    Installed {
        tried: usize,
    },
}

async fn tell(
    cluster: Arc<Cluster>,
    index: usize,
    package: &str,
    version: &str,
    files: &Files,
) -> anyhow::Result<Verdict> {
    let name = format!("least-{}", package.replace('.', "-"));
    let watched = format!("{name}-watched");
    let Some(rendered) = real::rendered(files, &name, &watched) else {
        return Ok(Verdict::LeftOut(format!("{package} {version} is refused")));
    };
    let stage = Stage {
        cluster,
        package: Package::new(package)?,
        name,
    };
    stage.add_account().await?;
    let Some(account) = InstallingAccount::of(&stage, &rendered).await? else {
        stage.clear().await?;
        let why = format!("{package} {version} holds a kind that is not served");
        return Ok(Verdict::LeftOut(why));
    };
    let folder = tempfile::tempdir()?;
    let config = rendered.config.as_ref();
    let (comment, roles) = match publish(&stage, folder.path(), version, files, config).await {
        // The command refuses what no cluster takes, as the controller does.
        Err(error) if format!("{error:#}").contains(TWICE) => {
            stage.clear().await?;
            return Ok(Verdict::LeftOut(format!("{package} {version}: {error:#}")));
        }
        published => published?,
    };
    let tried = account.try_without_each(&roles).await?;
    let ways = ways(&roles);
    let without = ways
        .iter()
        .cycle()
        .nth(index * 7)
        .context("there are rules")?;
    stage.apply(&without.rest.to_string()).await?;
    account.until_lacking(true).await?;

    let config = rendered
        .config
        .map(|inline| json!({"configType": "Inline", "inline": inline}));
    stage
        .add_extension_with(&config.map_or(json!({}), |config| json!({"config": config})))
        .await?;
    stage
        .until(
            "its account is refused, or no cluster takes it",
            |extension| {
                message(extension, ConditionType::Progressing).contains(REFUSED)
                    || is_invalid(extension)
            },
        )
        .await?;
    let revision = format!(
        "/apis/olm.operatorframework.io/v1/clusterobjectsets/{}-1",
        stage.name
    );
    ensure!(
        !stage.exists(&revision).await?,
        "a refused bundle has a revision"
    );

    stage.apply(&as_text(&roles)).await?;
    let told = stage
        .until("it is installed, or no cluster takes it", |extension| {
            shape(extension, ConditionType::Installed) == "True/Succeeded" || is_invalid(extension)
        })
        .await?;
    // Nothing changes what is applied here; a value that the API server only writes in another way is no change.
    let warnings = message(&told, ConditionType::Warnings);
    ensure!(!warnings.contains("changes what is applied"), "{warnings}");
    stage.uninstall().await?;
    just_what_was_announced_is_left(&stage, &comment).await?;
    stage.delete(&as_text(&roles)).await?;
    stage.clear().await?;
    Ok(if is_invalid(&told) {
        let why = message(&told, ConditionType::Progressing);
        Verdict::LeftOut(format!("{package} {version}: {why}"))
    } else {
        Verdict::Installed { tried }
    })
}

/// Some published bundles hold resources that their own definitions refuse, or one object twice.
fn is_invalid(extension: &ClusterExtension) -> bool {
    let text = message(extension, ConditionType::Progressing);
    let faults = [" is invalid: ", TWICE];
    faults.iter().any(|fault| text.contains(fault))
}

/// Pushes the bundle, serves it, and generates the roles for it.
async fn publish(
    stage: &Stage,
    folder: &Path,
    version: &str,
    files: &Files,
    config: Option<&Value>,
) -> anyhow::Result<(String, Vec<Value>)> {
    let bundle = folder.join("bundle");
    for (path, bytes) in files {
        let path = bundle.join(path);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(path, bytes)?;
    }
    let image = stage.package.push_bundle_folder(version, &bundle).await?;
    stage.serve(&[entry(version, "")]).await?;
    let file = folder.join("config.json");
    if let Some(config) = config {
        std::fs::write(&file, config.to_string())?;
    }
    let config = config.map(|_config| file.as_path());
    let (comment, roles) = stage.roles_for(vec![image], config).await?;
    let roles = documents(&roles)?.into_iter().map(serde_json::to_value);
    Ok((comment, roles.collect::<Result<_, _>>()?))
}

/// Who installs one bundle, and what.
struct InstallingAccount<'a> {
    stage: &'a Stage,
    account: Account,
    client: kube::Client,
    discovery: Discovery,
    accounts: Accounts,
    manifests: Vec<Value>,
}

impl<'a> InstallingAccount<'a> {
    /// None when a kind is not served.
    async fn of(stage: &'a Stage, rendered: &Rendered) -> anyhow::Result<Option<Self>> {
        let account = Account {
            namespace: stage.name.clone(),
            name: "installer".to_owned(),
        };
        let mut manifests = rendered.manifests.objects.clone();
        manifests.extend(rendered.manifests.secrets.iter().cloned());
        let installing = Self {
            client: stage.cluster.client_of(&account.user()).await?,
            discovery: Discovery::new(stage.cluster.client.clone()),
            accounts: Accounts::default(),
            stage,
            account,
            manifests,
        };
        match installing.lack().await {
            Ok(_) => Ok(Some(installing)),
            Err(PreflightError::Needs(NeedsError::UnknownKind { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What the preflight says.
    async fn lack(&self) -> Result<Lack, PreflightError> {
        let preflighter = Preflighter {
            own: &self.stage.cluster.client,
            client: &self.client,
            discovery: &self.discovery,
            accounts: &self.accounts,
        };
        preflighter.lack(&self.account, &self.manifests, &[]).await
    }

    /// Waits until the account lacks something, or nothing; what it lacks.
    async fn until_lacking(&self, wanted: bool) -> anyhow::Result<Lack> {
        let started = Instant::now();
        loop {
            let lack = self.lack().await?;
            ensure!(lack.problems.is_empty(), "{lack}");
            if lack.missing.is_empty() != wanted {
                return Ok(lack);
            }
            if started.elapsed() > ROLES_DEADLINE {
                bail!(
                    "something is missing: {} instead of {wanted}; {lack}",
                    !wanted
                );
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes every rule away and gives it back, one after the other: each time the preflight names what is missing, and
    /// just that. How many there were.
    async fn try_without_each(&self, roles: &[Value]) -> anyhow::Result<usize> {
        self.stage.apply(&as_text(roles)).await?;
        let ways = ways(roles);
        for Taken { whole, rest, rule } in &ways {
            self.until_lacking(false).await?;
            self.stage.apply(&rest.to_string()).await?;
            let lack = self.until_lacking(true).await;
            is_of(&lack.with_context(|| format!("without {rule}"))?, rule)?;
            self.stage.apply(&whole.to_string()).await?;
        }
        Ok(ways.len())
    }
}

/// What is missing is part of the rule that was taken; `update` is named wherever `patch` is. Whoever may no longer give
/// anything away lacks all that is given.
fn is_of(lack: &Lack, taken: &Value) -> anyhow::Result<()> {
    let listed = |key: &str| -> BTreeSet<String> {
        let items = taken[key].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut verbs = listed("verbs");
    if verbs.contains("patch") {
        verbs.insert("update".to_owned());
    }
    if !verbs.is_disjoint(&["*", "escalate", "bind"].map(str::to_owned).into()) {
        return Ok(());
    }
    let resources = listed("resources");
    for rule in lack.missing.by_namespace().into_values().flatten() {
        let is_part = rule.verbs.is_subset(&verbs)
            && (resources.contains("*") || rule.resources.is_subset(&resources));
        ensure!(is_part, "without {taken}: {lack}");
    }
    Ok(())
}

/// A role, that role without one of its rules, and that rule.
struct Taken<'a> {
    whole: &'a Value,
    rest: Value,
    rule: Value,
}

/// Every way to take one rule away from these roles.
fn ways(roles: &[Value]) -> Vec<Taken<'_>> {
    let mut ways = Vec::new();
    for whole in roles {
        let rules = whole["rules"].as_array().map_or(0, Vec::len);
        for index in 0..rules {
            let mut rest = whole.clone();
            if let Some(rules) = rest["rules"].as_array_mut() {
                let rule = rules.remove(index);
                ways.push(Taken { whole, rest, rule });
            }
        }
    }
    ways
}

fn as_text(objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Of the bundle's objects only those definitions are there that the comment above the roles names; they are removed.
async fn just_what_was_announced_is_left(stage: &Stage, comment: &str) -> anyhow::Result<()> {
    let kinds = [
        "/apis/apps/v1/deployments",
        "/api/v1/services",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    ];
    for kind in kinds {
        let left = left(stage, kind).await?;
        ensure!(left.is_empty(), "{kind} are left: {left:?}");
    }
    let announced = comment.lines().filter_map(|line| line.strip_prefix("#   "));
    let announced: BTreeSet<String> = announced.map(str::to_owned).collect();
    let kept = left(stage, CRDS).await?;
    ensure!(
        kept == announced,
        "kept: {kept:?}; announced: {announced:?}"
    );
    for name in kept {
        stage.remove(&format!("{CRDS}/{name}"), &json!({})).await?;
    }
    Ok(())
}

/// The names of the extension's objects of one kind.
async fn left(stage: &Stage, kind: &str) -> anyhow::Result<BTreeSet<String>> {
    let selector = format!("olm.operatorframework.io/owner-name={}", stage.name);
    let list = stage
        .get(&format!("{kind}?labelSelector={selector}"))
        .await?;
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}
