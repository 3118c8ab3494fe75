//! Requests that fail by chance, and a clock that is not ours: everything ends as it does without.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::*;

/// Passes within which every step ends.
const PASSES: usize = 400;
/// So many sequences of failures are tried.
const SEEDS: u64 = 10;

/// The steps of an extension's life.
#[derive(Debug, Clone, Copy)]
enum Step {
    Install,
    Upgrade,
    GoBack,
    Uninstall,
}

const STEPS: [Step; 4] = [Step::Install, Step::Upgrade, Step::GoBack, Step::Uninstall];

/// A version with a map that only it has.
fn version(version: &str) -> Desired {
    let mut manifests = operator();
    manifests[1] = config(version);
    manifests.push(namespaced("v1", "ConfigMap", &format!("only-{version}")));
    desired(version, &manifests)
}

impl Cluster {
    /// What a pass of the extension, and one of each of its revisions that has a reason, do. Whether there is nothing
    /// left to do.
    async fn advance(&self, step: Step, woken: &mut BTreeMap<String, (Next, Vec<Value>)>) -> bool {
        let before = self.seen_by("");
        let existing = self.revisions();
        let operations = self.ctx.revisions();
        let is_asked = match step {
            Step::Install | Step::GoBack | Step::Upgrade => {
                let wanted = version(match step {
                    Step::Upgrade => "2.0.0",
                    Step::Install | Step::GoBack | Step::Uninstall => "1.0.0",
                });
                let ensured = operations.ensure(&existing, &wanted, &|_| false).await;
                matches!(ensured, Ok(Ensured::Unchanged { .. }))
            }
            Step::Uninstall => {
                matches!(
                    operations.uninstall(&existing, None).await,
                    Ok(Uninstall::Done)
                )
            }
        };
        if self.server.object(DEPLOYMENT).is_some() {
            self.make_available(DEPLOYMENT);
        }
        let mut is_quiet = true;
        for revision in self.revisions() {
            self.catch_up().await;
            is_quiet &= self.wake(&revision.name, woken).await;
        }
        is_asked && is_quiet && self.is_over(step) && self.seen_by("") == before
    }

    /// A pass over a revision, if it asked for one or if anything is otherwise than when its last one ended. Whether it
    /// wants no other.
    async fn wake(&self, name: &str, woken: &mut BTreeMap<String, (Next, Vec<Value>)>) -> bool {
        let Some(set) = self.set(name) else {
            return true;
        };
        if let Some((Next::OnChange, seen)) = woken.get(name)
            && *seen == self.seen_by(name)
        {
            return true;
        }
        let next = reconcile(self.ctx.clone(), Arc::new(set)).await;
        let is_quiet = next == Next::OnChange;
        if let Next::After(time) = next {
            // Who failed often is left alone for a while.
            tokio::time::sleep(time).await;
        }
        woken.insert(name.to_owned(), (next, self.seen_by(name)));
        is_quiet
    }

    /// Everything but Events and the status of a revision itself, which wakes nobody.
    fn seen_by(&self, name: &str) -> Vec<Value> {
        let paths = self.server.paths("/").into_iter();
        paths
            .filter(|path| !path.contains("/events/"))
            .filter_map(|path| {
                let mut object = self.server.object(&path)?;
                if object["kind"] == "ClusterObjectSet" && object["metadata"]["name"] == name {
                    let own = json!({"status": null, "metadata": {"resourceVersion": null}});
                    json_patch::merge(&mut object, &own);
                }
                Some(object)
            })
            .collect()
    }

    /// Whether the revisions say that a step is over.
    fn is_over(&self, step: Step) -> bool {
        let revisions = self.revisions();
        match step {
            Step::Uninstall => revisions.is_empty(),
            Step::Install | Step::Upgrade | Step::GoBack => {
                let active = revisions.iter().filter(|revision| revision.is_active());
                active
                    .map(|revision| revision.is_succeeded)
                    .collect::<Vec<_>>()
                    == [true]
            }
        }
    }

    /// Waits until the caches are what the server has.
    async fn catch_up(&self) {
        let stored = || {
            let sets = self.server.paths("/clusterobjectsets/").into_iter();
            sets.filter_map(|path| {
                let object = self.server.object(&path)?;
                Some(object["metadata"]["resourceVersion"].as_str()?.to_owned())
            })
            .collect::<Vec<String>>()
        };
        loop {
            let sets = self.ctx.sets.all();
            let mut cached: Vec<_> = sets
                .iter()
                .filter_map(|set| set.resource_version())
                .collect();
            let mut stored = stored();
            cached.sort();
            stored.sort();
            if cached == stored {
                break;
            }
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Does what the garbage collector does: what only had owners that are gone goes.
    fn collect_garbage(&self) {
        let objects = || {
            let paths = self.server.paths("/").into_iter();
            paths.filter_map(|path| self.server.object(&path))
        };
        let mut living: Vec<Value> = objects()
            .map(|object| object["metadata"]["uid"].clone())
            .collect();
        living.push(json!(extension().uid));
        for object in objects() {
            let owners = object["metadata"]["ownerReferences"].as_array();
            if owners.is_some_and(|owners| owners.iter().all(|one| !living.contains(&one["uid"]))) {
                self.server.remove(&object);
            }
        }
    }

    /// All objects of the extension, without what differs each time.
    fn state(&self) -> Vec<String> {
        let paths = self.server.paths("/").into_iter();
        let objects: Vec<Value> = paths
            .filter(|path| !path.contains("/events/"))
            .filter_map(|path| self.server.object(&path))
            .collect();
        let mut uids: Vec<(String, String)> = objects
            .iter()
            .map(|object| {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
                (text("uid"), format!("{}/{}", object["kind"], text("name")))
            })
            .collect();
        // Some begin as others are.
        uids.sort_by_key(|(uid, _)| Reverse(uid.len()));
        objects
            .into_iter()
            .map(|mut object| {
                forget_times(&mut object);
                let own =
                    json!({"metadata": {"uid": null, "resourceVersion": null, "generation": null}});
                json_patch::merge(&mut object, &own);
                let is_own = object["kind"] == "ClusterObjectSet"
                    || object["type"] == keys::OBJECT_DATA_SECRET_TYPE;
                if is_own {
                    // Who is interrupted before the record is wiped leaves it.
                    object["metadata"]["managedFields"] = Value::Null;
                }
                let text = object.to_string();
                uids.iter()
                    .fold(text, |text, (uid, name)| text.replace(uid, name))
            })
            .collect()
    }
}

/// Takes away every time, every count of writes, and the order in which conditions came.
fn forget_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for differs in [
                "time",
                "creationTimestamp",
                "lastTransitionTime",
                "observedGeneration",
            ] {
                fields.remove(differs);
            }
            fields.values_mut().for_each(forget_times);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(forget_times);
            items.sort_by_key(|item| item["type"].as_str().map(str::to_owned));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What is there after each step, and how many passes that took in all.
async fn life(cluster: &Cluster, disturb: impl Fn(&ApiServer, u64)) -> (Vec<Vec<String>>, usize) {
    let (mut states, mut passes, mut woken) = (Vec::new(), 0, BTreeMap::new());
    for (at, step) in (0..).zip(STEPS) {
        disturb(&cluster.server, at);
        let mut is_over = false;
        for _ in 0..PASSES {
            is_over = cluster.advance(step, &mut woken).await;
            passes += 1;
            if is_over {
                break;
            }
        }
        cluster.server.fail_no_more();
        let told: Vec<_> = cluster
            .revisions()
            .into_iter()
            .map(|r| (r.name, r.conditions))
            .collect();
        assert!(is_over, "{step:?} never ends: {told:#?}");
        cluster.catch_up().await;
        cluster.collect_garbage();
        states.push(cluster.state());
    }
    (states, passes)
}

#[tokio::test(start_paused = true)]
async fn with_one_request_in_ten_failing_everything_ends_the_same() {
    let (wanted, few) = life(&Cluster::new().await, |_, _| {}).await;
    let left = wanted.last().unwrap();
    assert_eq!(left.len(), 4, "three namespaces and an account: {left:#?}");
    let mut many = 0;
    for seed in 0..SEEDS {
        let cluster = Cluster::new().await;
        let disturb = |server: &ApiServer, step: u64| server.fail_often(seed * 4 + step, 10);
        let (states, passes) = life(&cluster, disturb).await;
        assert_eq!(states, wanted, "seed {seed}");
        many += passes;
    }
    assert!(
        many > few * usize::try_from(SEEDS).unwrap(),
        "nothing failed"
    );
}

#[tokio::test]
async fn a_clock_that_is_not_ours_changes_nothing() {
    let (wanted, _) = life(&Cluster::new().await, |_, _| {}).await;
    for hours in [-24, 24] {
        let cluster = Cluster::new().await;
        let disturb = |server: &ApiServer, _| server.set_clock(hours * 3600);
        assert_eq!(
            life(&cluster, disturb).await.0,
            wanted,
            "{hours} hours ahead"
        );
    }
}

#[tokio::test]
async fn what_is_installed_again_at_once_does_not_lose_its_content() {
    let cluster = Cluster::new().await;
    let desired = desired("1.0.0", &operator());
    cluster.install("e-1", &desired).await;
    cluster.uninstall().await;
    cluster.passes("e-1").await;
    assert!(cluster.set("e-1").is_none());
    // The garbage collector comes for the old content when the new revision has the same.
    cluster.ensure(&desired).await;
    cluster.collect_garbage();
    cluster.install("e-1", &desired).await;
}
