//! A second tenant, who may make ClusterObjectSets with an account of his own, and whose sets name
//! the extension of somebody else.

use kube::ResourceExt as _;
use olm_api::MAX_REVISION;
use olm_test::helm::owner;
use olm_test::prelude::*;

/// What admission says to somebody without the right on the finalizers of the extension.
const REFUSED: &str = "may not make a ClusterObjectSet a revision of ClusterExtension";

/// How a set names the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Label,
    OwnerReference,
    /// Both, and a number above every revision.
    Number,
    /// By the name that the next revision would have.
    Name,
}

/// The tenant, and the sets that are there.
pub(crate) struct Tenant {
    plane: &'static ControlPlane,
    client: kube::Client,
    name: String,
    sets: BTreeSet<String>,
    made: usize,
}

impl Tenant {
    /// Makes the tenant, with a namespace of the same name.
    pub(crate) fn settle(cluster: &Cluster, suffix: &str) -> Self {
        let name = format!("{suffix}-tenant");
        cluster.plane.settle(&name);
        let client = cluster.client.clone();
        Self { plane: cluster.plane, client, name, sets: BTreeSet::new(), made: 0 }
    }

    /// Creates a set that names the extension in some way: as the tenant, or as somebody whom
    /// admission lets do it. Returns what became of it, and whether it has the name of the next
    /// revision.
    pub(crate) async fn claim(
        &mut self,
        random: &mut Random,
        extension: &Extension,
    ) -> (String, bool) {
        let claims = [Claim::Label, Claim::OwnerReference, Claim::Number, Claim::Name];
        let claim = *random.one_of(&claims);
        let number = *random.one_of(&[50, MAX_REVISION]);
        let is_tenant = claim == Claim::Name || random.per_mille(500);
        let set = self.set(claim, number, extension).await;
        let name = set["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let user = format!("--as={}", self.name);
        let create: &[&str] = &["create", "-f", "-"];
        let args = if is_tenant { [&[user.as_str()], create].concat() } else { create.to_vec() };
        let plane = self.plane;
        let answer = tokio::task::block_in_place(|| plane.try_kubectl(&args, &set.to_string()));
        let became = match &answer {
            Ok(_) => "admitted",
            Err(text) if text.contains(REFUSED) => "refused",
            Err(text) if text.contains("already exists") => "too late",
            Err(text) => panic!("{claim:?}: {text}"),
        };
        if answer.is_ok() {
            self.sets.insert(name);
        }
        let who = if is_tenant { "the tenant" } else { "somebody" };
        let takes_name = claim == Claim::Name && answer.is_ok();
        (format!("{claim:?} claimed by {who}, {became}"), takes_name)
    }

    async fn set(&mut self, claim: Claim, number: i64, extension: &Extension) -> Value {
        self.made += 1;
        let (own, next) = (format!("{}-{}", self.name, self.made), self.next(extension).await);
        let (name, number) = match claim {
            Claim::Name => (format!("{}-{next}", extension.name), next),
            Claim::Number => (own, number),
            Claim::Label | Claim::OwnerReference => (own, next),
        };
        let mut set = objects::set_of_tenant(&name, number, &self.name);
        if matches!(claim, Claim::Label | Claim::Number) {
            set["metadata"]["labels"] = json!({
                label::OWNER_KIND: label::OWNER_KIND_EXTENSION, label::OWNER_NAME: extension.name});
        }
        if matches!(claim, Claim::OwnerReference | Claim::Number)
            && let Some(uid) = self.uid(extension).await
        {
            let mut owner = owner(&extension.name, &uid);
            owner["blockOwnerDeletion"] = json!(false);
            set["metadata"]["ownerReferences"] = json!([owner]);
        }
        set
    }

    async fn uid(&self, extension: &Extension) -> Option<String> {
        let all = Api::<ClusterExtension>::all(self.client.clone());
        let found = all.get_opt(&extension.name).await.expect("extensions can be read");
        found?.metadata.uid
    }

    /// Returns the number that the next revision would have.
    async fn next(&self, extension: &Extension) -> i64 {
        let all = extension.revisions().await.into_iter();
        // Sets of before may not be gone yet.
        let theirs = all.filter(|set| {
            set.annotations().get(annotation::SERVICE_ACCOUNT_NAMESPACE) != Some(&self.name)
        });
        theirs.map(|set| set.spec.revision).max().unwrap_or(0) + 1
    }

    /// Returns the keys of what the sets are and made, which no undisturbed run has.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        let keys = |set: &String| {
            [
                format!("ClusterObjectSet.olm.operatorframework.io /{set}"),
                format!("ConfigMap. {}/{set}", self.name),
            ]
        };
        self.sets.iter().flat_map(keys).collect()
    }

    /// Deletes the sets, and returns whether there were any. From now on they must not be there.
    pub(crate) async fn leave(&mut self) -> bool {
        let all = Api::<ClusterObjectSet>::all(self.client.clone());
        let sets = std::mem::take(&mut self.sets);
        for set in &sets {
            match all.delete(set, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => panic!("{set}: {error}"),
            }
        }
        !sets.is_empty()
    }
}
