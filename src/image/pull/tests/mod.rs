//! A registry that misbehaves on purpose, in this process.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use olm_core::error::Chain;
use rstest::rstest;

use super::*;
use crate::auth::{Credential, Credentials, SecretString};
use crate::built::{BuiltImage, BuiltIndex, Compression, ImageBuilder, tar_of};

mod credentials;
mod redirects;

struct Request {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Bytes of the body after which the connection breaks.
    cut: Option<usize>,
}

fn answer(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer { status, body: body.into(), ..Answer::default() }
}

impl Answer {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Serves requests until the test ends and returns `127.0.0.1:<port>`.
fn serve(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> String {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let handler = Arc::new(handler);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let handler = Arc::clone(&handler);
            std::thread::spawn(move || {
                let _ = respond(stream.unwrap(), &*handler);
            });
        }
    });
    address
}

/// Serves what `handler` says; returns the address, and the paths of the requests.
fn recorded(
    handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&asked);
    let address = serve(move |request| {
        keep.lock().unwrap().push(request.path.clone());
        handler(request)
    });
    (address, asked)
}

fn respond(mut stream: TcpStream, handler: &dyn Fn(&Request) -> Answer) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let request = Request { method, path, headers, body };
    let mut answer = handler(&request);
    if request.method == "HEAD" {
        answer.cut = Some(0);
    }
    write!(stream, "HTTP/1.1 {} X\r\nConnection: close\r\n", answer.status)?;
    write!(stream, "Content-Length: {}\r\n", answer.body.len())?;
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    let end = answer.cut.unwrap_or(answer.body.len());
    stream.write_all(b"\r\n")?;
    stream.write_all(&answer.body[..end])
}

fn image() -> BuiltImage {
    let content = [("configs/a.yaml", b"content".as_slice())];
    ImageBuilder::new().layer(content).unwrap().build().unwrap()
}

/// The correct response for `image` in repository `r`, tagged `t`.
fn honest(image: &BuiltImage, request: &Request) -> Answer {
    delivered(image, &request.path)
}

fn delivered(image: &BuiltImage, path: &str) -> Answer {
    let manifest = [format!("/v2/r/manifests/{}", image.digest()), "/v2/r/manifests/t".into()];
    if path == "/v2/" {
        return answer(200, "");
    }
    if manifest.iter().any(|it| it == path) {
        return answer(200, image.manifest.clone());
    }
    let blobs = image.layers.iter().chain([&image.config]);
    let mut found = blobs.filter(|it| path == format!("/v2/r/blobs/{}", Digest::sha256(it)));
    found.next().map_or(answer(404, ""), |blob| answer(200, blob.clone()))
}

fn challenge(registry: &str) -> Answer {
    let realm = format!("Bearer realm=\"http://{registry}/token\",service=\"s\"");
    answer(401, "").with("WWW-Authenticate", realm)
}

fn user(password: &str) -> Credential {
    Credential::Basic { username: "u".into(), password: SecretString::new(password) }
}

fn identity_token(password: &str) -> Credential {
    let (token, password) = (SecretString::new("secret"), SecretString::new(password));
    Credential::IdentityToken { token, username: "u".into(), password }
}

struct Scene {
    puller: Puller,
    image: ImageRef,
    dir: tempfile::TempDir,
}

fn scene(registry: &str) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registries.conf");
    let text = format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n");
    std::fs::write(&file, text).unwrap();
    let puller = Puller::new(PullConfig {
        registries: RegistriesPaths::new(Some(file)),
        policy: PolicyPath { file: dir.path().join("policy.json"), required: false },
        certificates: CertificateDirs {
            only: Some(dir.path().join("certs")),
            ..CertificateDirs::default()
        },
        ..PullConfig::default()
    });
    Scene { puller, image: format!("{registry}/r:t").parse().unwrap(), dir }
}

impl Scene {
    async fn pull(&self) -> Result<Vec<u8>, PullError> {
        let resolved = self.puller.resolve(&self.image).await?;
        let wanted = ["configs".to_owned()];
        let unpacked = self.puller.pull(&resolved, &wanted, &Limits::catalog()).await?;
        Ok(unpacked.files.to_map().unwrap().remove("configs/a.yaml").unwrap())
    }

    async fn text(&self) -> String {
        Chain(&self.pull().await.unwrap_err()).to_string()
    }

    fn credential(&self, credential: Credential) {
        let mut credentials = Credentials::default();
        credentials.insert(self.image.registry(), credential);
        let mut source = Source::default();
        source.add("Secret ns/name", credentials);
        self.puller.set_keyring(Keyring::new([source]));
    }
}

// catalogs.md O4
#[rstest]
#[case::layer_digest("blobs", |body: &mut Vec<u8>| body[20] ^= 1, "content has digest")]
#[case::layer_short("blobs", |body: &mut Vec<u8>| body.truncate(30), "content has 30 bytes")]
#[case::layer_long("blobs", |body: &mut Vec<u8>| body.push(0), "content has")]
#[case::manifest("manifests/sha256", |body: &mut Vec<u8>| body.push(b' '), "content has digest")]
#[tokio::test]
async fn content_that_is_not_what_was_promised_is_refused(
    #[case] path: &'static str,
    #[case] change: fn(&mut Vec<u8>),
    #[case] want: &str,
) {
    let built = image();
    let (layer, by_digest) = (built.layers[0].clone(), built.digest());
    let registry = serve(move |request| {
        let mut answer = honest(&built, request);
        if request.path.contains(path) && (path != "blobs" || answer.body == layer) {
            change(&mut answer.body);
        }
        answer
    });
    let mut scene = scene(&registry);
    if path != "blobs" {
        scene.image = scene.image.with_digest(by_digest);
    }
    let text = scene.text().await;
    assert!(text.starts_with("error copying image: ") && text.contains(want), "{text}");
}

// catalogs.md O4
#[rstest]
#[case::by_tag(false)]
#[case::by_digest(true)]
#[tokio::test]
async fn another_digest_that_is_announced_counts_for_nothing(#[case] by_digest: bool) {
    let built = image();
    let digest = built.digest();
    let registry = serve(move |request| {
        let other = Digest::sha256(b"other").to_string();
        honest(&built, request).with("Docker-Content-Digest", other)
    });
    let mut scene = scene(&registry);
    if by_digest {
        scene.image = scene.image.with_digest(digest.clone());
    }
    assert_eq!(scene.puller.resolve(&scene.image).await.unwrap().digest(), &digest);
    assert_eq!(scene.pull().await.unwrap(), b"content");
}

// catalogs.md O5
#[tokio::test]
async fn bodies_are_read_within_their_limits() {
    let registry = serve(|request| match request.path.as_str() {
        "/v2/" => answer(200, ""),
        _ => answer(200, vec![b' '; (4 << 20) + 1]),
    });
    assert!(scene(&registry).text().await.ends_with("answer is larger than 4194304 bytes"));
    let registry = serve(|request| match request.path.as_str() {
        "/v2/" => {
            let realm = format!("Bearer realm=\"http://{}/token\"", request.headers["host"]);
            answer(401, "").with("WWW-Authenticate", realm)
        }
        _ => answer(200, vec![b' '; (1 << 20) + 1]),
    });
    let text = scene(&registry).text().await;
    let want = "unable to retrieve auth token: answer is larger than 1048576 bytes";
    assert!(text.ends_with(want), "{text}");
}

// catalogs.md O2: a mirror may be filled for the nodes of one architecture
#[rstest]
#[case::one(true, Some(b"content".as_slice()))]
#[case::none(false, None)]
#[tokio::test]
async fn of_several_platforms_one_that_the_registry_has_is_taken(
    #[case] is_there: bool,
    #[case] want: Option<&'static [u8]>,
) {
    let own = ImageBuilder::new().layer([("configs/a.yaml", b"own".as_slice())]).unwrap();
    let own = own.platform(Platform::host()).build().unwrap();
    let layer = [("configs/a.yaml", b"content".as_slice())];
    let other = ImageBuilder::new().platform(Platform::linux("vax")).layer(layer).unwrap();
    let other = other.build().unwrap();
    let missing = format!("reading manifest {}", own.digest());
    let index = BuiltIndex::new(vec![own, other.clone()], &BTreeMap::new());
    let registry = serve(move |request| match request.path.as_str() {
        "/v2/r/manifests/t" => answer(200, index.manifest.clone()),
        path if is_there || path == "/v2/" => delivered(&other, path),
        _ => answer(404, ""),
    });
    let pulled = scene(&registry).pull().await;
    let failed = pulled.as_ref().err().map(|error| Chain(error).to_string());
    assert_eq!(pulled.as_deref().ok(), want);
    assert!(
        failed.is_none_or(|text| text.contains(&missing)),
        "what was looked for first is named"
    );
}

// catalogs.md O9
#[rstest]
#[case::busy(429, 4)]
#[case::failing(503, 2)]
#[tokio::test]
async fn busy_registry_is_asked_again(#[case] status: u16, #[case] refusals: usize) {
    let left = Mutex::new(refusals);
    let built = image();
    let registry = serve(move |request| {
        let mut left = left.lock().unwrap();
        if request.path.contains("manifests") && *left > 0 {
            *left -= 1;
            return answer(status, "").with("Retry-After", "0");
        }
        honest(&built, request)
    });
    assert_eq!(scene(&registry).pull().await.unwrap(), b"content");
}

// catalogs.md O9
#[rstest]
#[case::at_once("0", 5, None)]
#[case::in_a_day("86400", 1, Some(Duration::from_mins(15)))]
#[tokio::test]
async fn registry_that_stays_busy_is_left_alone(
    #[case] asks: &'static str,
    #[case] requests: usize,
    #[case] waits: Option<Duration>,
) {
    let (registry, asked) = recorded(move |request| match request.path.as_str() {
        "/v2/" => answer(200, ""),
        _ => answer(429, "").with("Retry-After", asks),
    });
    let err = scene(&registry).pull().await.unwrap_err();
    assert_eq!(asked.lock().unwrap().iter().filter(|path| *path != "/v2/").count(), requests);
    assert_eq!(err.retry_after(), waits);
    assert!(!err.is_terminal());
}

// catalogs.md O10
#[rstest]
#[case::resumed(true)]
#[case::ignored(false)]
#[tokio::test]
async fn broken_download_is_taken_up_again(#[case] honors_range: bool) {
    // Incompressible enough: a plain layer of three megabytes.
    let large = vec![b'x'; 3 << 20];
    let content = [("configs/a.yaml", b"content".as_slice()), ("large", &large)];
    let tar = tar_of(content).unwrap();
    let built = ImageBuilder::new().tar(tar.clone(), Compression::None).build().unwrap();
    let registry = serve(move |request| {
        let mut answer = honest(&built, request);
        let Some(range) = request.header("range") else {
            if answer.body.len() > 1 << 20 {
                answer.cut = Some(2 << 20);
            }
            return answer;
        };
        if honors_range {
            let (from, to) = range["bytes=".len()..].split_once('-').unwrap();
            let (from, all): (usize, _) = (from.parse().unwrap(), answer.body.len());
            assert_eq!(to, (all - 1).to_string());
            answer.body.drain(..from);
            answer.status = 206;
            return answer.with("Content-Range", format!("bytes {from}-{}/{all}", all - 1));
        }
        answer
    });
    let scene = scene(&registry);
    if honors_range {
        assert_eq!(scene.pull().await.unwrap(), b"content");
    } else {
        assert!(scene.text().await.ends_with("did not resume the interrupted download"));
    }
}

// As on a cluster whose mirrors replace their source: nobody but a mirror was asked.
#[rstest]
#[case::absent([404, 404], true)]
#[case::busy([404, 429], false)]
#[case::busy_before_one_without_it([429, 404], false)]
#[tokio::test]
async fn of_a_blocked_registry_the_mirrors_decide(
    #[case] statuses: [u16; 2],
    #[case] absent: bool,
) {
    let mirrors = statuses.map(|status| {
        serve(move |request| match request.path.as_str() {
            "/v2/" => answer(200, ""),
            _ => answer(status, "").with("Retry-After", "86400"),
        })
    });
    let scene = scene(&mirrors[0]);
    let text = format!(
        "[[registry]]\nlocation = \"origin.lab\"\nblocked = true\n\
         [[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n\
         [[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n",
        mirrors[0], mirrors[1]
    );
    std::fs::write(&scene.puller.config.registries.file, text).unwrap();
    let error = scene.puller.probe(&"origin.lab/r:t".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.is_not_found(), absent);
    assert_eq!(error.retry_after(), Some(Duration::from_mins(15)));
    let text = Chain(&error).to_string();
    let want = "origin.lab/r:t: registry origin.lab is blocked by the registries configuration";
    assert!(text.contains("(Mirrors also failed: [") && text.ends_with(want), "{text}");
}

#[tokio::test]
async fn time_that_others_take_to_unpack_does_not_count() {
    let built = image();
    let registry = serve(move |request| honest(&built, request));
    let scene = scene(&registry);
    let resolved = scene.puller.resolve(&scene.image).await.unwrap();
    let limits = Limits { pull: Duration::from_secs(2), ..Limits::catalog() };
    let places = u32::try_from(PARALLEL_UNPACKS).unwrap();
    let others = Arc::clone(&scene.puller.unpacks).acquire_many_owned(places).await.unwrap();
    let others = async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(others);
    };
    let wanted = ["configs".to_owned()];
    let pull = scene.puller.pull(&resolved, &wanted, &limits);
    let (pulled, ()) = tokio::join!(pull, others);
    assert!(pulled.is_ok());
}

#[tokio::test]
async fn silence_ends_with_the_pulls_time() {
    let registry = serve(|_| {
        std::thread::park();
        answer(200, "")
    });
    let mut scene = scene(&registry);
    scene.puller.config.catalog.pull = Duration::from_millis(50);
    let err = scene.pull().await.unwrap_err();
    assert_eq!(err.to_string(), "pulling took longer than 50ms");
}

// Docker Hub counts each GET request for a manifest as a pull
#[rstest]
#[case::there(200, "/v2/r/manifests/t", &["HEAD"], None)]
#[case::absent(404, "/v2/r/manifests/t", &["HEAD", "GET"], Some("not found: no"))]
#[case::refused(403, "/v2/r/manifests/t", &["HEAD", "GET"], Some("not found: no"))]
#[case::no_head(405, "HEAD", &["HEAD", "GET"], None)]
#[case::not_implemented(501, "HEAD", &["HEAD", "GET"], None)]
#[case::broken(500, "/v2/r/manifests/t", &["HEAD"], Some("500 Internal Server Error"))]
#[tokio::test]
async fn a_probe_is_no_pull(
    #[case] status: u16,
    #[case] of: &'static str,
    #[case] methods: &[&str],
    #[case] want: Option<&str>,
) {
    let built = image();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let registry = serve(move |request| {
        if request.path != "/v2/" {
            seen.lock().unwrap().push(request.method.clone());
        }
        if status != 200 && [request.path.as_str(), request.method.as_str()].contains(&of) {
            return answer(status, r#"{"errors":[{"code":"NOT_FOUND","message":"no"}]}"#);
        }
        honest(&built, request)
    });
    let scene = scene(&registry);
    let error = scene.puller.probe(&scene.image).await.err().map(|error| Chain(&error).to_string());
    assert_eq!(*asked.lock().unwrap(), methods);
    match want {
        Some(want) => assert!(error.as_ref().is_some_and(|it| it.contains(want)), "{error:?}"),
        None => assert_eq!(error, None),
    }
}

// catalogs.md 8.3
#[tokio::test]
async fn token_realm_must_be_https() {
    let registry = serve(|_| answer(401, "").with("WWW-Authenticate", "Bearer realm=\"ftp://x/\""));
    let text = scene(&registry).text().await;
    assert!(text.ends_with("token realm \"ftp://x/\" is not https"), "{text}");
}

// catalogs.md 5.4: an invalid configuration stops a pull before any request; it is never ignored,
// which would leave plain HTTP to chance.
#[rstest]
#[case::tag(false)]
#[case::digest(true)]
#[tokio::test]
async fn a_broken_configuration_stops_a_pull_before_any_request(#[case] by_digest: bool) {
    let built = image();
    let digest = built.digest();
    let (registry, asked) = recorded(move |request| honest(&built, request));
    let mut scene = scene(&registry);
    if by_digest {
        scene.image = scene.image.with_digest(digest);
    }
    let file = scene.puller.config.registries.file.clone();
    let text = format!(
        "[[registry]]\nlocation = \"{registry}\"\n\n\
         [[registry]]\nlocation = \"{registry}\"\ninsecure = true\n"
    );
    std::fs::write(&file, text).unwrap();
    let err = scene.pull().await.unwrap_err();
    assert!(!err.is_terminal(), "an edit of the file mends it");
    assert_eq!(
        Chain(&err).to_string(),
        format!(
            "invalid registries configuration \"{}\": tables of registry \"{registry}\" differ in \
             \"insecure\"",
            file.display()
        )
    );
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
}

// deploying.md 2.6
#[tokio::test]
async fn registries_are_asked_through_proxies_but_for_the_excepted() {
    let (proxy, asked) = recorded(|_| answer(403, ""));
    let url = format!("http://{proxy}");
    let scene = scene("registry.invalid");
    let through = |except| Proxies::new(&url, &url, except).unwrap();
    assert!(scene.puller.set_proxies(through("")));
    assert!(!scene.puller.set_proxies(through("")), "the same");
    scene.text().await;
    let first = asked.lock().unwrap().first().cloned();
    assert_eq!(first.as_deref(), Some("registry.invalid:443"));

    assert!(scene.puller.set_proxies(through("localhost,.invalid")));
    asked.lock().unwrap().clear();
    scene.text().await;
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
}

// deploying.md 2.6
#[tokio::test]
async fn a_socks_proxy_is_told_the_name_of_the_registry() {
    let scene = scene("registry.invalid");
    for scheme in ["socks5", "socks5h"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        scene.puller.set_proxies(Proxies::new(&url, &url, "").unwrap());
        let told = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // RFC 1928: no authentication; then a domain with its length.
            stream.read_exact(&mut [0; 3]).unwrap();
            stream.write_all(&[5, 0]).unwrap();
            let mut head = [0; 5];
            stream.read_exact(&mut head).unwrap();
            let mut name = vec![0; head[4].into()];
            stream.read_exact(&mut name).unwrap();
            (head[..4].to_vec(), String::from_utf8(name).unwrap())
        });
        let failed = scene.text().await;
        let told = told.join().unwrap();
        assert_eq!(told, (vec![5, 1, 0, 3], "registry.invalid".to_owned()), "{scheme}: {failed}");
    }
}
