//! What lies in the store: restarts, damage, garbage, disks that fail.

use super::*;

#[test]
fn what_is_published_survives_a_restart_and_damage_is_a_miss() {
    let fixture = Fixture::new();
    let layer = || {
        Layer::new()
            .file("configs/a", "1")
            .file("configs/b", "2")
            .bytes()
    };
    let image = fixture.add("/configs", &[layer()]).unwrap();
    let root = fixture.store.root().to_owned();
    let again = ContentStore::open(&root)
        .unwrap()
        .get(&image.digest)
        .unwrap()
        .unwrap();
    assert_eq!(
        (again.root.clone(), again.labels.clone(), again.unpacked_at),
        (image.root, image.labels, image.unpacked_at)
    );
    let damages: [fn(&Path); 5] = [
        |image| {
            fs::remove_file(image.join("rootfs/configs/a")).unwrap();
        },
        |image| fs::write(image.join("rootfs/configs/a"), "x").unwrap(),
        |image| fs::write(image.join("rootfs/configs/more"), "x").unwrap(),
        |image| fs::write(image.join("image.json"), "{").unwrap(),
        |image| {
            fs::remove_file(image.join("rootfs/configs/b")).unwrap();
            std::os::unix::fs::symlink("a", image.join("rootfs/configs/b")).unwrap();
        },
    ];
    for damage in damages {
        let path = fixture.store.image(&again.digest);
        for name in ["rootfs", "rootfs/configs"] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        for name in ["rootfs/configs/a", "image.json"] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        damage(&path);
        let store = ContentStore::open(&root).unwrap();
        assert!(store.get(&again.digest).unwrap().is_none());
        assert!(!path.exists());
        fixture.store.remove(&again.digest).unwrap();
        fixture.add("/configs", &[layer()]).unwrap();
    }
}

#[test]
fn what_was_not_finished_is_swept_at_start() {
    let fixture = Fixture::new();
    let left = fixture.store.staging().join("left");
    fs::create_dir_all(left.join("deep")).unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o500)).unwrap();
    fs::write(fixture.store.staging().join("file"), "").unwrap();
    ContentStore::open(fixture.store.root()).unwrap();
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[test]
fn who_shares_a_directory_has_a_place_of_its_own_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = ContentStore::share(directory.path()).unwrap();
    let work = first.staging().join("work");
    fs::create_dir(&work).unwrap();
    let second = ContentStore::share(directory.path()).unwrap();
    let third = ContentStore::share(directory.path()).unwrap();
    assert!(work.exists(), "another's unfinished work is swept");
    let roots = [&first, &second, &third].map(|store| store.root().to_owned());
    assert_eq!(
        roots,
        ["", "replica-1", "replica-2"].map(|name| directory.path().join(name))
    );
    fs::write(second.staging().join("file"), "12345").unwrap();
    assert_eq!(
        [first.used_bytes().unwrap(), second.used_bytes().unwrap()],
        [0, 5]
    );
    // Who comes after somebody finds what that one left; a clone holds the place, too.
    let kept = second.clone();
    drop(second);
    let fourth = ContentStore::share(directory.path()).unwrap();
    assert_eq!(fourth.root(), directory.path().join("replica-3"));
    drop(kept);
    let fifth = ContentStore::share(directory.path()).unwrap();
    assert_eq!(fifth.root(), directory.path().join("replica-1"));
}

#[test]
fn a_file_in_the_place_of_an_image_is_a_miss() {
    let fixture = Fixture::new();
    let digest = Digest::of(b"x");
    fs::write(fixture.store.image(&digest), "").unwrap();
    assert!(fixture.store.get(&digest).unwrap().is_none());
    assert!(!fixture.store.image(&digest).exists());
}

#[test]
fn garbage_is_what_nobody_keeps_or_holds() {
    let fixture = Fixture::new();
    let add = |content: &str| {
        fixture
            .add(
                "/configs",
                &[Layer::new().file("configs/a", content).bytes()],
            )
            .unwrap()
    };
    let (kept, held, dropped) = (add("1"), add("2"), add("3"));
    let keep = BTreeSet::from([kept.digest.clone()]);
    let gone = dropped.digest.clone();
    drop(dropped);
    fs::write(fixture.store.images().join("not-ours"), "").unwrap();
    assert_eq!(
        fixture
            .store
            .collect_garbage(&keep, Duration::ZERO)
            .unwrap(),
        [gone]
    );
    let second = held.clone();
    drop(held);
    assert_eq!(
        fixture
            .store
            .collect_garbage(&keep, Duration::ZERO)
            .unwrap(),
        []
    );
    assert_eq!(files(&second), ["configs/a=2"]);
    let digest = second.digest.clone();
    drop(second);
    assert_eq!(
        fixture
            .store
            .collect_garbage(&keep, Duration::ZERO)
            .unwrap(),
        [digest]
    );
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[test]
fn adding_twice_is_adding_once() {
    let fixture = Fixture::new();
    let layer = || vec![Layer::new().file("configs/a", "1").bytes()];
    let first = fixture.add("/configs", &layer()).unwrap();
    let second = fixture.add("/configs", &layer()).unwrap();
    assert_eq!(first.root, second.root);
    assert_eq!(fixture.traces(), Vec::<String>::new());
}

#[test]
fn disk_errors_name_the_place_and_never_a_random_name() {
    let fixture = Fixture::new();
    let staging = fixture.store.staging();
    fs::remove_dir(&staging).unwrap();
    fs::write(&staging, "").unwrap();
    let error = fixture.add("/configs", &[]).unwrap_err();
    assert!(
        error.starts_with(&format!(
            "cannot create a directory in {}",
            staging.display()
        )),
        "{error}"
    );
    let error = ContentStore::open(&staging).unwrap_err();
    assert!(matches!(error, StoreError::Disk { .. }), "{error}");
}
