//! Foreign Secrets with the name of the CA of an extension.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_test::prelude::*;
use rcgen::KeyPair;

use super::calls::{DAY, ca_params, valid};
use super::{Hooked, delete};

/// A CA that could be one of the controller's.
fn authority() -> BTreeMap<String, ByteString> {
    let key = KeyPair::generate().expect("a key");
    let mut params = ca_params();
    valid(&mut params, DAY, 3649 * DAY);
    let pem = params.self_signed(&key).expect("a certificate").pem();
    [("ca.crt", pem), ("ca.key", key.serialize_pem())]
        .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
        .into()
}

fn password() -> BTreeMap<String, ByteString> {
    BTreeMap::from([("password".to_owned(), ByteString(b"hunter2".to_vec()))])
}

impl Hooked {
    /// Creates a foreign Secret with the name of the CA, replacing the CA if it exists.
    async fn occupy(&self, data: BTreeMap<String, ByteString>) -> Secret {
        let secret = Secret {
            metadata: ObjectMeta { name: Some(self.authority_name()), ..ObjectMeta::default() },
            data: Some(data),
            ..Secret::default()
        };
        // The controller may recreate its CA between the two requests.
        wait::until("the name is taken", SOON, || async {
            if self.authority().await.is_some() {
                delete(&self.authorities(), &self.authority_name()).await;
            }
            self.authorities().create(&PostParams::default(), &secret).await
        })
        .await
    }

    async fn is_untouched(&self, secret: &Secret) {
        let found = self.authorities().get(&self.authority_name()).await;
        assert_eq!(&found.expect("it is still there"), secret);
    }

    /// Installs with a foreign Secret in place, frees its name, takes it again and uninstalls.
    async fn keeps_off(&self, data: BTreeMap<String, ByteString>) {
        let theirs = self.occupy(data.clone()).await;
        let extension = self.scene.install(json!({})).await;
        let why = format!(
            "Secret {SYSTEM_NAMESPACE}/{} exists and is not of this extension, but has the name of \
             the CA of its webhooks: delete or rename it",
            self.authority_name()
        );
        extension.shows("Progressing", "True", "Retrying", &why).await;
        assert_eq!(extension.revisions().await.len(), 0);
        assert_eq!(self.leaf().await, None, "nothing is issued by it");
        self.is_untouched(&theirs).await;

        delete(&self.authorities(), &self.authority_name()).await;
        extension.installed("1.0.0").await;
        let ours = self.authority().await.expect("the CA is there");
        let leaf = self.leaf().await.expect("there is a certificate");
        assert_eq!(leaf["ca.crt"], ours["ca.crt"]);

        let theirs = self.occupy(data).await;
        extension.delete().await;
        self.is_untouched(&theirs).await;
        delete(&self.authorities(), &self.authority_name()).await;
    }
}

// rendering.md 4.11: the name of an extension decides which Secret its CA is in, and a tenant
// chooses that name
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_somebody_else_is_never_the_ca() {
    let hooked = Hooked::set("foreign").await;
    hooked.keeps_off(password()).await;
    // Its content does not make it ours.
    hooked.keeps_off(authority()).await;
}

// rendering.md 4.11: a CA restored from a backup, or of an orphaned extension, is used again
pub(super) async fn a_ca_that_lost_its_owner_is_taken_over(hooked: &Hooked, extension: &Extension) {
    let first = hooked.authority().await.expect("the CA is there");
    let owners = |secret: &Secret| secret.metadata.owner_references.clone().unwrap_or_default();
    let (api, name) = (hooked.authorities(), hooked.authority_name());
    let orphan = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    let orphaned = api.patch(&name, &PatchParams::default(), &orphan).await;
    let orphaned = orphaned.expect("the administrator may change Secrets");
    assert_eq!(owners(&orphaned), []);
    extension.patch_spec(json!({"progressDeadlineMinutes": 20})).await;
    let taken = wait::until("the CA has its owner again", SOON, || async {
        let found = api.get(&name).await.expect("it is there");
        if owners(&found).is_empty() { Err(()) } else { Ok(found) }
    })
    .await;
    assert_eq!(taken.metadata.uid, orphaned.metadata.uid);
    assert_eq!(owners(&taken)[0].name, extension.name);
    assert_eq!(hooked.authority().await, Some(first));
}
