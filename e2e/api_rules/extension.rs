//! `ClusterExtension`.

use std::sync::Arc;

use oxolm::api::ClusterExtension;
use serde_json::{Value, json};

use super::{dry_run, object, removed, stored, wire};
use crate::harness::rules::{Row, admitted, check, refused};
use crate::harness::{Cluster, Outcome};

const NAMESPACE: &str = "namespace must be a valid DNS1123 label";
const ACCOUNT: &str = "name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters";
const PACKAGE: &str = "packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters";
const CHANNELS: &str = "channels entries must be valid DNS1123 subdomains";
const VERSION: &str = "invalid version expression";
const CATALOG_UNION: &str =
    "catalog is required when sourceType is Catalog, and forbidden otherwise";
const INLINE_UNION: &str = "inline is required when configType is Inline, and forbidden otherwise";

const PACKAGE_FIELD: &str = "spec.source.catalog.packageName";
const VERSION_FIELD: &str = "spec.source.catalog.version";
const CHANNEL_FIELD: &str = "spec.source.catalog.channels[0]";

fn valid(name: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": name},
        "spec": {
            "namespace": "a-namespace",
            "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "package"}},
        },
    })
}

fn catalog(key: &str, value: impl Into<Value>) -> Value {
    json!({"spec": {"source": {"catalog": {key: value.into()}}}})
}

fn creation_rows() -> Vec<Row> {
    let mut rows = vec![
        admitted("the object as it is", json!({})),
        refused("no spec", json!({"spec": null}), "spec", "Required value"),
        admitted(
            "no account is a matter of the default account",
            json!({"spec": {"serviceAccount": null}}),
        ),
        refused(
            "an account without name",
            json!({"spec": {"serviceAccount": {"name": null}}}),
            "spec.serviceAccount.name",
            "Required value",
        ),
        refused(
            "no namespace",
            json!({"spec": {"namespace": null}}),
            "spec.namespace",
            "Required value",
        ),
        refused(
            "no package",
            catalog("packageName", Value::Null),
            PACKAGE_FIELD,
            "Required value",
        ),
        refused(
            "sourceType Catalog without catalog",
            json!({"spec": {"source": {"catalog": null}}}),
            "spec.source",
            CATALOG_UNION,
        ),
        refused(
            "another source",
            json!({"spec": {"source": {"sourceType": "Image"}}}),
            "spec.source.sourceType",
            "Unsupported value: \"Image\": supported values: \"Catalog\"",
        ),
        refused(
            "another policy",
            catalog("upgradeConstraintPolicy", "Any"),
            "spec.source.catalog.upgradeConstraintPolicy",
            "Unsupported value: \"Any\": supported values: \"CatalogProvided\", \"SelfCertified\"",
        ),
        admitted(
            "operators of a selector are left to the controller",
            catalog(
                "selector",
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
            ),
        ),
        refused(
            "257 channels",
            catalog("channels", vec!["a"; 257]),
            "spec.source.catalog.channels",
            "Too many: 257: must have at most 256 items",
        ),
    ];
    rows.extend(name_rows());
    rows.extend(version_rows());
    rows.extend(install_rows());
    rows
}

/// Names, each in its own language.
fn name_rows() -> Vec<Row> {
    let namespace = |text: &str| json!({"spec": {"namespace": text}});
    let account = |text: &str| json!({"spec": {"serviceAccount": {"name": text}}});
    let package = |text: &str| catalog("packageName", text);
    let channel = |text: &str| catalog("channels", json!([text]));
    let mut rows = vec![
        admitted("63 characters of namespace", namespace(&"a".repeat(63))),
        refused(
            "64 characters of namespace",
            namespace(&"a".repeat(64)),
            "spec.namespace",
            "Too long: may not be more than 63 bytes",
        ),
        refused(
            "a dot in a namespace",
            namespace("a.b"),
            "spec.namespace",
            NAMESPACE,
        ),
        admitted("a package with dots", package("some.package")),
        admitted("a package of digits", package("123")),
        admitted("253 characters of package", package(&"a".repeat(253))),
        admitted("a channel with dots", channel("stable-v1.0")),
    ];
    let long = "a".repeat(254);
    for (field, change) in [
        ("spec.serviceAccount.name", account(&long)),
        (PACKAGE_FIELD, package(&long)),
        (CHANNEL_FIELD, channel(&long)),
    ] {
        rows.push(refused(
            "254 characters",
            change,
            field,
            "Too long: may not be more than 253 bytes",
        ));
    }
    for wrong in [
        "",
        "Upper",
        "under_score",
        ".dot",
        "dot.",
        "-a",
        "a-",
        "a..b",
        "a.-b",
        "sp ace",
    ] {
        rows.push(refused(
            "namespace",
            namespace(wrong),
            "spec.namespace",
            NAMESPACE,
        ));
        rows.push(refused(
            "account",
            account(wrong),
            "spec.serviceAccount.name",
            ACCOUNT,
        ));
        rows.push(refused("package", package(wrong), PACKAGE_FIELD, PACKAGE));
        rows.push(refused("channel", channel(wrong), CHANNEL_FIELD, CHANNELS));
    }
    rows
}

fn version_rows() -> Vec<Row> {
    let version = |text: &str| catalog("version", text);
    let mut rows = vec![refused(
        "65 characters of version",
        version(&format!("1.2.3-{}", "a".repeat(59))),
        VERSION_FIELD,
        "Too long: may not be more than 64 bytes",
    )];
    for range in [
        "1.2.3",
        "v1.2.3",
        "1",
        "1.2",
        "1.x",
        "1.X",
        "1.*",
        "1.2.*",
        "1.x.x",
        "*",
        "x",
        ">=1.11, <1.13",
        ">=1.0.0 <2.0.0",
        ">=1.0.0,<2.0.0",
        "1.0.0 , 2.0.0",
        "<1.2.3||>2.3.4",
        "~1.12.x",
        "~>1.2",
        "=>1.0",
        "=<1.0",
        "^0.0.3",
        ">=1.0.0-0",
        "1.2.3-rc.1+build.5",
        " 1.2.3 ",
        ">=1.0.0 || *",
        ">=1.0.0 <1.2.*",
        "1.2.3 - 2.0.0",
        "1.0.0 - 1.4.0 || 2.x",
        "01.2.3",
        "1.*.*",
    ] {
        rows.push(admitted("version", version(range)));
    }
    for range in [
        "",
        "==1",
        "=!1",
        "!1",
        ">>1",
        "<<1",
        "1 && 2",
        "1;2",
        "1.2.3.4",
        "1.Y",
        "1.2.3-",
        "1.2.3+a_b",
        "latest",
        "|",
        "1.*]",
        ">=",
    ] {
        rows.push(refused("version", version(range), VERSION_FIELD, VERSION));
    }
    rows
}

fn install_rows() -> Vec<Row> {
    let install = |value: Value| json!({"spec": {"install": value}});
    let config = |value: Value| json!({"spec": {"config": value}});
    let deadline = |minutes: i64| json!({"spec": {"progressDeadlineMinutes": minutes}});
    vec![
        admitted(
            "no check",
            install(json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}})),
        ),
        refused(
            "an unknown check",
            install(json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Loose"}}})),
            "spec.install.preflight.crdUpgradeSafety.enforcement",
            "Unsupported value: \"Loose\": supported values: \"None\", \"Strict\"",
        ),
        refused(
            "an empty install",
            install(json!({})),
            "spec.install",
            "at least one of [preflight] are required when install is specified",
        ),
        refused(
            "an empty preflight",
            install(json!({"preflight": {}})),
            "spec.install.preflight.crdUpgradeSafety",
            "Required value",
        ),
        admitted(
            "any configuration",
            config(
                json!({"configType": "Inline", "inline": {"watchNamespace": "a", "deploymentConfig": {"env": []}}}),
            ),
        ),
        refused(
            "no configuration",
            config(json!({"configType": "Inline"})),
            "spec.config",
            INLINE_UNION,
        ),
        refused(
            "an empty configuration",
            config(json!({"configType": "Inline", "inline": {}})),
            "spec.config.inline",
            "spec.config.inline in body should have at least 1 properties",
        ),
        refused(
            "a configuration that is no object",
            config(json!({"configType": "Inline", "inline": "text"})),
            "spec.config.inline",
            "spec.config.inline in body must be of type object: \"string\"",
        ),
        admitted("the shortest deadline", deadline(10)),
        admitted("the longest deadline", deadline(720)),
        refused(
            "a shorter deadline",
            deadline(9),
            "spec.progressDeadlineMinutes",
            "spec.progressDeadlineMinutes in body should be greater than or equal to 10",
        ),
        refused(
            "a longer deadline",
            deadline(721),
            "spec.progressDeadlineMinutes",
            "spec.progressDeadlineMinutes in body should be less than or equal to 720",
        ),
    ]
}

/// What a new extension may say.
pub(crate) async fn creation(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let api = wire::<ClusterExtension>(&cluster.client);
    check(&valid("rules-creation"), creation_rows(), |value| {
        let api = api.clone();
        async move { api.create(&dry_run(), &object(value)).await }
    })
    .await?;
    Ok(Outcome::Passed)
}

fn update_rows() -> Vec<Row> {
    vec![
        admitted("nothing", json!({})),
        admitted("another version", catalog("version", "2.x")),
        refused(
            "another namespace",
            json!({"spec": {"namespace": "another"}}),
            "spec.namespace",
            "namespace is immutable",
        ),
        refused(
            "another package",
            catalog("packageName", "another"),
            PACKAGE_FIELD,
            "packageName is immutable",
        ),
        refused(
            "another account",
            json!({"spec": {"serviceAccount": {"name": "another"}}}),
            "spec.serviceAccount.name",
            "name is immutable",
        ),
        refused(
            "no account any more",
            json!({"spec": {"serviceAccount": null}}),
            "spec.serviceAccount.name",
            "name is immutable",
        ),
        refused(
            "no spec any more",
            json!({"spec": null}),
            "spec",
            "Required value",
        ),
        refused(
            "no source any more",
            json!({"spec": {"source": null}}),
            "spec.source",
            "Required value",
        ),
        refused(
            "no catalog any more",
            json!({"spec": {"source": {"catalog": null}}}),
            "spec.source",
            CATALOG_UNION,
        ),
    ]
}

/// What may be changed later.
pub(crate) async fn update(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let api = wire::<ClusterExtension>(&cluster.client);
    let named = "rules-update";
    let found = serde_json::to_value(stored(&api, &valid(named)).await?)?;
    let result = check(&found, update_rows(), |value| {
        let api = api.clone();
        async move { api.replace(named, &dry_run(), &object(value)).await }
    })
    .await;
    removed(&api, named).await?;
    result?;

    let unnamed = "rules-update-unnamed";
    let mut without_account = valid(unnamed);
    json_patch::merge(
        &mut without_account,
        &json!({"spec": {"serviceAccount": null}}),
    );
    let found = serde_json::to_value(stored(&api, &without_account).await?)?;
    let rows = vec![admitted(
        "an account where none was",
        json!({"spec": {"serviceAccount": {"name": "installer"}}}),
    )];
    let result = check(&found, rows, |value| {
        let api = api.clone();
        async move { api.replace(unnamed, &dry_run(), &object(value)).await }
    })
    .await;
    removed(&api, unnamed).await?;
    result?;
    Ok(Outcome::Passed)
}

fn status_rows() -> Vec<Row> {
    let installed = |bundle: Value| json!({"status": {"install": {"bundle": bundle}}});
    let name = |text: &str| installed(json!({"name": text, "version": "1.0.0"}));
    let release = |text: &str| installed(json!({"name": "a", "version": "1.0.0", "release": text}));
    vec![
        admitted("nothing", json!({})),
        admitted("plus and upper case in a name", name("Package_x.v2.0.0+1")),
        admitted("253 characters of name", name(&"a".repeat(253))),
        refused(
            "254 characters of name",
            name(&"a".repeat(254)),
            "status.install.bundle.name",
            "Too long: may not be more than 253 bytes",
        ),
        refused(
            "no version",
            installed(json!({"name": "a"})),
            "status.install.bundle.version",
            "Required value",
        ),
        refused(
            "a version that is none",
            installed(json!({"name": "a", "version": "one"})),
            "status.install.bundle.version",
            "version must be well-formed semver",
        ),
        admitted("an empty release", release("")),
        admitted("a release of identifiers", release("1.alpha-2")),
        refused(
            "a release with a leading zero",
            release("01"),
            "status.install.bundle.release",
            "release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)",
        ),
        refused(
            "21 characters of release",
            release(&"a".repeat(21)),
            "status.install.bundle.release",
            "Too long: may not be more than 20 bytes",
        ),
        admitted(
            "what we add",
            json!({"status": {
                "observedGeneration": 3,
                "install": {"bundle": {"name": "a", "version": "1.0.0"}, "catalog": "operatorhubio"},
                "availableUpdate": {"version": "2.0.0", "bundle": "a.v2.0.0"},
                "activeRevisions": [{"name": "a-1"}],
            }}),
        ),
        refused(
            "one revision twice",
            json!({"status": {"activeRevisions": [{"name": "a-1"}, {"name": "a-1"}]}}),
            "status.activeRevisions[1]",
            "Duplicate value: {\"name\":\"a-1\"}",
        ),
    ]
}

/// What the status of an extension may say.
pub(crate) async fn status(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let name = "rules-status";
    let api = wire::<ClusterExtension>(&cluster.client);
    let found = serde_json::to_value(stored(&api, &valid(name)).await?)?;
    let result = check(&found, status_rows(), |value| {
        let api = api.clone();
        async move { api.replace_status(name, &dry_run(), &object(value)).await }
    })
    .await;
    removed(&api, name).await?;
    result?;
    Ok(Outcome::Passed)
}
