use super::*;

const CATALOG: &str = r#"
schema: olm.package
name: p
---
schema: olm.channel
package: p
name: stable
entries:
- name: p.v2.1.0
- {name: p.v2.2.0, replaces: p.v2.1.0}
- {name: p.v2.3.0, replaces: p.v2.2.0}
---
schema: olm.bundle
package: p
name: p.v2.1.0
image: example.com/p:2.1.0
properties:
- {type: olm.package, value: {packageName: p, version: 2.1.0}}
- {type: olm.maxOpenShiftVersion, value: "4.18"}
---
schema: olm.bundle
package: p
name: p.v2.2.0
image: example.com/p:2.2.0
properties:
- {type: olm.package, value: {packageName: p, version: 2.2.0}}
- {type: olm.maxOpenShiftVersion, value: "4.18"}
---
schema: olm.bundle
package: p
name: p.v2.3.0
image: example.com/p:2.3.0
properties:
- {type: olm.package, value: {packageName: p, version: 2.3.0}}
- {type: olm.maxOpenShiftVersion, value: "4.19"}
"#;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    upgradeable: Upgradeable,
}

#[expect(clippy::disallowed_methods, reason = "writes a catalog to read")]
fn asked(openshift: &str, installed: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, CATALOG).unwrap();
    let catalog = file.to_str().unwrap();
    let line = [
        "upgradeable",
        "--openshift",
        openshift,
        "--catalog",
        catalog,
        "--installed",
        installed,
    ];
    let line = <Line as clap::Parser>::try_parse_from(line).unwrap();
    let report = of_list(&line.upgradeable)?;
    let mut out = Vec::new();
    print(&report, &mut out).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_way_out_is_told() {
    assert_eq!(
        asked("4.18", "p.v2.1.0").unwrap(),
        "OpenShift 4.18 cannot be updated to 4.19: 1 of 1 installed bundles block it\n\n\
         p: p.v2.1.0 supports OpenShift up to 4.18\n  \
         → upgrade p to 2.3.0 or above, reachable in 2 hops, channel stable of catalog c\n"
    );
    assert_eq!(
        asked("4.17.9", "p.v2.1.0").unwrap(),
        "OpenShift 4.17 may be updated to 4.18: none of 1 installed bundles blocks it\n"
    );
    // A bundle is named by its version, too.
    assert_eq!(
        asked("4.18", "p@2.1.0").unwrap(),
        asked("4.18", "p.v2.1.0").unwrap()
    );
    assert!(asked("4.18", "p@2.1.0,p@2.3.0").unwrap().starts_with(
        "OpenShift 4.18 cannot be updated to 4.19: 1 of 2 installed bundles block it\n"
    ));
    assert!(
        asked("4.19", "p.v2.3.0")
            .unwrap()
            .contains("→ no catalog has a newer bundle that supports 4.20: ")
    );
}

#[test]
fn what_is_not_known_is_said() {
    let failure = |openshift, installed| format!("{:#}", asked(openshift, installed).unwrap_err());
    assert_eq!(
        failure("4.18", "p@9"),
        "no catalog has a bundle \"p@9\": `oxolm catalog list SRC PACKAGE` lists what there is"
    );
    assert_eq!(
        failure("4.18", "q.v1"),
        "no catalog has a bundle \"q.v1\": `oxolm catalog list SRC PACKAGE` lists what there is"
    );
    assert_eq!(
        failure("soon", "p.v2.1.0"),
        "--openshift soon: expected a version such as 4.18 or 4.18.3"
    );
}
