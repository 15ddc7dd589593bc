//! A local control plane, and the controller running on it as a local process.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use serde_json::json;

use crate::catalog::condition_of;
use crate::pool::{self, Pooled};
use crate::proxy::{self, Proxy};
use crate::requests::Requests;
use crate::{kubectl, objects, paths, timed, wait};

/// Processes of a control plane.
const COMPONENTS: usize = 6;
/// Many may start at once.
const START: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(50);
/// Longer than the certificate takes, and longer than a refusal counts.
const SERVED: Duration = Duration::from_mins(1);
/// Flags with what is another on the machine of a test: addresses that may not be free, and files.
const OF_A_POD: [&str; 6] = [
    "--catalogs-server-addr=",
    "--metrics-bind-address=",
    "--health-probe-bind-address=",
    "--tls-cert=",
    "--tls-key=",
    "--catalogd-cas-dir=",
];
/// Lines of its log that [`Controller::last_words`] shows.
const LAST_LINES: usize = 20;

/// Runs `$@` and kills it (SIGKILL) when our end of its standard input closes, so that no
/// controller outlives the test that started it; its process id goes to the file `$0`.
pub(crate) const KILL_WITH_PARENT: &str = "ulimit -Sn 1024; exec 3<&0; \"$@\" </dev/null 3<&- & child=$!; echo $child >\"$0\"; \
    (cat <&3 >/dev/null; kill -9 $child 2>/dev/null) & exec 3<&-; wait $child";
/// Runs `$@` and stops it (SIGTERM) when our end of its standard input closes; then removes the
/// folder `$0`, which nothing else would do when a test program just ends.
const STOP_WITH_PARENT: &str = "exec 3<&0; \"$@\" </dev/null 3<&- & child=$!; \
    (cat <&3 >/dev/null; kill $child 2>/dev/null) & exec 3<&-; wait $child; status=$?; \
    test -n \"$OLM_TEST_KEEP\" || rm -rf \"$0\"; exit $status";

pub use olm_api::keys::name::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};

/// The account that may read metrics.
const SCRAPER: &str = "default:scraper";

/// The addresses and paths that `local-cluster up` writes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addresses {
    /// Folder with all files of this cluster.
    pub dir: PathBuf,
    /// Path of the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Registry, `127.0.0.1:<port>`, plain HTTP.
    pub registry: String,
    /// Path of a registries.conf that allows plain HTTP to that registry.
    pub registries_conf: PathBuf,
    /// Path of the API server's audit log, one JSON event per line.
    pub audit_log: PathBuf,
    /// URL of the API server.
    pub api_server: String,
    /// Path of the CA of the API server and of etcd.
    pub ca_file: PathBuf,
    /// URL of etcd.
    #[serde(default)]
    pub etcd: String,
    /// Path of the serving certificate for the controller.
    pub controller_cert: PathBuf,
    /// Path of the key of that certificate.
    pub controller_key: PathBuf,
    /// Path of the CA of that certificate.
    #[serde(rename = "controllerCA")]
    pub controller_ca: PathBuf,
    /// Path of a kubectl.
    pub kubectl: PathBuf,
}

/// A running control plane. Dropping it stops it; the one of [`shared`] stops with the process.
pub struct ControlPlane {
    /// Addresses and paths of the control plane.
    pub addresses: Addresses,
    process: Child,
    /// It stops when this is closed.
    stdin: Mutex<Option<ChildStdin>>,
    requests: OnceLock<Requests>,
}

impl ControlPlane {
    /// Starts a control plane with our CRDs, the controller's rights and the minimal OpenShift
    /// CRDs of the gate.
    pub fn start() -> Self {
        let plane = Self::empty();
        plane.prepare();
        plane
    }

    /// Starts a control plane with nothing of ours on it.
    pub fn empty() -> Self {
        timed::started("control plane");
        let dir = tempfile::Builder::new()
            .prefix("olm-test-")
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let log = std::fs::File::create(dir.join("up.log")).expect("a log file");
        let errors = log.try_clone().expect("a second handle of the log");
        let mut process = Command::new("sh")
            .args(["-c", STOP_WITH_PARENT])
            .arg(&dir)
            .arg(paths::local_cluster())
            .args(["up", "--dir"])
            .arg(&dir)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("a shell starts");
        let mut plane = Self {
            addresses: Addresses { dir: dir.clone(), ..Addresses::default() },
            stdin: Mutex::new(process.stdin.take()),
            process,
            requests: OnceLock::new(),
        };
        plane.addresses = plane.wait_for_addresses(&dir);
        plane
    }

    fn wait_for_addresses(&mut self, dir: &Path) -> Addresses {
        let deadline = Instant::now() + START;
        loop {
            if let Ok(text) = std::fs::read_to_string(dir.join("cluster.json")) {
                return serde_json::from_str(&text).expect("cluster.json is what we expect");
            }
            let ended = self.process.try_wait().expect("the process can be asked");
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(dir.join("up.log")).unwrap_or_default();
                panic!(
                    "local-cluster is not ready; build it with `make local-cluster` (ended: {ended:?}):\n{log}"
                );
            }
            std::thread::sleep(POLL);
        }
    }

    /// Applies our CRDs, the controller's rights, the minimal OpenShift CRDs of the gate and the policies, and
    /// lets an account read metrics.
    pub(crate) fn prepare(&self) {
        self.mend();
        self.let_scrape();
    }

    /// Makes again what a test has deleted of what was there at first, so that others can have the plane.
    pub fn mend(&self) {
        let crds = ["config/crd", "hack/demo/crds"].map(manifests);
        for folder in ["config/crd", "config/rbac", "hack/demo/crds"] {
            manifests(folder).iter().for_each(|object| self.requests().apply(object));
        }
        let count: usize = crds.iter().map(|objects| objects.len()).sum();
        let deadline = Instant::now() + START;
        while self.served() < count {
            assert!(Instant::now() < deadline, "not every CRD is served");
            std::thread::sleep(POLL);
        }
        self.apply_policies();
    }

    /// Counts the CRDs whose objects are served, which begins a moment after they are established.
    fn served(&self) -> usize {
        let crds = self.requests().list("crds", "", "");
        let is_served = |crd: &&serde_json::Value| {
            let spec = &crd["spec"];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let [group, version, plural] =
                [&spec["group"], &spec["versions"][0]["name"], &spec["names"]["plural"]].map(text);
            let path = format!("/apis/{group}/{version}/{plural}?limit=1");
            self.requests().send(Method::GET, &path, None).is_ok()
        };
        crds.iter().filter(|crd| is_established(crd)).filter(is_served).count()
    }

    /// Makes the account that reads metrics, and keeps its token.
    pub fn let_scrape(&self) {
        let (namespace, account) = SCRAPER.split_once(':').unwrap_or_default();
        let metadata = json!({"metadata": {"name": account}});
        self.requests().create("serviceaccount", namespace, &metadata);
        let role = ("ClusterRole", "operator-controller-metrics-reader");
        let who = objects::account(namespace, account);
        self.create(&objects::binding(account, None, role, &who));
        let token = self.token(namespace, account);
        std::fs::write(self.addresses.dir.join(account), token).expect("the token is written");
    }

    /// Returns a token of a service account.
    pub fn token(&self, namespace: &str, account: &str) -> String {
        self.requests().token(namespace, account)
    }

    /// Applies the admission policies of `config/policy`: who may name a service account.
    pub fn apply_policies(&self) {
        manifests("config/policy").iter().for_each(|object| self.requests().apply(object));
    }

    /// Does what kubectl does as the administrator, mostly in this process (`kubectl.rs`), and returns
    /// what it prints; panics when it fails.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.kubectl_with_input(args, "")
    }

    /// The same with the arguments in one text, where none has a blank.
    pub fn run(&self, args: &str) -> String {
        self.kubectl(&args.split_whitespace().collect::<Vec<_>>())
    }

    /// The same; returns the document that it prints.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.kubectl(args)).expect("kubectl prints JSON")
    }

    /// Lets rollouts have a deadline of one minute, as upstream's tests do. For a control plane that only
    /// one test uses.
    pub fn allow_short_deadlines(&self) {
        let least = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
        let patch = format!(r#"[{{"op":"replace","path":"{least}","value":1}}]"#);
        for kind in ["clusterextensions", "clusterobjectsets"] {
            let crd = format!("{kind}.olm.operatorframework.io");
            self.kubectl(&["patch", "crd", &crd, "--type=json", "-p", &patch]);
        }
    }

    /// Waits until a CRD is established.
    pub fn established(&self, crd: &str) {
        let deadline = Instant::now() + START;
        while !self.requests().read("crd", "", crd).as_ref().is_some_and(is_established) {
            assert!(Instant::now() < deadline, "{crd} is not established");
            std::thread::sleep(POLL);
        }
    }

    /// The same with `input` on its standard input; panics when it fails.
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> String {
        match self.try_kubectl(args, input) {
            Ok(out) => out,
            Err(error) => panic!("kubectl {} failed: {error}", args.join(" ")),
        }
    }

    /// The same; `Err` holds what it wrote to standard error.
    pub fn try_kubectl(&self, args: &[&str], input: &str) -> Result<String, String> {
        let done = kubectl::run(self.requests(), args, input);
        done.unwrap_or_else(|| self.kubectl_itself(args, input))
    }

    /// Runs kubectl, for what it is about itself; `Err` holds what it wrote to standard error.
    pub fn kubectl_itself(&self, args: &[&str], input: &str) -> Result<String, String> {
        let mut child = Command::new(&self.addresses.kubectl)
            .args(args)
            .env("KUBECONFIG", &self.addresses.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        // A command that does not read its input closes the pipe early; that is not a failure.
        let _ = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
        let out = child.wait_with_output().expect("kubectl ends");
        if out.status.success() {
            Ok(String::from_utf8_lossy(&out.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&out.stderr).into_owned())
        }
    }

    /// Runs `local-cluster VERB COMPONENT` for this cluster, for example `restart
    /// kube-apiserver`; panics when it fails, unless the thread panics already.
    pub fn control(&self, verb: &str, component: &str) {
        let status = Command::new(paths::local_cluster())
            .args([verb, component, "--dir"])
            .arg(&self.addresses.dir)
            .status();
        let done = status.is_ok_and(|status| status.success());
        assert!(done || std::thread::panicking(), "local-cluster {verb} {component}");
    }

    /// Returns a client that acts as the administrator.
    ///
    /// Each test needs its own: a client stops working with the runtime that made it.
    pub async fn client(&self) -> kube::Client {
        client_from(&self.addresses.kubeconfig).await
    }
}

fn is_established(crd: &serde_json::Value) -> bool {
    condition_of(crd, "Established")["status"] == "True"
}

/// Returns a free address of a port that the system gives to nobody by itself, that `local-cluster` does
/// not use, and that no other test of this program was given lately, so that it is still free when a
/// process that had it is started again. The gate tests the image beside other tests: even ports are its.
pub(crate) fn free_address() -> String {
    static GIVEN: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));
    let odd = u16::from(std::env::var_os("OLM_IMAGE_ROOT").is_none());
    let mut ports =
        std::iter::repeat_with(|| 32_000 + 2 * (GIVEN.fetch_add(1, Ordering::Relaxed) % 384) + odd);
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = ports.find(free).expect("it never ends");
    format!("127.0.0.1:{port}")
}

/// Returns the objects of a folder with manifests, rendered once.
fn manifests(folder: &str) -> Arc<Vec<serde_json::Value>> {
    static RENDERED: Mutex<BTreeMap<String, Arc<Vec<serde_json::Value>>>> =
        Mutex::new(BTreeMap::new());
    let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = rendered.entry(folder.to_owned()).or_insert_with(|| Arc::new(render(folder)));
    Arc::clone(objects)
}

/// Returns what `kubectl kustomize` prints of a folder.
pub fn kustomize(folder: &Path) -> String {
    let kubectl = Command::new(paths::local_cluster())
        .args(["kubectl", "kustomize"])
        .arg(folder)
        .env_remove("KUBECONFIG")
        .output()
        .expect("local-cluster runs; build it with `make local-cluster`");
    let errors = String::from_utf8_lossy(&kubectl.stderr);
    assert!(kubectl.status.success(), "{}: {errors}", folder.display());
    String::from_utf8(kubectl.stdout).expect("text")
}

fn render(folder: &str) -> Vec<serde_json::Value> {
    let folder = paths::repository().join(folder);
    let text = if folder.join("kustomization.yaml").exists() {
        kustomize(&folder)
    } else {
        let files = paths::inside(&folder).into_iter();
        let texts = files.map(|file| std::fs::read_to_string(file).expect("text"));
        texts.collect::<Vec<_>>().join("\n---\n")
    };
    olm_core::yaml::to_json(&text).expect("YAML")
}

impl ControlPlane {
    /// Requests as the administrator, without a process for each.
    pub fn requests(&self) -> &Requests {
        self.requests.get_or_init(|| Requests::new(&self.addresses.kubeconfig))
    }

    /// Returns whether every component runs that was started with it.
    pub(crate) fn is_whole(&self) -> bool {
        let text = std::fs::read_to_string(self.addresses.dir.join("cluster.json"));
        let described = text.ok().and_then(|text| serde_json::from_str(&text).ok());
        described.is_some_and(|all: serde_json::Value| {
            all["pids"].as_object().is_some_and(|pids| pids.len() == COMPONENTS)
        })
    }

    /// Has it stop, and does not wait for that.
    pub(crate) fn stop(&self) {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        drop(stdin.take());
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.stop();
        let _ = self.process.wait();
    }
}

/// Options for starting a controller process.
#[derive(Debug, Clone, Default)]
pub struct ControllerOptions {
    /// Distinguishes the folders of several controllers on one cluster.
    pub name: String,
    /// Further arguments. Unless they say where serving certificates come from, those of the
    /// control plane are served and trusted.
    pub args: Vec<String>,
    /// The Deployment the process belongs to; without one it is started as most tests need it.
    pub manifest: Option<Manifest>,
    /// Another program than [`paths::controller`].
    pub program: Option<PathBuf>,
}

impl ControllerOptions {
    /// Returns the options of a process of this name with further arguments.
    pub fn of(name: &str, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { name: name.to_owned(), args, ..Self::default() }
    }
}

/// A container of a Deployment, which a test starts in the place of a kubelet.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Namespace of the Deployment.
    pub namespace: String,
    /// Service account of its pods.
    pub account: String,
    /// Arguments of the container.
    pub args: Vec<String>,
}

impl Manifest {
    /// Reads the only container of a Deployment.
    pub fn of(deployment: &serde_json::Value) -> Self {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let pod = &deployment["spec"]["template"]["spec"];
        let args = pod["containers"][0]["args"].as_array();
        Self {
            namespace: text(&deployment["metadata"]["namespace"]),
            account: text(&pod["serviceAccountName"]),
            args: args.expect("a container has arguments").iter().map(text).collect(),
        }
    }

    /// Returns the arguments without those that only make sense in a pod.
    fn portable(&self) -> impl Iterator<Item = &String> {
        let of_a_pod = |arg: &&String| OF_A_POD.iter().any(|flag| arg.starts_with(flag));
        self.args.iter().filter(move |arg| !of_a_pod(arg))
    }

    fn has(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg.starts_with(flag))
    }
}

/// The controller as a local process, with the rights of `config/rbac` and nothing more.
pub struct Controller {
    process: Child,
    options: ControllerOptions,
    dir: PathBuf,
}

impl Controller {
    /// Starts the controller on `plane` and waits until it is ready.
    pub fn start(plane: &ControlPlane, options: ControllerOptions) -> Self {
        Self::start_at(plane, None, options)
    }

    /// The same, but the controller reaches the API server only through `proxy`, also after a
    /// restart.
    pub fn start_through(plane: &ControlPlane, proxy: &Proxy, options: ControllerOptions) -> Self {
        Self::start_at(plane, Some(proxy), options)
    }

    fn start_at(plane: &ControlPlane, proxy: Option<&Proxy>, options: ControllerOptions) -> Self {
        let name = if options.name.is_empty() { "controller" } else { &options.name };
        let dir = plane.addresses.dir.join(format!("{name}-state"));
        std::fs::create_dir_all(&dir).expect("a folder for the controller");
        let (namespace, account) = match &options.manifest {
            Some(manifest) => (manifest.namespace.as_str(), manifest.account.as_str()),
            None => (SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT),
        };
        let kubeconfig = kubeconfig_of(plane, proxy, &dir, (namespace, account));
        let process = Self::spawn(plane, &dir, &kubeconfig, &options);
        let mut controller = Self { process, options, dir };
        controller.wait_ready();
        controller
    }

    fn spawn(
        plane: &ControlPlane,
        dir: &Path,
        kubeconfig: &Path,
        options: &ControllerOptions,
    ) -> Child {
        timed::started("controller");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(dir.join("log"))
            .expect("a log file");
        let errors = log.try_clone().expect("a second handle of the log");
        let listen = dir.join("listen.json");
        // A restarted controller uses the same port again, because it is in the status of catalogs.
        let catalogs = std::fs::read_to_string(&listen)
            .ok()
            .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
            .and_then(|listening| listening["catalogs"].as_str().map(str::to_owned))
            .unwrap_or_else(free_address);
        let _ = std::fs::remove_file(&listen);
        let mut command = Command::new("sh");
        command
            .args(["-c", KILL_WITH_PARENT])
            .arg(dir.join("pid"))
            .arg(options.program.clone().unwrap_or_else(paths::controller))
            .args(["--catalogs-server-addr", &catalogs])
            .args(["--health-probe-bind-address", "127.0.0.1:0"])
            .args(["--metrics-bind-address", "127.0.0.1:0"])
            .arg("--listen-info")
            .arg(&listen)
            // In the place of the volumes of a pod.
            .arg("--cache-dir")
            .arg(dir.join("catalogs"))
            .arg("--cache-path")
            .arg(dir.join("bundles"));
        let own = options.manifest.as_ref();
        let chosen = |arg: &String| arg.starts_with("--serving-certificates=");
        let given = !options.args.iter().any(chosen);
        if given && own.is_none_or(|manifest| manifest.has("--tls-cert")) {
            command
                .arg("--tls-cert")
                .arg(&plane.addresses.controller_cert)
                .arg("--tls-key")
                .arg(&plane.addresses.controller_key);
        }
        if given && own.is_none_or(|manifest| manifest.has("--catalogd-cas-dir")) {
            let folder = plane.addresses.controller_ca.parent();
            command.arg("--catalogd-cas-dir").arg(folder.expect("a folder"));
        }
        match own {
            Some(manifest) => {
                command.args(["--system-namespace", &manifest.namespace]).args(manifest.portable())
            }
            None => command.args(["--system-namespace", SYSTEM_NAMESPACE]),
        };
        command
            .args(&options.args)
            .env("KUBECONFIG", kubeconfig)
            .env("CONTAINERS_REGISTRIES_CONF", &plane.addresses.registries_conf)
            // Credentials of whoever runs the test are never used.
            .env("REGISTRY_AUTH_FILE", dir.join("auth.json"))
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("olm-controller starts; build it with `cargo build`")
    }

    fn wait_ready(&mut self) {
        let deadline = Instant::now() + START;
        while !self.dir.join("listen.json").exists() {
            let ended = self.process.try_wait().expect("the process can be asked");
            assert!(
                !(ended.is_some() || Instant::now() > deadline),
                "the controller is not ready (ended: {ended:?}):\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Returns what the controller has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Returns whether the process still runs, and the end of its log, to help understand a stall.
    pub fn last_words(&self) -> String {
        // Its shell waits for it, so signal 0 finds it exactly as long as it runs.
        let alive = Command::new("kill")
            .args(["-0", &self.pid().to_string()])
            .stderr(Stdio::null())
            .status();
        let state = match alive {
            Ok(status) if status.success() => "runs",
            Ok(_) | Err(_) => "is gone",
        };
        let log = self.log();
        let lines: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        format!("the controller {state}; its log ends:\n{}", lines.join("\n"))
    }

    /// Returns the process id of the controller.
    pub fn pid(&self) -> u32 {
        let text = std::fs::read_to_string(self.dir.join("pid")).expect("the controller started");
        text.trim().parse().expect("the shell wrote a number")
    }

    /// Sends a signal, for example `TERM`, `STOP` or `CONT`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {signal}");
    }

    /// Returns the exit code of the process, if it has ended.
    pub fn exit_code(&mut self) -> Option<i32> {
        let ended = self.process.try_wait().expect("the process can be asked");
        ended.map(|status| status.code().unwrap_or(-1))
    }

    /// Kills the process (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }

    /// Replaces the further arguments, for the next start.
    pub fn set_args(&mut self, args: &[&str]) {
        self.options.args = args.iter().map(|&arg| arg.to_owned()).collect();
    }

    /// Starts the process again, with the same state and ports; one that runs is killed first.
    pub fn restart(&mut self, plane: &ControlPlane) {
        self.kill();
        self.process = Self::spawn(plane, &self.dir, &self.dir.join("kubeconfig"), &self.options);
        self.wait_ready();
    }

    /// Requests the metrics, as Prometheus does, until they are served.
    pub async fn metrics(&self) -> String {
        let (_, account) = SCRAPER.split_once(':').unwrap_or_default();
        let token = std::fs::read_to_string(self.dir.with_file_name(account));
        let token = token.expect("the control plane has a scraper");
        wait::until("metrics are served", SERVED, || async {
            match self.scrape(&scraping(), Some(&token)).await {
                (200, text) => Ok(text),
                refused => Err(refused),
            }
        })
        .await
    }

    /// Requests the metrics with a token, and returns status code and text; the code is 0 where nothing
    /// answers.
    pub async fn scrape(&self, client: &reqwest::Client, token: Option<&str>) -> (u16, String) {
        let address =
            self.listening()["metrics"].as_str().expect("the controller serves metrics").to_owned();
        let mut request = client.get(format!("https://{address}/metrics"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        match request.send().await {
            Ok(answer) => {
                (answer.status().as_u16(), answer.text().await.expect("metrics are text"))
            }
            Err(error) => (0, format!("{error:?}")),
        }
    }

    /// Requests a health endpoint, `healthz` or `readyz`, and returns the status code; 0 where nothing
    /// answers.
    pub async fn health(&self, endpoint: &str) -> u16 {
        let address = self.listening()["health"].as_str().unwrap_or_default().to_owned();
        let answer = reqwest::get(format!("http://{address}/{endpoint}")).await;
        answer.map_or(0, |answer| answer.status().as_u16())
    }

    /// Returns the addresses the controller listens on, by name (`catalogs`, `metrics`,
    /// `health`).
    pub fn listening(&self) -> serde_json::Value {
        let text =
            std::fs::read_to_string(self.dir.join("listen.json")).expect("the controller is ready");
        serde_json::from_str(&text).expect("listen.json is JSON")
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a client that takes any certificate.
pub fn scraping() -> reqwest::Client {
    reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().expect("a client")
}

/// Returns a client that acts as the controller's service account, through `proxy`.
pub async fn client_through(plane: &ControlPlane, proxy: &Proxy) -> kube::Client {
    let dir = tempfile::tempdir().expect("a temporary folder");
    client_from(&kubeconfig_through(plane, proxy, dir.path())).await
}

/// Writes a kubeconfig into `dir` with which one acts as the controller's service account, through
/// `proxy`.
pub fn kubeconfig_through(plane: &ControlPlane, proxy: &Proxy, dir: &Path) -> PathBuf {
    kubeconfig_of(plane, Some(proxy), dir, (SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT))
}

/// Writes a kubeconfig into `dir` with a token of a service account, so that the controller runs with the
/// rights of `config/rbac` and never as the administrator.
pub fn kubeconfig_of(
    plane: &ControlPlane,
    proxy: Option<&Proxy>,
    dir: &Path,
    (namespace, account): (&str, &str),
) -> PathBuf {
    let token = plane.token(namespace, account);
    let (url, ca_file) = match proxy {
        Some(proxy) => (proxy::with_token(&proxy.url(), &token), None),
        None => (plane.addresses.api_server.clone(), Some(&plane.addresses.ca_file)),
    };
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "controller",
        "contexts": [{"name": "controller", "context": {"cluster": "local", "user": "controller"}}],
        "clusters": [{"name": "local", "cluster": {
            "server": url,
            "certificate-authority": ca_file,
        }}],
        "users": [{"name": "controller", "user": {"token": token}}],
    });
    let file = dir.join("kubeconfig");
    std::fs::write(&file, config.to_string()).expect("the kubeconfig is written");
    file
}

pub(crate) async fn client_from(kubeconfig: &Path) -> kube::Client {
    // It may be installed already by another test, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("the kubeconfig is usable");
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

/// The control plane that all tests of one test program share, with a client of the calling
/// test's runtime.
#[derive(Clone)]
pub struct Cluster {
    /// The shared control plane.
    pub plane: &'static ControlPlane,
    /// A client that acts as the administrator.
    pub client: kube::Client,
    /// Registry, `127.0.0.1:<port>`.
    pub registry: String,
    /// Folder with all files of this cluster.
    pub dir: PathBuf,
    _running: Option<Arc<Running>>,
}

/// The control plane of one test, which goes back or stops with the last handle on it.
enum Running {
    Borrowed(Option<Pooled>),
    Own(&'static ControlPlane),
}

impl Drop for Running {
    fn drop(&mut self) {
        match self {
            Self::Borrowed(pooled) => pooled.take().into_iter().for_each(pool::give_back),
            Self::Own(plane) => plane.stop(),
        }
    }
}

/// Returns the control plane all tests of this program share, without a controller on it.
pub async fn shared() -> Cluster {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    timed::begin();
    let plane = tokio::task::spawn_blocking(|| PLANE.get_or_init(ControlPlane::start))
        .await
        .expect("the control plane starts");
    Cluster::of(plane).await
}

/// Lends a prepared control plane to one test, without a controller on it. It goes back with the
/// last of these handles, and is stopped where it cannot be as it was.
pub async fn own() -> Cluster {
    lend(true).await
}

/// The same, with a controller of this name that has further arguments.
pub async fn started(name: &str, args: &[&str]) -> (Cluster, Controller) {
    let cluster = own().await;
    let controller = crate::controller::start(cluster.plane, name, args).await;
    (cluster, controller)
}

/// [`own`], with nothing of ours on it.
pub async fn empty() -> Cluster {
    lend(false).await
}

async fn lend(prepared: bool) -> Cluster {
    timed::begin();
    let pooled = tokio::task::spawn_blocking(move || pool::borrow(prepared)).await;
    let pooled = pooled.expect("the control plane starts");
    let plane = pooled.plane;
    let running = Some(Arc::new(Running::Borrowed(Some(pooled))));
    Cluster { _running: running, ..Cluster::of(plane).await }
}

/// Starts a control plane that only one test ever uses: its audit log has nothing else.
pub async fn new() -> Cluster {
    timed::begin();
    let plane = tokio::task::spawn_blocking(ControlPlane::start).await;
    let plane: &'static ControlPlane =
        Box::leak(Box::new(plane.expect("the control plane starts")));
    let running = Some(Arc::new(Running::Own(plane)));
    Cluster { _running: running, ..Cluster::of(plane).await }
}

impl Cluster {
    /// Returns a handle on a control plane that somebody else keeps running.
    pub async fn of(plane: &'static ControlPlane) -> Self {
        Self {
            plane,
            client: plane.client().await,
            registry: plane.addresses.registry.clone(),
            dir: plane.addresses.dir.clone(),
            _running: None,
        }
    }
}

/// Returns the control plane all tests of this program share, with one controller of all
/// components on it.
pub async fn with_controller() -> Cluster {
    let cluster = shared().await;
    let plane = cluster.plane;
    tokio::task::spawn_blocking(move || {
        CONTROLLER.get_or_init(|| {
            // The CRDs of the gate make the cluster look like OpenShift, but its service CA does
            // not exist here.
            let args = vec!["--webhook-certificates=self-signed".to_owned()];
            let options = ControllerOptions { args, ..ControllerOptions::default() };
            Controller::start(plane, options)
        });
    })
    .await
    .expect("the controller starts");
    cluster
}

/// The shared controller, as long as the test program runs.
static CONTROLLER: OnceLock<Controller> = OnceLock::new();

/// Returns the process id of the shared controller, once there is one.
pub fn shared_controller() -> Option<u32> {
    CONTROLLER.get().map(Controller::pid)
}
