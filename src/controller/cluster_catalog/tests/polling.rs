//! When a registry is asked again, and when a pass does nothing.

use super::*;

#[tokio::test]
async fn a_pass_without_news_writes_nothing_and_asks_nobody() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 5}));
    let Next::After(wait) = fixture.pass().await else {
        panic!("no poll is planned");
    };
    let (most, least) = (
        Duration::from_mins(5).mul_f64(1.02),
        Duration::from_secs(297),
    );
    assert!(wait <= most && wait >= least, "{wait:?}");
    fixture.writes();
    fixture.registry.forget_requests();
    // C19: neither labels nor annotations are a reason to pull.
    fixture
        .api
        .edit(PATH, &json!({"metadata": {"annotations": {"a": "b"}}}));
    fixture.pass().await;
    assert_eq!(fixture.writes(), Vec::<String>::new());
    assert_eq!(fixture.registry.requests(), Vec::<String>::new());
    // C15: what is left of the interval is waited for.
    fixture.age_poll(Duration::from_mins(2));
    let Next::After(rest) = fixture.pass().await else {
        panic!("no poll is planned");
    };
    assert!(
        rest <= Duration::from_secs(184) && rest >= Duration::from_secs(177),
        "{rest:?}"
    );
}

#[tokio::test]
async fn a_poll_of_the_same_digest_costs_one_request_and_no_write() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 1}));
    fixture.pass().await;
    let before = fixture.object();
    fixture.writes();
    fixture.registry.forget_requests();
    fixture.age_poll(Duration::from_secs(61));
    fixture.pass().await;
    assert_eq!(fixture.registry.requests(), ["GET c/manifests/v1"]);
    assert_eq!(fixture.writes(), Vec::<String>::new());
    assert_eq!(fixture.object(), before);
}

#[tokio::test]
async fn a_tag_that_was_pushed_again_is_taken_at_the_next_poll() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 1}));
    fixture.pass().await;
    let second = fixture.push("v1", "second");
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["first"]);
    fixture.age_poll(Duration::from_secs(61));
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["second"]);
    let resolved = &fixture.object()["status"]["resolvedSource"]["image"]["ref"];
    assert_eq!(resolved, &json!(second));
}

#[tokio::test]
async fn another_reference_is_taken_at_once_and_a_failure_keeps_the_old_content() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let served = fixture.object()["status"].clone();
    fixture.api.edit(
        PATH,
        &json!({"spec": {"source": {"image": {"ref": fixture.tag("v2")}}}}),
    );
    assert_eq!(fixture.pass().await, Next::Retry);
    assert_eq!(
        fixture.condition("Progressing"),
        [
            "True",
            "Retrying",
            "source catalog content: error creating image source: cannot read manifest of REGISTRY/c:v2: \
             http://REGISTRY/c (no credentials): status 404 Not Found: manifest unknown"
        ]
    );
    assert!(fixture.is_served());
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert_eq!(fixture.object()["status"][field], served[field], "{field}");
    }
    // C18: the next attempt does not wait for a poll.
    fixture.push("v2", "second");
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["second"]);
    assert_eq!(fixture.condition("Progressing")[1], "Succeeded");
}

#[tokio::test]
async fn our_own_status_is_no_reason_for_another_attempt() {
    let fixture = fixture().await;
    fixture.create(&json!({"ref": fixture.tag("missing")}));
    let read =
        || -> Arc<ClusterCatalog> { Arc::new(serde_json::from_value(fixture.object()).unwrap()) };
    fixture.pass().await;
    let change = |old: &Arc<ClusterCatalog>| Change::Applied {
        old: Some(old.clone()),
        new: read(),
    };
    let before = read();
    assert!(is_echo(&change(&before), &fixture.ctx));
    fixture
        .api
        .edit(PATH, &json!({"metadata": {"annotations": {"a": "b"}}}));
    assert!(!is_echo(&change(&before), &fixture.ctx));
    let before = read();
    // Somebody else's status is to be corrected.
    fixture.api.set_status(PATH, &json!({"conditions": []}));
    assert!(!is_echo(&change(&before), &fixture.ctx));
    fixture.ctx.leading.store(false, Ordering::Release);
    assert!(!is_echo(&change(&read()), &fixture.ctx));
}
