//! What Prometheus sees of the program and its objects.

use olm_test::prelude::*;

const SOON: Duration = Duration::from_secs(30);

/// A scrape shows the only extension, and what led to it (deploying.md 9.1).
pub(crate) async fn is_scraped(controller: &Controller, name: &str) {
    let of = |kind: &str, type_: &str| {
        format!("olm_{kind}_condition{{name=\"{name}\",type=\"{type_}\",status=\"True\"}} 1")
    };
    let lines = [
        of("clusterextension", "Installed"),
        of("clusterextension", "Ready"),
        of("clustercatalog", "Serving"),
        format!("olm_clustercatalog_enabled{{name=\"{name}\"}} 1"),
        "olm_clusterextensions{} 1".to_owned(),
        "olm_clusterobjectsets{state=\"succeeded\"} 1".to_owned(),
        "olm_install_duration_seconds_count 1".to_owned(),
        "olm_pull_total{result=\"unauthorized\"} 0".to_owned(),
        "olm_excessive_rights 0".to_owned(),
    ];
    controller.measures(&lines).await;
    let text = controller.metrics().await;
    for name in [
        "olm_pull_total{result=\"ok\"} ",
        "rest_client_requests_total{code=\"200\",method=\"GET\"} ",
        "olm_cache_bytes{kind=\"bundles\"} ",
        "olm_build_info{version=\"v",
        "process_resident_memory_bytes ",
    ] {
        assert!(text.contains(&format!("\n{name}")), "{name} in {text}");
    }
}

/// A scrape forgets an extension that is gone.
pub(crate) async fn is_forgotten(controller: &Controller, name: &str) {
    let left = format!("olm_clusterextension_condition{{name=\"{name}\"");
    let is_gone = |text: &String| !text.contains(&left);
    wait::read("the series are gone", SOON, || controller.metrics(), is_gone).await;
}
