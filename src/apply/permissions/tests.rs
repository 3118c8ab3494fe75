use std::sync::Arc;

use super::*;
use crate::error::Reason;
use crate::identity::{DefaultAccount, ExcludedNamespaces, Identity};
use crate::testing::api_server::ApiServer;

struct Fixture {
    server: ApiServer,
    preflight: Preflight,
    accounts: Arc<Accounts>,
    discovery: Discovery,
}

impl Fixture {
    fn new() -> Self {
        let server = ApiServer::new();
        Self {
            discovery: Discovery::new(server.client()),
            server,
            preflight: Preflight::default(),
            accounts: Arc::default(),
        }
    }

    async fn try_check(&self, manifests: &[Value]) -> Result<(), PreflightError> {
        let account = Account {
            namespace: "n".into(),
            name: "a".into(),
        };
        let identity = Identity::new(
            self.server.client(),
            self.accounts.clone(),
            ExcludedNamespaces::default(),
            DefaultAccount::None,
        );
        let asking = Preflighter {
            own: &self.server.client(),
            client: &identity.client_for(&account).unwrap(),
            discovery: &self.discovery,
            accounts: &self.accounts,
        };
        let content = json!(manifests).to_string();
        self.preflight
            .check(&asking, &account, &content, manifests, &[])
            .await
    }

    async fn check(&self, manifests: &[Value]) -> Result<(), String> {
        let checked = self.try_check(manifests).await;
        checked.map_err(|error| chain(&error))
    }
}

fn config_map(namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace}})
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "auth"},
    })
}

/// Everything that is done to bindings, and nothing that they give.
fn binder() -> Value {
    json!({"apiGroups": [RBAC], "resources": ["clusterrolebindings"], "verbs": ["create", "get", "patch", "delete"]})
}

const ROLE: &str = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/auth";
const RULES: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const ACCESS: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";

#[tokio::test]
async fn what_holds_everywhere_is_asked_once_and_each_namespace_once_and_a_pass_is_remembered() {
    let fixture = Fixture::new();
    let manifests = [config_map("l"), config_map("m"), config_map("n")];
    fixture.check(&manifests).await.unwrap();
    let review = format!("n:a {RULES}");
    let mut expected = vec!["controller GET /api/v1".to_owned()];
    expected.extend(std::iter::repeat_n(review, 4));
    assert_eq!(fixture.server.requests(), expected);
    fixture.check(&manifests).await.unwrap();
    assert_eq!(fixture.server.requests(), Vec::<String>::new());
    fixture.check(&manifests[..2]).await.unwrap();
    assert_eq!(fixture.server.requests().len(), 3);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a watch runs beside its test")]
async fn a_change_of_rights_asks_again() {
    use crate::identity::accounts::Change;
    let fixture = Fixture::new();
    let accounts = fixture.accounts.clone();
    let mut changes = accounts.changes();
    let client = fixture.server.client();
    let watch = tokio::spawn(async move { accounts.watch(&client).await });
    for _ in 0..4 {
        assert_eq!(changes.recv().await.unwrap(), Change::Rights);
    }
    fixture.check(&[config_map("n")]).await.unwrap();
    fixture.server.set_rules("n:a", &[]);
    fixture.check(&[config_map("n")]).await.unwrap();
    fixture.server.add(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "n"},
    }));
    assert_eq!(changes.recv().await.unwrap(), Change::Rights);
    fixture.check(&[config_map("n")]).await.unwrap_err();
    watch.abort();
}

#[tokio::test]
async fn all_missing_rules_are_told_at_once() {
    let fixture = Fixture::new();
    let all = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
    fixture.server.set_rules("n:a", &[("n", all.clone())]);
    let manifests = [config_map("n"), config_map("m")];
    let error = fixture.check(&manifests).await.unwrap_err();
    assert_eq!(
        error,
        "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n\
         \x20 Namespace:\"m\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete,get,patch,update]\n\
         \x20 Namespace:\"m\" APIGroups:[] Resources:[configmaps] Verbs:[create]"
    );
    // A failure is not remembered.
    fixture.server.set_rules("n:a", &[("", all)]);
    fixture.check(&manifests).await.unwrap();
}

#[tokio::test]
async fn an_authorizer_that_lists_nothing_is_asked_about_each_thing() {
    let fixture = Fixture::new();
    fixture.server.set_rules("n:a", &[]);
    fixture
        .server
        .set_incomplete(&["create configmaps", "get configmaps", "patch configmaps"]);
    let error = fixture.check(&[config_map("n")]).await.unwrap_err();
    assert!(
        error.ends_with(":\n  Namespace:\"n\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete]"),
        "{error}"
    );
    let asked = fixture.server.requests();
    let reviews = asked
        .iter()
        .filter(|line| **line == format!("controller {ACCESS}"));
    assert_eq!(reviews.count(), 4);
    fixture.server.set_incomplete(&[]);
    fixture.server.set_rules(
        "n:a",
        &[(
            "",
            json!({"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}),
        )],
    );
    fixture.check(&[config_map("n")]).await.unwrap();
    let asked = fixture.server.requests();
    assert!(
        !asked.iter().any(|line| line.ends_with(ACCESS)),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_account_that_may_not_ask_about_itself_is_asked_about() {
    let fixture = Fixture::new();
    let all = ["create", "get", "patch", "delete"].map(|verb| format!("{verb} configmaps"));
    let allowed = all.each_ref().map(String::as_str);
    fixture.server.set_incomplete(&allowed);
    fixture.server.forbid("n:a", RULES);
    fixture.check(&[config_map("n")]).await.unwrap();
    let (_delete, others) = allowed.split_last().unwrap();
    fixture.server.set_incomplete(others);
    let error = fixture.check(&[config_map("m")]).await.unwrap_err();
    assert!(error.ends_with("Verbs:[delete]"), "{error}");
}

#[tokio::test]
async fn that_nobody_may_act_as_the_account_is_no_answer() {
    let fixture = Fixture::new();
    let refused = r#"serviceaccounts "a" is forbidden: User "u" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n""#;
    fixture.server.fail_with(RULES, 403, refused);
    let error = fixture.check(&[config_map("n")]).await.unwrap_err();
    assert!(error.contains(refused), "{error}");
}

#[tokio::test]
async fn a_role_of_the_cluster_counts_with_its_rules_unless_it_may_be_bound() {
    let fixture = Fixture::new();
    fixture.server.set_rules("n:a", &[("", binder())]);
    let error = fixture.check(&[binding()]).await.unwrap_err();
    assert!(
        error.ends_with(":\n  Namespace:\"\" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterroles] ResourceNames:[auth] Verbs:[bind]"),
        "{error}"
    );
    fixture.server.add(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "auth"},
        "rules": [{"apiGroups": ["x"], "resources": ["y"], "verbs": ["create"]}],
    }));
    let error = fixture.check(&[binding()]).await.unwrap_err();
    assert!(
        error.ends_with(":\n  Namespace:\"\" APIGroups:[x] Resources:[y] Verbs:[create]"),
        "{error}"
    );
    fixture.server.set_incomplete(&["bind clusterroles"]);
    fixture.check(&[binding()]).await.unwrap();
}

#[tokio::test]
async fn a_kind_whose_crd_comes_along_is_not_looked_up() {
    let fixture = Fixture::new();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.g"},
        "spec": {"group": "g", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1"}]},
    });
    let thing = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t"}});
    fixture.check(&[crd, thing]).await.unwrap();
    let asked = fixture.server.requests();
    assert!(
        !asked.iter().any(|line| line.contains("/apis/g/v1")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_found_out_is_said() {
    let incomplete = "pre-authorization failed: authorization evaluation error: missing rules may be incomplete: failed to resolve or evaluate permissions: ";
    let fixture = Fixture::new();
    let unknown = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}});
    let error = fixture.check(&[unknown]).await.unwrap_err();
    assert!(
        error.starts_with("could not get REST mapping for object 0"),
        "{error}"
    );
    fixture.server.fail_next("GET /apis/apps/v1", 500);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "t", "namespace": "n"}});
    let error = fixture.check(&[deployment]).await.unwrap_err();
    assert!(
        error.starts_with("pre-authorization failed: cannot discover the resources of apps/v1: "),
        "{error}"
    );
    fixture.server.fail_next(RULES, 500);
    let error = fixture.check(&[config_map("n")]).await.unwrap_err();
    assert_eq!(
        error,
        format!("{incomplete}cannot review the rights of n/a: the test wants this to fail")
    );
    fixture.server.fail_next(ROLE, 500);
    let error = fixture.check(&[binding()]).await.unwrap_err();
    assert_eq!(
        error,
        format!("{incomplete}cannot read role \"auth\": the test wants this to fail")
    );
    fixture.server.set_rules("n:a", &[("", binder())]);
    fixture.server.set_incomplete(&[]);
    fixture.server.fail_next(ACCESS, 500);
    let error = fixture.check(&[binding()]).await.unwrap_err();
    let (lines, problem) = error.rsplit_once('\n').unwrap();
    assert!(lines.ends_with("Verbs:[bind]"), "{lines}");
    assert!(
        problem.ends_with(": cannot review an access of n/a: the test wants this to fail"),
        "{problem}"
    );
}

#[tokio::test]
async fn only_time_or_somebody_else_heals_what_is_missing() {
    let fixture = Fixture::new();
    fixture.server.set_rules("n:a", &[]);
    let error = fixture.try_check(&[config_map("n")]).await.unwrap_err();
    assert!(matches!(error, PreflightError::Lacking(_)));
    assert_eq!(error.disposition(), Disposition::Retry);
    let error = fixture.try_check(&[json!({})]).await.unwrap_err();
    assert!(matches!(error, PreflightError::Needs(_)));
    assert_eq!(error.disposition(), Disposition::Terminal(Reason::Blocked));
}
