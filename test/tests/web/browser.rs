//! A real browser, driven over `WebDriver`: plain HTTP to chromedriver, which needs no crate of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::{Arc, Mutex};

use olm_test::prelude::*;

/// What makes the programs appear.
const INSTALL: &str = "apt-get update && apt-get install -y chromium chromium-driver";

/// Whom the browser asks by itself, whatever is shown.
const OWN: [&str; 3] = [".google.com", ".googleapis.com", ".duckduckgo.com"];

/// A browser with a profile of its own that reaches nothing but this machine.
pub(crate) struct Browser {
    driver: Child,
    http: reqwest::Client,
    /// Address of the session.
    session: String,
    /// What was asked of anybody but this machine.
    foreign: Arc<Mutex<Vec<String>>>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without its driver the browser would go on.
        let rest = self.session.strip_prefix("http://").unwrap_or_default();
        if let Some((host, path)) = rest.split_once('/')
            && let Ok(mut stream) = TcpStream::connect(host)
        {
            let head =
                format!("DELETE /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            // It says so when the browser is gone, and keeps the connection.
            let _ = stream.read(&mut [0; 64]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts a browser.
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = driver.unwrap_or_else(|error| panic!("chromedriver: {error}; {INSTALL}"));
        let out = BufReader::new(driver.stdout.take().expect("a pipe"));
        let mut lines = out.lines().map(|line| line.expect("text"));
        let port = lines
            .find_map(|line| Some(line.split_once("successfully on port ")?.1.to_owned()))
            .expect("chromedriver says its port");
        // Whatever else it says must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let (proxy, foreign) = refusing_proxy();
        let profile = tempfile::tempdir().expect("a folder");
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
            format!("--proxy-server={proxy}"),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments}}}});
        let mut browser = Self {
            driver,
            http: reqwest::Client::new(),
            session: format!("http://127.0.0.1:{}/session", port.trim_end_matches('.')),
            foreign,
            _profile: profile,
        };
        let made = browser.call("", &wanted).await;
        let id = made["sessionId"].as_str().expect("a session");
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    async fn call(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let answer = self.http.post(&url).json(body).send().await;
        let answer: Value = answer.expect(path).json().await.expect("JSON");
        let value = answer["value"].clone();
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    /// Runs a command of the browser's own protocol.
    async fn devtools(&self, command: &str, parameters: Value) {
        self.call("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await;
    }

    /// Opens an address.
    pub(crate) async fn open(&self, url: &str) {
        self.call("/url", &json!({"url": url})).await;
    }

    /// Runs a function body in the page, with arguments, and returns what it returns.
    pub(crate) async fn script(&self, body: &str, arguments: Value) -> Value {
        self.call("/execute/sync", &json!({"script": body, "args": arguments})).await
    }

    /// Returns the address of the page.
    pub(crate) async fn address(&self) -> String {
        let address = self.script("return location.href", json!([])).await;
        address.as_str().expect("an address").to_owned()
    }

    /// Presses keys, as a person who has no mouse does.
    pub(crate) async fn press(&self, keys: &str) {
        let press = |key: char| {
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        };
        let keys: Vec<Value> = keys.chars().flat_map(press).collect();
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]});
        self.call("/actions", &body).await;
    }

    /// Shows pages in a color scheme and size.
    pub(crate) async fn look(&self, scheme: &str, width: u32, height: u32) {
        // Without motion, so that no color is on its way when it is looked at.
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Returns what is seen, as PNG in base64.
    pub(crate) async fn screenshot(&self) -> String {
        let answer = self.http.get(format!("{}/screenshot", self.session)).send().await;
        let answer: Value = answer.expect("an answer").json().await.expect("JSON");
        answer["value"].as_str().expect("a picture").to_owned()
    }

    /// Returns how different two pictures are, from 0 to 1, after both were made small.
    pub(crate) async fn difference(&self, one: &str, other: &str) -> f64 {
        self.open("about:blank").await;
        let body = json!({"script": include_str!("compare.js"), "args": [one, other]});
        let value = self.call("/execute/async", &body).await;
        value.as_f64().unwrap_or_else(|| panic!("{value}"))
    }

    /// Returns what the browser complained about.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let entries = self.call("/se/log", &json!({"type": "browser"})).await;
        let entries = entries.as_array().expect("entries").iter();
        entries.map(|entry| entry["message"].to_string()).collect()
    }

    /// Returns what pages asked of anybody but this machine.
    pub(crate) fn foreign(&self) -> Vec<String> {
        let asked = self.foreign.lock().expect("no panic");
        let own = |line: &&String| OWN.iter().any(|host| line.contains(host));
        asked.iter().filter(|line| !own(line)).cloned().collect()
    }
}

/// Listens where the browser looks for everything that is not this machine; notes the first line of
/// each request, and answers none.
fn refusing_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 512];
            let read = stream.read(&mut bytes).unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let line = text.lines().next().unwrap_or_default().to_owned();
            // The browser opens connections ahead that it asks nothing of.
            if !line.is_empty() {
                noted.lock().expect("no panic").push(line);
            }
        }
    });
    (address, asked)
}
