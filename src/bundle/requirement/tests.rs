//! The examples of the documentation as they stand there, and what is wrong with others.

use super::*;
use crate::fbc::yaml;

/// The requirements of the properties below `properties` of a YAML document, or what is wrong with them.
fn read(document: &str) -> Vec<Result<Option<Requirement>, RequirementError>> {
    let document = yaml::value(document.as_bytes()).unwrap();
    properties(&document["properties"].to_string())
        .unwrap()
        .iter()
        .map(Property::requirement)
        .collect()
}

#[track_caller]
fn explained(document: &str, expected: &[&str]) {
    let texts: Vec<String> = read(document)
        .into_iter()
        .map(|requirement| match requirement {
            Ok(Some(requirement)) => requirement.to_string(),
            Ok(None) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        })
        .collect();
    assert_eq!(texts, expected);
}

#[test]
fn the_examples_of_the_documentation_are_read() {
    explained(
        "properties:\n- type: olm.constraint\n  value:\n    failureMessage: 'require to have \"certified\"'\n    cel:\n      rule: 'properties.exists(p, p.type == \"certified\")'\n",
        &["properties that satisfy properties.exists(p, p.type == \"certified\")"],
    );
    explained(
        "schema: olm.bundle
name: red.v1.0.0
properties:
- type: olm.constraint
  value:
    failureMessage: All are required for Red because...
    all:
      constraints:
      - failureMessage: Package blue is needed for...
        package:
          name: blue
          versionRange: '>=1.0.0'
      - failureMessage: GVK Green/v1 is needed for...
        gvk:
          group: greens.example.com
          version: v1
          kind: Green
",
        &["all of (package blue >=1.0.0, API greens.example.com/v1 Green)"],
    );
    explained(
        "properties:
- type: olm.constraint
  value:
    failureMessage: Required for Red because...
    any:
      constraints:
      - all:
          constraints:
          - package:
              name: blue
              versionRange: '>=1.0.0'
          - gvk:
              group: blues.example.com
              version: v1
              kind: Blue
      - all:
          constraints:
          - package:
              name: blue
              versionRange: '<1.0.0'
          - gvk:
              group: blues.example.com
              version: v1beta1
              kind: Blue
",
        &[
            "any of (all of (package blue >=1.0.0, API blues.example.com/v1 Blue), all of (package blue <1.0.0, API blues.example.com/v1beta1 Blue))",
        ],
    );
}

#[test]
fn the_negation_of_the_documentation_has_its_parts_beside_the_value() {
    // In the example `all` stands beside `value`, not below it: the value is null, and the property says nothing.
    explained(
        "properties:
- type: olm.constraint
  value:
  all:
    constraints:
    - failureMessage: Package blue is needed for...
      package:
        name: blue
        versionRange: '>=1.0.0'
    - failureMessage: Cannot be required for Red because...
      not:
        constraints:
        - gvk:
            group: greens.example.com
            version: v1alpha1
            kind: greens
",
        &["property \"olm.constraint\" has no value"],
    );
}

#[test]
fn arbitrary_and_nested_properties_ask_for_nothing() {
    explained(
        "properties:
- type: olm.kubeversion
  value:
    version: \"1.16.0\"
- property:
    type: color
    value: red
",
        &["nothing", "nothing"],
    );
}

#[test]
fn failure_messages_are_kept_at_every_level() {
    let Ok(Some(Requirement::Constraint(outer))) = read(
        "properties: [{type: olm.constraint, value: {failureMessage: \" outer \", not: {constraints: [{failureMessage: inner, gvk: {group: g, version: v1, kind: K}}]}}}]",
    )
    .remove(0) else {
        panic!("not a constraint")
    };
    let Condition::Not(inner) = outer.condition else {
        panic!("not a negation")
    };
    assert_eq!(outer.failure_message, " outer ");
    assert_eq!(inner[0].failure_message, "inner");
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    explained(
        "properties:
- {type: olm.package.required, value: {packageName: blue, versionRange: '>1.0.0 <2.0.0'}}
- {type: olm.gvk.required, value: {group: g, version: v1, kind: K}}
- {type: olm.package.required, value: {packageName: blue}}
- {type: olm.package.required, value: {packageName: blue, versionRange: '1.x.y'}}
- {type: olm.gvk.required, value: [1]}
- {type: olm.gvk.required, value: {group: 1, version: v1, kind: K}}
- {type: olm.gvk.required, value: {group: g, version: v1, kind: K, more: 1}}
- {type: olm.constraint, value: {}}
- {type: olm.constraint, value: {cel: {rule: x}, gvk: {group: g, version: v1, kind: K}}}
- {type: olm.constraint, value: {one: {constraints: []}}}
- {type: olm.constraint, value: {all: {constraints: [{any: {constraints: []}}]}}}
- {type: olm.constraint, value: {failureMessage: 1, cel: {rule: x}}}
",
        &[
            "package blue >1.0.0 <2.0.0",
            "API g/v1 K",
            "olm.package.required: versionRange is missing",
            "olm.package.required: invalid version range \"1.x.y\": term \"1.x.y\" at position 1: expected a version: Invalid character(s) found in patch number \"y\"",
            "olm.gvk.required: got array, want an object",
            "olm.gvk.required.group: got number, want a string",
            "olm.gvk.required: unknown member \"more\"",
            "olm.constraint: want exactly one of gvk, package, cel, all, any, not; got 0",
            "olm.constraint: want exactly one of gvk, package, cel, all, any, not; got 2",
            "olm.constraint: unknown member \"one\"",
            "olm.constraint.all[0].any: constraints is missing",
            "olm.constraint.failureMessage: got number, want a string",
        ],
    );
}

#[test]
fn a_constraint_above_64_kib_is_refused() {
    let constraint = |size: usize| {
        let rule = "x".repeat(size - r#"{"cel":{"rule":""}}"#.len());
        format!(r#"[{{"type":"olm.constraint","value":{{"cel":{{"rule":"{rule}"}}}}}}]"#)
    };
    let read = |text: String| properties(&text).unwrap().remove(0).requirement();
    assert!(read(constraint(CONSTRAINT_LIMIT_BYTES)).is_ok());
    assert_eq!(
        read(constraint(CONSTRAINT_LIMIT_BYTES + 1)),
        Err(RequirementError::TooLarge(CONSTRAINT_LIMIT_BYTES + 1))
    );
}

#[test]
fn provided_apis_are_read() {
    let list = properties(
        r#"[{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}},{"type":"olm.gvk","value":"x"},{"type":"y"}]"#,
    )
    .unwrap();
    assert_eq!(
        list[0].provided_api().unwrap().unwrap().to_string(),
        "g/v1 K"
    );
    assert!(list[1].provided_api().is_err());
    assert_eq!(list[2].provided_api(), Ok(None));
    assert!(properties("{").is_err());
}

#[test]
fn a_cluster_older_than_the_bundle_wants_is_refused() {
    let cluster = Version::parse_tolerant("v1.33.2-gke.1").unwrap();
    for (minimum, verdict) in [
        ("", None),
        ("1.30", None),
        ("v1.33.2", None),
        (
            "1.34.0",
            Some("bundle needs Kubernetes 1.34.0 or newer, and the cluster runs 1.33.2"),
        ),
        (
            "one",
            Some(
                "minKubeVersion \"one\" is no version: Invalid character(s) found in major number \"0one\"",
            ),
        ),
    ] {
        let error = check_kubernetes(minimum, &cluster)
            .err()
            .map(|error| error.to_string());
        assert_eq!(error.as_deref(), verdict, "{minimum}");
    }
}
