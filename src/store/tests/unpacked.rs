//! What of an archive is kept, and as what.

use super::*;

#[test]
fn only_what_catalogs_and_bundles_need_is_kept() {
    let layer = || {
        Layer::new()
            .file("configs/a/b.yaml", "1")
            .file("configsx/no", "2")
            .file("usr/bin/opm", "3")
            .file("manifests/csv.yaml", "4")
            .file("metadata/annotations.yaml", "5")
            .file("top", "6")
    };
    let bundle = ["manifests/csv.yaml=4", "metadata/annotations.yaml=5"];
    unpacks(
        "/configs",
        vec![layer()],
        &["configs/a/b.yaml=1", bundle[0], bundle[1]],
    );
    unpacks(
        "configs/a/",
        vec![layer()],
        &["configs/a/b.yaml=1", bundle[0], bundle[1]],
    );
    unpacks("/top", vec![layer()], &[bundle[0], bundle[1], "top=6"]);
    for label in ["/", ""] {
        let all = [
            "configs/a/b.yaml=1",
            "configsx/no=2",
            bundle[0],
            bundle[1],
            "top=6",
            "usr/bin/opm=3",
        ];
        unpacks(label, vec![layer()], &all);
    }
}

#[test]
fn a_label_that_leads_out_is_refused() {
    let error = Fixture::new().add("../x", &[]).unwrap_err();
    assert_eq!(
        error,
        format!("label {CONFIGS_LABEL} of the image leads out of it: \"../x\"")
    );
}

#[test]
fn an_image_without_content_is_an_empty_catalog() {
    let fixture = Fixture::new();
    for layers in [vec![], vec![Layer::new().bytes()], vec![vec![]]] {
        let image = fixture.add("/configs/deep", &layers).unwrap();
        assert_eq!(files(&image), Vec::<String>::new());
        assert!(image.catalog_root().unwrap().is_dir());
        fixture.store.remove(&image.digest).unwrap();
    }
}

#[test]
fn layers_are_merged_with_their_whiteouts() {
    let base = || {
        Layer::new()
            .directory("configs/")
            .file("configs/keep", "1")
            .file("configs/gone", "2")
            .file("configs/changed", "3")
            .file("configs/d/a", "4")
            .file("configs/d/b", "5")
    };
    unpacks(
        "/configs",
        vec![
            base(),
            Layer::new()
                .file("configs/.wh.gone", "")
                .file("configs/changed", "new"),
        ],
        &[
            "configs/changed=new",
            "configs/d/a=4",
            "configs/d/b=5",
            "configs/keep=1",
        ],
    );
    // Opaque counts for lower layers only, wherever it stands in its own.
    unpacks(
        "/configs/d",
        vec![
            base(),
            Layer::new()
                .file("configs/d/new", "n")
                .file("configs/d/.wh..wh..opq", "")
                .file("configs/d/.wh..wh.plnk", ""),
        ],
        &["configs/d/new=n"],
    );
    for upper in ["configs", ".wh.configs", "configs/.wh.d"] {
        let top = match upper {
            "configs" => Layer::new().file("configs", "now a file"),
            whiteout => Layer::new().file(whiteout, ""),
        };
        let expected: &[&str] = if upper == "configs" {
            &["configs=now a file"]
        } else {
            &[]
        };
        let label = if upper == "configs" {
            "/configs"
        } else {
            "/configs/d"
        };
        unpacks(label, vec![base(), top], expected);
    }
}

#[test]
fn names_are_kept_inside_the_root() {
    let strange = || {
        Layer::new()
            .file("/configs/absolute", "1")
            .file("./configs/./dot", "2")
            .file("configs/../configs/up", "3")
            .file("../configs/out", "no")
            .file("configs/../../configs/out", "no")
            .file("configs/twice", "first")
            .file("configs/twice", "second")
            .file("configs/Case", "C")
            .file("configs/case", "c")
            .file("configs/v7dir/", "")
    };
    unpacks(
        "/configs",
        vec![strange()],
        &[
            "configs/Case=C",
            "configs/absolute=1",
            "configs/case=c",
            "configs/dot=2",
            "configs/twice=second",
            "configs/up=3",
        ],
    );
}

#[test]
fn links_are_replaced_by_what_they_lead_to_inside_the_image() {
    unpacks(
        "/configs",
        vec![
            Layer::new()
                .file("configs/real", "r")
                .link("configs/soft", "real")
                .hard("configs/hard", "configs/real"),
            Layer::new()
                .link("configs/absolute", "/data/x")
                .file("data/x", "x")
                .link("configs/chain", "absolute"),
            Layer::new()
                .file("data/y", "y")
                .hard("configs/far", "data/y"),
            Layer::new()
                .file("other/z", "z")
                .link("configs/z", "../other/z"),
        ],
        &[
            "configs/absolute=x",
            "configs/chain=x",
            "configs/far=y",
            "configs/hard=r",
            "configs/real=r",
            "configs/soft=r",
            "configs/z=z",
        ],
    );
    // The catalog's own directory may be a link.
    unpacks(
        "/configs",
        vec![
            Layer::new()
                .file("data/v1/a", "1")
                .link("configs", "/data/v1"),
        ],
        &["configs/a=1"],
    );
    // An entry below a link goes where the link leads.
    unpacks(
        "/configs",
        vec![
            Layer::new().directory("configs/").link("etc", "configs"),
            Layer::new().file("etc/a", "1"),
        ],
        &["configs/a=1"],
    );
}

#[test]
fn pax_records_override_names_and_sizes() {
    let fixture = Fixture::new();
    let bytes = Layer::new()
        .pax(&[("path", b"configs/long")])
        .file("short", "content")
        .bytes();
    assert_eq!(
        files(&fixture.add("/configs", &[bytes]).unwrap()),
        ["configs/long=content"]
    );
    let desynchronised = Layer::new()
        .pax(&[("size", b"99999999")])
        .file("configs/a", "x")
        .bytes();
    let error = fixture.add("/configs", &[desynchronised]).unwrap_err();
    assert!(error.starts_with("cannot read layer 1"), "{error}");
}
