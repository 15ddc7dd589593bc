//! Files of a catalog: reading, indexing, resolving. Nothing panics; reading its lines again gives
//! the same answer.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use olm_api::CatalogFilter;
use olm_core::catalog::Content;
use olm_core::catalog::read::{self, Meta};
use olm_core::error::Chain;
use olm_core::explain::explain;
use olm_core::resolve::{Catalog, Environment, Installed, Options, Request, resolve};

fn answer(content: &Content, package: &str, installed: Option<Installed>) -> String {
    let catalogs = [Catalog {
        name: "fuzz",
        labels: BTreeMap::new(),
        priority: 0,
        enabled: true,
        problem: None,
        content: Some(content),
    }];
    let request = Request {
        filter: CatalogFilter { package_name: package.to_owned(), ..CatalogFilter::default() },
        installed,
        ..Request::default()
    };
    let (environment, options) = (Environment::default(), Options::default());
    let resolution = resolve(&request, &catalogs, &environment, &options);
    let report = explain(&request, &catalogs, &environment, &options, Some("1.0.0"));
    let _ = report.headline();
    match resolution.result {
        Ok(selected) => selected.bundle.name.clone(),
        Err(error) => Chain(&error).to_string(),
    }
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = text.lines().try_for_each(|line| Meta::parse(line).map(drop)) {
        let _ = Chain(&error).to_string();
    }
    let metas = match read::read_catalog([("catalog.yaml", input)]) {
        Ok(metas) => metas,
        Err(error) => {
            let _ = Chain(&error).to_string();
            return;
        }
    };
    let first = Content::from_blobs(&metas);
    let lines = metas.iter().map(|meta| Meta::parse(&meta.json));
    let again: Vec<_> = lines.collect::<Result<_, _>>().expect("what we wrote can be read");
    let second = Content::from_blobs(&again);
    for (name, package) in first.packages() {
        let oldest = package.ok().and_then(|package| package.bundles.last());
        let installed = oldest.and_then(|bundle| {
            Some(Installed {
                name: bundle.name.clone(),
                version: bundle.version(false).ok()?.version.to_string(),
                release: None,
            })
        });
        for installed in [None, installed] {
            let answers = [&first, &second].map(|content| answer(content, name, installed.clone()));
            assert_eq!(answers[0], answers[1]);
        }
    }
});
