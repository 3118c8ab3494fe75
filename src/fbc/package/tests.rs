use serde_json::json;

use super::*;
use crate::fbc::read::Metas;

fn packages(yaml: &str) -> BTreeMap<String, Result<PackageContents, String>> {
    let mut packages = Packages::default();
    for located in Metas::new(yaml.as_bytes()) {
        packages.add(&located.unwrap().meta);
    }
    packages
        .finish()
        .into_iter()
        .map(|(name, read)| (name, read.map_err(|error| error.to_string())))
        .collect()
}

#[test]
fn a_package_is_gathered_from_its_blobs() {
    let found = packages(
        r"
schema: olm.package
name: p
DefaultChannel: stable
---
schema: olm.channel
package: p
name: stable
entries:
- name: p.v1
- {name: p.v2, replaces: p.v1, skips: [p.v0], SkipRange: '>=1.0.0 <2.0.0', other: 5}
---
schema: olm.bundle
package: p
name: p.v2
image: example.com/p:2
properties:
- {type: olm.gvk, value: {group: g}}
- {type: olm.package, value: {packageName: p, version: 2.0.0}}
- {type: olm.package, value: {packageName: q, version: 3.0.0}}
relatedImages: [{name: '', image: example.com/x}]
---
schema: olm.deprecations
package: p
entries:
- {reference: {schema: olm.bundle, name: p.v1}, message: old}
- {reference: {schema: olm.package}}
---
schema: custom
package: q
---
schema: custom
",
    );
    let p = found["p"].as_ref().unwrap();
    assert_eq!(p.name, "p");
    assert_eq!(p.default_channel.as_deref(), Some("stable"));
    assert_eq!(p.channels.len(), 1);
    assert_eq!(
        p.channels[0].entries[1],
        ChannelEntry {
            name: "p.v2".to_owned(),
            replaces: "p.v1".to_owned(),
            skips: vec!["p.v0".to_owned()],
            skip_range: ">=1.0.0 <2.0.0".to_owned(),
        }
    );
    assert_eq!(
        p.bundles,
        [Bundle {
            name: "p.v2".to_owned(),
            image: "example.com/p:2".to_owned(),
            package_property: Some(json!({"packageName": "p", "version": "2.0.0"})),
            property_types: vec![
                "olm.gvk".to_owned(),
                "olm.package".to_owned(),
                "olm.package".to_owned()
            ],
        }]
    );
    assert_eq!(
        p.deprecations,
        [
            Deprecation {
                schema: "olm.bundle".to_owned(),
                name: "p.v1".to_owned(),
                message: "old".to_owned(),
            },
            Deprecation {
                schema: "olm.package".to_owned(),
                ..Deprecation::default()
            }
        ]
    );
    assert!(found["q"].is_ok());
    assert_eq!(found.len(), 2);
}

#[test]
fn of_equal_blobs_the_last_one_counts() {
    let found = packages(
        "schema: olm.bundle\npackage: p\nname: a\nimage: [broken]\n---\n\
         schema: olm.bundle\npackage: p\nname: b\nimage: b\n---\n\
         schema: olm.bundle\npackage: p\nname: a\nimage: a\n",
    );
    let images: Vec<_> = found["p"]
        .as_ref()
        .unwrap()
        .bundles
        .iter()
        .map(|bundle| bundle.image.as_str())
        .collect();
    assert_eq!(images, ["b", "a"]);
}

#[test]
fn a_blob_of_the_wrong_form_spoils_its_package_only() {
    for (blob, problem) in [
        (
            "schema: olm.channel\nname: c\nentries: {}",
            "olm.channel \"c\" of package \"p\": `entries` must be a list",
        ),
        (
            "schema: olm.channel\nname: c\nentries: [5]",
            "olm.channel \"c\" of package \"p\": `entries` must be an object",
        ),
        (
            "schema: olm.channel\nname: c\nentries: [{skips: [5]}]",
            "olm.channel \"c\" of package \"p\": `skips` must be a string",
        ),
        (
            "schema: olm.bundle\nname: b\nproperties: [{type: t}]",
            "olm.bundle \"b\" of package \"p\": `properties` must be a list of types with values",
        ),
        (
            "schema: olm.bundle\nname: b\nproperties: [{type: olm.bundle.object, value: {data: '!!'}}]",
            "olm.bundle \"b\" of package \"p\": `data` must be base64",
        ),
        (
            "schema: olm.deprecations\nentries: [{reference: x}]",
            "olm.deprecations \"\" of package \"p\": `reference` must be an object",
        ),
        ("name: x", "a blob of package \"p\" has no schema"),
    ] {
        let found = packages(&format!(
            "schema: custom\npackage: q\n---\npackage: p\n{blob}\n"
        ));
        assert_eq!(found["p"], Err(problem.to_owned()), "for {blob}");
        assert!(found["q"].is_ok());
    }
    let found = packages("schema: olm.package\nname: p\nicon: {base64data: '?'}\n");
    assert_eq!(
        found["p"],
        Err("olm.package \"p\" of package \"p\": `base64data` must be base64".to_owned())
    );
}
