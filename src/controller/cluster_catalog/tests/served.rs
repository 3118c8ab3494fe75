//! What is served, on which replica, and until when.

use super::*;

#[tokio::test]
async fn a_catalog_is_served_and_its_status_says_so() {
    let fixture = fixture().await;
    let canonical = fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    assert_eq!(fixture.pass().await, Next::OnChange);
    let object = fixture.object();
    assert_eq!(
        object["metadata"]["labels"],
        json!({"olm.operatorframework.io/metadata.name": "operators"})
    );
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["olm.operatorframework.io/delete-server-cache"])
    );
    let status = &object["status"];
    assert_eq!(
        fixture.condition("Progressing"),
        ["True", "Succeeded", UNPACKED]
    );
    assert!(fixture.is_served());
    assert_eq!(status["resolvedSource"]["image"]["ref"], json!(canonical));
    assert_eq!(
        status["urls"]["base"],
        "https://catalogs.example/catalogs/operators"
    );
    assert!(status["lastUnpacked"].is_string());
    assert_eq!(fixture.packages(), ["first"]);
    // The files of the image are not kept beside the published catalog.
    let images = fixture.directory.path().join("images");
    assert_eq!(fs::read_dir(images).unwrap().count(), 0);
}

#[tokio::test]
async fn set_unavailable_it_is_gone_and_it_comes_back() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    fixture
        .api
        .edit(PATH, &json!({"spec": {"availabilityMode": "Unavailable"}}));
    assert_eq!(fixture.pass().await, Next::OnChange);
    let text = "Catalog availability mode is set to Unavailable";
    assert_eq!(
        fixture.condition("Progressing"),
        ["True", "Succeeded", text]
    );
    assert_eq!(
        fixture.condition("Serving"),
        ["False", "UserSpecifiedUnavailable", text]
    );
    let object = fixture.object();
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert!(object["status"][field].is_null(), "{field}");
    }
    assert_eq!(
        object["metadata"]["finalizers"]
            .as_array()
            .map_or(0, Vec::len),
        0
    );
    assert_eq!(fixture.packages(), Vec::<String>::new());
    fixture
        .api
        .edit(PATH, &json!({"spec": {"availabilityMode": "Available"}}));
    fixture.pass().await;
    assert!(fixture.is_served());
    assert_eq!(fixture.packages(), ["first"]);
}

#[tokio::test]
async fn a_deleted_catalog_is_served_no_more_and_foreign_finalizers_are_left_alone() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.api.edit(
        PATH,
        &json!({"metadata": {"finalizers": ["example.com/foreign"]}}),
    );
    fixture.pass().await;
    let api: Api<ClusterCatalog> = Api::all(fixture.api.client());
    api.delete("operators", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(fixture.pass().await, Next::OnChange);
    assert_eq!(fixture.packages(), Vec::<String>::new());
    assert_eq!(
        fixture.object()["metadata"]["finalizers"],
        json!(["example.com/foreign"])
    );
    // C12: what is left is not ours.
    fixture.writes();
    assert_eq!(fixture.pass().await, Next::OnChange);
    assert_eq!(fixture.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_follower_serves_what_the_leader_says_and_writes_nothing() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.pass().await;
    let other = tempfile::tempdir().unwrap();
    let follower = context(&fixture.api, other.path());
    follower.leading.store(false, Ordering::Release);
    fixture.writes();
    // As if the leader had unpacked it long ago.
    let mut status = fixture.object()["status"].clone();
    status["lastUnpacked"] = json!("2020-02-02T02:02:02Z");
    fixture.api.set_status(PATH, &status);
    assert_eq!(fixture.pass_of(&follower).await, Next::OnChange);
    let served = follower.served.get("operators").unwrap();
    assert_eq!(
        served.unpacked_at().to_string(),
        "2020-02-02T02:02:02Z",
        "replicas tell the same time"
    );
    assert_eq!(fixture.writes(), Vec::<String>::new());
    fixture.api.set_status(PATH, &json!({}));
    fixture.pass_of(&follower).await;
    assert!(follower.served.get("operators").is_none());
}

#[tokio::test]
async fn a_restart_needs_no_registry() {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1"), "pollIntervalMinutes": 10}));
    fixture.pass().await;
    fixture.registry.forget_requests();
    let again = context(&fixture.api, fixture.directory.path());
    let catalog = serde_json::from_value(fixture.object()).unwrap();
    assert!(restore(&catalog, &again).await);
    fixture.writes();
    fixture.pass_of(&again).await;
    assert!(again.served.get("operators").is_some());
    assert_eq!(fixture.registry.requests(), Vec::<String>::new());
    assert_eq!(fixture.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn garbage_goes_and_what_is_served_or_wanted_stays() {
    let fixture = fixture().await;
    let names = ["v1", "v2", "v3"];
    let digests: Vec<Digest> = names
        .iter()
        .map(|tag| {
            let canonical = fixture.push(tag, tag);
            CanonicalReference::parse(&canonical).unwrap().digest
        })
        .collect();
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    for tag in names {
        let image = json!({"spec": {"source": {"image": {"ref": fixture.tag(tag)}}}});
        fixture.api.edit(PATH, &image);
        fixture.pass().await;
    }
    let (served, wanted) = (fixture.ctx.served.clone(), digests[1].clone());
    let garbage = Garbage::new(
        fixture.ctx.fetcher.store().clone(),
        fixture.ctx.store.clone(),
        move || Needed {
            catalogs: served
                .digests()
                .into_iter()
                .chain([wanted.clone()])
                .collect(),
            ..Needed::default()
        },
    );
    let there = || -> Vec<bool> {
        let catalogs = fixture.directory.path().join("catalogs");
        let is_there = |digest: &Digest| catalogs.join(digest.hex()).exists();
        digests.iter().map(is_there).collect()
    };
    garbage.collect(Grace::Usual).await;
    assert_eq!(there(), [true, true, true]);
    garbage.collect(Grace::None).await;
    assert_eq!(there(), [false, true, true]);
    assert_eq!(fixture.packages(), ["v3"]);
}
