//! One leader at a time, over a fake API server, in a time that passes only while all wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::testing::api_server::{ApiServer, Wire};

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/system/leases/9c4404e7.operatorframework.io";

fn spec(holder: &str, seconds: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        ..LeaseSpec::default()
    }
}

#[test]
fn a_lease_is_free_when_nobodys_ours_or_unchanged_for_its_duration() {
    let second = Duration::from_secs(1);
    assert!(is_free(&spec("", 15), "oxolm_a", Duration::ZERO));
    assert!(is_free(&spec("oxolm_a", 15), "oxolm_a", Duration::ZERO));
    assert!(!is_free(&spec("oxolm_b", 15), "oxolm_a", second * 14));
    assert!(is_free(&spec("oxolm_b", 15), "oxolm_a", second * 15));
    assert!(!is_free(
        &spec("controller_x", 137),
        "oxolm_a",
        second * 136
    ));
}

#[test]
fn only_a_change_of_holder_or_renewal_restarts_our_clock() {
    let mut seen = Seen::default();
    let start = Instant::now();
    let mut lease = spec("oxolm_b", 15);
    assert_eq!(seen.unchanged_for(&lease, start), Duration::ZERO);
    let later = start + Duration::from_secs(9);
    assert_eq!(seen.unchanged_for(&lease, later), Duration::from_secs(9));
    lease.renew_time = Some(MicroTime(Timestamp::from_second(7).unwrap()));
    assert_eq!(seen.unchanged_for(&lease, later), Duration::ZERO);
}

fn seat(server: &ApiServer, wire: &Wire, name: &str) -> Seat {
    Seat::new(server.client_over(wire), "system", name, Fence::default())
}

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}));
    server
}

/// Waits until `seat` leads, and notes that it does for as long as it does.
async fn lead(seat: &Seat, leading: &AtomicUsize) {
    let stop = CancellationToken::new();
    let term = seat.acquire(&stop).await.unwrap();
    assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
    assert!(matches!(seat.keep(term, &stop).await, Kept::Lost(_)));
    leading.fetch_sub(1, Ordering::SeqCst);
}

/// Until `seat` leads.
async fn led(seat: &Seat) -> Term {
    let stop = CancellationToken::new();
    seat.acquire(&stop).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_ends_before_another_begins() {
    let (server, cut_off, whole) = (server(), Wire::default(), Wire::default());
    let (first, second) = (seat(&server, &cut_off, "a"), seat(&server, &whole, "b"));
    let leading = AtomicUsize::new(0);
    let follower = async {
        while leading.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // One renewal fails at once, the next is never answered.
        server.fail_next(&format!("PUT {LEASE}"), 503);
        tokio::time::sleep(RENEW_PERIOD * 3 / 2).await;
        cut_off.cut();
        led(&second).await;
        assert_eq!(leading.load(Ordering::SeqCst), 0, "two lead");
    };
    tokio::join!(lead(&first, &leading), follower);
}

#[tokio::test(start_paused = true)]
async fn who_learns_too_late_that_it_may_lead_does_not() {
    let (server, cut_off, whole) = (server(), Wire::default(), Wire::default());
    let (first, second) = (seat(&server, &cut_off, "a"), seat(&server, &whole, "b"));
    let leading = AtomicUsize::new(0);
    // It makes the lease, and is not told.
    cut_off.cut_by(http::Method::POST);
    let follower = async {
        tokio::time::sleep(RETRY_PERIOD).await;
        let term = led(&second).await;
        cut_off.mend();
        // Whoever leads now renews; the other one sees it.
        let stop = CancellationToken::new();
        let kept = second.keep(term, &stop);
        let until = tokio::time::sleep(LEASE_DURATION);
        tokio::select! { kept = kept => panic!("{kept:?}"), () = until => {} }
    };
    tokio::select! {
        () = lead(&first, &leading) => panic!("it led"),
        () = follower => {}
    }
    assert_eq!(leading.load(Ordering::SeqCst), 0);
}

/// Keeps the lease for `periods` renewals and a half.
async fn renewed(seat: &Seat, term: Term, periods: u32) -> Option<Kept> {
    let stop = CancellationToken::new();
    let period = RENEW_PERIOD;
    let time = period * periods + period / 2;
    let kept = tokio::time::timeout(time, seat.keep(term, &stop));
    kept.await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_one_request_and_who_waits_asks_nothing() {
    let (server, wire) = (server(), Wire::default());
    let (first, second) = (seat(&server, &wire, "a"), seat(&server, &wire, "b"));
    let term = led(&first).await;
    tokio::select! {
        _ = led(&second) => panic!("two lead"),
        kept = async {
            tokio::time::sleep(RENEW_PERIOD / 2).await;
            server.requests();
            renewed(&first, term, 3).await
        } => assert_eq!(kept, None),
    }
    let renewal = format!("controller PUT {LEASE}");
    assert_eq!(server.requests(), vec![renewal; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_wrote_on_is_read_and_still_ours() {
    let (server, wire) = (server(), Wire::default());
    let first = seat(&server, &wire, "a");
    let term = led(&first).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    server.edit(LEASE, &label);
    server.requests();
    assert_eq!(renewed(&first, term, 2).await, None);
    let lines = ["PUT", "GET", "PUT", "PUT"].map(|verb| format!("controller {verb} {LEASE}"));
    assert_eq!(server.requests(), lines);
    let lease = server.object(LEASE).unwrap();
    assert_eq!(lease["metadata"]["labels"]["a"], "b");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_took_or_removed() {
    let (server, wire) = (server(), Wire::default());
    let first = seat(&server, &wire, "a");
    let term = led(&first).await;
    let lease = server.object(LEASE).unwrap();
    server.remove(&lease);
    assert_eq!(renewed(&first, term, 2).await, None);
    let holder = &server.object(LEASE).unwrap()["spec"]["holderIdentity"];
    assert_eq!(holder, &first.identity);

    let term = led(&first).await;
    let taken = json!({"spec": {"holderIdentity": "oxolm_b"}});
    server.edit(LEASE, &taken);
    let lost = Kept::Lost("was taken by oxolm_b".to_owned());
    assert_eq!(renewed(&first, term, 2).await, Some(lost));
}

#[tokio::test(start_paused = true)]
async fn where_the_lease_cannot_be_watched_it_is_looked_at() {
    let (server, wire) = (server(), Wire::default());
    server.forbid_controller("LIST /apis/coordination.k8s.io");
    server.forbid_controller("WATCH /apis/coordination.k8s.io");
    let (first, second) = (seat(&server, &wire, "a"), seat(&server, &wire, "b"));
    led(&first).await;
    let began = Instant::now();
    let release = async {
        tokio::time::sleep(RETRY_PERIOD / 2).await;
        first.release().await;
    };
    tokio::join!(led(&second), release);
    assert!(began.elapsed() <= RETRY_PERIOD * 2);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let (server, wire) = (server(), Wire::default());
    let (first, second) = (seat(&server, &wire, "a"), seat(&server, &wire, "b"));
    led(&first).await;
    let pause = RETRY_PERIOD / 2;
    let began = Instant::now();
    let release = async {
        tokio::time::sleep(pause).await;
        first.release().await;
    };
    tokio::join!(led(&second), release);
    assert!(began.elapsed() < pause * 2);
}
