//! Access reviews and discovery of the fake API server.

use serde_json::{Value, json};

use super::objects::State;
use super::{Call, Refusal, Target};

impl State {
    /// Whether the tests want this request refused.
    pub(super) fn refusal(&mut self, user: &str, line: &str, authorized: &str) -> Option<Refusal> {
        let failing = self
            .failures
            .iter()
            .position(|failure| failure.line == line);
        if let Some(at) = failing {
            let failure = &mut self.failures[at];
            if failure.passes > 0 {
                failure.passes -= 1;
            } else {
                let failure = self.failures.remove(at);
                let reason = match failure.code {
                    409 => "Conflict",
                    404 => "NotFound",
                    _ => "InternalError",
                };
                return Some(Refusal::new(failure.code, reason, failure.message));
            }
        }
        let is_write = ["POST", "PATCH", "DELETE"]
            .iter()
            .any(|verb| line.starts_with(verb));
        if let Some(others) = self.failing_write.filter(|_| is_write) {
            self.failing_write = others.checked_sub(1);
            if others == 0 {
                let message = "the test wants this write to fail";
                return Some(Refusal::new(500, "InternalError", message));
            }
        }
        let is_forbidden = |(denied, beginning): &(String, String)| {
            let rest = authorized.strip_prefix(beginning.as_str());
            denied == user && rest.is_some_and(|rest| !rest.starts_with('?'))
        };
        self.forbidden.iter().any(is_forbidden).then(|| {
            let target = Target::of(line.split_once(' ').map_or("", |(_, path)| path));
            let (name, plural) = (target.name.unwrap_or_default(), target.plural);
            Refusal::new(
                403,
                "Forbidden",
                format!("{plural} {name:?} is forbidden: User {user:?} cannot do this"),
            )
        })
    }

    pub(super) fn rules_review(&self, call: &Call) -> Value {
        let review = call.json();
        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
        let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        let paths = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
        let (resources, urls): (Vec<Value>, Vec<Value>) = match self.rules.get(&call.user) {
            Some(rules) => rules
                .iter()
                .filter(|(place, _)| place.is_empty() || place == namespace)
                .map(|(_, rule)| rule.clone())
                .partition(|rule| rule.get("nonResourceURLs").is_none()),
            None => (vec![all], vec![paths]),
        };
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace},
            "status": {"resourceRules": resources, "nonResourceRules": urls, "incomplete": self.incomplete.is_some()},
        })
    }

    pub(super) fn access_review(&self, call: &Call) -> Value {
        let mut review = call.json();
        let asked = &review["spec"]["resourceAttributes"];
        let text = format!(
            "{} {}",
            asked["verb"].as_str().unwrap_or_default(),
            asked["resource"].as_str().unwrap_or_default()
        );
        let is_allowed = self
            .incomplete
            .iter()
            .flatten()
            .any(|allowed| *allowed == text);
        review["status"] = json!({"allowed": is_allowed});
        review
    }

    pub(super) fn discovery(&self, target: &Target) -> Result<Value, Refusal> {
        let resources: Vec<Value> = self
            .kinds
            .iter()
            .filter(|kind| kind.group == target.group && kind.version == target.version)
            .map(|kind| {
                json!({"name": kind.plural, "singularName": "", "kind": kind.name, "namespaced": kind.is_namespaced,
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]})
            })
            .collect();
        if resources.is_empty() {
            return Err(Refusal::new(
                404,
                "NotFound",
                "the server could not find the requested resource",
            ));
        }
        let group_version = if target.group.is_empty() {
            target.version.clone()
        } else {
            format!("{}/{}", target.group, target.version)
        };
        Ok(
            json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": group_version, "resources": resources}),
        )
    }
}
