//! Registries that take their time.

use super::*;

/// A catalog of a registry that says nothing.
async fn silent() -> Fixture {
    let fixture = fixture().await;
    fixture.push("v1", "first");
    fixture.create(&json!({"ref": fixture.tag("v1")}));
    fixture.registry.fail("manifests", Fault::Silence);
    fixture
}

impl Fixture {
    fn read(&self) -> Arc<ClusterCatalog> {
        Arc::new(serde_json::from_value(self.object()).unwrap())
    }

    async fn is_asked(&self) {
        while self.registry.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_pass_ends_when_it_is_for_nothing_any_more() {
    let elsewhere = |fixture: &Fixture| {
        let source = json!({"image": {"ref": fixture.tag("v2")}});
        json!({"spec": {"source": source}})
    };
    let unavailable = |_: &Fixture| json!({"spec": {"availabilityMode": "Unavailable"}});
    let deleted = |_: &Fixture| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let edits: [&dyn Fn(&Fixture) -> Value; 3] = [&elsewhere, &unavailable, &deleted];
    for edit in edits {
        let fixture = silent().await;
        let change = async {
            fixture.is_asked().await;
            let old = fixture.read();
            fixture.api.edit(PATH, &edit(&fixture));
            let new = fixture.read();
            let change = Change::Applied {
                old: Some(old),
                new,
            };
            end_what_changed(&change, &fixture.ctx);
        };
        let (next, ()) = tokio::join!(fixture.pass(), change);
        assert_eq!(next, Next::OnChange);
    }
}

#[tokio::test]
async fn another_change_lets_a_pass_go_on() {
    let fixture = silent().await;
    let change = async {
        fixture.is_asked().await;
        let old = fixture.read();
        fixture.api.edit(PATH, &json!({"spec": {"priority": 7}}));
        let new = fixture.read();
        let change = Change::Applied {
            old: Some(old),
            new,
        };
        end_what_changed(&change, &fixture.ctx);
        tokio::task::yield_now().await;
    };
    tokio::select! {
        biased;
        next = fixture.pass() => panic!("{next:?}"),
        () = change => {}
    }
}

#[tokio::test]
async fn a_long_pass_says_what_it_is_busy_with() {
    let fixture = silent().await;
    let told = async {
        fixture.is_asked().await;
        tokio::time::pause();
        tokio::time::advance(PATIENCE).await;
        while fixture.condition("Reconciling")[0].is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        next = fixture.pass() => panic!("{next:?}"),
        () = told => {}
    }
    let message = format!("fetching {}", fixture.tag("v1"));
    let message = message.replace(&fixture.registry.authority, "REGISTRY");
    let expected = ["True", "Reconciling", &message].map(str::to_owned);
    assert_eq!(fixture.condition("Reconciling"), expected);
    assert_eq!(fixture.condition("Progressing")[0], "");
    tokio::time::resume();
    // Whatever becomes of it takes the place of that.
    assert!(matches!(fixture.pass().await, Next::OnChange));
    assert_eq!(fixture.condition("Reconciling")[0], "");
    assert!(fixture.is_served());
}
