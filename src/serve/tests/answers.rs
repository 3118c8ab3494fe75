//! What is asked for, and what is answered.

use super::*;

#[tokio::test]
async fn all_sends_everything_with_its_validators() {
    let server = run().await;
    let got = server.get(ALL).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.text(), everything());
    assert_eq!(got.header(header::CONTENT_TYPE), "application/jsonl");
    assert_eq!(
        got.header(header::CONTENT_LENGTH),
        everything().len().to_string()
    );
    assert_eq!(got.header(header::ACCEPT_RANGES), "bytes");
    assert_eq!(got.header(header::VARY), "Accept-Encoding");
    let catalog = server.served.get("c").unwrap();
    assert_eq!(got.header(header::ETAG), format!("\"{}\"", catalog.etag()));
    let modified = httpdate::parse_http_date(got.header(header::LAST_MODIFIED)).unwrap();
    assert_eq!(
        jiff::Timestamp::try_from(modified).unwrap(),
        catalog.unpacked_at()
    );
    let empty = server.get("/catalogs/empty/api/v1/all").await;
    assert_eq!((empty.status.as_u16(), empty.text().as_str()), (200, ""));
}

#[tokio::test]
async fn head_sends_the_headers_alone() {
    let server = run().await;
    for path in [ALL, METAS] {
        let got = server
            .ask(Method::HEAD, path, &[(header::ACCEPT_ENCODING, "gzip")])
            .await;
        assert_eq!((got.status.as_u16(), got.body.len()), (200, 0));
        assert_eq!(
            got.header(header::CONTENT_LENGTH),
            everything().len().to_string()
        );
        assert_eq!(got.header(header::CONTENT_ENCODING), "");
    }
}

#[tokio::test]
async fn metas_sends_what_fits_every_parameter() {
    let server = run().await;
    let bundle = bundle();
    for (query, expected) in [
        ("", everything()),
        ("?", everything()),
        ("?schema=", everything()),
        ("?schema=olm.package", PACKAGE.to_owned()),
        ("?schema=olm.package&name=p", PACKAGE.to_owned()),
        (
            "?schema=olm.channel&package=p&name=stable",
            CHANNEL.to_owned(),
        ),
        ("?package=p", format!("{CHANNEL}{bundle}")),
        ("?package=p&name=p.v1", bundle.clone()),
        ("?name=n&name=p", NOTE.to_owned()),
        ("?schema=custom&package=", NOTE.to_owned()),
        ("?schema=nothing", String::new()),
        ("?package=P", String::new()),
        ("?schema=olm%2Epackage", PACKAGE.to_owned()),
    ] {
        let got = server.get(&format!("{METAS}{query}")).await;
        assert_eq!(got.status, 200, "{query}");
        assert_eq!(got.header(header::CONTENT_TYPE), "application/jsonl");
        assert_eq!(got.text(), expected, "{query}");
    }
}

#[tokio::test]
async fn wrong_requests_are_answered_as_the_reference_does() {
    let server = run().await;
    let not_found = "404 page not found\n";
    for (method, path, status, body) in [
        (Method::GET, "/", 404, not_found),
        (Method::GET, "/catalogs/", 404, not_found),
        (Method::GET, "/catalogs/c/", 404, not_found),
        (Method::GET, "/catalogs/c/api/", 404, not_found),
        (Method::GET, "/catalogs/c/api/v1c", 404, not_found),
        (Method::GET, "/catalogs/c/api/v1/all/", 404, not_found),
        (Method::GET, "/catalogs/c/file.txt", 404, not_found),
        (Method::GET, "/catalogs/c.jsonl", 404, not_found),
        (Method::POST, "/catalogs/c/api/v1/graphql", 404, not_found),
        (
            Method::GET,
            "/catalogs/x/api/v1/all",
            404,
            "404 Not Found\n",
        ),
        (
            Method::GET,
            "/catalogs/x/api/v1/metas",
            404,
            "404 Not Found\n",
        ),
        (
            Method::GET,
            "/catalogs/x/api/v1/metas?foo=1",
            400,
            "400 Bad Request\n",
        ),
        (
            Method::GET,
            "/catalogs/c/api/v1/metas?Schema=x",
            400,
            "400 Bad Request\n",
        ),
        (Method::POST, ALL, 405, "Method Not Allowed\n"),
        (Method::PUT, METAS, 405, "Method Not Allowed\n"),
        (
            Method::DELETE,
            "/catalogs/X/api/v1/all",
            405,
            "Method Not Allowed\n",
        ),
    ] {
        let got = server.ask(method, path, &[]).await;
        assert_eq!(
            (got.status.as_u16(), got.text().as_str()),
            (status, body),
            "{path}"
        );
        assert_eq!(
            got.header(header::CONTENT_TYPE),
            "text/plain; charset=utf-8"
        );
        assert_eq!(got.header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
        assert_eq!(got.header(header::VARY), "Accept-Encoding");
        assert_eq!(got.header(header::ALLOW), "");
    }
    for name in ["C", "-c", "c_d", "c%2Fd", "a..b", "%ff"] {
        let got = server.get(&format!("/catalogs/{name}/api/v1/all")).await;
        assert_eq!(got.status, 400, "{name}");
        assert!(got.text().contains("RFC 1123 subdomain"), "{name}");
    }
    assert_eq!(server.get("/catalogs/%63/api/v1/all").await.status, 200);
}

#[tokio::test]
async fn an_unclean_path_is_sent_to_the_clean_one() {
    let server = run().await;
    let got = server.get("/catalogs//c/api/v1/metas?name=p").await;
    assert_eq!(got.status, 301);
    assert_eq!(
        got.header(header::LOCATION),
        "/catalogs/c/api/v1/metas?name=p"
    );
}

#[tokio::test]
async fn what_is_no_longer_served_is_not_found() {
    let server = run().await;
    assert_eq!(server.served.names(), ["c", "empty"]);
    server.served.remove("c");
    server.served.remove("c");
    assert_eq!(server.get(ALL).await.status, 404);
}
