//! Pulls images with the configuration of the user's other container tools.

use std::path::{Path, PathBuf};

use olm_image::auth_file::{AuthFiles, user_config};
use olm_image::pull::{PullConfig, Puller};

/// Makes a puller with the configuration of other container tools.
pub(crate) fn puller() -> anyhow::Result<Puller> {
    puller_with(config())
}

/// Makes a puller with a configuration, and the credentials of the user.
pub(crate) fn puller_with(config: PullConfig) -> anyhow::Result<Puller> {
    Ok(Puller::new(PullConfig { auth: AuthFiles::of_process()?, ..config }))
}

/// Returns the configuration of other container tools: that of the machine, and before it the user's.
pub(crate) fn config() -> PullConfig {
    let mut config = PullConfig::from_env();
    if let Some(folder) = user_config() {
        prefer(&mut config, &folder.join("containers"));
    }
    config
}

/// Lets the files of a folder count before others, but not before those that a variable names.
fn prefer(config: &mut PullConfig, folder: &Path) {
    let instead = |file: &mut PathBuf, name: &str| {
        let own = folder.join(name);
        if own.exists() {
            *file = own;
        }
    };
    if !config.registries.required {
        instead(&mut config.registries.file, "registries.conf");
        config.registries.drop_ins.push(folder.join("registries.conf.d"));
    }
    if !config.policy.required {
        instead(&mut config.policy.file, "policy.json");
    }
    config.certificates.by_host.push(folder.join("certs.d"));
}

#[cfg(test)]
mod tests {
    use olm_image::RegistriesPaths;

    use super::*;

    // catalogs.md 5.4
    #[test]
    fn files_of_the_user_count_before_those_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let own = |name: &str| folder.path().join(name);
        let preferred = |registries| {
            let registries = RegistriesPaths::new(registries);
            let mut config = PullConfig { registries, ..PullConfig::default() };
            prefer(&mut config, folder.path());
            config
        };
        let machine = PullConfig::default();
        let config = preferred(None);
        assert_eq!(config.registries.file, machine.registries.file);
        assert_eq!(config.policy, machine.policy);
        let drop_ins = [machine.registries.drop_ins, vec![own("registries.conf.d")]].concat();
        assert_eq!(config.registries.drop_ins, drop_ins);
        assert_eq!(config.certificates.by_host.last(), Some(&own("certs.d")));
        for name in ["registries.conf", "policy.json"] {
            std::fs::write(own(name), "").unwrap();
        }
        let config = preferred(None);
        assert_eq!(config.registries.file, own("registries.conf"));
        assert_eq!(config.policy.file, own("policy.json"));
        let named = preferred(Some("/named".into())).registries;
        assert_eq!(named, RegistriesPaths::new(Some("/named".into())));
    }
}
