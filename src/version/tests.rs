use std::cmp::Ordering;

use serde_json::Value;

use super::loose::LeadingZeros;
use super::range::{Prereleases, Range};
use super::release::{BundleVersion, Release};
use super::skip_range::SkipRange;
use super::*;
use crate::testing::conformance::{Row, Score, Set};

fn expect<T: PartialEq + fmt::Debug>(what: &str, expected: &T, came: &T) -> Result<(), String> {
    if expected == came {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, came {came:?}"))
    }
}

/// A candidate of language M: strict, or loose where the row says so.
fn candidate(row: &Row) -> Version {
    let text = row.text("version");
    if row.value["loose_version"] == true {
        Version::parse_loose(text, LeadingZeros::Dropped).unwrap()
    } else {
        Version::parse(text).unwrap()
    }
}

fn range_row(row: &Row) -> Result<(), String> {
    let range = Range::parse(row.text("constraint"));
    if let Some(valid) = row.value["valid"].as_bool() {
        expect("valid", &valid, &range.is_ok())?;
        let Ok(range) = range else { return Ok(()) };
        expect(
            "canonical",
            &row.text("canonical").to_owned(),
            &range.to_string(),
        )?;
        let sizes: Vec<usize> = range
            .groups()
            .iter()
            .map(|g| g.comparators().len())
            .collect();
        let expected: Vec<usize> =
            serde_json::from_value(row.value["group_sizes"].clone()).unwrap();
        expect("group_sizes", &expected, &sizes)?;
        // What is printed means the same.
        let again = Range::parse(&range.to_string()).map_err(|error| error.to_string())?;
        return expect("reparsed", &range, &again);
    }
    let prereleases = if row.value["include_prerelease"] == true {
        Prereleases::Included
    } else {
        Prereleases::Gated
    };
    let matches = range
        .map_err(|error| error.to_string())?
        .contains_with(&candidate(row), prereleases);
    expect("match", &row.value["match"].as_bool().unwrap(), &matches)
}

fn skip_range_row(row: &Row) -> Result<(), String> {
    let range = SkipRange::parse(row.text("constraint"));
    if let Some(valid) = row.value["valid"].as_bool() {
        return expect("valid", &valid, &range.is_ok());
    }
    let matches = range
        .map_err(|error| error.to_string())?
        .contains(&Version::parse(row.text("version")).unwrap());
    expect("match", &row.value["match"].as_bool().unwrap(), &matches)
}

fn parse_row(row: &Row) -> Result<(), String> {
    let text = row.text("version");
    let printed = match row.text("parser") {
        "mm_new" => Version::parse_loose(text, LeadingZeros::Dropped).map(|v| v.to_string()),
        "mm_new_nocoerce" => {
            Version::parse_loose(text, LeadingZeros::Refused).map(|v| v.to_string())
        }
        "mm_strict" => Version::parse_semi_strict(text).map(|v| v.to_string()),
        "blang" => Version::parse(text).map(|v| v.to_string()),
        "blang_tolerant" => Version::parse_tolerant(text).map(|v| v.to_string()),
        "release" => {
            let release = Release::parse(row.text("release")).map(|r| r.to_string());
            return printed_row(row, release.ok());
        }
        other => return Err(format!("unknown parser {other}")),
    };
    printed_row(row, printed.ok())
}

fn printed_row(row: &Row, printed: Option<String>) -> Result<(), String> {
    expect(
        "valid",
        &row.value["valid"].as_bool().unwrap(),
        &printed.is_some(),
    )?;
    match printed {
        Some(printed) => expect("canonical", &row.text("canonical").to_owned(), &printed),
        None => Ok(()),
    }
}

fn bundle_version(value: &Value) -> BundleVersion {
    match value {
        Value::String(text) => BundleVersion::legacy(text).unwrap(),
        explicit => BundleVersion::parse(
            explicit["version"].as_str().unwrap(),
            explicit["release"].as_str(),
        )
        .unwrap(),
    }
}

fn version_row(row: &Row) -> Result<(), String> {
    let order = || match row.value["cmp"].as_i64() {
        Some(-1) => Ordering::Less,
        Some(0) => Ordering::Equal,
        _ => Ordering::Greater,
    };
    match row.text("kind") {
        "parse" => parse_row(row),
        "compare" => {
            let version = |name: &str| {
                Version::parse(row.text(name))
                    .or_else(|_| Version::parse_loose(row.text(name), LeadingZeros::Dropped))
                    .unwrap()
            };
            expect("cmp", &order(), &version("a").cmp(&version("b")))
        }
        "olm_compare" => {
            let (a, b) = (
                bundle_version(&row.value["a"]),
                bundle_version(&row.value["b"]),
            );
            expect("cmp", &order(), &a.cmp(&b))?;
            expect("cmp reversed", &order().reverse(), &b.cmp(&a))
        }
        "olm_bundle_version" => {
            let release = match row.text("mode") {
                "legacy" => None,
                _ => Some(row.text("release")),
            };
            let parsed = BundleVersion::parse(row.text("version"), release);
            expect(
                "valid",
                &row.value["valid"].as_bool().unwrap(),
                &parsed.is_ok(),
            )?;
            let Ok(parsed) = parsed else { return Ok(()) };
            expect(
                "out_version",
                &row.text("out_version").to_owned(),
                &parsed.version.to_string(),
            )?;
            let expected = row.value["out_release"].as_str().map(str::to_owned);
            expect(
                "out_release",
                &expected,
                &parsed.release.map(|r| r.to_string()),
            )
        }
        other => Err(format!("unknown kind {other}")),
    }
}

/// Inputs on which the reference panics or nearly does: we refuse them, whatever is recommended.
fn policy_row(row: &Row) -> Result<(), String> {
    expect(
        "valid",
        &false,
        &SkipRange::parse(row.text("constraint")).is_ok(),
    )
}

#[test]
fn conformance_of_versions_and_ranges() {
    let Some(set) = Set::open("vectors") else {
        return;
    };
    let mut ranges = Score::new("vectors ranges (language M)", &set);
    let mut skip_ranges = Score::new("vectors skip ranges (language B)", &set);
    let mut versions = Score::new("vectors versions", &set);
    let mut policy = Score::new("vectors policy", &set);
    for row in &set.rows {
        let has = |name: &str| row.value.get(name).is_some();
        if has("kind") {
            versions.count(row.id(), version_row(row));
        } else if has("recommended") {
            policy.count(row.id(), policy_row(row));
        } else if has("crd_admitted") {
            ranges.count(row.id(), range_row(row));
        } else if !has("admitted") {
            skip_ranges.count(row.id(), skip_range_row(row));
        }
    }
    for score in [ranges, skip_ranges, versions, policy] {
        score.finish();
    }
}
