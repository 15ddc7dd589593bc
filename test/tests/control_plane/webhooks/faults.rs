//! Secrets that are lost or damaged, and a controller that is killed meanwhile.

use olm_test::prelude::*;

use super::foreign::a_ca_that_lost_its_owner_is_taken_over;
use super::{Hooked, delete, put};

impl Hooked {
    /// Waits until the server has another certificate than `old`, issued by the current CA, which
    /// callers trust.
    async fn has_other_leaf(&self, what: &str, old: &str) {
        wait::until(what, SOON, || async {
            let leaf = self.leaf().await.ok_or("no certificate")?;
            let authority = self.authority().await.ok_or("no CA")?;
            if leaf["tls.crt"] == old {
                return Err("the old certificate");
            }
            if leaf["ca.crt"] != authority["ca.crt"] {
                return Err("a certificate of another CA");
            }
            let trusted = self.ca_bundle().contains(&authority["ca.crt"]);
            trusted.then_some(()).ok_or("callers do not trust the CA")
        })
        .await;
    }
}

// rendering.md 4.11: survives deletion of either Secret; damage is repaired and reported
#[tokio::test(flavor = "multi_thread")]
async fn lost_and_damaged_secrets_come_back() {
    let hooked = Hooked::set("lost").await;
    let extension = hooked.install().await;
    let name = hooked.scene.package.certificate();
    let labels = hooked.leaves().get(&name).await.expect("it is there").metadata.labels;
    let labels = labels.unwrap_or_default();
    assert_eq!(labels["olm.operatorframework.io/owner-name"], extension.name);
    assert_eq!(labels["olm.operatorframework.io/owner-kind"], "ClusterExtension");
    a_ca_that_lost_its_owner_is_taken_over(&hooked, &extension).await;

    let first = hooked.leaf().await.expect("it is there");
    delete(&hooked.leaves(), &name).await;
    hooked.has_other_leaf("a lost certificate", &first["tls.crt"]).await;

    let second = hooked.leaf().await.expect("it is there");
    assert_eq!(second["ca.crt"], first["ca.crt"]);
    put(&hooked.leaves(), &name, json!({"tls.crt": "not a certificate"})).await;
    hooked.has_other_leaf("a damaged certificate", "not a certificate").await;
    let said = "certificate of a webhook issued into Secret";
    let is_it =
        |note: &String| note.starts_with(said) && note.ends_with("certificate cannot be read");
    let is_said = |notes: &Vec<String>| notes.iter().any(is_it);
    let events = || hooked.scene.events("CertificateReplaced");
    wait::value("the damage is said", SOON, events, is_said).await;
    assert_eq!(extension.revisions().await.len(), 1, "no revision for certificates");

    let third = hooked.leaf().await.expect("it is there");
    let authority = hooked.authority_name();
    delete(&hooked.authorities(), &authority).await;
    hooked.has_other_leaf("a lost CA", &third["tls.crt"]).await;
    let followed = hooked.authority().await.expect("it is there")["ca.crt"].clone();
    assert_ne!(followed, first["ca.crt"]);
    // Servers may use the old certificate for a while.
    assert_eq!(hooked.ca_bundle(), format!("{followed}{}", first["ca.crt"]));
    extension.installed("1.0.0").await;

    let fourth = hooked.leaf().await.expect("it is there");
    put(&hooked.authorities(), &authority, json!({"ca.key": "not a key"})).await;
    hooked.has_other_leaf("a damaged CA", &fourth["tls.crt"]).await;
    assert_ne!(hooked.authority().await.expect("it is there")["ca.crt"], followed);

    extension.delete().await;
    assert_eq!((hooked.leaf().await, hooked.authority().await), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_between_ca_and_certificate_goes_on() {
    let (cluster, mut controller) =
        cluster::started("", &["--webhook-certificates=self-signed"]).await;
    let plane = cluster.plane;
    let hooked = Hooked::set_on(cluster, "between").await;
    let namespace = hooked.scene.name.clone();
    let no_secrets = "--hard=count/secrets=0";
    plane.kubectl(&["create", "quota", "none", no_secrets, "--namespace", &namespace]);
    // It holds once somebody has counted.
    let probe = ["secret", "probe", "--namespace", &namespace];
    wait::until("the quota holds", SOON, || async {
        let kind = [&["create", "secret", "generic"][..], &probe[1..]].concat();
        match plane.try_kubectl(&kind, "") {
            Ok(made) => {
                plane.kubectl(&[&["delete"][..], &probe].concat());
                Err(made)
            }
            Err(_) => Ok(()),
        }
    })
    .await;
    let extension = hooked.scene.install(json!({})).await;
    let why = format!(
        "writing Secret {namespace}/{} with the certificate of a webhook: ",
        hooked.scene.package.certificate()
    );
    extension.shows("Progressing", "True", "Retrying", &why).await;
    let authority = hooked.authority().await.expect("the CA is written first");
    assert_eq!(hooked.leaf().await, None);
    assert_eq!(extension.revisions().await.len(), 0, "nothing runs without a certificate");

    controller.kill();
    plane.kubectl(&["delete", "quota", "none", "--namespace", &namespace]);
    controller.restart(plane);
    extension.installed("1.0.0").await;
    let now = hooked.authority().await.expect("the CA is there");
    assert_eq!(now["ca.crt"], authority["ca.crt"]);
    let leaf = hooked.leaf().await.expect("it is there");
    assert_eq!(leaf["ca.crt"], now["ca.crt"]);
    assert_eq!(hooked.ca_bundle(), now["ca.crt"]);

    // A controller that did not run when Secrets were lost notices it at the start.
    controller.kill();
    delete(&hooked.leaves(), &hooked.scene.package.certificate()).await;
    controller.restart(plane);
    hooked.has_other_leaf("a certificate lost meanwhile", &leaf["tls.crt"]).await;

    // A foreign Secret is never overwritten.
    controller.kill();
    let name = hooked.scene.package.certificate();
    plane.kubectl(&["delete", "secret", &name, "--namespace", &namespace]);
    plane.kubectl(&["create", "secret", "generic", &name, "--namespace", &namespace]);
    controller.restart(plane);
    let why = format!("Secret {namespace}/{name} exists and is not of this extension");
    extension.shows("Progressing", "True", "Retrying", &why).await;
    plane.kubectl(&["delete", "secret", &name, "--namespace", &namespace]);
    hooked.has_other_leaf("a name that is free again", &leaf["tls.crt"]).await;
    extension.delete().await;
    assert_eq!((hooked.leaf().await, hooked.authority().await), (None, None));
}
