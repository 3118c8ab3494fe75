#![expect(clippy::disallowed_methods, reason = "tests of a shell")]

use super::*;

fn content() -> Content {
    Content {
        kind: None,
        additions: Vec::new(),
        user: USER.to_owned(),
        labels: vec![("x".to_owned(), "y=z".to_owned())],
    }
}

fn put(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn labels(image: &BuiltImage) -> BTreeMap<String, String> {
    crate::oci::manifest::labels(&image.blobs[0].1).unwrap()
}

#[test]
fn a_directory_with_annotations_is_a_bundle() {
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "manifests/csv.yaml", "a: b");
    let made = |content: &Content| content.image(&[directory.path().to_owned()]);
    let error = |content: &Content| format!("{:#}", made(content).unwrap_err());
    let mut bundle = content();
    bundle.kind = Some(Kind::Bundle);
    assert!(error(&bundle).ends_with("has no directory metadata, so it is no bundle"));
    put(directory.path(), "metadata/properties.yaml", "");
    assert!(error(&bundle).ends_with("has no metadata/annotations.yaml"));
    put(directory.path(), ANNOTATIONS, "annotations: [");
    assert!(error(&bundle).starts_with("cannot read metadata/annotations.yaml"));
    let annotations =
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n  other: o\n";
    put(directory.path(), ANNOTATIONS, annotations);
    put(directory.path(), "tests/x.yaml", "");
    let found = labels(&content().image(&[directory.path().to_owned()]).unwrap());
    let keys: Vec<_> = found
        .iter()
        .map(|(k, v)| format!("{}={v}", k.trim_start_matches(BUNDLE_PREFIX)))
        .collect();
    let expected = [
        "bundle.manifests.v1=manifests/",
        "bundle.mediatype.v1=registry+v1",
        "bundle.metadata.v1=metadata/",
        "bundle.package.v1=p",
        "x=y=z",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn another_directory_is_a_catalog() {
    let directory = tempfile::tempdir().unwrap();
    let empty = content().image(&[directory.path().to_owned()]).unwrap_err();
    assert!(empty.to_string().ends_with("holds no files"));
    put(directory.path(), "p/catalog.yaml", "schema: olm.package");
    let found = labels(&content().image(&[directory.path().to_owned()]).unwrap());
    assert_eq!(found[CONFIGS_LABEL], "/configs");
    std::os::unix::fs::symlink("p", directory.path().join("link")).unwrap();
    let error = content().image(&[directory.path().to_owned()]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is neither a file nor a directory")
    );
}

#[test]
fn a_layout_is_written_as_directory_or_archive() {
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "in/a.yaml", "schema: x");
    for name in ["out", "out.tar"] {
        let build = Build {
            sources: vec![directory.path().join("in")],
            content: content(),
            output: directory.path().join(name),
        };
        assert_eq!(write(&build).unwrap(), Answer::Yes);
    }
    let index = fs::read(directory.path().join("out/index.json")).unwrap();
    let bytes = fs::read(directory.path().join("out.tar")).unwrap();
    assert!(bytes.windows(index.len()).any(|window| window == index));
    let again = Build {
        sources: vec![directory.path().join("in")],
        content: content(),
        output: directory.path().join("out"),
    };
    assert!(
        write(&again)
            .unwrap_err()
            .to_string()
            .ends_with("is not empty: name a new or an empty one")
    );
}

#[test]
fn labels_are_pairs() {
    assert_eq!(parse_label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
    assert!(parse_label("=b").is_err());
    assert!(parse_label("a").is_err());
}

#[test]
fn programs_of_several_platforms_make_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (folder, machine) in [("amd64", 62), ("arm64", 183)] {
        let path = directory.path().join(folder).join("app");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, elf::tests::program(machine, 1)).unwrap();
        paths.push(path);
    }
    put(directory.path(), "ca.crt", "ca");
    let content = Content {
        additions: vec![(directory.path().join("ca.crt"), "etc/ca.crt".to_owned())],
        ..content()
    };
    let built = content.image(&paths).unwrap();
    assert_eq!(built.images.len(), 2);
    assert_eq!(built, content.image(&paths).unwrap());
    let architecture = |image: &BuiltImage| {
        let config: serde_json::Value = serde_json::from_slice(&image.blobs[0].1).unwrap();
        (
            config["architecture"].clone(),
            config["config"]["User"].clone(),
        )
    };
    assert_eq!(
        architecture(&built.images[1]),
        ("arm64".into(), USER.into())
    );

    let error = |paths: &[PathBuf]| content.image(paths).unwrap_err().to_string();
    let twice = [paths[0].clone(), paths[0].clone()];
    assert!(error(&twice).ends_with("is a second program for amd64"));
    fs::write(&paths[0], elf::tests::program(62, 3)).unwrap();
    assert!(error(&paths).ends_with("link it statically"));
    put(directory.path(), "text", "text");
    let text = [directory.path().join("text")];
    assert!(error(&text).ends_with("is neither a directory nor a Linux program"));
}

#[test]
fn a_layout_is_read_back_whole() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("app");
    fs::write(&program, elf::tests::program(62, 1)).unwrap();
    let built = content().image(std::slice::from_ref(&program)).unwrap();
    for name in ["out", "out.tar"] {
        let output = directory.path().join(name);
        let build = Build {
            sources: vec![program.clone()],
            content: content(),
            output: output.clone(),
        };
        write(&build).unwrap();
        assert_eq!(source::image_on_disk(&output).unwrap(), Some(built.clone()));
    }
    assert_eq!(source::image_on_disk(&program).unwrap(), None);
    let blob = built.images[0].blobs[1].0.digest.hex().to_owned();
    fs::write(directory.path().join("out/blobs/sha256").join(blob), "x").unwrap();
    let error = source::image_on_disk(&directory.path().join("out")).unwrap_err();
    assert!(error.to_string().ends_with("of the layout is damaged"));
}

#[test]
fn a_further_file_stays_below_the_root() {
    let (file, path) = parse_addition("a=/b/c").unwrap();
    assert_eq!((file, path.as_str()), ("a".into(), "b/c"));
    for text in ["a", "=b", "a=", "a=b/", "a=../b", "a=b/../../c"] {
        assert!(parse_addition(text).is_err(), "{text}");
    }
}
