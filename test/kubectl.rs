//! What tests have kubectl do again and again, without a process each time: that takes a tenth of a
//! second of processor time, because all of Kubernetes is linked into it.
//!
//! The requests are kubectl's own: its field managers, validation and defaults. What is printed is
//! what tests read: objects, names, single fields and refusals. Everything else, and everything that
//! goes wrong in another way than by a refusal, is left to kubectl itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Map, Value, json};

use crate::requests::{self, JSON, MERGE, Requests};

/// Flags with a value, and the names that each has.
const WITH_VALUE: &[(&str, &[&str])] = &[
    ("namespace", &["--namespace", "-n"]),
    ("output", &["--output", "-o"]),
    ("filename", &["--filename", "-f"]),
    ("selector", &["--selector", "-l"]),
    ("patch", &["--patch", "-p"]),
    ("type", &["--type"]),
    ("as", &["--as"]),
    ("cascade", &["--cascade"]),
    ("wait", &["--wait"]),
    ("timeout", &["--timeout"]),
    ("manager", &["--field-manager"]),
    ("subresource", &["--subresource"]),
    ("validate", &["--validate"]),
    ("dry-run", &["--dry-run"]),
];
const SWITCHES: [&str; 5] =
    ["--server-side", "--force-conflicts", "--overwrite", "--ignore-not-found", "-A"];
/// How often a deletion is looked at, and how long.
const LOOK: Duration = Duration::from_millis(100);
const DELETION: Duration = Duration::from_mins(10);
/// How long after its CRD is established a kind may not be served yet.
const SERVED: Duration = Duration::from_secs(20);

/// What kubectl prints, or what it says where it fails; `None` where it has to be asked itself.
type Done = Option<Result<String, String>>;

/// Does what kubectl does with these arguments, if it is known here.
pub(crate) fn run(requests: &Requests, args: &[&str], input: &str) -> Done {
    let (words, flags) = split(args)?;
    let command = Command { requests, flags };
    match (*words.first()?, words.get(1..)?) {
        ("get", [kind, name]) => command.get(kind, name),
        ("get", [kind]) => command.list(kind),
        ("create", []) => command.each(input, |object, path| command.create(object, path)),
        ("apply", []) if command.is("--server-side") => {
            command.each(input, |object, path| command.apply(object, path))
        }
        ("create", [kind, name]) => command.named(kind, name),
        ("patch", [kind, name]) => command.patch(kind, name),
        ("annotate", [kind, name, changes @ ..]) => {
            command.mark(kind, name, "annotations", changes)
        }
        ("label", [kind, name, changes @ ..]) => command.mark(kind, name, "labels", changes),
        ("delete", [kind, names @ ..]) if !names.is_empty() => command.delete(kind, names),
        _ => None,
    }
}

/// Parts the words from the flags; `None` where one is not known or is there twice.
fn split<'a>(args: &[&'a str]) -> Option<(Vec<&'a str>, BTreeMap<&'static str, &'a str>)> {
    let (mut words, mut flags) = (Vec::new(), BTreeMap::new());
    let mut args = args.iter().copied();
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') {
            words.push(arg);
            continue;
        }
        if let Some(switch) = SWITCHES.iter().find(|switch| **switch == arg) {
            flags.insert(*switch, "");
            continue;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        };
        let (flag, _) = WITH_VALUE.iter().find(|(_, names)| names.contains(&name))?;
        let value = value.or_else(|| args.next())?;
        if flags.insert(*flag, value).is_some() {
            return None;
        }
    }
    Some((words, flags))
}

struct Command<'a> {
    requests: &'a Requests,
    flags: BTreeMap<&'static str, &'a str>,
}

impl Command<'_> {
    fn is(&self, switch: &str) -> bool {
        self.flags.contains_key(switch)
    }

    fn flag(&self, name: &str) -> Option<&str> {
        self.flags.get(name).copied()
    }

    /// Says whether there are no flags but these and those that every command has.
    fn only(&self, names: &[&str]) -> Option<()> {
        let common = ["namespace", "as"];
        let known = |flag: &&str| common.contains(flag) || names.contains(flag);
        self.flags.keys().all(known).then_some(())
    }

    fn namespace(&self) -> &str {
        self.flag("namespace").unwrap_or("default")
    }

    fn send(&self, method: Method, path: &str, content: &str, body: Option<&Value>) -> Sent {
        let forms = (JSON, content);
        match self.requests.exchange(self.flag("as"), method, path, forms, body) {
            Ok(object) => Some(Ok(object)),
            Err(kube::Error::Api(status)) => {
                let text = format!("Error from server ({}): {}", status.reason, status.message);
                Some(Err((status.code, text)))
            }
            Err(_) => None,
        }
    }

    fn read(&self, path: &str) -> Sent {
        self.send(Method::GET, path, JSON, None)
    }

    /// Returns the path of the objects of a kind that is named as a user names it.
    fn collection(&self, kind: &str, namespace: &str) -> Option<String> {
        // The Events that kubectl means are those of the first API, which is found another way.
        if !is_plain(kind) || kind.starts_with("ev") {
            return None;
        }
        self.requests.collection(&kind.to_lowercase(), namespace)
    }

    fn path(&self, kind: &str, name: &str) -> Option<String> {
        is_plain(name).then_some(())?;
        Some(format!("{}/{name}", self.collection(kind, self.namespace())?))
    }

    /// Says how a write names itself, and whether it is a dry run.
    fn query(&self, manager: &str) -> Option<String> {
        let manager = self.flag("manager").unwrap_or(manager);
        is_plain(&manager.replace('/', "")).then_some(())?;
        let validation = match self.flag("validate") {
            None | Some("true") => "Strict",
            Some("false") => "Ignore",
            Some(_) => return None,
        };
        let dry = match self.flag("dry-run") {
            None => "",
            Some("server") => "&dryRun=All",
            Some(_) => return None,
        };
        Some(format!("?fieldManager={manager}&fieldValidation={validation}{dry}"))
    }

    /// Does something with each object of the input, whose path is known for all of them.
    fn each(&self, input: &str, act: impl Fn(&Value, &str) -> Done) -> Done {
        (self.flag("filename")? == "-").then_some(())?;
        let read = match serde_json::from_str(input) {
            Ok(object) => vec![object],
            Err(_) => olm_core::yaml::to_json(input).ok()?,
        };
        let mut objects: Vec<Value> = Vec::new();
        for object in read {
            if object["kind"] == "List" {
                objects.extend(object["items"].as_array()?.iter().cloned());
            } else {
                objects.push(object);
            }
        }
        (!objects.is_empty()).then_some(())?;
        // Where the input defines kinds itself, they cannot be waited for.
        let defines = objects.iter().any(|object| object["kind"] == "CustomResourceDefinition");
        let patience = if defines { Duration::ZERO } else { SERVED };
        let paths = objects.iter().map(|object| self.like(object, patience));
        let paths: Option<Vec<_>> = paths.collect();
        let mut printed = String::new();
        for (object, path) in objects.iter().zip(paths?) {
            match act(object, &path)? {
                Ok(text) => printed += &text,
                refused @ Err(_) => return Some(refused),
            }
        }
        Some(Ok(printed))
    }

    /// Returns the path of the objects like this one, if that is served within `patience`.
    fn like(&self, object: &Value, patience: Duration) -> Option<String> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(self.namespace());
        object["metadata"]["name"].as_str().filter(|name| is_plain(name))?;
        let (api, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let deadline = Instant::now() + patience;
        loop {
            let path = self.requests.serving(api, kind, namespace);
            if path.is_some() || Instant::now() >= deadline {
                return path;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn create(&self, object: &Value, path: &str) -> Done {
        self.only(&CREATE)?;
        let path = format!("{path}{}", self.query("kubectl-create")?);
        made(self.send(Method::POST, &path, JSON, Some(object))?, "created")
    }

    fn apply(&self, object: &Value, path: &str) -> Done {
        self.only(&APPLY)?;
        let (name, query) = (object["metadata"]["name"].as_str()?, self.query("kubectl")?);
        let path = format!("{path}/{name}{query}&force={}", self.is("--force-conflicts"));
        let applied = self.send(Method::PATCH, &path, requests::APPLY, Some(object))?;
        made(applied, "serverside-applied")
    }

    /// Creates what has nothing but a name. Rights are left to kubectl, which takes so long that they
    /// are known afterwards.
    fn named(&self, kind: &str, name: &str) -> Done {
        let kind = match kind {
            "namespace" => "Namespace",
            "serviceaccount" => "ServiceAccount",
            _ => return None,
        };
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        self.create(&object, &self.like(&object, Duration::ZERO)?)
    }

    fn patch(&self, kind: &str, name: &str) -> Done {
        self.only(&["patch", "type", "manager", "subresource", "dry-run"])?;
        let content = match self.flag("type") {
            None | Some("strategic") => "application/strategic-merge-patch+json",
            Some("merge") => MERGE,
            Some(_) => return None,
        };
        let change: Value = serde_json::from_str(self.flag("patch")?).ok()?;
        let mut path = self.path(kind, name)?;
        if let Some(part) = self.flag("subresource") {
            let _ = write!(path, "/{part}");
        }
        path += &self.query("kubectl-patch")?;
        Some(done(self.send(Method::PATCH, &path, content, Some(&change))?, "patched"))
    }

    /// Sets and removes annotations or labels.
    fn mark(&self, kind: &str, name: &str, what: &str, changes: &[&str]) -> Done {
        self.only(&["--overwrite"])?;
        let mut marks = Map::new();
        for change in changes {
            match (change.split_once('='), change.strip_suffix('-')) {
                (Some((key, value)), _) => marks.insert(key.to_owned(), json!(value)),
                (None, Some(key)) => marks.insert(key.to_owned(), Value::Null),
                (None, None) => return None,
            };
        }
        (!marks.is_empty()).then_some(())?;
        let (verb, done_so) =
            if what == "labels" { ("label", "labeled") } else { ("annotate", "annotated") };
        let path = self.path(kind, name)? + &format!("?fieldManager=kubectl-{verb}");
        let change = json!({"metadata": {what: marks}});
        Some(done(self.send(Method::PATCH, &path, MERGE, Some(&change))?, done_so))
    }

    fn delete(&self, kind: &str, names: &[&str]) -> Done {
        self.only(&["cascade", "wait", "timeout", "dry-run", "--ignore-not-found"])?;
        let policy = match self.flag("cascade") {
            None | Some("background") => "Background",
            Some("foreground") => "Foreground",
            Some("orphan") => "Orphan",
            Some(_) => return None,
        };
        let mut options = json!({"propagationPolicy": policy});
        match self.flag("dry-run") {
            None => {}
            Some("server") => options["dryRun"] = json!(["All"]),
            Some(_) => return None,
        }
        let waits = !self.is("dry-run")
            && match self.flag("wait") {
                None | Some("true") => true,
                Some("false") => false,
                Some(_) => return None,
            };
        let within = self.within(DELETION)?;
        let paths: Option<Vec<_>> = names.iter().map(|name| self.path(kind, name)).collect();
        let (mut printed, mut going) = (String::new(), BTreeSet::new());
        for path in paths? {
            let answer = match self.send(Method::DELETE, &path, JSON, Some(&options))? {
                Ok(answer) => answer,
                Err((404, _)) if self.is("--ignore-not-found") => continue,
                Err((_, text)) => return Some(Err(text)),
            };
            let uid = [&answer["details"]["uid"], &answer["metadata"]["uid"]];
            let uid = uid.iter().find_map(|uid| uid.as_str()).map(str::to_owned);
            let _ = writeln!(printed, "{path} deleted");
            going.insert((path, uid));
        }
        let deadline = Instant::now() + within;
        while let Some((path, uid)) = going.first().cloned().filter(|_| waits) {
            let is_gone = match self.read(&path)? {
                Err((404, _)) => true,
                Err((_, text)) => return Some(Err(text)),
                Ok(found) => uid.is_some() && found["metadata"]["uid"].as_str() != uid.as_deref(),
            };
            if is_gone {
                going.remove(&(path, uid));
            } else if Instant::now() > deadline {
                return Some(Err(format!("error: timed out waiting for the condition on {path}")));
            } else {
                std::thread::sleep(LOOK);
            }
        }
        Some(Ok(printed))
    }

    fn within(&self, usual: Duration) -> Option<Duration> {
        let Some(text) = self.flag("timeout") else { return Some(usual) };
        Some(Duration::from_secs(text.strip_suffix('s')?.parse().ok()?))
    }

    fn get(&self, kind: &str, name: &str) -> Done {
        self.only(&["output", "--ignore-not-found"])?;
        let form = Form::of(self.flag("output")?)?;
        match self.read(&self.path(kind, name)?)? {
            Ok(found) => Some(Ok(form.print(found))),
            Err((404, _)) if self.is("--ignore-not-found") => Some(Ok(String::new())),
            Err((_, text)) => Some(Err(text)),
        }
    }

    fn list(&self, kind: &str) -> Done {
        self.only(&["output", "selector", "-A"])?;
        let form = Form::of(self.flag("output")?)?;
        let mut path = self.collection(kind, self.namespace())?;
        if self.is("-A") {
            path = path.replacen(&format!("namespaces/{}/", self.namespace()), "", 1);
        }
        if let Some(selector) = self.flag("selector") {
            selector.split(['=', ',', '/']).all(is_plain).then_some(())?;
            let selector = selector.replace('=', "%3D").replace(',', "%2C");
            let _ = write!(path, "?labelSelector={selector}");
        }
        let mut list = match self.read(&path)? {
            Ok(list) => list,
            Err((_, text)) => return Some(Err(text)),
        };
        // kubectl shows each object as it is alone.
        let (api, kind) = (list["apiVersion"].clone(), list["kind"].as_str()?.to_owned());
        let Value::Array(mut items) = list["items"].take() else { return None };
        for item in &mut items {
            item["apiVersion"] = api.clone();
            item["kind"] = json!(kind.strip_suffix("List")?);
        }
        match form {
            Form::Name => Some(Ok(items.into_iter().map(|item| form.print(item)).collect())),
            Form::Json => {
                items.iter_mut().for_each(plain);
                Some(Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()))
            }
            Form::Field(_) => None,
        }
    }
}

const CREATE: [&str; 4] = ["filename", "manager", "validate", "dry-run"];
const APPLY: [&str; 6] =
    ["filename", "manager", "validate", "dry-run", "--server-side", "--force-conflicts"];

/// An answer: an object, or the code and the words of a refusal; `None` where there is none.
type Sent = Option<Result<Value, (u16, String)>>;

/// Returns what is printed of an object that was written.
fn done(sent: Result<Value, (u16, String)>, how: &str) -> Result<String, String> {
    match sent {
        Ok(object) => Ok(format!("{} {how}\n", named(&object))),
        Err((_, text)) => Err(text),
    }
}

/// The same of one that is new, or may be. What is not found is its kind, so soon after its CRD.
fn made(sent: Result<Value, (u16, String)>, how: &str) -> Done {
    if matches!(sent, Err((404, _))) { None } else { Some(done(sent, how)) }
}

/// Says whether a text may stand in a path as it is.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c))
}

/// Returns the kind and the name of an object, as `-o name` prints them.
fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let name = text(&object["metadata"]["name"]);
    match text(&object["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Leaves out what kubectl does not show.
fn plain(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

/// The form in which an object is printed.
enum Form {
    Json,
    Name,
    /// A single field, by its path.
    Field(Vec<String>),
}

impl Form {
    fn of(output: &str) -> Option<Self> {
        match output {
            "json" => return Some(Self::Json),
            "name" => return Some(Self::Name),
            _ => {}
        }
        let path = output.strip_prefix("jsonpath={.")?.strip_suffix('}')?;
        if path.contains(|c: char| !c.is_ascii_alphanumeric() && !"./\\-_".contains(c)) {
            return None;
        }
        let path = path.replace("\\.", "\n");
        if path.contains('\\') {
            return None;
        }
        Some(Self::Field(path.split('.').map(|key| key.replace('\n', ".")).collect()))
    }

    fn print(&self, mut object: Value) -> String {
        match self {
            Self::Json => {
                plain(&mut object);
                object.to_string()
            }
            Self::Name => named(&object) + "\n",
            Self::Field(path) => text(path.iter().fold(&object, |value, key| &value[key])),
        }
    }
}

/// Returns a value as a jsonpath prints it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_and_flags_that_are_known() {
        let (words, flags) = split(&["get", "cm", "-n", "a", "x", "-o=name"]).expect("all known");
        assert_eq!(words, ["get", "cm", "x"]);
        assert_eq!(flags["namespace"], "a");
        assert_eq!(flags["output"], "name");
        assert!(split(&["get", "cm", "--watch"]).is_none());
        assert!(split(&["get", "cm", "-n", "a", "-n=b"]).is_none());
        assert!(split(&["get", "cm", "-n"]).is_none());
    }

    #[test]
    fn a_field_is_printed_as_kubectl_prints_it() {
        let object = json!({"a": {"b.c": "text", "d": ["v1"], "e": 3}});
        for (path, printed) in [
            ("jsonpath={.a.b\\.c}", "text"),
            ("jsonpath={.a.d}", r#"["v1"]"#),
            ("jsonpath={.a.e}", "3"),
            ("jsonpath={.a.none.at.all}", ""),
        ] {
            let form = Form::of(path).expect("a path");
            assert_eq!(form.print(object.clone()), printed, "{path}");
        }
        assert!(Form::of("jsonpath={.items[*].a}").is_none());
        assert!(Form::of("jsonpath={.a} {.b}").is_none());
        assert!(Form::of("yaml").is_none());
    }
}
