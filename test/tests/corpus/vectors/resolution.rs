//! `resolution.json` and `resolve-real.jsonl`: resolution.md 1.13.

use olm_api::{CatalogFilter, UpgradeConstraintPolicy};
use olm_core::catalog::read::{self, Meta};
use olm_core::catalog::{Content, Property, schema};
use olm_core::error::Chain;
use olm_core::resolve::{
    Catalog, CatalogProblem, Decision, Dependencies, Environment, GroupVersionKind, Installed,
    Knowledge, Options, Provider, ProviderOrigin, Reason, Request, Resolution, ServedKinds,
    Unavailability, UpdatePolicy, classic, resolve,
};
use olm_test::prelude::*;

use super::{conclude, json as json_file, rows, shared, text};

/// Why a catalog of a case cannot be used, if so.
fn problem(row: &Value) -> Option<CatalogProblem> {
    match row["state"].as_str().unwrap_or("Healthy") {
        "Healthy" => None,
        "NotServing" => Some(CatalogProblem::NotServing),
        "NoResolvedSource" => Some(CatalogProblem::NoResolvedSource),
        "NoImage" => Some(CatalogProblem::NoImage),
        "CacheMissing" => Some(CatalogProblem::NotCached),
        "FetchFailed" => {
            // The one case with a failed download has its text only in the expectation.
            let cause = row["fetchError"].as_str();
            let cause = cause.unwrap_or("error performing request: connection refused");
            Some(CatalogProblem::FetchFailed(cause.to_owned()))
        }
        other => panic!("unknown state {other}"),
    }
}

/// The content that each catalog of a case has, if any.
fn contents(case: &Value) -> Vec<Option<Content>> {
    let content = |row: &Value| {
        let blobs = row["fbc"].as_array().into_iter().flatten();
        let blobs = blobs.map(|blob| Meta::parse(&blob.to_string()).unwrap());
        let has_content = problem(row).is_none() || row["contentForResolvedDigest"] == true;
        has_content.then(|| Content::from_blobs(&blobs.collect::<Vec<_>>()))
    };
    case["catalogs"].as_array().unwrap().iter().map(content).collect()
}

fn catalogs<'a>(case: &'a Value, contents: &'a [Option<Content>]) -> Vec<Catalog<'a>> {
    let rows = case["catalogs"].as_array().unwrap().iter().zip(contents);
    let catalog = |(row, content): (&'a Value, &'a Option<Content>)| {
        let name = text(row, "name");
        let labels = row["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()));
        let own = (keys::label::METADATA_NAME.to_owned(), name.to_owned());
        Catalog {
            name,
            labels: labels.chain([own]).collect(),
            priority: row["priority"].as_i64().unwrap_or(0).try_into().unwrap(),
            enabled: row["availabilityMode"] != "Unavailable",
            problem: problem(row),
            content: content.as_ref(),
        }
    };
    rows.map(catalog).collect()
}

fn installed(value: &Value) -> Option<Installed> {
    value.as_object()?;
    Some(Installed {
        name: text(value, "name").to_owned(),
        version: text(value, "version").to_owned(),
        release: value["release"].as_str().map(ToOwned::to_owned),
    })
}

/// Reads the state of the cluster in a case; a case without one gives none.
fn environment(cluster: &Value) -> Environment {
    let Some(installed) = cluster["installed"].as_array() else { return Environment::default() };
    let property = |property: &Value| Property {
        kind: text(property, "type").to_owned(),
        value: property["value"].to_string(),
    };
    let provider = |row: &Value| {
        let origin = ProviderOrigin::ClusterExtension(text(row, "extension").to_owned());
        let properties = row["properties"].as_array().into_iter().flatten();
        let properties: Vec<_> = properties.map(property).collect();
        Provider::new(origin, text(row, "package"), text(row, "version"))
            .with_constraints(&properties)
            .with_properties(properties)
    };
    let kind = |kind: &Value| {
        let mut parts = kind.as_str().unwrap().splitn(3, '/').map(ToOwned::to_owned);
        let mut part = || parts.next().unwrap();
        GroupVersionKind { group: part(), version: part(), kind: part() }
    };
    let served = ServedKinds {
        kinds: cluster["served"].as_array().unwrap().iter().map(kind).collect(),
        ..ServedKinds::default()
    };
    Environment {
        resolving: cluster["self"].as_str().unwrap_or("resolved").to_owned(),
        kube_version: None,
        served: Knowledge::Known(served.into()),
        providers: Knowledge::Known(installed.iter().map(provider).collect::<Vec<_>>().into()),
    }
}

fn request(case: &Value) -> Request {
    let filter = &case["spec"]["source"]["catalog"];
    Request {
        filter: serde_json::from_value(filter.clone()).unwrap(),
        installed: installed(&case["installed"]),
        ..Request::default()
    }
}

fn options(case: &Value, unavailability: Unavailability) -> Options {
    Options {
        release_support: case["options"]["bundleReleaseSupport"] == true,
        unavailability,
        updates: UpdatePolicy::Any,
        closed_until: None,
        dependencies: if case["options"]["constraintChecking"] == true {
            Dependencies::Check
        } else {
            Dependencies::Refuse
        },
        pins_releases: unavailability == Unavailability::Provable,
    }
}

/// Runs one case in one mode and returns the difference from the expectation, if any.
fn run(case: &Value, unavailability: Unavailability, expected: &Value) -> Option<String> {
    let contents = contents(case);
    let catalogs = catalogs(case, &contents);
    let options = options(case, unavailability);
    let environment = environment(&case["cluster"]);
    differs(&resolve(&request(case), &catalogs, &environment, &options), expected, case)
}

fn differs(resolution: &Resolution<'_>, expected: &Value, case: &Value) -> Option<String> {
    let mut ours = serde_json::Map::new();
    match &resolution.result {
        Err(error) => {
            ours.insert("error".to_owned(), Chain(error).to_string().into());
        }
        Ok(selected) => {
            let mut add = |key: &str, value: Value| ours.insert(key.to_owned(), value);
            let release = selected.version.release.clone().unwrap_or_default();
            add("bundle", selected.bundle.name.as_str().into());
            add("version", selected.version.version.to_string().into());
            add("release", release.to_string().into());
            add("catalog", selected.catalog.into());
            let from = selected.deprecations.map(|_| selected.catalog);
            add("deprecationFrom", from.into());
            if resolution.unavailable_note().is_some() {
                add("event", "CatalogUnavailable".into());
            }
        }
    }
    if let Decision::Keep(Some(_)) = resolution.decision() {
        let name = case["installed"]["name"].clone();
        ours.insert("hold".to_owned(), name);
        ours.insert("progressingReason".to_owned(), "Retrying".into());
    }
    let unfit = resolution.held.iter().find_map(|held| match &held.reason {
        Reason::Unfit(why) => Some(json!({"bundle": held.bundle, "because": why.to_string()})),
        _ => None,
    });
    ours.insert("held".to_owned(), unfit.into());
    let expected = expected.as_object().expect("an expectation is an object");
    let same = expected.iter().all(|(key, value)| ours.get(key) == Some(value));
    (!same).then(|| format!("expected {expected:?}\n    ours: {ours:?}"))
}

fn inline_cases(name: &str, mode: Unavailability, expectation: fn(&Value) -> Value) {
    let document = json_file("vectors/resolution.json");
    let cases = document["cases"].as_array().unwrap();
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let difference = run(case, mode, &expectation(case))?;
            Some(format!("{} {}: {difference}", case["id"], case["title"]))
        })
        .collect();
    conclude(name, cases.len(), &differences);
}

#[test]
fn inline_cases_as_upstream() {
    inline_cases("resolution.json, Strict", Unavailability::Strict, |case| case["expect"].clone());
}

/// A case with `hold` also expects the text of upstream's error; one with `held` also expects what
/// upstream chooses.
#[test]
fn inline_cases_as_ours() {
    inline_cases("resolution.json, Provable", Unavailability::Provable, |case| {
        // Upstream can pin no release (resolution.md 2).
        if case["id"] == "R025" {
            return json!({"bundle": "foo.v1.0.0+1", "version": "1.0.0", "release": "1"});
        }
        let mut expected = case["expect"].clone();
        if let Some(ours) = case["expectOurs"].as_object() {
            if !ours.contains_key("hold") && !ours.contains_key("held") {
                return Value::Object(ours.clone());
            }
            expected.as_object_mut().unwrap().extend(ours.clone());
        }
        expected
    });
}

// resolution.md 6.3
#[test]
fn what_classic_would_do() {
    let document = json_file("vectors/resolution.json");
    let cases = document["cases"].as_array().unwrap();
    let cases = cases.iter().filter(|case| case["classic"].is_object());
    let mut count = 0;
    let differences: Vec<String> = cases
        .inspect(|_| count += 1)
        .filter_map(|case| {
            let (contents, request) = (contents(case), request(case));
            let catalogs = catalogs(case, &contents);
            let options = options(case, Unavailability::Strict);
            let environment = environment(&case["cluster"]);
            let resolution = resolve(&request, &catalogs, &environment, &options);
            let content = contents.first()?.as_ref()?;
            let package = content.package(&request.filter.package_name)?.unwrap();
            let steps = classic(package, &request, &resolution).into_iter();
            let ours: Vec<_> =
                steps.map(|step| json!({"channel": step.channel, "next": step.answer()})).collect();
            let expected = &case["classic"];
            (ours != [expected.clone()])
                .then(|| format!("{}: {expected}, ours {ours:?}", case["id"]))
        })
        .collect();
    conclude("resolution.json, classic", count, &differences);
}

/// Reads a catalog directory below the shared data.
fn directory(path: &Path) -> Content {
    let files = olm_test::bundles::below(path, "");
    let files = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    let metas = read::read_catalog(files).unwrap();
    assert!(metas.iter().any(|meta| meta.schema == schema::BUNDLE));
    Content::from_blobs(&metas)
}

#[test]
fn real_requests() {
    let rows = rows("vectors/resolve-real.jsonl");
    let mut contents: BTreeMap<String, Content> = BTreeMap::new();
    for row in &rows {
        for catalog in row["catalogs"].as_array().unwrap() {
            let dir = text(catalog, "dir");
            if !contents.contains_key(dir) {
                contents.insert(dir.to_owned(), directory(&shared("catalogs").join(dir)));
            }
        }
    }
    let differences: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let ours = real_answer(row, &contents);
            let same = match row["error"].as_str() {
                Some(error) => ours["error"].as_str().is_some_and(|it| it.starts_with(error)),
                None => ["bundle", "resolvedVersion", "hasDeprecation"]
                    .iter()
                    .all(|key| ours[*key] == row[*key]),
            };
            (!same).then(|| format!("{row}\n    ours: {ours}"))
        })
        .collect();
    conclude("resolve-real.jsonl", rows.len(), &differences);
}

fn real_answer(row: &Value, contents: &BTreeMap<String, Content>) -> Value {
    let catalog = |catalog| Catalog {
        name: text(catalog, "name"),
        labels: BTreeMap::new(),
        priority: catalog["priority"].as_i64().unwrap().try_into().unwrap(),
        enabled: true,
        problem: None,
        content: contents.get(text(catalog, "dir")),
    };
    let catalogs: Vec<_> = row["catalogs"].as_array().unwrap().iter().map(catalog).collect();
    let channels = row["channels"].as_array().into_iter().flatten();
    let request = Request {
        filter: CatalogFilter {
            package_name: text(row, "package").to_owned(),
            version: row["version"].as_str().map(ToOwned::to_owned),
            channels: channels.map(|it| it.as_str().unwrap().to_owned()).collect(),
            selector: None,
            upgrade_constraint_policy: (row["policy"] == "SelfCertified")
                .then_some(UpgradeConstraintPolicy::SelfCertified),
        },
        installed: installed(&row["installed"]),
        ..Request::default()
    };
    let options = Options {
        updates: UpdatePolicy::Any,
        dependencies: Dependencies::Check,
        ..Options::default()
    };
    match resolve(&request, &catalogs, &Environment::default(), &options).result {
        Ok(selected) => json!({
            "bundle": selected.bundle.name,
            "resolvedVersion": selected.version.recorded(),
            "hasDeprecation": selected.deprecations.is_some(),
        }),
        Err(error) => json!({"error": Chain(&error).to_string()}),
    }
}
