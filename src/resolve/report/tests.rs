//! Every reason, with the text that a user sees.

use super::super::tests::packages_of;
use super::super::*;
use super::*;

/// Bundles `p.v<version>` of package `p` in channel `stable`, with what else the lines of `more` say.
fn package(entries: &str, versions: &[&str], more: &str) -> PackageContents {
    let mut blobs = vec![
        "schema: olm.package\nname: p\n".to_owned(),
        format!("schema: olm.channel\npackage: p\nname: stable\nentries: [{entries}]\n"),
    ];
    for version in versions {
        let value = format!("{{packageName: p, version: {version}}}");
        blobs.push(format!(
            "schema: olm.bundle\npackage: p\nname: p.v{version}\nimage: x/p:{version}\n\
             properties:\n- {{type: olm.package, value: {value}}}\n"
        ));
    }
    blobs.push(more.to_owned());
    let text = blobs.join("---\n");
    packages_of(text.as_bytes()).remove("p").unwrap()
}

fn linear() -> PackageContents {
    package(
        "{name: p.v1.0.0}, {name: p.v1.1.0, replaces: p.v1.0.0}, {name: p.v2.0.0, replaces: p.v1.1.0}",
        &["1.0.0", "1.1.0", "2.0.0", "3.0.0-rc.1"],
        "schema: olm.channel\npackage: p\nname: candidate\nentries: [{name: p.v3.0.0-rc.1}]\n",
    )
}

fn query() -> Query {
    Query {
        package: "p".into(),
        ..Query::default()
    }
}

fn installed(version: &str) -> Installed {
    Installed {
        name: format!("p.v{version}"),
        version: version.into(),
        ..Installed::default()
    }
}

fn catalog<'a>(name: &str, content: Content<'a>) -> Catalog<'a> {
    Catalog {
        name: name.into(),
        labels: BTreeMap::new(),
        priority: 0,
        availability: Availability::Available,
        serving: true,
        content,
    }
}

#[track_caller]
fn check(query: &Query, catalogs: &[Catalog<'_>], reason: &str, message: &str) {
    let resolution = resolve(query, catalogs);
    let came = match &resolution.outcome {
        Ok(_) => "Resolved",
        Err(error) => error.reason().as_str(),
    };
    assert_eq!((came, resolution.message.as_str()), (reason, message));
    if let (true, Ok(bundle)) = (message.starts_with("chose "), &resolution.outcome) {
        let version = bundle.version.to_string();
        assert_eq!(chosen_version(message), Some(version.as_str()));
    } else {
        assert_eq!(chosen_version(message), None, "{message}");
    }
}

#[test]
fn what_was_chosen_is_said() {
    let linear = linear();
    let one = [catalog("a", Content::Package(&linear))];
    check(
        &Query {
            channels: vec!["stable".into()],
            ..query()
        },
        &one,
        "Resolved",
        r#"chose "p.v2.0.0" (2.0.0) from catalog "a""#,
    );
    check(
        &Query {
            version: "1.1.0".into(),
            installed: Some(installed("1.1.0")),
            ..query()
        },
        &one,
        "Resolved",
        r#"installed bundle stays: "p.v1.1.0" (1.1.0) from catalog "a""#,
    );
}

#[test]
fn it_does_not_exist() {
    let linear = linear();
    check(
        &query(),
        &[],
        "NoCatalogSelected",
        "there is no catalog: create a ClusterCatalog",
    );
    let unavailable = Catalog {
        availability: Availability::Unavailable,
        ..catalog("a", Content::Package(&linear))
    };
    check(
        &query(),
        std::slice::from_ref(&unavailable),
        "NoCatalogSelected",
        "every selected catalog is Unavailable: [a]; make one Available or select another",
    );
    let selector = Some(selector::parse_text("olm.operatorframework.io/metadata.name=b").unwrap());
    check(
        &Query {
            selector: selector.clone(),
            ..query()
        },
        &[catalog("a", Content::Package(&linear))],
        "NoCatalogSelected",
        "spec.source.catalog.selector matches none of the catalogs [a]: correct it or the catalogs' labels",
    );
    check(
        &query(),
        &[catalog("b", Content::NoSuchPackage), unavailable],
        "PackageNotFound",
        r#"package "p" does not exist in the selected catalogs [b]; Unavailable catalogs have it: [a]; check the name and the catalogs"#,
    );
    let unread = Catalog {
        availability: Availability::Unavailable,
        ..catalog("a", Content::Unreadable("it is not served".to_owned()))
    };
    check(
        &query(),
        &[catalog("b", Content::NoSuchPackage), unread],
        "PackageNotFound",
        r#"package "p" does not exist in the selected catalogs [b]; catalogs that are Unavailable are not asked: [a]; check the name and the catalogs"#,
    );
    check(
        &Query {
            selector,
            ..query()
        },
        &[
            catalog("b", Content::NoSuchPackage),
            catalog("a", Content::Package(&linear)),
        ],
        "PackageNotFound",
        r#"package "p" does not exist in the selected catalogs [b]; the selector leaves out catalogs that have it: [a]; check the name and the catalogs"#,
    );
    check(
        &Query {
            channels: vec!["beta".into()],
            ..query()
        },
        &[catalog("a", Content::Package(&linear))],
        "NoMatchingChannel",
        r#"package "p" exists, but channels [beta] hold none of its bundles; it has channels [candidate stable]: correct spec.source.catalog.channels"#,
    );
}

#[test]
fn your_range_excludes_it() {
    let linear = linear();
    let one = [catalog("a", Content::Package(&linear))];
    check(
        &Query {
            version: ">=4.0.0".into(),
            ..query()
        },
        &one,
        "NoMatchingVersion",
        r#"package "p" exists, but your range ">=4.0.0" excludes every version; the highest are [3.0.0-rc.1 2.0.0 1.1.0 1.0.0]; change spec.source.catalog.version"#,
    );
    check(
        &Query {
            version: ">2.0.0".into(),
            ..query()
        },
        &one,
        "NoMatchingVersion",
        r#"package "p" exists, but your range ">2.0.0" excludes every version; the highest are [3.0.0-rc.1 2.0.0 1.1.0 1.0.0]; 3.0.0-rc.1 is a pre-release, which only a range that names one admits; change spec.source.catalog.version"#,
    );
    check(
        &Query {
            version: "2.x".into(),
            channels: vec!["candidate".into()],
            ..query()
        },
        &one,
        "NoMatchingVersion",
        r#"package "p" exists, but your range "2.x" excludes every version in channels [candidate]; the highest are [3.0.0-rc.1]; "p.v2.0.0" (2.0.0) is in the range and in channels [stable]; change spec.source.catalog.version"#,
    );
    check(
        &Query {
            version: ">1.0 <".into(),
            ..query()
        },
        &one,
        "InvalidVersionRange",
        r#"spec.source.catalog.version ">1.0 <" is no range: at position 7: expected a version such as "1.2.3", "1.2" or "1.x""#,
    );
    check(
        &Query {
            selector: Some(LabelSelector {
                match_labels: Some([("a b".to_owned(), "c".to_owned())].into()),
                ..LabelSelector::default()
            }),
            ..query()
        },
        &one,
        "InvalidSelector",
        "spec.source.catalog.selector of package \"p\" is invalid: key: Invalid value: \"a b\": name part must consist of \
         alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  \
         or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    );
}

#[test]
fn it_exists_but_cannot_be_reached_from_what_you_have() {
    let linear = linear();
    let one = [catalog("a", Content::Package(&linear))];
    check(
        &Query {
            version: "2.x".into(),
            installed: Some(installed("1.0.0")),
            ..query()
        },
        &one,
        "NoUpgradePath",
        r#""p.v2.0.0" (2.0.0) in catalog "a" exists and is in the range, but no edge leads to it from installed bundle "p.v1.0.0"; 2 hops do: 1.1.0 → 2.0.0; first set version: "1.1.0""#,
    );
    check(
        &Query {
            version: "3.0.0-rc.1".into(),
            installed: Some(installed("1.0.0")),
            ..query()
        },
        &one,
        "NoUpgradePath",
        r#""p.v3.0.0-rc.1" (3.0.0-rc.1) in catalog "a" exists and is in the range, but no edge leads to it from installed bundle "p.v1.0.0"; several hops do not, either; upgradeConstraintPolicy: SelfCertified with version: "3.0.0-rc.1" forces it"#,
    );
    check(
        &Query {
            installed: Some(installed("1.2.0")),
            policy: UpgradePolicy::SelfCertified,
            version: "1.x".into(),
            ..query()
        },
        &one,
        "NoUpgradePath",
        r#"the best candidate "p.v1.1.0" (1.1.0) is lower than what is installed, which satisfies the spec and is not replaced by a lower one; version: "1.1.0" takes it"#,
    );
    check(
        &Query {
            installed: Some(installed("1.1.0")),
            version: "2.x".into(),
            major_upgrades: MajorUpgrades::Forced,
            ..query()
        },
        &one,
        "NoUpgradePath",
        r#""p.v2.0.0" (2.0.0) is of a higher major version, and such upgrades are not automatic here: upgradeConstraintPolicy: SelfCertified takes it"#,
    );
    check(
        &Query {
            installed: Some(installed("one")),
            ..query()
        },
        &one,
        "InvalidInstalledVersion",
        r#"the recorded version of installed bundle "p.vone" cannot be read, so no edge can be followed: failed to get version and release of installed bundle: No Major.Minor.Patch elements found; upgradeConstraintPolicy: SelfCertified does without edges"#,
    );
}

#[test]
fn catalogs_that_disagree_or_cannot_be_read() {
    let linear = linear();
    let a = catalog("a", Content::Package(&linear));
    let b = catalog("b", Content::Package(&linear));
    let pinned = Query {
        version: "1.0.0".into(),
        ..query()
    };
    check(
        &pinned,
        &[b.clone(), a.clone()],
        "AmbiguousCatalogs",
        r#"2 catalogs of priority 0 have an answer: "p.v1.0.0" (1.0.0) in "a", "p.v1.0.0" (1.0.0) in "b"; give one a higher spec.priority, or select one with spec.source.catalog.selector"#,
    );
    let broken = catalog(
        "c",
        Content::Unreadable("cache for catalog \"c\" not found".into()),
    );
    check(
        &pinned,
        &[a.clone(), broken.clone()],
        "CatalogUnavailable",
        r#"catalog "c" cannot be read (cache for catalog "c" not found), and its content could change the answer; without it the answer would be "p.v1.0.0" (1.0.0) from catalog "a"; repair it, set its availabilityMode to Unavailable, or leave it out with spec.source.catalog.selector"#,
    );
    let lower = Catalog {
        priority: -1,
        serving: false,
        ..broken
    };
    check(
        &pinned,
        &[a, lower],
        "Resolved",
        r#"chose "p.v1.0.0" (1.0.0) from catalog "a"; catalog "c" could not be read (catalog "c" is not being served), which cannot change the answer"#,
    );
}

#[test]
fn a_best_candidate_that_cannot_be_installed() {
    let bad = package("{name: p.vone}", &["one"], "");
    check(
        &query(),
        &[catalog("a", Content::Package(&bad))],
        "UnsupportedBundle",
        r#"the best candidate "p.vone" cannot be installed: No Major.Minor.Patch elements found; exclude it with spec.source.catalog.version, or have its catalog corrected"#,
    );
    let mut dependent = linear();
    for bundle in &mut dependent.bundles {
        bundle.property_types.push("olm.gvk.required".into());
    }
    check(
        &Query {
            version: "2.0.0".into(),
            ..query()
        },
        &[catalog("a", Content::Package(&dependent))],
        "UnmetDependency",
        r#"the best candidate "p.v2.0.0" declares a dependency (olm.gvk.required), and dependencies are not supported: choose a version without one with spec.source.catalog.version"#,
    );
}

#[test]
fn the_whole_report_has_a_verdict_for_each() {
    let mut first = linear();
    first.deprecations.push(Deprecation {
        schema: "olm.bundle".into(),
        name: "p.v2.0.0".into(),
        message: "has a hole".into(),
    });
    let second = linear();
    let catalogs = [
        catalog("a", Content::Package(&first)),
        Catalog {
            priority: -1,
            ..catalog("b", Content::Package(&second))
        },
        catalog("c", Content::NoSuchPackage),
        Catalog {
            availability: Availability::Unavailable,
            ..catalog("d", Content::NoSuchPackage)
        },
    ];
    let query = Query {
        channels: vec!["stable".into()],
        version: ">=1.0.0".into(),
        installed: Some(installed("1.1.0")),
        ..query()
    };
    let report = explain(&query, &catalogs);
    let table: Vec<String> = report
        .candidates
        .iter()
        .map(|c| format!("{} {} {}", c.bundle, c.catalog, c.verdict))
        .collect();
    assert_eq!(
        table,
        [
            "p.v3.0.0-rc.1 a not in a channel asked for",
            "p.v3.0.0-rc.1 b not in a channel asked for",
            "p.v2.0.0 a deprecated, and there is one that is not",
            "p.v2.0.0 b another catalog is preferred",
            "p.v1.1.0 a chosen",
            "p.v1.1.0 b a higher one is eligible",
            "p.v1.0.0 a no edge from the installed bundle",
            "p.v1.0.0 b no edge from the installed bundle",
        ]
    );
    assert_eq!(
        report.candidates[2].deprecated.as_deref(),
        Some("has a hole")
    );
    assert_eq!(report.path.len(), 1);
    let states: Vec<String> = report
        .catalogs
        .iter()
        .map(|c| c.state.to_string())
        .collect();
    assert_eq!(
        states,
        ["read", "read", "does not have the package", "Unavailable"]
    );
    assert_eq!(resolve(&query, &catalogs).available_update, None);
    let pinned = Query {
        version: "1.x".into(),
        installed: Some(installed("1.1.0")),
        ..self::query()
    };
    let available = resolve(&pinned, &catalogs[1..2]).available_update.unwrap();
    assert_eq!(available.bundle, "p.v2.0.0");
}

#[test]
fn long_messages_are_cut_on_a_character() {
    let query = Query {
        package: "p".into(),
        version: format!("é{}", "é".repeat(800)),
        ..Query::default()
    };
    let message = resolve(&query, &[]).message;
    assert!(
        message.len() <= MAX_MESSAGE_BYTES && message.ends_with(" …"),
        "{}",
        message.len()
    );
}
