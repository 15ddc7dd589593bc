//! A disk that is full, and later has room again.

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use olm_test::prelude::*;

use super::apart::{self, Apart};
use super::registry::unreachable_registry_stops_nothing_that_runs_and_is_found_again;
use super::schema::installed_extension_that_cannot_be_read_any_more_loses_nothing;
use super::{good, serving, waits_for_bundle};

/// A small file system in memory; it is unmounted on drop.
struct Disk {
    folder: PathBuf,
    /// Set to end what uses up inodes.
    room: Arc<AtomicBool>,
    filling: Mutex<Option<JoinHandle<()>>>,
}

impl Disk {
    fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m,nr_inodes=256", "olm-test"])
            .arg(at)
            .status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "cannot mount a tmpfs at {}; this test needs the right to mount (root, CAP_SYS_ADMIN)",
            at.display()
        );
        Self { folder: at.to_owned(), room: Arc::default(), filling: Mutex::default() }
    }

    /// Uses up all free bytes.
    fn fill(&self) {
        let mut file = fs::File::create(self.folder.join("filler")).expect("a file");
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    /// Uses up all free inodes, so that not even a folder can be made, and those that become free
    /// later: a file that was removed keeps its own for as long as somebody has it open.
    fn fill_inodes(&self) {
        let folder = self.folder.join("fillers");
        fs::create_dir(&folder).expect("a folder");
        let room = Arc::clone(&self.room);
        room.store(false, Ordering::Relaxed);
        let (full, is_full) = mpsc::channel();
        let filling = std::thread::spawn(move || {
            let mut made = 0;
            while !room.load(Ordering::Relaxed) {
                if fs::File::create(folder.join(made.to_string())).is_ok() {
                    made += 1;
                } else {
                    // Nobody waits for it a second time.
                    let _ = full.send(());
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        *self.filling.lock().expect("nobody panics") = Some(filling);
        is_full.recv().expect("it fills up");
    }

    fn make_room(&self) {
        self.room.store(true, Ordering::Relaxed);
        if let Some(filling) = self.filling.lock().expect("nobody panics").take() {
            filling.join().expect("it ends");
        }
        let _ = fs::remove_file(self.folder.join("filler"));
        let _ = fs::remove_dir_all(self.folder.join("fillers"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.room.store(true, Ordering::Relaxed);
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

/// One after the other, with one controller: each breaks its control plane and mends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_a_lost_registry_and_an_unreadable_extension_stop_nothing_that_runs() {
    let apart = apart::apart("broken").await;
    let disk = Disk::mount(&apart.state.join("catalogs"));
    let controller = apart.start().await;
    full_catalog_disk_keeps_what_is_served_and_takes_the_rest_when_it_has_room(&apart, &disk).await;
    unreachable_registry_stops_nothing_that_runs_and_is_found_again(&apart).await;
    installed_extension_that_cannot_be_read_any_more_loses_nothing(&apart, &controller).await;
    apart.is_well();
}

// catalogs.md A13, 2.5
async fn full_catalog_disk_keeps_what_is_served_and_takes_the_rest_when_it_has_room(
    apart: &Apart,
    disk: &Disk,
) {
    let image = good(&apart.cluster, "full").await;
    let served = Catalog::create(apart.cluster.plane, "bad-full-served", &image);
    let before = served.served().await;

    let full = "error storing fbc: error writing catalog content: No space left on device (os \
        error 28)";
    for (name, fill) in [("bad-full", Disk::fill as fn(&Disk)), ("bad-inodes", Disk::fill_inodes)] {
        fill(disk);
        let waits = Catalog::create(apart.cluster.plane, name, &image);
        let found = waits.says("True", "Retrying", full).await;
        assert_eq!(serving(&found), "Unavailable");
        apart.is_calm(&[("clustercatalogs", name)], Duration::from_secs(5)).await;
        assert_eq!(served.served().await["status"], before["status"]);
        disk.make_room();
        waits.served().await;
    }
    let left = fs::read_dir(disk.folder.join("tmp")).expect("the folder is there");
    assert_eq!(left.count(), 0, "what could not be stored is left");
}

// api.md row 23
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn full_bundle_disk_holds_an_install_until_it_has_room() {
    let apart = apart::apart("full-bundles").await;
    let disk = Disk::mount(&apart.state.join("bundles"));
    let _controller = apart.start().await;
    for (name, fill) in [("fullbytes", Disk::fill as fn(&Disk)), ("fullinodes", Disk::fill_inodes)]
    {
        fill(&disk);
        let scene = Scene::of(apart.cluster.clone(), name, &["1.0.0"]).await;
        let extension = scene.install(json!({})).await;
        let fault = "error storing image: No space left on device (os error 28)";
        waits_for_bundle(&extension, "1.0.0", fault).await;
        let failing = [("clusterextensions", extension.name.as_str())];
        apart.is_calm(&failing, Duration::from_secs(5)).await;
        disk.make_room();
        extension.installed("1.0.0").await;
    }
    apart.is_well();
}

// deploying.md P42
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn at_the_limit_of_the_caches_what_is_served_stays_and_the_rest_waits_for_room() {
    let apart = apart::apart("cache-limit").await;
    let _controller = apart.start_with(&["--cache-limit=1MiB"]).await;
    let reached = "cache limit of 1048576 bytes reached";
    let image = good(&apart.cluster, "limit").await;
    let served = Catalog::create(apart.cluster.plane, "bad-limit-served", &image);
    let before = served.served().await;
    let scene = Scene::of(apart.cluster.clone(), "limit", &["1.0.0"]).await;

    let filler = apart.state.join("catalogs/filler");
    fs::write(&filler, vec![0; 1 << 20]).expect("a file");
    let waits = Catalog::create(apart.cluster.plane, "bad-limit", &image);
    let message = format!("error storing fbc: error writing catalog content: {reached}");
    let found = waits.says("True", "Retrying", &message).await;
    assert_eq!(serving(&found), "Unavailable");
    // Both caches share the limit.
    let extension = scene.install(json!({})).await;
    waits_for_bundle(&extension, "1.0.0", &format!("error storing image: {reached}")).await;
    let failing =
        [("clustercatalogs", "bad-limit"), ("clusterextensions", extension.name.as_str())];
    apart.is_calm(&failing, Duration::from_secs(5)).await;
    assert_eq!(served.served().await["status"], before["status"]);

    fs::remove_file(filler).expect("room");
    waits.served().await;
    extension.installed("1.0.0").await;
    apart.is_well();
}
