//! Whether an API server would take a stored resource under a new schema.
//!
//! A resource is prepared as the API server does it (nulls, defaults, unknown fields) and then validated: types,
//! bounds, formats, patterns, logical combinations, sets and maps, and the CEL rules of `x-kubernetes-validations`.
//! The answer is that of a creation: rules about a change (`oldSelf`) do not count, and `status` does.
//!
//! What this validator cannot judge is said before any resource is looked at ([`Validator::gaps`]): then the verdict
//! of the schema comparison stands. So a resource never passes because something was not understood.
//!
//! Rules: `apiextensions-apiserver/pkg/apiserver/schema`, `kube-openapi/pkg/validation` and `apiserver/pkg/cel` of
//! Kubernetes 1.36. What is deliberately not looked at: `metadata`, which does not depend on the schema, and the cost
//! limits of CEL, beyond a bound of our own.

mod cel;
mod finding;
mod format;
mod kind;
mod node;
mod pattern;
mod prepare;
mod schema;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::Value;

pub use finding::{Gap, Violation};
use node::Node;
pub use schema::SchemaError;

/// The verdict about one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It would be taken.
    Valid,
    /// It would be refused, for the reasons found first.
    Invalid(Vec<Violation>),
    /// A rule takes too long to tell.
    Undecided(Gap),
}

/// How many violations of one resource are told.
const TOLD: usize = 8;

/// The schema of one version of a CRD, ready to judge resources.
#[derive(Debug)]
pub struct Validator {
    root: Node,
    gaps: Vec<Gap>,
    preserves_unknown_fields: bool,
}

impl Validator {
    /// Takes `openAPIV3Schema` of a version. `preserves_unknown_fields` is the CRD's own old switch.
    ///
    /// # Errors
    /// When a field of the schema has a wrong type.
    pub fn new(schema: &Value, preserves_unknown_fields: bool) -> Result<Self, SchemaError> {
        let mut gaps = Vec::new();
        let root = Node::read(schema, &mut gaps)?;
        gaps.sort();
        gaps.dedup();
        Ok(Self {
            root,
            gaps,
            preserves_unknown_fields,
        })
    }

    /// What in the schema cannot be judged here; empty for most.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The resource as the API server would hand it out: nulls and defaults as the schema has them, without unknown fields.
    pub fn prepared(&self, resource: &Value) -> Value {
        let mut resource = resource.clone();
        prepare::prepare(&mut resource, &self.root, self.preserves_unknown_fields);
        resource
    }

    /// Judges a resource as it is stored. The order of the violations is that of the schema.
    pub fn judge(&self, resource: &Value) -> Verdict {
        self.judge_prepared(&self.prepared(resource))
    }

    /// [`Self::judge`] of what [`Self::prepared`] made.
    pub fn judge_prepared(&self, resource: &Value) -> Verdict {
        let mut violations = validate::violations(resource, &self.root);
        // The API server looks at rules only where the form is right.
        if violations.is_empty() {
            match cel::violations(resource, &self.root) {
                Ok(broken) => violations = broken,
                Err(gap) => return Verdict::Undecided(gap),
            }
        }
        violations.truncate(TOLD);
        if violations.is_empty() {
            Verdict::Valid
        } else {
            Verdict::Invalid(violations)
        }
    }
}

/// The path of the first value that a resource has as it was prepared `before` and no longer has as it was `after`.
///
/// A null that goes is no loss.
pub fn lost(before: &Value, after: &Value) -> Option<String> {
    let mut path = String::new();
    prepare::lost(before, after, &mut path).then(|| path.trim_start_matches('.').to_owned())
}
