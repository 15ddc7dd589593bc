use olm_core::error::Chain;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

fn parse(text: &str) -> Result<Registries, RegistriesError> {
    let mut registries = Registries::default();
    registries.add(Path::new("registries.conf"), text)?;
    Ok(registries)
}

/// One case of `testdata/registries.toml`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Case {
    name: String,
    file: String,
    #[serde(default)]
    drop_ins: Vec<String>,
    #[serde(default)]
    image: String,
    #[serde(default)]
    from: Vec<String>,
    refused: Option<String>,
    #[serde(rename = "in")]
    place: Option<String>,
}

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

impl Case {
    /// Loads the files, and returns the endpoints of the image.
    fn outcome(&self, directory: &Path) -> Result<Vec<String>, RegistriesError> {
        let drop_ins = directory.join("d");
        std::fs::create_dir(&drop_ins).unwrap();
        let file = directory.join("conf");
        std::fs::write(&file, &self.file).unwrap();
        for (number, text) in (1..).zip(&self.drop_ins) {
            std::fs::write(drop_ins.join(format!("{number}.conf")), text).unwrap();
        }
        let registries = Registries::load(&RegistriesPaths {
            drop_ins: vec![drop_ins],
            ..RegistriesPaths::new(Some(file))
        })?;
        if self.image.is_empty() {
            return Ok(vec![]);
        }
        let endpoints = registries.endpoints(&self.image.parse().unwrap())?;
        Ok(endpoints.iter().map(shown).collect())
    }
}

fn shown(endpoint: &Endpoint) -> String {
    let insecure = if endpoint.insecure { "insecure " } else { "" };
    let blocked = endpoint.blocked.as_ref().map_or("", |_| "blocked ");
    format!("{insecure}{blocked}{}", endpoint.image)
}

// catalogs.md 5.4
#[test]
fn files_mean_what_they_mean_to_other_tools_or_are_refused() {
    let cases: Cases = toml::from_str(include_str!("../testdata/registries.toml")).unwrap();
    let mut wrong = Vec::new();
    for case in cases.case {
        let dir = tempfile::tempdir().unwrap();
        let outcome = case.outcome(dir.path());
        let name = &case.name;
        match (outcome, &case.refused) {
            (Ok(from), None) if from == case.from => {}
            (Err(err), Some(refused)) => {
                let place = match &case.place {
                    Some(place) => dir.path().join("d").join(place),
                    None => dir.path().join("conf"),
                };
                let head = format!("invalid registries configuration \"{}\": ", place.display());
                let text = Chain(&err).to_string();
                if !text.starts_with(&head) || !text.ends_with(refused) {
                    wrong.push(format!("{name}: {text}"));
                }
            }
            (outcome, _) => wrong.push(format!("{name}: {outcome:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// A location that forms no valid reference is only found when it is used, and then reported.
#[test]
fn a_place_that_is_none_is_named_with_its_registry() {
    let text = "\n[[registry]]\nprefix = 'quay.io'\nlocation = 'oci://x'\n";
    let registries = parse(text).unwrap();
    let err = registries.endpoints(&"quay.io/a:1".parse().unwrap()).unwrap_err();
    assert_eq!(
        err.to_string(),
        "rewriting reference \"quay.io/a:1\" to \"oci://x/a:1\" for registry \"quay.io\" of \
         configuration \"registries.conf\""
    );
}

#[test]
fn a_push_goes_where_the_reference_says() {
    let text = "[[registry]]\nlocation = 'a.io'\ninsecure = true\n\
                [[registry]]\nlocation = 'b.io'\n[[registry.mirror]]\nlocation = 'a.io'\n\
                insecure = true\n";
    let registries = parse(text).unwrap();
    let is_insecure = |image: &str| registries.is_insecure(&image.parse().unwrap());
    assert!(is_insecure("a.io/x:1"));
    assert!(!is_insecure("b.io/x:1") && !is_insecure("c.io/x:1"));
}

// catalogs.md O15
#[test]
fn drop_ins_replace_entries_in_name_order() {
    let dir = tempfile::tempdir().unwrap();
    let drop_ins = dir.path().join("registries.conf.d");
    std::fs::create_dir(&drop_ins).unwrap();
    let entry = |to: &str| format!("[[registry]]\nprefix = 'a.io'\nlocation = '{to}'");
    std::fs::write(dir.path().join("registries.conf"), entry("one.io")).unwrap();
    std::fs::write(drop_ins.join("20.conf"), entry("three.io")).unwrap();
    std::fs::write(drop_ins.join("10.conf"), entry("two.io")).unwrap();
    std::fs::write(drop_ins.join("30.txt"), "not read").unwrap();
    std::fs::create_dir(drop_ins.join("40.conf")).unwrap();
    std::os::unix::fs::symlink("gone", drop_ins.join("50.conf")).unwrap();
    let file = Some(dir.path().join("registries.conf"));
    let endpoints = |paths: &RegistriesPaths| {
        let registries = Registries::load(paths).unwrap();
        let found = registries.endpoints(&"a.io/x:1".parse().unwrap()).unwrap();
        found.iter().map(shown).collect::<Vec<_>>()
    };
    let paths = RegistriesPaths { drop_ins: vec![drop_ins], ..RegistriesPaths::new(file) };
    assert_eq!(endpoints(&paths), ["three.io/x:1"]);
    let user = dir.path().join("user");
    std::fs::create_dir(&user).unwrap();
    let paths =
        RegistriesPaths { drop_ins: [paths.drop_ins, vec![user.clone()]].concat(), ..paths };
    for (name, want) in [("15.conf", "three.io/x:1"), ("20.conf", "user.io/x:1")] {
        std::fs::write(user.join(name), entry("user.io")).unwrap();
        assert_eq!(endpoints(&paths), [want], "{name}");
    }
}

#[test]
fn missing_file_matters_only_when_it_was_named() {
    let missing = PathBuf::from("/nonexistent/registries.conf");
    assert!(Registries::load(&RegistriesPaths::new(Some(missing.clone()))).is_err());
    let system = RegistriesPaths {
        file: missing,
        drop_ins: vec!["/nonexistent/d".into()],
        ..RegistriesPaths::default()
    };
    assert_eq!(Registries::load(&system).unwrap(), Registries::default());
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }
}
