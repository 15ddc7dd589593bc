//! Changes of CRDs with the API server as judge: what passes harms no object, and each kind of change
//! that does not pass can harm one.

use std::sync::LazyLock;

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use olm_core::crd_safety::{Definition, Rules, compare};
use olm_core::yaml;
use olm_test::package;
use olm_test::prelude::*;
use serde_json::Map;

const STEP: Duration = Duration::from_secs(30);
/// Pairs of schemas whose change passes, and how many are made to find them.
const PAIRS: usize = 24;
const MOST: usize = 2000;
/// Values that are tried for the field of each pair.
const VALUES: usize = 8;

/// A CRD that is changed, with its objects.
struct Changed {
    crds: Api<DynamicObject>,
    objects: Api<DynamicObject>,
    crd: String,
    kind: String,
}

/// An object before the change: its name, what it was made of, and what the API server made of that.
struct Made {
    name: String,
    spec: Value,
    stored: Value,
}

/// A CRD with one version, whose objects have these fields below `spec`. `marker` appears in every
/// object as soon as the schema counts.
fn definition(kind: &str, fields: &Value, marker: Option<&str>) -> Value {
    let mut properties = json!({"spec": {"type": "object", "properties": fields}});
    if let Some(marker) = marker {
        properties["marker"] = json!({"type": "string", "default": marker});
    }
    let mut crd = package::definition(kind, "changes.example.com");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": properties});
    crd
}

fn of_value(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

impl Changed {
    /// Makes a CRD, if the API server accepts it, and waits until it is served.
    async fn begin(client: &Client, crd: &Value) -> Result<Self, String> {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).expect("text");
        let kind = text("/spec/names/kind").to_owned();
        let gvk = GroupVersionKind::gvk(text("/spec/group"), "v1", &kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, text("/spec/names/plural"));
        let of_crds =
            GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let changed = Self {
            crds: Api::all_with(client.clone(), &ApiResource::from_gvk(&of_crds)),
            objects: Api::namespaced_with(client.clone(), "default", &resource),
            crd: text("/metadata/name").to_owned(),
            kind,
        };
        let created = changed.crds.create(&PostParams::default(), &of_value(crd.clone())).await;
        created.map_err(|error| error.to_string())?;
        wait::until("the CRD is served", STEP, || async {
            changed.objects.list(&ListParams::default()).await.map(|_| ())
        })
        .await;
        Ok(changed)
    }

    /// Makes an object, or only has it judged.
    async fn create(&self, name: &str, spec: &Value, dry_run: bool) -> Result<Value, String> {
        let object = json!({"apiVersion": "changes.example.com/v1", "kind": self.kind,
            "metadata": {"name": name}, "spec": spec});
        let how = PostParams { dry_run, ..PostParams::default() };
        let created = self.objects.create(&how, &of_value(object)).await;
        created.map(|object| object.data["spec"].clone()).map_err(|error| error.to_string())
    }

    /// Makes an object unless the API server refuses it.
    async fn make(&self, name: String, spec: Value) -> Option<Made> {
        let stored = self.create(&name, &spec, false).await.ok()?;
        Some(Made { name, spec, stored })
    }

    /// Gives the CRD the versions of another, if the API server accepts them, and waits until they
    /// count for this object.
    async fn change(&self, new: &Value, object: &str) -> Result<(), String> {
        let versions = json!({"spec": {"versions": new["spec"]["versions"]}});
        let patch = Patch::Merge(versions);
        let patched = self.crds.patch(&self.crd, &PatchParams::default(), &patch).await;
        patched.map_err(|error| error.to_string())?;
        wait::until("the new schema counts", STEP, || async {
            match self.objects.get(object).await {
                Ok(found) if found.data["marker"] == "new" => Ok(()),
                other => Err(other.map(|found| found.data)),
            }
        })
        .await;
        Ok(())
    }

    /// Says how the change harmed an object. Values of fields that it did not have are harm only if
    /// `exact`.
    async fn harm(&self, made: &Made, exact: bool) -> Option<String> {
        let Made { name, spec, stored } = made;
        let differs = |found: &Value| if exact { found != stored } else { !holds(found, stored) };
        match self.objects.get(name).await {
            Err(error) => return Some(format!("it cannot be read: {error}")),
            Ok(found) if differs(&found.data["spec"]) => {
                return Some(format!("it is read as {}", found.data["spec"]));
            }
            Ok(_) => {}
        }
        let label = Patch::Merge(json!({"metadata": {"labels": {"written": "again"}}}));
        if let Err(error) = self.objects.patch(name, &PatchParams::default(), &label).await {
            return Some(format!("it cannot be written: {error}"));
        }
        // What an update leaves as it was is not judged: a copy is.
        match self.create(&format!("{name}-copy"), spec, true).await {
            Err(error) => Some(format!("it is not valid: {error}")),
            Ok(copy) if differs(&copy) => Some(format!("it would be made as {copy}")),
            Ok(_) => None,
        }
    }

    async fn delete(self) {
        let deleted = self.crds.delete(&self.crd, &DeleteParams::default()).await;
        deleted.expect("the CRD is deleted");
    }
}

/// Says whether a value has all that another has.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| holds(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len()
                && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
        }
        _ => whole == part,
    }
}

// applying.md 6.4: the table of kinds of changes; each row is a field of one CRD
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn the_api_server_agrees_with_every_verdict() {
    let client = cluster::shared().await.client;
    let file = paths::repository().join("src/core/testdata/crd_safety/changes.yaml");
    let text = std::fs::read_to_string(file).expect("the table");
    let rows = yaml::to_json(&text).expect("YAML").remove(0);
    let rows = rows.as_array().expect("rows");
    let fields = |side: &str| {
        let fields = rows.iter().enumerate();
        let fields = fields.map(|(index, row)| (format!("f{index}"), row[side].clone()));
        Value::Object(fields.collect())
    };
    let crd = definition("Change", &fields("old"), None);
    let changed = Changed::begin(&client, &crd).await.expect("the old CRD is accepted");
    let mut made = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (number, value) in row["objects"].as_array().expect("objects").iter().enumerate() {
            let spec = Value::Object(Map::from_iter([(format!("f{index}"), value.clone())]));
            let object = changed.make(format!("c{index}-{number}"), spec).await;
            made.push((row, object.unwrap_or_else(|| panic!("{}: is not valid", row["name"]))));
        }
    }
    let new = definition("Change", &fields("new"), Some("new"));
    changed.change(&new, &made[0].1.name).await.expect("the new CRD is accepted");
    let mut wrong = Vec::new();
    for (row, object) in &made {
        let passes = row["passes"] == true;
        match changed.harm(object, !passes).await {
            Some(harm) if passes => wrong.push(format!("{}: {harm}", row["name"])),
            None if !passes => wrong.push(format!("{}: does no harm", row["name"])),
            _ => {}
        }
    }
    changed.delete().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What schemas of a type may say: type, keyword and value.
static SAID: LazyLock<Vec<(String, String, Value)>> =
    LazyLock::new(|| paths::rows("test/tests/control_plane/crd_changes.yaml"));

/// Returns a schema of a random type that says a few things.
fn schema(random: &mut Random, depth: u32) -> Value {
    let scalars = ["string", "integer", "number"];
    let all = ["string", "integer", "array", "object", "map"];
    let type_ = if depth == 0 { *random.one_of(&scalars) } else { *random.one_of(&all) };
    let mut made = match type_ {
        "array" => json!({"type": "array", "items": schema(random, depth - 1)}),
        "map" => json!({"type": "object", "additionalProperties": schema(random, depth - 1)}),
        "object" => json!({"type": "object",
            "properties": {"a": schema(random, depth - 1), "b": schema(random, depth - 1)}}),
        scalar => json!({"type": scalar}),
    };
    for _ in 0..random.between(0, 2) {
        edit(random, &mut made);
    }
    made
}

/// Changes one keyword of a schema, or something below it.
fn edit(random: &mut Random, schema: &mut Value) {
    let below = ["/items", "/additionalProperties", "/properties/a", "/properties/b"];
    let below: Vec<_> =
        below.into_iter().filter(|pointer| schema.pointer(pointer).is_some()).collect();
    if !below.is_empty() && random.per_mille(500) {
        let pointer = *random.one_of(&below);
        edit(random, schema.pointer_mut(pointer).expect("it is there"));
        return;
    }
    let limited = schema.get("maxProperties").is_some();
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut)
        && random.per_mille(200)
    {
        // A default counts as a property.
        if fields.remove("b").is_none() && !limited {
            fields.insert("b".to_owned(), json!({"type": "string", "default": "a"}));
        }
        return;
    }
    let said: Vec<_> = SAID.iter().filter(|(type_, ..)| schema["type"] == *type_).collect();
    let (_, keyword, value) = *random.one_of(&said);
    if schema.get(keyword).is_some() && keyword != "type" && random.per_mille(500) {
        schema.as_object_mut().expect("a schema").remove(keyword);
    } else {
        schema[keyword] = value.clone();
    }
}

/// Returns a value of about the type that a schema asks for.
fn value(random: &mut Random, schema: &Value) -> Value {
    let texts = ["", "a", "b", "ab", "ba", "2026-01-31"];
    if schema["nullable"] == true && random.per_mille(200) {
        return Value::Null;
    }
    match schema["type"].as_str().unwrap_or_default() {
        "string" => json!(random.one_of(&texts)),
        "integer" => json!(random.between(0, 5)),
        "number" => random.one_of(&[json!(0), json!(1.5), json!(3), json!(4.5)]).clone(),
        "array" => {
            let length = random.between(0, 3);
            (0..length).map(|_| value(random, &schema["items"])).collect()
        }
        _ => {
            let entry = schema.get("additionalProperties");
            let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
            let mut members = Map::new();
            for name in ["a", "b", "z"] {
                let described = entry.or_else(|| schema["properties"].get(name));
                if (described.is_none() && !is_open) || !random.per_mille(600) {
                    continue;
                }
                let member = match described {
                    Some(schema) => value(random, schema),
                    None => unknown(random),
                };
                members.insert(name.to_owned(), member);
            }
            Value::Object(members)
        }
    }
}

/// Returns a value of a field that no schema describes.
fn unknown(random: &mut Random) -> Value {
    let values = [json!("a"), json!(7), json!(1.5), json!(null), json!(["a"]), json!({"z": "a"})];
    random.one_of(&values).clone()
}

// applying.md 6.4: whatever passes leaves every object valid, readable, writable and as it was
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn no_change_that_passes_harms_an_object() {
    let client = cluster::shared().await.client;
    let mut random = Random::from_environment();
    let (mut judged, mut objects) = (0, 0);
    for index in 0..MOST {
        if judged == PAIRS {
            break;
        }
        let kind = format!("Pair{index}");
        let before = schema(&mut random, 2);
        let mut after = before.clone();
        for _ in 0..random.between(1, 3) {
            edit(&mut random, &mut after);
        }
        let old = definition(&kind, &json!({"f": before}), None);
        let new = definition(&kind, &json!({"f": after}), Some("new"));
        let findings = compare(&Definition::of(&old), &Definition::of(&new), Rules::Loosenings);
        if before == after || !findings.is_empty() {
            continue;
        }
        // Not every schema is accepted, and not every value is valid.
        let Ok(changed) = Changed::begin(&client, &old).await else { continue };
        let mut made = Vec::new();
        for number in 0..VALUES {
            let spec = json!({"f": value(&mut random, &before)});
            made.extend(changed.make(format!("o{number}"), spec).await);
        }
        if let Some(first) = made.first()
            && changed.change(&new, &first.name).await.is_ok()
        {
            judged += 1;
            objects += made.len();
            for object in &made {
                let harm = changed.harm(object, false).await;
                assert_eq!(harm, None, "{} from {before} to {after}", object.spec);
            }
        }
        changed.delete().await;
    }
    println!("{judged} pairs, {objects} objects");
    assert_eq!(judged, PAIRS, "too few pairs pass");
}
