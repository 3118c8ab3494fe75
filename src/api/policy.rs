//! Who may name an account: the admission policies that oxolm ships.
//!
//! Whoever may write a `ClusterExtension` could else borrow the rights of any service account, since oxolm acts
//! as the account that is named. So the API server asks, at each write, whether the *requesting user* may
//! `impersonate` that account:
//!
//! - `clusterextension-account.oxolm.dev`: the account that the spec names, or the default one, and the one that was
//!   named before: what it installed is taken down by it;
//! - `clusterobjectset-account.oxolm.dev`: the account that the annotations of a revision name, or the default one;
//! - `clusterobjectset-identity.oxolm.dev`: only oxolm, or a user with the verb `adopt`, says to whom a revision
//!   belongs, which bundle it is and as which account it is applied.
//!
//! Writes that change none of this (status, finalizers, other labels and annotations) are free. The chart's copy is
//! generated from here, and a running oxolm compares what is in the cluster with the same values
//! ([`Policy::is_in_force`]).

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::api::{GROUP, VERSION};

/// What differs from one installation to the next; the values of the flags of `oxolm run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The user that oxolm itself is: `system:serviceaccount:<namespace>:<name>`.
    pub controller: String,
    /// The default account, `NAME` or `NAMESPACE/NAME`; empty when there is none.
    pub default_account: String,
    /// Namespaces whose accounts nobody may name: names, or beginnings and `*`, separated by commas.
    pub excluded_namespaces: String,
}

/// A policy and the binding that puts it in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The policy.
    pub policy: ValidatingAdmissionPolicy,
    /// Its binding, of the same name.
    pub binding: ValidatingAdmissionPolicyBinding,
}

impl Policy {
    /// The name of policy and binding.
    pub fn name(&self) -> &str {
        self.policy.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether what was found in the cluster says what this policy says. Metadata does not matter.
    pub fn is_in_force(
        &self,
        policy: &ValidatingAdmissionPolicy,
        binding: &ValidatingAdmissionPolicyBinding,
    ) -> bool {
        policy.metadata.name == self.policy.metadata.name
            && binding.metadata.name == self.binding.metadata.name
            && policy.spec == self.policy.spec
            && binding.spec == self.binding.spec
    }
}

/// The policies in their shipped form.
pub fn policies(settings: &Settings) -> Vec<Policy> {
    vec![
        account_policy(
            settings,
            OF_EXTENSIONS,
            "clusterextensions",
            CHANGES_EXTENSION,
            EXTENSION_ACCOUNT,
            Before::Counts,
        ),
        account_policy(
            settings,
            "clusterobjectset-account.oxolm.dev",
            "clusterobjectsets",
            CHANGES_REVISION,
            REVISION_ACCOUNT,
            Before::IsAMark,
        ),
        identity_policy(settings),
    ]
}

/// The namespaces that a policy about extensions excludes, as [`Settings::excluded_namespaces`] has them; none where the
/// policy is not one of ours.
pub fn excluded_namespaces(policy: &ValidatingAdmissionPolicy) -> Option<String> {
    let variables = policy.spec.as_ref()?.variables.as_ref()?;
    let variable = variables.iter().find(|one| one.name == EXCLUDED)?;
    let text = variable.expression.strip_suffix(SPLIT)?;
    let text = text.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(text.replace(r"\'", "'").replace(r"\\", r"\"))
}

/// The name of the policy about extensions.
pub const OF_EXTENSIONS: &str = "clusterextension-account.oxolm.dev";
const EXCLUDED: &str = "excludedNamespaces";
const SPLIT: &str = ".split(',')";

/// A name and an expression in CEL.
type Expressions = &'static [(&'static str, &'static str)];

/// A write of an extension that matters: all but those that leave the spec and our annotations as they are.
const CHANGES_EXTENSION: &str = "\
request.operation == 'CREATE'
|| !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec
|| (has(object.metadata.annotations) && object.metadata.annotations.exists(k, k.startsWith('oxolm.dev/')
  && !(has(oldObject.metadata.annotations) && k in oldObject.metadata.annotations
    && oldObject.metadata.annotations[k] == object.metadata.annotations[k])))
|| (has(oldObject.metadata.annotations) && oldObject.metadata.annotations.exists(k, k.startsWith('oxolm.dev/')
  && !(has(object.metadata.annotations) && k in object.metadata.annotations)))";

/// A write of a revision that matters: all but those that leave the spec, the account and our annotations as they are.
const CHANGES_REVISION: &str = "\
request.operation == 'CREATE'
|| !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec
|| (has(object.metadata.annotations) && object.metadata.annotations.exists(k,
  (k.startsWith('oxolm.dev/') || k.startsWith('olm.operatorframework.io/service-account-'))
  && !(has(oldObject.metadata.annotations) && k in oldObject.metadata.annotations
    && oldObject.metadata.annotations[k] == object.metadata.annotations[k])))
|| (has(oldObject.metadata.annotations) && oldObject.metadata.annotations.exists(k,
  (k.startsWith('oxolm.dev/') || k.startsWith('olm.operatorframework.io/service-account-'))
  && !(has(object.metadata.annotations) && k in object.metadata.annotations)))";

/// The account of an extension: named in the spec, else the default one, in the extension's namespace or for all.
const EXTENSION_ACCOUNT: Expressions = &[
    (
        "installNamespace",
        "has(object.spec) && has(object.spec.namespace) ? object.spec.namespace : ''",
    ),
    (
        "named",
        "has(object.spec) && has(object.spec.serviceAccount) && has(object.spec.serviceAccount.name) ? object.spec.serviceAccount.name : ''",
    ),
    (
        "accountNamespace",
        "variables.named == '' && variables.defaultAccount.contains('/') ? variables.defaultAccount.split('/')[0] : variables.installNamespace",
    ),
    (
        "accountName",
        "variables.named != '' ? variables.named : variables.defaultAccount.contains('/') ? variables.defaultAccount.split('/')[1] : variables.defaultAccount",
    ),
];

/// The account of a revision: named in its annotations, else the default one where that is one for all. A revision
/// that names half an account has none: the controller refuses it.
const REVISION_ACCOUNT: Expressions = &[
    (
        "annotations",
        "has(object.metadata.annotations) ? object.metadata.annotations : {}",
    ),
    (
        "namedNamespace",
        "'olm.operatorframework.io/service-account-namespace' in variables.annotations ? variables.annotations['olm.operatorframework.io/service-account-namespace'] : ''",
    ),
    (
        "named",
        "'olm.operatorframework.io/service-account-name' in variables.annotations ? variables.annotations['olm.operatorframework.io/service-account-name'] : ''",
    ),
    (
        "usesDefault",
        "variables.named == '' && variables.namedNamespace == '' && variables.defaultAccount.contains('/')",
    ),
    (
        "accountNamespace",
        "variables.usesDefault ? variables.defaultAccount.split('/')[0] : variables.namedNamespace",
    ),
    (
        "accountName",
        "variables.usesDefault ? variables.defaultAccount.split('/')[1] : variables.namedNamespace == '' ? '' : variables.named",
    ),
];

const IS_EXCLUDED: &str = "variables.excludedNamespaces.exists(e, e.endsWith('*') ? variables.accountNamespace.startsWith(e.substring(0, e.size() - 1)) : variables.accountNamespace == e)";

const MAY_IMPERSONATE: &str = "authorizer.group('').resource('serviceaccounts').namespace(variables.accountNamespace).name(variables.accountName).check('impersonate').allowed()";

/// Where no account is named and there is no default one: some day there may be one, any one.
const MAY_IMPERSONATE_ALL: &str =
    "authorizer.group('').resource('serviceaccounts').check('impersonate').allowed()";

/// An expression about the object as it was before, whose variables have other names.
fn before(account: Expressions, expression: &str) -> String {
    let mut parts = expression.split("variables.");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric());
        let variable = part.get(..end.unwrap_or(part.len()));
        let is_own = account.iter().any(|(name, _)| variable == Some(name));
        text.push_str("variables.");
        text.push_str(if is_own { BEFORE } else { "" });
        text.push_str(part);
    }
    text.replace("object.", "oldObject.")
}

/// Whether the account that was named before must be the requester's, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It must.
    Counts,
    /// Another policy guards it.
    IsAMark,
}

/// What the names of variables about the object as it was before begin with.
const BEFORE: &str = "old_";

fn account_policy(
    settings: &Settings,
    name: &str,
    resource: &str,
    changes: &str,
    account: Expressions,
    earlier: Before,
) -> Policy {
    let mut variables = vec![
        variable("defaultAccount", &literal(&settings.default_account)),
        variable(
            EXCLUDED,
            &format!("{}{SPLIT}", literal(&settings.excluded_namespaces)),
        ),
    ];
    variables.extend(
        account
            .iter()
            .map(|(name, expression)| variable(name, expression)),
    );
    let has_none = "variables.accountName == ''";
    let mut validations = vec![
        validation(
            &format!("{has_none} || !{IS_EXCLUDED}"),
            "'service account ' + variables.accountNamespace + '/' + variables.accountName + ' cannot be used: the accounts of its namespace are excluded; name one in another namespace'",
        ),
        validation(
            &format!("{has_none} ? {MAY_IMPERSONATE_ALL} : {MAY_IMPERSONATE}"),
            "'user ' + request.userInfo.username + (variables.accountName == '' ? ' names no service account, and no default one applies: name one that the user may impersonate' : ' may not impersonate service account ' + variables.accountNamespace + '/' + variables.accountName + ': grant verb impersonate on it, or name another')",
        ),
    ];
    if earlier == Before::Counts {
        let (had_none, might) = (before(account, has_none), before(account, MAY_IMPERSONATE));
        variables.extend(account.iter().map(|(name, expression)| {
            variable(&format!("{BEFORE}{name}"), &before(account, expression))
        }));
        validations.push(validation(
            &format!(
                "oldObject == null || ({had_none} ? {MAY_IMPERSONATE_ALL} : {might})"
            ),
            "'user ' + request.userInfo.username + (variables.old_accountName == '' ? ' may not change what an administrator made without a service account: grant verb impersonate on all service accounts, or delete it and make it anew' : ' may not impersonate service account ' + variables.old_accountNamespace + '/' + variables.old_accountName + ', which acted until now: grant verb impersonate on it')",
        ));
    }
    policy(
        name,
        resource,
        ("names-an-account", changes),
        variables,
        validations,
    )
}

/// Whether a key says to whom a revision belongs, which bundle it is, or as which account it is applied.
macro_rules! is_mark {
    () => {
        "(k.startsWith('olm.operatorframework.io/') || k.startsWith('oxolm.dev/') || k == 'olm.properties')"
    };
}

/// The marks of one kind of metadata that are not as they were: added, changed or removed.
macro_rules! keeps_marks {
    ($now:literal, $before:literal) => {
        concat!(
            "variables.",
            $now,
            ".all(k, !",
            is_mark!(),
            " || (k in variables.",
            $before,
            " && variables.",
            $before,
            "[k] == variables.",
            $now,
            "[k]))",
            " && variables.",
            $before,
            ".all(k, !",
            is_mark!(),
            " || k in variables.",
            $now,
            ")",
        )
    };
}

/// Everything that the identity of a revision is made of, now and before.
const IDENTITY: Expressions = &[
    (
        "labels",
        "has(object.metadata.labels) ? object.metadata.labels : {}",
    ),
    (
        "oldLabels",
        "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}",
    ),
    (
        "annotations",
        "has(object.metadata.annotations) ? object.metadata.annotations : {}",
    ),
    (
        "oldAnnotations",
        "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}",
    ),
    (
        "owners",
        "has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : []",
    ),
    (
        "oldOwners",
        "oldObject != null && has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : []",
    ),
    ("keepsLabels", keeps_marks!("labels", "oldLabels")),
    (
        "keepsAnnotations",
        keeps_marks!("annotations", "oldAnnotations"),
    ),
    // Removing an owner is free: the garbage collector does it when it orphans.
    (
        "keepsOwners",
        "variables.owners.all(o, variables.oldOwners.exists(p, p.uid == o.uid && p.kind == o.kind && p.apiVersion == o.apiVersion && p.name == o.name && (has(p.controller) && p.controller) == (has(o.controller) && o.controller)))",
    ),
];

fn identity_policy(settings: &Settings) -> Policy {
    let mut variables = vec![variable("controller", &literal(&settings.controller))];
    variables.extend(
        IDENTITY
            .iter()
            .map(|(name, expression)| variable(name, expression)),
    );
    policy(
        "clusterobjectset-identity.oxolm.dev",
        "clusterobjectsets",
        (
            "changes-metadata",
            "request.operation == 'CREATE' || object.metadata != oldObject.metadata",
        ),
        variables,
        vec![validation(
            "request.userInfo.username == variables.controller || (variables.keepsLabels && variables.keepsAnnotations && variables.keepsOwners) || authorizer.group('olm.operatorframework.io').resource('clusterobjectsets').name(object.metadata.name).check('adopt').allowed()",
            "'user ' + request.userInfo.username + ' may not say whose ClusterObjectSet ' + object.metadata.name + ' is (owner references, labels and annotations of owner, bundle and account): grant verb adopt on clusterobjectsets, or leave them as they are'",
        )],
    )
}

/// A policy that denies, with every default of the API written out, so that it can be compared with what the API
/// server stores.
fn policy(
    name: &str,
    resource: &str,
    condition: (&str, &str),
    variables: Vec<Variable>,
    validations: Vec<Validation>,
) -> Policy {
    let rule = NamedRuleWithOperations {
        api_groups: Some(vec![GROUP.to_owned()]),
        api_versions: Some(vec![VERSION.to_owned()]),
        operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: None,
        scope: Some("*".to_owned()),
    };
    let (condition_name, expression) = condition;
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    Policy {
        policy: ValidatingAdmissionPolicy {
            metadata: metadata.clone(),
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_constraints: Some(MatchResources {
                    match_policy: Some("Equivalent".to_owned()),
                    namespace_selector: Some(LabelSelector::default()),
                    object_selector: Some(LabelSelector::default()),
                    resource_rules: Some(vec![rule]),
                    exclude_resource_rules: None,
                }),
                match_conditions: Some(vec![MatchCondition {
                    name: condition_name.to_owned(),
                    expression: expression.to_owned(),
                }]),
                variables: Some(variables),
                validations: Some(validations),
                audit_annotations: None,
                param_kind: None,
            }),
            status: None,
        },
        binding: ValidatingAdmissionPolicyBinding {
            metadata,
            spec: Some(ValidatingAdmissionPolicyBindingSpec {
                policy_name: Some(name.to_owned()),
                validation_actions: Some(vec!["Deny".to_owned()]),
                match_resources: None,
                param_ref: None,
            }),
        },
    }
}

fn variable(name: &str, expression: &str) -> Variable {
    Variable {
        name: name.to_owned(),
        expression: expression.to_owned(),
    }
}

fn validation(expression: &str, message_expression: &str) -> Validation {
    Validation {
        expression: expression.to_owned(),
        message_expression: Some(message_expression.to_owned()),
        message: None,
        reason: Some("Forbidden".to_owned()),
    }
}

/// A text as a literal of CEL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_says_something_else_is_not_in_force() {
        let settings = Settings {
            controller: "system:serviceaccount:olm:oxolm".to_owned(),
            ..Settings::default()
        };
        let other = Settings {
            default_account: "installer".to_owned(),
            controller: "system:serviceaccount:other:oxolm".to_owned(),
            ..Settings::default()
        };
        for (shipped, changed) in policies(&settings).iter().zip(policies(&other)) {
            assert!(shipped.is_in_force(&shipped.policy, &shipped.binding));
            assert!(!shipped.is_in_force(&changed.policy, &changed.binding));
            let mut audited = shipped.binding.clone();
            audited.spec.get_or_insert_default().validation_actions =
                Some(vec!["Audit".to_owned()]);
            assert!(!shipped.is_in_force(&shipped.policy, &audited));
        }
    }

    #[test]
    fn what_was_before_is_asked_of_the_old_object() {
        assert_eq!(
            before(
                EXTENSION_ACCOUNT,
                "variables.named == '' && variables.defaultAccount.contains('/') ? variables.namedNamespace : object.spec.x"
            ),
            "variables.old_named == '' && variables.defaultAccount.contains('/') ? variables.namedNamespace : oldObject.spec.x"
        );
    }

    #[test]
    fn the_excluded_namespaces_are_read_back() {
        let excluded = "kube-*,openshift,a'b";
        let settings = Settings {
            excluded_namespaces: excluded.to_owned(),
            ..Settings::default()
        };
        let found = |name: &str| {
            let policies = policies(&settings);
            let policy = policies
                .iter()
                .find(|policy| policy.name() == name)
                .unwrap();
            excluded_namespaces(&policy.policy)
        };
        assert_eq!(found(OF_EXTENSIONS).as_deref(), Some(excluded));
        assert_eq!(found("clusterobjectset-identity.oxolm.dev"), None);
    }

    #[test]
    fn a_value_cannot_leave_its_literal() {
        assert_eq!(literal(r"a'b\"), r"'a\'b\\'");
    }
}
