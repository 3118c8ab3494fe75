//! Preconditions, ranges and compression.

use super::*;

#[tokio::test]
async fn who_has_it_already_is_told_so() {
    let server = run().await;
    for path in [ALL, "/catalogs/c/api/v1/metas?package=p"] {
        let first = server.get(path).await;
        let (etag, modified) = (
            first.header(header::ETAG),
            first.header(header::LAST_MODIFIED),
        );
        for (name, value, status) in [
            (header::IF_NONE_MATCH, etag, 304),
            (header::IF_MODIFIED_SINCE, modified, 304),
            (header::IF_MODIFIED_SINCE, "yesterday", 200),
            (header::IF_NONE_MATCH, "\"other\"", 200),
            (header::IF_MATCH, "\"other\"", 412),
            (header::IF_MATCH, etag, 200),
            (
                header::IF_UNMODIFIED_SINCE,
                "Sun, 06 Nov 1994 08:49:37 GMT",
                412,
            ),
        ] {
            let got = server.get_with(path, name.clone(), value).await;
            assert_eq!(got.status.as_u16(), status, "{path} {name}: {value}");
            assert_eq!(got.body.is_empty(), status != 200, "{path} {name}: {value}");
            assert_eq!(got.header(header::ETAG), etag);
        }
    }
}

#[tokio::test]
async fn ranges_are_sent() {
    let server = run().await;
    let whole = everything();
    let got = server.get_with(ALL, header::RANGE, "bytes=5-9").await;
    assert_eq!(
        (got.status.as_u16(), got.text()),
        (206, part(&whole, 5..10))
    );
    assert_eq!(
        got.header(header::CONTENT_RANGE),
        format!("bytes 5-9/{}", whole.len())
    );
    // A range over the gap between two blobs that are not neighbours in the file.
    let got = server
        .get_with(
            "/catalogs/c/api/v1/metas?package=p",
            header::RANGE,
            "bytes=50-69",
        )
        .await;
    let found = format!("{CHANNEL}{}", bundle());
    assert_eq!(
        (got.status.as_u16(), got.text()),
        (206, part(&found, 50..70))
    );
    let got = server.get_with(ALL, header::RANGE, "bytes=99999-").await;
    assert_eq!(got.status, 416);
    assert_eq!(
        got.header(header::CONTENT_RANGE),
        format!("bytes */{}", whole.len())
    );
    let got = server
        .ask(
            Method::GET,
            ALL,
            &[
                (header::RANGE, "bytes=0-4"),
                (header::IF_RANGE, "\"other\""),
            ],
        )
        .await;
    assert_eq!((got.status.as_u16(), got.text()), (200, whole.clone()));
    let got = server
        .ask(
            Method::GET,
            ALL,
            &[
                (header::RANGE, "bytes=0-4"),
                (header::ACCEPT_ENCODING, "gzip"),
            ],
        )
        .await;
    assert_eq!((got.status.as_u16(), got.text()), (206, part(&whole, 0..5)));
}

#[tokio::test]
async fn several_ranges_are_sent_as_parts() {
    let server = run().await;
    let whole = everything();
    let got = server.get_with(ALL, header::RANGE, "bytes=0-1,7-9").await;
    assert_eq!(got.status, 206);
    let kind = got.header(header::CONTENT_TYPE);
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let size = whole.len();
    assert_eq!(
        got.text(),
        format!(
            "--{boundary}\r\nContent-Range: bytes 0-1/{size}\r\nContent-Type: application/jsonl\r\n\r\n{}\r\n\
             --{boundary}\r\nContent-Range: bytes 7-9/{size}\r\nContent-Type: application/jsonl\r\n\r\n{}\r\n\
             --{boundary}--\r\n",
            part(&whole, 0..2),
            part(&whole, 7..10)
        )
    );
    assert_eq!(
        got.header(header::CONTENT_LENGTH),
        got.body.len().to_string()
    );
}

/// Asks for everything that is large enough, with an `Accept-Encoding`, and expects this encoding.
async fn check_encoding(
    server: &Running,
    accepted: &str,
    expected: &str,
    decoded: impl Fn(&Got) -> String,
) {
    for (path, text) in [
        (ALL, everything()),
        (METAS, everything()),
        ("/catalogs/c/api/v1/metas?schema=olm.bundle", bundle()),
    ] {
        let got = server
            .get_with(path, header::ACCEPT_ENCODING, accepted)
            .await;
        assert_eq!(got.header(header::CONTENT_ENCODING), expected, "{path}");
        assert_eq!(got.header(header::ACCEPT_RANGES), "");
        assert_eq!(got.header(header::VARY), "Accept-Encoding");
        assert_eq!(decoded(&got), text, "{path}");
        let etag = got.header(header::ETAG).to_owned();
        assert!(etag.ends_with(&format!("-{expected}\"")));
        let again = server.get_with(path, header::IF_NONE_MATCH, &etag).await;
        assert_eq!(again.status, 304);
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_whoever_takes_it() {
    let server = run().await;
    check_encoding(&server, "br, gzip", "gzip", Got::unzipped).await;
    let small = "/catalogs/c/api/v1/metas?schema=custom";
    let got = server
        .get_with(small, header::ACCEPT_ENCODING, "gzip")
        .await;
    assert_eq!(
        (got.header(header::CONTENT_ENCODING), got.text()),
        ("", NOTE.to_owned())
    );
}

#[tokio::test]
async fn zstd_comes_from_the_disk_or_is_made_on_the_way() {
    let server = run().await;
    check_encoding(&server, "gzip, zstd", "zstd", |got| {
        let mut text = String::new();
        let mut body = got.body.as_slice();
        while !body.is_empty() {
            let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut body).unwrap();
            frame.read_to_string(&mut text).unwrap();
        }
        text
    })
    .await;
}
