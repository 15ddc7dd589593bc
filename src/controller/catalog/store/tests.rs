use super::*;
use olm_core::catalog::read;
use olm_core::error::Chain;

const BLOBS: &str = r#"{"schema":"olm.package","name":"p"}
{"schema":"olm.bundle","package":"p","name":"b"}
{"schema":"olm.package","name":"q"}
{"schema":"olm.bundle","package":"q","name":"b"}
{"name":"no schema"}"#;

fn write(store: &Store, origin: Origin, text: &str) -> Result<Arc<Content>, StoreError> {
    store.write(origin, read::documents([("c", text.as_bytes())])?.map(|it| it.meta))
}

fn opened() -> (TempDir, Store) {
    let root = tempfile::tempdir().unwrap();
    let store = reopened(&root);
    (root, store)
}

fn reopened(root: &TempDir) -> Store {
    Store::open(root.path(), Room::default()).unwrap()
}

/// Writes one file as content that is not served yet.
fn stage(store: &Store, origin: Origin, text: &str) -> Result<Staged, StoreError> {
    let documents = read::documents([("p/c.json", text.as_bytes())])?;
    let blobs = documents.map(|document| {
        let (file, line) = (document.path, document.position.line);
        document.meta.map(|meta| Blob { file, line, meta })
    });
    store.stage(origin, blobs)
}

fn text(content: &Content) -> String {
    let len = usize::try_from(content.index().bytes()).unwrap();
    String::from_utf8(content.read(0, len).unwrap()).unwrap()
}

fn entries(root: &Path) -> usize {
    fs::read_dir(root).unwrap().count()
}

// plugin.md 2.4, U72
#[test]
fn findings_stay_with_the_content_and_older_content_is_read_again() {
    let (root, store) = opened();
    let unexamined = write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    assert_eq!(unexamined.findings(), None);
    let staged = stage(&store, Origin::example("a", "2"), BLOBS).unwrap();
    let content = store.place(staged).unwrap();
    let found = content.findings().unwrap();
    assert_eq!((found.errors, found.packages), (11, 2));
    let first = "p/c.json:5: \"schema\" is missing: the document is left out";
    assert_eq!(found.worst[0].text, first);
    let restored = reopened(&root);
    assert_eq!(restored.content("a").unwrap().findings(), Some(found));

    // As an earlier version of the program wrote it.
    let home = root.path().join(key("a"));
    let index = home.join(fs::read_to_string(home.join(CURRENT)).unwrap()).join(INDEX);
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replacen("\"format\":3", "\"format\":1", 1)).unwrap();
    let restored = reopened(&root);
    assert!(restored.content("a").is_none());
}

// catalogs.md 5.8
#[test]
fn a_blob_past_a_limit_of_the_index_is_named() {
    let (root, store) = opened();
    let text = format!("{{\"schema\":\"a\"}}\n\n{{\"schema\":\"{}\"}}", "~".repeat(1025));
    let error = write(&store, Origin::example("a", "1"), &text).unwrap_err();
    let want = "error reading entry 2: schema of the blob is 1025 bytes long, more than 1024";
    assert_eq!(Chain(&error).to_string(), want);
    let error = stage(&store, Origin::example("a", "1"), &text).unwrap_err();
    let want = "error reading \"p/c.json\", line 3: schema of the blob is 1025 bytes long, more than \
                1024";
    assert_eq!(Chain(&error).to_string(), want);
    assert!(store.content("a").is_none());
    assert_eq!(entries(&root.path().join(TEMPORARY)), 0);
}

#[test]
fn finds_blobs_by_package() {
    let (_root, store) = opened();
    let content = write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    let bundles = |name: &str| {
        let package = content.package(name).unwrap();
        let found = package.packages().map(|(name, package)| (name.to_owned(), package.cloned()));
        found.map(|(name, package)| (name, package.unwrap().bundles.len())).collect::<Vec<_>>()
    };
    assert_eq!(bundles("q"), [("q".to_owned(), 1)]);
    assert_eq!(bundles("none"), []);
}

#[test]
fn a_package_is_the_same_blob_by_blob() {
    let (_root, store) = opened();
    let served = write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    let last = r#"{"schema":"olm.bundle","package":"q","name":"b"}"#;
    let more = format!("{last}\n{}", last.replace("\"b\"", "\"c\""));
    for (now, same) in
        [(last, true), (&last.replace("\"b\"", "\"c\""), false), (&more, false), ("", false)]
    {
        let text = BLOBS.replace(last, now);
        let staged = stage(&store, Origin::example("a", "2"), &text).unwrap();
        assert!(staged.has_same(&served, "p").unwrap());
        assert_eq!(staged.has_same(&served, "q").unwrap(), same, "{now}");
    }
}

// catalogs.md R13
#[test]
fn lines_and_index_survive_a_restart() {
    let (root, store) = opened();
    let before = write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    drop(store);
    assert_eq!(before.digest(), "sha256:1");
    assert_eq!((before.index().len(), before.dropped()), (4, 1));
    let lines = text(&before);
    assert_eq!(lines.lines().count(), 4);
    assert!(lines.starts_with("{\"name\":\"p\",\"schema\":\"olm.package\"}\n"));
    let after = reopened(&root).content("a").unwrap();
    assert_eq!(after.origin(), before.origin());
    assert_eq!(after.stored(), before.stored());
    assert_eq!(after.index(), before.index());
    assert_eq!(text(&after), lines);
}

// catalogs.md R12
#[test]
fn leftovers_of_an_interrupted_process_are_removed() {
    let (root, store) = opened();
    write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    drop(store);
    let home = root.path().join(key("a"));
    fs::create_dir(root.path().join(TEMPORARY).join("x")).unwrap();
    fs::create_dir(home.join("stray")).unwrap();
    let store = reopened(&root);
    assert!(store.content("a").is_some());
    assert_eq!(entries(&root.path().join(TEMPORARY)), 0);
    assert_eq!(entries(&home), 2);
}

// catalogs.md R12
#[test]
fn content_that_a_loss_of_power_damages_leaves_the_one_before_it() {
    let (root, store) = opened();
    write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    let staged = stage(&store, Origin::example("a", "2"), r#"{"schema":"x"}"#).unwrap();
    let placed = store.place(staged).unwrap();
    assert_eq!(store.content("a").unwrap().digest(), "sha256:2");
    let home = root.path().join(key("a"));
    assert_eq!(entries(&home), 3);
    fs::write(home.join(key(&placed.origin().reference)).join(LINES), "").unwrap();
    let restored = reopened(&root);
    assert_eq!(restored.content("a").unwrap().digest(), "sha256:1");
    assert_eq!(entries(&home), 2);
}

#[test]
fn damaged_content_is_removed_at_start() {
    let (root, store) = opened();
    write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    write(&store, Origin::example("b", "1"), BLOBS).unwrap();
    drop(store);
    let file =
        root.path().join(key("a")).join(key(&Origin::example("a", "1").reference)).join(LINES);
    let mut bytes = fs::read(&file).unwrap();
    bytes[3] ^= 1;
    fs::write(&file, bytes).unwrap();
    let store = reopened(&root);
    assert_eq!(store.catalogs(), ["b"]);
    assert!(!root.path().join(key("a")).exists());
}

#[test]
fn new_content_replaces_old_and_open_readers_go_on() {
    let (root, store) = opened();
    let old = write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    // The same reference may be written again.
    for digest in ["2", "2"] {
        let new = write(&store, Origin::example("a", digest), r#"{"schema":"x"}"#).unwrap();
        assert_eq!(store.content("a").unwrap().digest(), new.digest());
        assert_eq!(text(&old).lines().count(), 4);
        assert_eq!(entries(&root.path().join(key("a"))), 2);
        assert_eq!(entries(&root.path().join(TEMPORARY)), 0);
    }
}

// catalogs.md A13
#[test]
fn broken_content_leaves_the_old_one_and_no_trace() {
    let (root, store) = opened();
    write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    let error = write(&store, Origin::example("a", "2"), "[]").unwrap_err();
    assert!(matches!(error, StoreError::Content(_)));
    assert_eq!(store.content("a").unwrap().digest(), "sha256:1");
    assert_eq!(entries(&root.path().join(TEMPORARY)), 0);
}

// deploying.md P42
#[test]
fn without_room_the_old_content_stays_and_later_the_new_one_fits() {
    let root = tempfile::tempdir().unwrap();
    let folders = vec![root.path().to_owned()];
    let limit = Room::within(16 << 10, folders);
    let store = Store::open(root.path(), limit).unwrap();
    write(&store, Origin::example("a", "1"), BLOBS).unwrap();
    let filler = root.path().join("filler");
    fs::write(&filler, [0; 12 << 10]).unwrap();
    // Random enough that no compression makes it small.
    let digits = |n: u32| Digest::sha256(&n.to_be_bytes()).hex().to_owned();
    let text: String = (0..64).map(digits).collect();
    let large = format!(r#"{{"schema":"olm.package","name":"p","description":"{text}"}}"#);
    let error = write(&store, Origin::example("a", "2"), &large).unwrap_err();
    let text = Chain(&error).to_string();
    let want = "error writing catalog content: cache limit of 16384 bytes reached";
    assert_eq!(text, want);
    assert_eq!(store.content("a").unwrap().digest(), "sha256:1");
    assert_eq!(entries(&root.path().join(TEMPORARY)), 0);
    fs::remove_file(filler).unwrap();
    write(&store, Origin::example("a", "2"), &large).unwrap();
    assert_eq!(store.content("a").unwrap().digest(), "sha256:2");
}

// catalogs.md R15, R8
#[test]
fn removing_one_catalog_never_touches_another() {
    let (root, store) = opened();
    for name in ["a", "a-b", "../evil"] {
        write(&store, Origin::example(name, "1"), BLOBS).unwrap();
    }
    store.remove("a").unwrap();
    store.remove("unknown").unwrap();
    assert_eq!(store.catalogs(), ["../evil", "a-b"]);
    // One folder each for the two catalogs, and the temporary one.
    assert_eq!(entries(root.path()), 3);
    store.remove("../evil").unwrap();
    assert_eq!(entries(root.path()), 2);
}
