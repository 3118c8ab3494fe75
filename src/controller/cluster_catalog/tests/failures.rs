//! What goes wrong with images, disks and registries.

use super::*;

#[tokio::test]
async fn what_time_cannot_heal_is_blocked() {
    let unlabelled = |fixture: &Fixture| {
        let digest = fixture
            .registry
            .put_image("c", "bare", &[], &[layer(&[("configs/a", "")])]);
        format!("{}/c@{digest}", fixture.registry.authority)
    };
    let broken = |fixture: &Fixture| {
        let files = layer(&[("configs/a.yaml", "[secret")]);
        let digest = fixture
            .registry
            .put_image("c", "broken", &[LABEL], &[files]);
        format!("{}/c@{digest}", fixture.registry.authority)
    };
    for (name, reference, expected) in [
        (
            "not canonical",
            Box::new(|_: &Fixture| "alpine:3".to_owned()) as Box<dyn Fn(&Fixture) -> String>,
            ["False", "Blocked", "source catalog content: "],
        ),
        (
            "no label, by digest",
            Box::new(unlabelled),
            [
                "False",
                "Blocked",
                "source catalog content: error applying image: catalog image is missing the required label \
                 \"operators.operatorframework.io.index.configs.v1\"",
            ],
        ),
        (
            "no label, by tag",
            Box::new(move |fixture: &Fixture| {
                unlabelled(fixture);
                fixture.tag("bare")
            }),
            [
                "True",
                "Retrying",
                "source catalog content: error applying image: ",
            ],
        ),
        (
            "invalid content, by digest",
            Box::new(broken),
            [
                "False",
                "Blocked",
                "error storing fbc: error walking FBC root: a.yaml: line 1, column ",
            ],
        ),
        (
            "invalid content, by tag",
            Box::new(move |fixture: &Fixture| {
                broken(fixture);
                fixture.tag("broken")
            }),
            [
                "True",
                "Retrying",
                "error storing fbc: error walking FBC root: a.yaml: line 1, column ",
            ],
        ),
    ] {
        let fixture = fixture().await;
        fixture.create(&json!({"ref": reference(&fixture)}));
        let next = fixture.pass().await;
        let [status, reason, message] = fixture.condition("Progressing");
        assert_eq!([status.as_str(), reason.as_str()], expected[..2], "{name}");
        assert!(message.starts_with(expected[2]), "{name}: {message}");
        assert!(!message.contains("secret"), "{name}: {message}");
        assert_eq!(next == Next::Blocked(None), reason == "Blocked", "{name}");
        assert_eq!(fixture.condition("Serving")[1], "", "{name}");
        assert!(fixture.object()["status"]["urls"].is_null(), "{name}");
    }
}

#[tokio::test]
async fn without_room_the_old_content_stays_and_the_condition_says_why() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let content = fixture.ctx.fetcher.store();
    content.set_budget(4096);
    let large = "# ".repeat(4096);
    let files = [("configs/large.yaml", large.as_str())];
    fixture
        .registry
        .put_image("c", "large", &[LABEL], &[layer(&files)]);
    fixture.api.edit(
        PATH,
        &json!({"spec": {"source": {"image": {"ref": fixture.tag("large")}}}}),
    );
    assert_eq!(fixture.pass().await, Next::Retry);
    assert_eq!(
        fixture.condition("Progressing"),
        [
            "True",
            "Retrying",
            "source catalog content: error applying image: the content does not fit into the cache: \
             --cache-max-bytes allows 4096 bytes in all, and what is in use leaves too few of them"
        ]
    );
    assert!(fixture.is_served());
    assert_eq!(fixture.packages(), ["first"]);
    // Whoever collects garbage hears of it.
    tokio::time::timeout(Duration::from_secs(5), content.shortage())
        .await
        .unwrap();
    content.set_budget(1 << 20);
    fixture.pass().await;
    assert_eq!(fixture.condition("Progressing")[1], "Succeeded");
}

#[tokio::test]
async fn a_disk_that_takes_nothing_keeps_the_old_content_served() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let staging = fixture.directory.path().join("tmp");
    fs::remove_dir(&staging).unwrap();
    fixture.push("v2", "second");
    fixture.api.edit(
        PATH,
        &json!({"spec": {"source": {"image": {"ref": fixture.tag("v2")}}}}),
    );
    for _ in 0..2 {
        assert_eq!(fixture.pass().await, Next::Retry);
        let [status, reason, message] = fixture.condition("Progressing");
        assert_eq!([status.as_str(), reason.as_str()], ["True", "Retrying"]);
        assert_eq!(
            message,
            format!(
                "source catalog content: error applying image: cannot create a directory in {}: No such file or \
                 directory (os error 2)",
                staging.display()
            )
        );
        assert!(fixture.is_served());
        assert_eq!(fixture.packages(), ["first"]);
    }
    fs::create_dir(&staging).unwrap();
    fixture.pass().await;
    assert_eq!(fixture.packages(), ["second"]);
}

#[tokio::test]
async fn an_answer_that_never_comes_delays_no_other_catalog() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.registry.fail("manifests/hangs", Fault::Silence);
    fixture.create(&json!({"ref": fixture.tag("hangs")}));
    let hanging = fixture.pass();
    fixture.api.add(&json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": "other"},
        "spec": {"source": {"type": "Image", "image": {"ref": fixture.tag("v1")}}, "availabilityMode": "Available"},
    }));
    let path = PATH.replace("operators", "other");
    let other = serde_json::from_value(fixture.api.object(&path).unwrap()).unwrap();
    tokio::select! {
        next = reconcile(Arc::new(other), fixture.ctx.clone()) => assert_eq!(next, Next::OnChange),
        next = hanging => panic!("{next:?}"),
    }
    assert!(fixture.ctx.served.get("other").is_some());
}
