use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::fbc;
use crate::fbc::read::Metas;
use crate::testing::conformance::{Row, Score, Set};

type Packages = BTreeMap<String, PackageContents>;

/// The packages of a catalog that can be read, by name.
pub(super) fn packages_of(bytes: &[u8]) -> Packages {
    let mut packages = fbc::package::Packages::default();
    for located in Metas::new(bytes) {
        packages.add(&located.unwrap().meta);
    }
    packages
        .finish()
        .into_iter()
        .map(|(name, contents)| (name, contents.unwrap()))
        .collect()
}

fn query_of(row: &Value) -> Query {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let optional = |value: &Value| value.as_str().map(str::to_owned);
    let installed = &row["installed"];
    Query {
        package: text(&row["package"]),
        version: text(&row["version"]),
        channels: serde_json::from_value(row["channels"].clone()).unwrap_or_default(),
        selector: serde_json::from_value(row["selector"].clone()).unwrap(),
        policy: match row["policy"].as_str() {
            Some("SelfCertified") => UpgradePolicy::SelfCertified,
            _ => UpgradePolicy::CatalogProvided,
        },
        installed: installed.is_object().then(|| Installed {
            name: text(&installed["name"]),
            version: text(&installed["version"]),
            release: optional(&installed["release"]),
            catalog: optional(&installed["catalog"]),
            digest: None,
        }),
        major_upgrades: MajorUpgrades::Edges,
    }
}

fn answer(row: &Row, known: &BTreeMap<String, Packages>) -> Resolution {
    let query = query_of(&row.value);
    let listed = row.value["catalogs"].as_array().unwrap();
    let inline: Vec<_> = listed
        .iter()
        .map(|catalog| {
            let metas = catalog["inline"].as_array().into_iter().flatten();
            packages_of(metas.map(Value::to_string).collect::<String>().as_bytes())
        })
        .collect();
    let catalogs: Vec<Catalog<'_>> = listed
        .iter()
        .zip(&inline)
        .map(|(catalog, inline)| {
            let name = catalog["name"].as_str().unwrap().to_owned();
            let packages = catalog["fbc"].as_str().map_or(inline, |fbc| {
                known.get(fbc).unwrap_or_else(|| panic!("no catalog {fbc}"))
            });
            let content = if catalog["not_cached"] == true {
                Content::Unreadable(format!("cache for catalog \"{name}\" not found"))
            } else {
                match packages.get(&query.package) {
                    Some(package) => Content::Package(package),
                    None => Content::NoSuchPackage,
                }
            };
            Catalog {
                labels: serde_json::from_value(catalog["labels"].clone()).unwrap_or_default(),
                priority: i32::try_from(catalog["priority"].as_i64().unwrap_or_default()).unwrap(),
                availability: match catalog["availability"].as_str() {
                    Some("Unavailable") => Availability::Unavailable,
                    _ => Availability::Available,
                },
                serving: catalog["not_serving"] != true,
                content,
                name,
            }
        })
        .collect();
    let forward = resolve(&query, &catalogs);
    let backward: Vec<_> = catalogs.into_iter().rev().collect();
    assert_eq!(resolve(&query, &backward), forward, "{}", row.id());
    forward
}

/// The fields of an expectation that are compared, and what came for each.
fn compare(row: &Row, expected: &Value, resolution: &Resolution) -> Result<(), String> {
    let came = match &resolution.outcome {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(bundle) => json!({
            "bundle": bundle.name,
            "version": bundle.version.to_string(),
            "release": bundle.release.as_ref().map(ToString::to_string),
            "catalog": bundle.catalog,
            "deprecation": bundle.applying_deprecations().collect::<Vec<_>>(),
        }),
    };
    let unstable: Vec<&str> = row.value["unstable_fields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut wrong = Vec::new();
    for field in [
        "error",
        "bundle",
        "version",
        "release",
        "catalog",
        "deprecation",
    ] {
        let mut expected_field = expected[field].clone();
        let mut came_field = came[field].clone();
        if field == "deprecation" {
            let by_name = |entry: &Value| {
                (
                    entry["schema"].to_string(),
                    entry["name"].to_string(),
                    entry["message"].to_string(),
                )
            };
            expected_field = expected[field]["applies"].clone();
            for list in [&mut expected_field, &mut came_field] {
                let mut entries = list.as_array().cloned().unwrap_or_default();
                entries.sort_by_key(by_name);
                *list = Value::Array(entries);
            }
        }
        let is_settled = row.value["stable"] != false || !unstable.contains(&field);
        if is_settled && expected_field != came_field {
            wrong.push(format!(
                "{field}: expected {expected_field}, came {came_field}"
            ));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

#[test]
fn conformance_of_resolution() {
    let Some(set) = Set::open("oracle/resolve") else {
        return;
    };
    let mut known = BTreeMap::new();
    for archive in set.with_default_archives() {
        for (path, bytes) in &archive.files {
            let name = path
                .rsplit('/')
                .next()
                .unwrap()
                .trim_end_matches(".jsonl")
                .to_owned();
            known.insert(name, packages_of(bytes));
        }
    }
    let decided: BTreeMap<&str, &Row> = set
        .rows
        .iter()
        .filter(|row| row.value.get("decision").is_some())
        .map(|row| (row.id(), row))
        .collect();
    let mut score = Score::new("oracle/resolve", &set);
    let mut by_decision = Score::new("oracle/resolve decided", &set);
    for row in &set.rows {
        if row.value.get("catalogs").is_none() {
            continue;
        }
        let resolution = answer(row, &known);
        assert!(resolution.message.len() <= report::MAX_MESSAGE_BYTES);
        match decided.get(row.id()) {
            Some(decision) => by_decision.count(
                row.id(),
                compare(decision, &decision.value["expect"], &resolution),
            ),
            None => score.count(row.id(), compare(row, &row.value["expect"], &resolution)),
        }
    }
    score.finish();
    by_decision.finish();
}
