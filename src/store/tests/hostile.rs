//! Archives that are broken, or made to harm.

use super::*;

#[test]
fn hostile_archives_are_refused_and_leave_nothing() {
    let outside = "/etc/passwd";
    for (layer, expected) in [
        (
            Layer::new().link("configs/a", "../../etc/passwd"),
            "link \"configs/a\" leads out of the image",
        ),
        (
            Layer::new().link("configs/a", outside),
            "link \"configs/a\" leads to nothing in the image",
        ),
        (
            Layer::new().hard("configs/a", outside),
            "link \"configs/a\" leads to nothing in the image",
        ),
        (
            Layer::new().hard("configs/a", "../x"),
            "link \"configs/a\" leads out of the image",
        ),
        (
            Layer::new().hard("configs/a", "configs/a"),
            "link \"configs/a\" leads to nothing in the image",
        ),
        (
            Layer::new()
                .directory("configs/d/")
                .hard("configs/a", "configs/d"),
            "link \"configs/a\" leads to a directory",
        ),
        (
            Layer::new().file("configs/d/x", "").link("configs/a", "d"),
            "link \"configs/a\" leads to a directory",
        ),
        (
            Layer::new().link("configs/a", "a"),
            "link \"configs/a\" leads through too many links",
        ),
        (
            Layer::new()
                .link("configs/d", "../..")
                .file("configs/d/x", "no"),
            "layer 1: entry \"configs/d/x\" leads out of the image",
        ),
        (
            Layer::new().file("configs/f", "").file("configs/f/x", "no"),
            "layer 1: entry \"configs/f/x\" lies below a file",
        ),
        (
            Layer::new().file("configs/.wh...", ""),
            "layer 1: entry \"configs/.wh...\" leads out of the image",
        ),
        (
            Layer::new().raw("configs/null", EntryType::Char, "", b""),
            "layer 1: refusing entry \"configs/null\": it is a device",
        ),
        (
            Layer::new().raw("configs/pipe", EntryType::Fifo, "", b""),
            "layer 1: refusing entry \"configs/pipe\": it is a named pipe",
        ),
        (
            Layer::new().raw("configs/odd", EntryType::new(b'Y'), "", b""),
            "layer 1: refusing entry \"configs/odd\": it is a file of an unknown kind",
        ),
        (
            Layer::new()
                .pax(&[("GNU.sparse.major", b"1")])
                .file("configs/sparse", "x"),
            "layer 1: refusing entry \"configs/sparse\": it is a sparse file",
        ),
        (
            Layer::new().pax(&[("path", b"configs/\xff")]).file("x", ""),
            "layer 1: entry \"configs/\u{fffd}\" is not a valid path",
        ),
        (
            Layer::new()
                .pax(&[("path", format!("configs/{}", "a".repeat(300)).as_bytes())])
                .file("x", ""),
            &format!("layer 1: entry \"configs/{}\" is too long", "a".repeat(300)),
        ),
    ] {
        refuses(layer.bytes(), expected);
    }
    // What nobody wants may be as strange as it likes.
    unpacks(
        "/configs",
        vec![
            Layer::new()
                .raw("dev/null", EntryType::Char, "", b"")
                .link("etc/out", "../../../..")
                .file("etc/out/x", "no")
                .file("etc/f", "")
                .file("etc/f/x", "no")
                .pax(&[("path", b"etc/\xff")])
                .file("x", ""),
        ],
        &[],
    );
}

#[test]
fn broken_archives_are_errors() {
    let whole = Layer::new().file("configs/a", &"x".repeat(2000)).bytes();
    let mut flipped = whole.clone();
    flipped[150] ^= 7;
    for (bytes, expected) in [
        (whole[..700].to_vec(), "cannot read layer 1"),
        (whole[..300].to_vec(), "cannot read layer 1"),
        (
            flipped,
            "cannot read layer 1: archive header checksum mismatch",
        ),
        (vec![0x1f, 0x8b, 8, 0], "cannot read layer 1"),
        (
            b"BZh9....".to_vec(),
            "layer 1 is compressed with bzip2, which is not supported: use gzip, zstd or none",
        ),
    ] {
        let fixture = Fixture::new();
        let error = fixture.add("/configs", &[bytes]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(fixture.traces(), Vec::<String>::new());
    }
}

#[test]
fn each_limit_is_kept() {
    let many = |count: u32| {
        (0..count)
            .fold(Layer::new(), |layer, n| layer.file(&format!("usr/{n}"), ""))
            .bytes()
    };
    let zeros = Layer::new()
        .file("configs/zeros", &"0".repeat(1 << 20))
        .bytes();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&zeros).unwrap();
    let bomb = encoder.finish().unwrap();
    let mut long_name = Header::new_gnu();
    long_name.set_entry_type(EntryType::GNULongName);
    long_name.set_size(3 << 20);
    long_name.set_cksum();
    let long_name = [
        long_name.as_bytes().to_vec(),
        vec![b'a'; 3 << 20],
        zeros.clone(),
    ]
    .concat();
    let limits = Limits::default;
    for (limits, bytes, expected) in [
        (
            Limits {
                entries: 100,
                ..limits()
            },
            many(101),
            "100 entries",
        ),
        (
            Limits {
                kept_bytes: 1000,
                ..limits()
            },
            zeros.clone(),
            "1000 bytes of files",
        ),
        (
            Limits {
                uncompressed_bytes: 1000,
                ..limits()
            },
            zeros,
            "1000 uncompressed bytes",
        ),
        (
            Limits {
                expansion_ratio: 10,
                expansion_grace_bytes: 1000,
                ..limits()
            },
            bomb,
            "10 uncompressed bytes per compressed byte",
        ),
        (limits(), long_name, "2097152 bytes of headers of one entry"),
    ] {
        let mut fixture = Fixture::new();
        fixture.limits = limits;
        let error = fixture.add("/configs", &[bytes]).unwrap_err();
        assert_eq!(error, format!("layer 1 exceeds the limit of {expected}"));
        assert_eq!(fixture.traces(), Vec::<String>::new());
    }
}

#[test]
fn a_sparse_file_cannot_grow_without_bound() {
    let mut header = Header::new_gnu();
    header.set_path("configs/sparse").unwrap();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 50);
    gnu.sparse[0]
        .offset
        .copy_from_slice(b"\x80\0\0\0\0\x04\0\0\0\0\0\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    header.set_cksum();
    let mut fixture = Fixture::new();
    fixture.limits.kept_bytes = 1 << 20;
    let bytes = [header.as_bytes().to_vec(), vec![0; 1024]].concat();
    let error = fixture
        .add("/configs", std::slice::from_ref(&bytes))
        .unwrap_err();
    assert!(
        error.contains("bytes of files") || error.starts_with("cannot read layer 1"),
        "{error}"
    );
    assert_eq!(
        files(&fixture.add("/other", &[bytes]).unwrap()),
        Vec::<String>::new()
    );
}

#[test]
fn link_problems_are_told_apart() {
    let texts = [LinkProblem::Dangling, LinkProblem::Directory].map(|problem| problem.to_string());
    assert_eq!(
        texts,
        ["leads to nothing in the image", "leads to a directory"]
    );
}

#[test]
fn the_ratio_counts_all_layers_together() {
    let mut fixture = Fixture::new();
    fixture.limits.expansion_ratio = 10;
    fixture.limits.expansion_grace_bytes = 1000;
    let large = Layer::new().file("configs/a", &"x".repeat(100_000)).bytes();
    let small = Layer::new().file("configs/b", "y").bytes();
    let image = fixture.add("/configs", &[large, small]).unwrap();
    assert_eq!(files(&image).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn mutated_archives_never_panic_and_never_leave_the_root(
        changes in proptest::collection::vec((0_usize..6000, any::<u8>()), 1..6), cut in 0_usize..6000
    ) {
        let mut bytes = Layer::new()
            .directory("configs/")
            .file("configs/a", "content")
            .link("configs/l", "a")
            .hard("configs/h", "configs/a")
            .pax(&[("path", b"configs/p")])
            .file("x", "")
            .file("configs/.wh.q", "")
            .bytes();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
            // With a sum that fits, so that the change is looked at.
            let header = at / 512 * 512;
            let mut block = Header::new_ustar();
            block.as_mut_bytes().copy_from_slice(&bytes[header..header + 512]);
            if block.as_ustar().is_some() {
                block.set_cksum();
                bytes[header..header + 512].copy_from_slice(block.as_bytes());
            }
        }
        bytes.truncate(bytes.len().min(cut));
        let fixture = Fixture::new();
        if let Ok(image) = fixture.add("/configs", &[bytes]) {
            files(&image);
        }
        prop_assert_eq!(fixture.traces(), Vec::<String>::new());
    }
}
