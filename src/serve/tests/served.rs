//! The server as a whole: many clients, its end, its address, its TLS.

use super::*;

#[tokio::test]
async fn many_ask_at_once() {
    let server = run().await;
    let asked = (0..100).map(|number| {
        let path = match number % 3 {
            0 => ALL,
            1 => METAS,
            _ => "/catalogs/c/api/v1/metas?schema=olm.package",
        };
        server.get(path)
    });
    for got in futures::future::join_all(asked).await {
        assert_eq!(got.status, 200);
    }
}

#[tokio::test]
async fn the_server_ends_when_it_is_told_to() {
    let server = run().await;
    assert_eq!(server.get(ALL).await.status, 200);
    server.stop.cancel();
    server.task.await.unwrap();
    let url = format!("https://{}{ALL}", server.address);
    assert!(server.client.get(url).send().await.is_err());
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error() {
    let server = run().await;
    let error = Server::bind(
        on(server.address, Profile::default()),
        router(Served::default(), Metrics::default()),
    )
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {}", server.address)
    );
}

#[tokio::test]
async fn requests_are_counted_by_their_code_when_they_are_over() {
    let server = run().await;
    server.get(ALL).await;
    server.get(METAS).await;
    server.get("/catalogs/none/api/v1/all").await;
    let mut text = String::new();
    for _ in 0..500 {
        text.clear();
        prometheus_client::encoding::text::encode(&mut text, &server.registry).unwrap();
        if text.contains("_count{code=\"200\"} 2\n") {
            break;
        }
        // The last byte is sent before its request is counted.
        tokio::task::yield_now().await;
    }
    for line in [
        "catalogd_http_request_duration_seconds_count{code=\"200\"} 2",
        "catalogd_http_request_duration_seconds_count{code=\"404\"} 1",
        "catalogd_http_request_duration_seconds_bucket{le=\"0.1\",code=\"404\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A client that speaks at most this version.
fn client_of(version: reqwest::tls::Version) -> Client {
    Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .tls_version_max(version)
        .build()
        .unwrap()
}

#[tokio::test]
async fn profiles_decide_which_tls_is_spoken() {
    use reqwest::tls::Version;
    _ = rustls::crypto::ring::default_provider().install_default();
    for (profile, version, is_answered) in [
        (Profile::Intermediate, Version::TLS_1_2, true),
        (Profile::Intermediate, Version::TLS_1_3, true),
        (Profile::Modern, Version::TLS_1_3, true),
        (Profile::Modern, Version::TLS_1_2, false),
    ] {
        let options = on("127.0.0.1:0".parse().unwrap(), profile);
        let stop = CancellationToken::new();
        let router = router(Served::default(), Metrics::default());
        let (address, _task) = start(options, router, stop.clone()).await.unwrap();
        let asked = client_of(version).get(format!("https://{address}/")).send();
        assert_eq!(asked.await.is_ok(), is_answered, "{profile:?} {version:?}");
        stop.cancel();
    }
}

#[test]
fn other_profiles_are_refused_with_the_list_of_what_there_is() {
    assert_eq!("Modern".parse(), Ok(Profile::Modern));
    assert_eq!("INTERMEDIATE".parse(), Ok(Profile::Intermediate));
    let error = "old".parse::<Profile>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown TLS profile \"old\": there are modern (TLS 1.3) and intermediate (TLS 1.2 and 1.3)"
    );
}
