//! The shared certificate over years, and between replicas, against the fake API server.

use super::*;
use crate::testing::api_server::ApiServer;

const SECRETS: &str = "/api/v1/namespaces/olmv1-system/secrets";
const SECRET: &str = "/api/v1/namespaces/olmv1-system/secrets/tls";

fn start() -> Timestamp {
    "2026-11-22T06:00:00Z".parse().unwrap()
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(count * 24)
}

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.add(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olmv1-system"}}),
    );
    server
}

fn replica(server: &ApiServer, hosts: &[&str]) -> Release {
    Release {
        client: server.client(),
        namespace: "olmv1-system".to_owned(),
        name: "tls".to_owned(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
    }
}

/// Looks, and does what is due: what is served afterwards.
async fn kept(replica: &Release, now: Timestamp) -> Pair {
    let found = replica.look(now).await.unwrap();
    match found.due {
        Some(due) => replica
            .write(due)
            .await
            .unwrap()
            .expect("nobody else writes"),
        None => found.pair.unwrap(),
    }
}

fn held(server: &ApiServer) -> Held {
    Held::of(&server.object(SECRET).unwrap())
}

fn accepts(bundle: &[u8], pair: &Pair, host: &str, now: Timestamp) -> bool {
    let trusted = authorities(bundle, now);
    usable(
        &pair.certificate,
        &pair.key,
        &trusted,
        &[host.to_owned()],
        now,
    )
    .is_some()
}

#[tokio::test]
async fn all_replicas_serve_what_the_first_one_made() {
    let server = server();
    let (one, other) = (replica(&server, &["a"]), replica(&server, &["a"]));
    // Both find nothing.
    let (first, second) = (
        one.look(start()).await.unwrap(),
        other.look(start()).await.unwrap(),
    );
    assert_eq!(
        (first.pair.is_some(), second.pair.is_some()),
        (false, false)
    );
    let pair = one.write(first.due.unwrap()).await.unwrap().unwrap();
    assert_eq!(other.write(second.due.unwrap()).await.unwrap(), None);
    assert_eq!(kept(&other, start()).await, pair);
    assert!(accepts(&held(&server).bundle, &pair, "a", start()));
    let secret = server.object(SECRET).unwrap();
    assert_eq!(secret["type"], TYPE);
    // A restart changes nothing.
    _ = server.requests();
    assert_eq!(kept(&replica(&server, &["a"]), start()).await, pair);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_renewal_keeps_the_ca_and_happens_once() {
    let server = server();
    let (one, other) = (replica(&server, &["a"]), replica(&server, &["a"]));
    let first = kept(&one, start()).await;
    let pinned = held(&server).bundle;
    let due = start() + days(244);
    assert_eq!(kept(&one, start() + days(243)).await, first);
    let (mine, theirs) = (one.look(due).await.unwrap(), other.look(due).await.unwrap());
    assert_eq!(mine.pair, Some(first.clone()), "it serves until then");
    let second = one.write(mine.due.unwrap()).await.unwrap().unwrap();
    assert_eq!(other.write(theirs.due.unwrap()).await.unwrap(), None);
    assert_eq!(kept(&other, due).await, second);
    assert_ne!(second, first);
    assert!(accepts(&pinned, &second, "a", due));
}

/// Looks every week for twenty years: what is served is always accepted by a client that reads `ca.crt` every four weeks.
#[tokio::test]
async fn who_reads_the_cas_every_four_weeks_never_misses_one() {
    let server = server();
    let replica = replica(&server, &["a"]);
    let (mut pinned, mut served) = (Vec::new(), Vec::new());
    for day in (0..20 * 365).step_by(7) {
        let now = start() + days(day);
        let pair = kept(&replica, now).await;
        if day % 28 == 0 {
            pinned = held(&server).bundle;
        }
        assert!(accepts(&pinned, &pair, "a", now), "day {day}");
        if served.last() != Some(&pair) {
            served.push(pair);
        }
    }
    assert!((25..40).contains(&served.len()), "{}", served.len());
    assert!(authorities(&pinned, start()).len() <= AUTHORITIES);
}

#[tokio::test]
async fn what_is_broken_is_made_anew() {
    for key in [CERTIFICATE, KEY, BUNDLE, AUTHORITY_KEY] {
        let server = server();
        let replica = replica(&server, &["a"]);
        let first = kept(&replica, start()).await;
        let pinned = held(&server).bundle;
        server.edit(SECRET, &json!({"data": {key: "bm90aGluZw=="}}));
        let now = start() + days(1);
        let pair = kept(&replica, now).await;
        assert!(accepts(&held(&server).bundle, &pair, "a", now), "{key}");
        assert_eq!(kept(&replica, now).await, pair, "{key}");
        match key {
            // The CA is there, and signs again.
            CERTIFICATE | KEY => assert!(accepts(&pinned, &pair, "a", now), "{key}"),
            // It serves on as long as it lasts, under a CA that cannot sign any more.
            AUTHORITY_KEY => assert_eq!(pair, first),
            _ => assert_ne!(pair, first),
        }
    }
}

#[tokio::test]
async fn replicas_of_different_addresses_do_not_renew_in_turns() {
    let server = server();
    let (old, new) = (
        replica(&server, &["old"]),
        replica(&server, &["new", "10.0.0.1", "fd00::1"]),
    );
    kept(&old, start()).await;
    let pair = kept(&new, start()).await;
    assert_eq!(kept(&old, start()).await, pair);
    assert_eq!(kept(&new, start()).await, pair);
    let bundle = held(&server).bundle;
    for host in ["old", "new", "10.0.0.1", "fd00::1"] {
        assert!(accepts(&bundle, &pair, host, start()), "{host}");
    }
    // With the next renewal, those of before are gone.
    let later = start() + days(300);
    let pair = kept(&new, later).await;
    assert!(accepts(&bundle, &pair, "new", later));
    assert!(!accepts(&bundle, &pair, "old", later));
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_left_alone() {
    let server = server();
    server.add(
        &json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "tls", "namespace": "olmv1-system"}, "data": {}}),
    );
    assert!(replica(&server, &["a"]).remove().await.is_err());
    assert!(server.object(SECRET).is_some());
    let error = replica(&server, &["a"]).look(start()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Secret olmv1-system/tls is of type \"kubernetes.io/tls\", not oxolm.dev/serving-certificate: remove it, or name \
         another with --tls-secret"
    );
}

#[tokio::test]
async fn it_goes_with_oxolm() {
    let server = server();
    let replica = replica(&server, &["a"]);
    assert!(!replica.remove().await.unwrap());
    kept(&replica, start()).await;
    assert!(replica.remove().await.unwrap());
    assert_eq!(server.object(SECRET), None);
}

#[tokio::test]
async fn refusals_are_told() {
    let server = server();
    let replica = replica(&server, &["a"]);
    server.fail_next(&format!("GET {SECRET}"), 403);
    let error = replica.look(start()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read Secret olmv1-system/tls with the serving certificate"
    );
    let due = replica.look(start()).await.unwrap().due.unwrap();
    server.fail_next(&format!("POST {SECRETS}"), 403);
    let error = replica.write(due).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write or remove Secret olmv1-system/tls with the serving certificate"
    );
}
