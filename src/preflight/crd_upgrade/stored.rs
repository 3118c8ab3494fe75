//! Stored resources have the last word where findings are only about what is allowed.
//!
//! [`questions`] says which resources must be looked at, if that could change the verdict; a [`Tally`] looks at them one
//! by one; [`conclude`] makes of both the final findings:
//!
//! | finding | all resources pass | some do not |
//! |---|---|---|
//! | scope, stored version, type, default | error | error |
//! | a field that is gone | warning | error |
//! | anything else that an error says | warning | error |
//! | a version in which resources are stored is served no more | error, if there are any | |
//!
//! A resource that is not valid today does not count, but is told of. A resource fails when it would not be valid any
//! more, or would lose a value.

use serde_json::Value;

use super::definition::{ConversionStrategy, Definition};
use super::json_form;
use super::{Check, Fate, Finding, Place, Severity};
use crate::preflight::resource::{Gap, Validator, Verdict, lost};

/// How many of the resources that fail are named.
const NAMED: usize = 5;

/// Which resources must be looked at, and how.
#[derive(Debug)]
pub struct Questions {
    /// The API group.
    pub group: String,
    /// The plural, as paths have it.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// The versions to read resources in, each with what to ask about them.
    pub reads: Vec<Read>,
    is_same_in_all_versions: bool,
}

/// Resources of one version.
#[derive(Debug)]
pub struct Read {
    /// The version.
    pub version: String,
    judges: Vec<Judge>,
}

/// What is allowed today, and what will be.
#[derive(Debug)]
struct Judge {
    old: Validator,
    new: Validator,
}

/// Why stored resources cannot tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswerable {
    /// The new schema has something that is not evaluated here.
    #[error("{} at {} cannot be evaluated", .0.what, .0.path)]
    Gap(Gap),
    /// A version has no schema, or an unreadable one.
    #[error("version {0} has no schema that can be read")]
    Schema(String),
    /// No version can be read today.
    #[error("version {0} is not served today")]
    NotServed(String),
}

/// Whether stored resources can change anything about `findings`; `None` where they need not be looked at.
///
/// # Errors
/// When they could, but cannot be judged.
pub fn questions(
    old: &Definition,
    new: &Definition,
    findings: &[Finding],
) -> Result<Option<Questions>, Unanswerable> {
    let errors: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .collect();
    let hides_stored = findings
        .iter()
        .any(|finding| hides_stored_resources(finding, old));
    let is_hopeless = errors.iter().any(|finding| finding.fate == Fate::Stands);
    if is_hopeless || (errors.is_empty() && !hides_stored) {
        return Ok(None);
    }
    let mut questions = Questions {
        group: old.group.clone(),
        plural: old.plural.clone(),
        kind: old.kind.clone(),
        reads: Vec::new(),
        is_same_in_all_versions: old.conversion == ConversionStrategy::None,
    };
    let mut pairs: Vec<(String, String)> = errors
        .iter()
        .filter_map(|finding| pair(finding, old))
        .collect();
    pairs.sort();
    pairs.dedup();
    for (from, to) in pairs {
        let judge = Judge::new(old, new, &from, &to)?;
        questions.read(&from).judges.push(judge);
    }
    if hides_stored && questions.reads.is_empty() {
        // That there are any is all that is asked.
        let served = old.versions.iter().find(|version| version.is_served);
        let version = served.map(|version| version.name.clone());
        let version = version.ok_or_else(|| Unanswerable::NotServed(old.name.clone()))?;
        questions.read(&version);
    }
    for read in &questions.reads {
        let is_served = |name: &str| old.version(name).is_some_and(|version| version.is_served);
        if !is_served(&read.version) {
            return Err(Unanswerable::NotServed(read.version.clone()));
        }
    }
    Ok(Some(questions))
}

/// The version to read resources in and the new version that they are judged by.
fn pair(finding: &Finding, old: &Definition) -> Option<(String, String)> {
    match &finding.place {
        Place::Crd | Place::WholeVersion { .. } => None,
        Place::Removed { version, .. } | Place::Version { version, .. } => {
            Some((version.clone(), version.clone()))
        }
        Place::Served { lower, higher, .. } => {
            let is_there = |name: &String| old.version(name).is_some_and(|one| one.is_served);
            let from = Some(lower.clone()).filter(is_there).or_else(|| {
                let served = old.versions.iter().find(|version| version.is_served)?;
                Some(served.name.clone())
            })?;
            Some((from, higher.clone()))
        }
    }
}

/// Whether a warning is about a version in which resources are stored today.
fn hides_stored_resources(finding: &Finding, old: &Definition) -> bool {
    let Place::WholeVersion { version } = &finding.place else {
        return false;
    };
    finding.check == Check::ServedVersion
        && finding.severity == Severity::Warning
        && old.stored_versions.contains(version)
}

impl Judge {
    fn new(old: &Definition, new: &Definition, from: &str, to: &str) -> Result<Self, Unanswerable> {
        let (old, new) = (validator(old, from)?, validator(new, to)?);
        // What could not be judged before, either, did not change.
        let gap = new.gaps().iter().find(|gap| !old.gaps().contains(gap));
        match gap {
            Some(gap) => Err(Unanswerable::Gap(gap.clone())),
            None => Ok(Self { old, new }),
        }
    }
}

/// The validator of a version of a CRD.
fn validator(crd: &Definition, version: &str) -> Result<Validator, Unanswerable> {
    let schema = crd.version(version).and_then(|one| one.schema.as_ref());
    schema
        .map(json_form::of_schema)
        .and_then(|schema| Validator::new(&schema, crd.preserves_unknown_fields).ok()) // The error names a field, which no user can mend.
        .ok_or_else(|| Unanswerable::Schema(version.to_owned()))
}

impl Questions {
    fn read(&mut self, version: &str) -> &mut Read {
        let at = self.reads.iter().position(|read| read.version == version);
        let at = at.unwrap_or_else(|| {
            self.reads.push(Read {
                version: version.to_owned(),
                judges: Vec::new(),
            });
            self.reads.len() - 1
        });
        self.reads
            .get_mut(at)
            .expect("the index was found or made just now")
    }

    /// Whether an object is one of the resources in question.
    pub fn is_about(&self, object: &Value) -> bool {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map(|(group, _)| group);
        group == Some(self.group.as_str()) && text("kind") == self.kind
    }

    /// How to look at a resource that comes from a file: as its own version, or, where all versions are the same, as
    /// every version in question.
    fn reads_of(&self, object: &Value) -> Vec<&Read> {
        let api_version = object.get("apiVersion").and_then(Value::as_str);
        let version = api_version.and_then(|text| text.rsplit('/').next());
        self.reads
            .iter()
            .filter(|read| self.is_same_in_all_versions || Some(read.version.as_str()) == version)
            .collect()
    }
}

/// What was seen of the resources.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    looked: usize,
    failed: usize,
    named: Vec<String>,
    /// Would fail, but are not valid today, either.
    unsound: usize,
    unsound_named: Vec<String>,
    undecided: Option<Gap>,
}

impl Tally {
    /// Looks at one resource of the version of `read`; it can be dropped then.
    pub fn look(&mut self, kind: &str, read: &Read, resource: &Value) {
        self.looked += 1;
        let mut is_unsound = false;
        for judge in &read.judges {
            let after = judge.new.prepared(resource);
            let problem = match judge.new.judge_prepared(&after) {
                Verdict::Undecided(gap) => {
                    self.undecided.get_or_insert(gap);
                    return;
                }
                Verdict::Invalid(violations) => violations.into_iter().next().map(|first| {
                    let path = if first.path.is_empty() {
                        "the resource"
                    } else {
                        &first.path
                    };
                    format!("{path}: {}", first.problem)
                }),
                Verdict::Valid => {
                    let lost = lost(&judge.old.prepared(resource), &after);
                    lost.map(|path| format!("{path}: would be lost"))
                }
            };
            let Some(problem) = problem else {
                continue;
            };
            if matches!(judge.old.judge(resource), Verdict::Invalid(_)) {
                is_unsound = true;
                continue;
            }
            self.failed += 1;
            if self.named.len() < NAMED {
                self.named
                    .push(format!("{kind} {}: {problem}", name_of(resource)));
            }
            return;
        }
        if is_unsound {
            self.unsound += 1;
            if self.unsound_named.len() < NAMED {
                self.unsound_named
                    .push(format!("{kind} {}", name_of(resource)));
            }
        }
    }

    /// Looks at a resource that comes from a file.
    pub fn look_as(&mut self, questions: &Questions, resource: &Value) {
        let mut seen = Self::default();
        for read in questions.reads_of(resource) {
            let mut one = Self::default();
            one.look(&questions.kind, read, resource);
            seen.add(one);
        }
        self.looked += seen.looked;
        self.failed += seen.failed;
        self.unsound += seen.unsound;
        for (all, seen) in [
            (&mut self.named, seen.named),
            (&mut self.unsound_named, seen.unsound_named),
        ] {
            let room = NAMED.saturating_sub(all.len());
            all.extend(seen.into_iter().take(room));
        }
        self.undecided = self.undecided.take().or(seen.undecided);
    }

    /// What it is when looking was cut short: nothing can be said.
    pub fn interrupted() -> Self {
        Self {
            undecided: Some(Gap {
                path: "^".to_owned(),
                what: "looking at resources, which was interrupted,".to_owned(),
            }),
            ..Self::default()
        }
    }

    /// Adds what was seen of the same resources in another version.
    pub fn add(&mut self, other: Self) {
        self.looked = self.looked.max(other.looked);
        self.failed = self.failed.max(other.failed);
        self.unsound = self.unsound.max(other.unsound);
        for (all, other) in [
            (&mut self.named, other.named),
            (&mut self.unsound_named, other.unsound_named),
        ] {
            for name in other {
                if all.len() < NAMED && !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        self.undecided = self.undecided.take().or(other.undecided);
    }

    /// Whether looking at more cannot change anything.
    pub fn is_decided(&self) -> bool {
        self.undecided.is_some()
    }

    /// Whether there was any resource.
    pub fn is_empty(&self) -> bool {
        self.looked == 0
    }
}

fn name_of(resource: &Value) -> String {
    let text = |pointer: &str| resource.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or("without a name");
    match text("/metadata/namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The findings after stored resources were looked at, or `Err` with why they could not be.
pub fn conclude(
    old: &Definition,
    findings: Vec<Finding>,
    seen: Result<&Tally, &str>,
) -> Vec<Finding> {
    let said = |text: &str| Finding::crd_wide(Check::StoredResources, text);
    let not_looked = |why: &str| said(&format!("not looked at: {why}"));
    let tally = match seen {
        Ok(tally) => match &tally.undecided {
            None => tally,
            Some(gap) => {
                let why = Unanswerable::Gap(gap.clone()).to_string();
                return with(findings, not_looked(&why));
            }
        },
        Err(why) => return with(findings, not_looked(why)),
    };
    let mut concluded = findings;
    for finding in &mut concluded {
        if finding.severity == Severity::Error && tally.failed == 0 {
            finding.severity = Severity::Warning;
            finding.was_error = true;
        } else if !tally.is_empty() && hides_stored_resources(finding, old) {
            finding.severity = Severity::Error;
        }
    }
    concluded.sort_by_key(|finding| finding.severity);
    let listed = |what: &str, count: usize, named: &[String]| {
        let others = match count.saturating_sub(named.len()) {
            0 => String::new(),
            others => format!("; and {others} more"),
        };
        format!(
            "{count} of {} {what}: {}{others}",
            tally.looked,
            named.join("; ")
        )
    };
    let mut texts = Vec::new();
    if tally.failed > 0 {
        texts.push(listed(
            "would not be valid or lose data",
            tally.failed,
            &tally.named,
        ));
    }
    if tally.unsound > 0 {
        texts.push(listed(
            "not counted, being invalid today already",
            tally.unsound,
            &tally.unsound_named,
        ));
    }
    if texts.is_empty() {
        return concluded;
    }
    with(concluded, said(&texts.join("; ")))
}

/// The finding behind the errors, if there are any; where there are none, it is no more than a warning.
fn with(mut findings: Vec<Finding>, mut finding: Finding) -> Vec<Finding> {
    let at = findings.partition_point(|one| one.severity == Severity::Error);
    if at == 0 {
        finding.severity = Severity::Warning;
    }
    findings.insert(at, finding);
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::preflight::crd_upgrade::{Pool, check};

    fn crd(schema: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g"},
            "spec": {"group": "g", "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "properties": {"spec": {"type": "object", "properties": schema}}}}}]},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn thing(name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "n"}, "spec": spec})
    }

    /// `severity message` of every finding after looking at resources with these specs.
    fn concluded(old: &Value, new: &Value, specs: &[Value]) -> Vec<String> {
        let mut pool = Pool::default();
        let (before, after) = (
            Definition::read(&mut pool, old).unwrap(),
            Definition::read(&mut pool, new).unwrap(),
        );
        let findings = check(Some(&before), &after);
        let findings = match questions(&before, &after, &findings) {
            Ok(None) => findings,
            Err(why) => conclude(&before, findings, Err(&why.to_string())),
            Ok(Some(questions)) => {
                let mut tally = Tally::default();
                for (index, spec) in specs.iter().enumerate() {
                    let resource = thing(&format!("t{index}"), spec);
                    assert!(questions.is_about(&resource));
                    tally.look_as(&questions, &resource);
                }
                conclude(&before, findings, Ok(&tally))
            }
        };
        findings
            .into_iter()
            .map(|finding| format!("{} {}", finding.severity.as_str(), finding.message))
            .collect()
    }

    #[test]
    fn a_tightened_field_is_a_warning_where_all_resources_pass() {
        let old = crd(&json!({"a": {"type": "string"}, "b": {"type": "integer"}}));
        let new = crd(
            &json!({"a": {"type": "string", "enum": ["x"], "format": "date"}, "b": {"type": "integer", "minimum": 1}}),
        );
        let new_enum =
            crd(&json!({"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "integer"}}));
        assert_eq!(
            concluded(&old, &new_enum, &[json!({"a": "x"}), json!({})]),
            [
                "warning v1: ^.spec.a: enum: enum constraint added when there was none previously : [\"x\" \"y\"]"
            ]
        );
        let refused = concluded(
            &old,
            &new,
            &[json!({"a": "z"}), json!({"b": 0}), json!({"b": 2})],
        );
        assert_eq!(refused.len(), 4, "{refused:#?}");
        assert!(refused.iter().all(|line| line.starts_with("error ")));
        assert_eq!(
            refused[3],
            "error storedResources: 2 of 3 would not be valid or lose data: \
             Thing n/t0: spec.a: is \"z\", which is none of \"x\"; Thing n/t1: spec.b: must be at least 1, is 0"
        );
    }

    #[test]
    fn a_rule_is_judged_by_what_is_stored() {
        let rule = json!([{"rule": "self.size() < 3", "message": "too long"}]);
        let old = crd(&json!({"a": {"type": "string"}}));
        let new = crd(&json!({"a": {"type": "string", "x-kubernetes-validations": rule}}));
        assert!(
            concluded(&old, &new, &[json!({"a": "ab"})])[0]
                .starts_with("warning v1: ^.spec.a: unhandled: ")
        );
        let refused = concluded(&old, &new, &[json!({"a": "abc"})]);
        assert_eq!(
            refused[1],
            "error storedResources: 1 of 1 would not be valid or lose data: Thing n/t0: spec.a: too long"
        );
        let other = json!([{"rule": "semver(self).major() > 1"}]);
        let new = crd(&json!({"a": {"type": "string", "x-kubernetes-validations": other}}));
        assert_eq!(
            concluded(&old, &new, &[])[1],
            "error storedResources: not looked at: rule \"semver(self).major() > 1\": function semver is not evaluated here \
             at ^.spec.a cannot be evaluated"
        );
    }

    #[test]
    fn a_field_that_goes_is_an_error_only_where_it_is_used() {
        let old = crd(&json!({"a": {"type": "string"}, "b": {"type": "string"}}));
        let new = crd(&json!({"a": {"type": "string"}}));
        assert_eq!(
            concluded(&old, &new, &[json!({"a": "x"})]),
            [
                "warning existingFieldRemoval: removed field : v1.^.spec.b",
                "warning v1: ^.spec.b: type: type changed : \"string\" -> \"\"",
            ]
        );
        assert_eq!(
            concluded(&old, &new, &[json!({"b": "x"})])[2],
            "error storedResources: 1 of 1 would not be valid or lose data: Thing n/t0: spec.b: would be lost"
        );
    }

    #[test]
    fn what_is_not_valid_today_does_not_count() {
        let old = crd(&json!({"a": {"type": "integer", "maximum": 9}}));
        let new = crd(&json!({"a": {"type": "integer", "maximum": 5}}));
        let lines = concluded(&old, &new, &[json!({"a": 10}), json!({"a": 4})]);
        let decreased = "warning v1: ^.spec.a: maximum: maximum decreased : 9 -> 5";
        let unsound = "1 of 2 not counted, being invalid today already: Thing n/t0";
        assert_eq!(
            lines,
            [
                format!("warning storedResources: {unsound}"),
                decreased.to_owned()
            ]
        );
        let lines = concluded(&old, &new, &[json!({"a": 10}), json!({"a": 6})]);
        assert_eq!(
            lines[1],
            format!(
                "error storedResources: 1 of 2 would not be valid or lose data: Thing n/t1: spec.a: must be at most 5, is 6; {unsound}"
            )
        );
        assert_eq!(concluded(&old, &new, &[json!({"a": 4})]), [decreased]);
    }

    #[test]
    fn a_changed_type_stays_an_error() {
        let old = crd(&json!({"a": {"type": "integer"}}));
        let new = crd(&json!({"a": {"type": "string"}}));
        let lines = concluded(&old, &new, &[]);
        assert_eq!(
            lines,
            ["error v1: ^.spec.a: type: type changed : \"integer\" -> \"string\""]
        );
        let new = crd(&json!({"a": {"type": "integer", "default": 1}}));
        assert!(concluded(&old, &new, &[])[0].starts_with("error v1: ^.spec.a: default: "));
    }

    #[test]
    fn a_version_with_stored_resources_stays_served() {
        let mut old = crd(&json!({}));
        let mut new = crd(&json!({}));
        let second = json!({"name": "v2", "served": true, "storage": false, "schema": old["spec"]["versions"][0]["schema"].clone()});
        for crd in [&mut old, &mut new] {
            crd["spec"]["versions"]
                .as_array_mut()
                .unwrap()
                .push(second.clone());
        }
        new["spec"]["versions"][0]["served"] = json!(false);
        let line = "servedVersion: version v1 is no longer served: clients that ask for it fail";
        assert_eq!(concluded(&old, &new, &[]), [format!("warning {line}")]);
        assert_eq!(
            concluded(&old, &new, &[json!({})]),
            [format!("error {line}")]
        );
        old["status"]["storedVersions"] = json!(["v2"]);
        assert_eq!(
            concluded(&old, &new, &[json!({})]),
            [format!("warning {line}")]
        );
    }

    #[test]
    fn what_cannot_be_read_leaves_the_verdict() {
        let mut old = crd(&json!({"a": {"type": "integer"}}));
        old["spec"]["versions"][0]["served"] = json!(false);
        let new = crd(&json!({"a": {"type": "integer", "maximum": 5}}));
        assert_eq!(
            concluded(&old, &new, &[]),
            [
                "error v1: ^.spec.a: maximum: maximum constraint added when there was none previously : 5",
                "error storedResources: not looked at: version v1 is not served today",
            ]
        );
    }
}
