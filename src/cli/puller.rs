//! Pulls images with the configuration of the user's other container tools.

use olm_image::auth::Credentials;
use olm_image::pull::{PullConfig, Puller};

/// Makes a puller with the configuration of other container tools.
pub(crate) fn puller() -> anyhow::Result<Puller> {
    puller_with(PullConfig::from_env())
}

/// Makes a puller with a configuration, and the credentials of the user.
pub(crate) fn puller_with(config: PullConfig) -> anyhow::Result<Puller> {
    let puller = Puller::new(config);
    puller.set_credentials("the user's files", Credentials::of_user()?);
    Ok(puller)
}
