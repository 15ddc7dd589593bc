use super::*;
use rstest::rstest;

#[rstest]
#[case("10m", Some(600))]
#[case("1h30m", Some(5400))]
#[case("12h", Some(43200))]
#[case("10", None)]
#[case("m", None)]
#[case("", None)]
#[case("0s", None)]
#[case("99999999999h", None)]
fn durations_are_read_as_go_prints_them(#[case] text: &str, #[case] seconds: Option<u64>) {
    assert_eq!(duration(text).ok().map(|value| value.as_secs()), seconds);
}

#[rstest]
#[case("8GiB", Some(8 << 30))]
#[case("1Mi", Some(1 << 20))]
#[case("64KiB", Some(65536))]
#[case("65536", Some(65536))]
#[case("0", None)]
#[case("GiB", None)]
#[case("8GB", None)]
#[case("99999999999GiB", None)]
fn sizes_are_read_in_powers_of_two(#[case] text: &str, #[case] want: Option<u64>) {
    assert_eq!(bytes(text).ok(), want);
}

fn parsed(flags: &[&str]) -> Args {
    Args::try_parse_from([&["olm-controller"], flags].concat()).unwrap()
}

// deploying.md P4
#[rstest]
#[case("catalogd", true)]
#[case("operator-controller", false)]
fn the_name_of_the_program_selects_its_parts(#[case] program: &str, #[case] catalogs: bool) {
    let runs = |component| parsed(&[]).runs(component, program);
    assert_eq!(runs(Component::Catalogs), catalogs);
    assert_eq!([Component::Extensions, Component::Gate].map(runs), [!catalogs; 2]);
}

// rendering.md 2 and 4.11
#[rstest]
#[case(&[], WebhookCertificates::Auto)]
#[case(&["--webhook-certificates=self-signed"], WebhookCertificates::SelfSigned)]
#[case(&["--feature-gates=WebhookProviderCertManager=true"],
    WebhookCertificates::CertManager)]
#[case(&["--feature-gates=WebhookProviderCertManager=false"],
    WebhookCertificates::ServiceCa)]
#[case(&["--feature-gates=WebhookProviderOpenshiftServiceCA=true"],
    WebhookCertificates::ServiceCa)]
#[case(&["--feature-gates=WebhookProviderOpenshiftServiceCA=false"],
    WebhookCertificates::CertManager)]
#[case(&["--feature-gates=WebhookProviderCertManager=true,\
    WebhookProviderOpenshiftServiceCA=true"], WebhookCertificates::CertManager)]
#[case(&["--feature-gates=WebhookProviderCertManager=true,\
    WebhookProviderOpenshiftServiceCA=false"], WebhookCertificates::CertManager)]
#[case(&["--feature-gates=WebhookProviderCertManager=false,\
    WebhookProviderOpenshiftServiceCA=false"], WebhookCertificates::None)]
#[case(&["--webhook-certificates=none"], WebhookCertificates::None)]
#[case(&["--feature-gates=WebhookProviderCertManager=false", "--webhook-certificates=auto"],
    WebhookCertificates::Auto)]
fn the_flag_then_the_gates_choose_the_source_of_certificates(
    #[case] flags: &[&str],
    #[case] want: WebhookCertificates,
) {
    assert_eq!(parsed(flags).certificates(), want);
}

// deploying.md 6.2
#[rstest]
#[case("kube-system/*,flux-system/boss", Some(2))]
#[case("kube-system/*, flux-system/boss", Some(2))]
#[case("", Some(0))]
#[case("kube-*/x", None)]
#[case("kube-system", None)]
fn forbidden_accounts_are_patterns_joined_by_commas(
    #[case] text: &str,
    #[case] count: Option<usize>,
) {
    let flag = format!("--forbidden-service-accounts={text}");
    let args = Args::try_parse_from(["olm-controller", &flag]).ok();
    let patterns = args.and_then(|args| args.forbidden_service_accounts);
    assert_eq!(patterns.map(|patterns| patterns.0.len()), count);
}

// deploying.md 2.4
#[rstest]
#[case(&[], ServingCertificates::None)]
#[case(&["--tls-cert=c", "--tls-key=k"], ServingCertificates::Files)]
#[case(&["--serving-certificates=self-signed"], ServingCertificates::SelfSigned)]
#[case(&["--tls-cert=c", "--tls-key=k", "--serving-certificates=none"],
    ServingCertificates::None)]
fn serving_certificates_come_from_files_where_files_are_given(
    #[case] flags: &[&str],
    #[case] want: ServingCertificates,
) {
    let args = parsed(flags);
    assert_eq!(args.serving_certificates(), want);
    let idle = args.tls_cert.is_some() && want != ServingCertificates::Files;
    assert_eq!(args.warnings().len(), usize::from(idle));
}

// deploying.md 2.4
#[test]
fn the_ca_of_catalogs_is_read_from_the_system_namespace() {
    let parsed = |flag| Args::try_parse_from(["olm-controller", "--system-namespace=s", flag]);
    let map = |flag| parsed(flag).unwrap().catalogd_ca();
    let named = |namespace: &str, name: &str| ObjectName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(map("--v=0"), named("s", "olm-serving-ca"));
    assert_eq!(map("--catalogd-ca-configmap=a/b"), named("a", "b"));
    assert!(parsed("--catalogd-ca-configmap=b").is_err());
}

// applying.md k4
#[test]
fn certificate_without_key_is_refused() {
    let error = Args::try_parse_from(["olm-controller", "--tls-cert=x"]).unwrap_err();
    assert!(error.to_string().contains("--tls-key"), "{error}");
}

#[test]
fn the_last_word_on_a_gate_counts() {
    let args = parsed(&[
        "--feature-gates=DeploymentConfig=true, DeploymentConfig=False",
        "--feature-gates=BundleReleaseSupport=1,",
        "--feature-gates=",
    ]);
    assert!(!args.is_on(FeatureGate::DeploymentConfig));
    assert!(args.is_on(FeatureGate::BundleReleaseSupport));
    assert!(args.is_on(FeatureGate::SingleOwnNamespaceInstallSupport));
}

// deploying.md P4: what the binaries of upstream's main (df2c201d) and of OpenShift know, of which their
// Deployments use a part: none of it stops the start.
#[test]
fn every_flag_and_gate_of_upstream_is_known() {
    let flags = "add_dir_header=true alsologtostderr=true alsologtostderrthreshold=2 cache-dir=/c \
        cache-path=/c catalogd-cas-dir=/c catalogs-server-addr=:8443 external-address=c.svc \
        gc-interval=12h global-pull-secret=n/s health-probe-bind-address=:8081 kubeconfig=/k \
        leader-elect=true legacy_stderr_threshold_behavior=true log_backtrace_at=a.go:1 log_dir=/l \
        log_file=/l log_file_max_size=1800 logtostderr=true metrics-bind-address=:8443 \
        one_output=true pprof-bind-address=0 pull-cas-dir=/c skip_headers=true \
        skip_log_headers=true stderrthreshold=2 system-namespace=n tls-cert=/c \
        tls-custom-ciphers=TLS_AES_128_GCM_SHA256 tls-custom-curves=X25519,prime256v1 \
        tls-custom-version=TLSv1.3 tls-key=/k tls-profile=custom v=4 vmodule=a=1 \
        webhook-server-port=9443";
    let gates = "APIV1MetasHandler AllAlpha AllBeta BoxcutterRuntime BundleReleaseSupport \
        DeploymentConfig GraphQLCatalogQueries HelmChartSupport PreflightPermissions \
        SingleOwnNamespaceInstallSupport SyntheticPermissions WebhookProviderCertManager \
        WebhookProviderOpenshiftServiceCA";
    for on in [true, false] {
        let flags = flags.split_whitespace().map(|flag| format!("--{flag}"));
        let gates = gates.split_whitespace().map(|gate| format!("--feature-gates={gate}={on}"));
        let line = ["olm-controller".to_owned()].into_iter().chain(flags).chain(gates);
        Args::try_parse_from(line).unwrap();
    }
    let bare = parsed(&["--alsologtostderr", "--v=2"]);
    assert_eq!(bare.logtostderr, ["true"]);
}

// What OpenShift passes; a gate that does nothing is never silent.
#[test]
fn what_does_nothing_is_said() {
    let warnings = |flags: &[&str]| parsed(flags).warnings();
    let silent: [&str; 4] = [
        "--leader-elect",
        "--extension-lease=n/l",
        "--pprof-bind-address=0",
        "--feature-gates=PreflightPermissions=false,BoxcutterRuntime=true",
    ];
    assert_eq!(warnings(&silent), [""; 0]);
    let told = warnings(&[
        "--feature-gates=PreflightPermissions=true,HelmChartSupport=true,AllBeta=true",
        "--feature-gates=GraphQLCatalogQueries=true,AllAlpha=true,SyntheticPermissions=true",
        "--feature-gates=BoxcutterRuntime=false",
        "--logtostderr=true",
        "--pprof-bind-address=:6060",
        "--webhook-server-port=9443",
        "--catalog-lease=n/l",
        "--feature-gates=OfTomorrow=false",
        "--require-approval",
        "--account-policy=off",
    ]);
    let subjects = [
        "AllAlpha",
        "AllBeta",
        "GraphQLCatalogQueries",
        "HelmChartSupport",
        "PreflightPermissions",
        "SyntheticPermissions",
        "OfTomorrow is not known",
        "BoxcutterRuntime",
        "klog",
        "--pprof-bind-address",
        "--webhook-server-port",
        "--catalog-lease",
        "--require-approval",
    ];
    assert_eq!(told.len(), subjects.len(), "{told:#?}");
    for (warning, subject) in told.iter().zip(subjects) {
        assert!(warning.contains(subject), "{warning}");
    }
}

// deploying.md 6.3
#[rstest]
#[case(&["--account-policy=require"], false)]
#[case(&["--named-service-account=ignore", "--account-policy=off"], false)]
#[case(&["--named-service-account=ignore", "--account-policy=require"], true)]
fn names_are_not_ignored_where_the_policies_are_required(
    #[case] flags: &[&str],
    #[case] refused: bool,
) {
    assert_eq!(parsed(flags).contradiction().is_some(), refused);
}

#[test]
fn leases_have_upstreams_names_unless_told_otherwise() {
    let lease = |flags: &[&str], component| {
        let flags = [&["--system-namespace=system"], flags].concat();
        let lease = parsed(&flags).lease(component);
        format!("{}/{}", lease.namespace, lease.name)
    };
    let upstream = "system/9c4404e7.operatorframework.io";
    assert_eq!(lease(&[], Component::Extensions), upstream);
    assert_eq!(lease(&[], Component::Gate), upstream);
    assert_eq!(lease(&[], Component::Catalogs), "system/catalogd-operator-lock");
    let moved = ["--catalog-lease=a/b", "--extension-lease=c/d"];
    assert_eq!(lease(&moved, Component::Catalogs), "a/b");
    assert_eq!(lease(&moved, Component::Gate), "c/d");
    assert!("a".parse::<ObjectName>().is_err());
}
