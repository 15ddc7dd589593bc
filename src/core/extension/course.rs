//! Where an extension would go if whoever holds it let it go.

use olm_api::UpdateStatus;

use super::decide::{DecisionError, Question};
use crate::resolve::{Catalog, Environment, Options, Resolution, Warning, resolve};
use crate::revision::BundleRecord;

/// A step, taken or held.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The bundle it leads to.
    pub target: BundleRecord,
    /// The catalog that offers it; nothing while a rollout goes on, whatever catalogs say.
    pub catalog: Option<String>,
    /// Whether no edge of the catalog allows it.
    pub forced: bool,
    /// How the catalogs offer it, where it is held.
    pub held: Option<UpdateStatus>,
}

impl Question {
    /// Returns what is rolled out, else the step that the catalogs offer; one that is held is
    /// resolved as if its version were asked for.
    ///
    /// # Errors
    /// As the [`Answer`](super::Answer) has them.
    pub fn course(
        &self,
        catalogs: &[Catalog<'_>],
        environment: &Environment,
        options: &Options,
    ) -> Result<Course, DecisionError> {
        let resolution = self.resolve(catalogs, environment, options);
        if let Some(rolling) = &self.rolling
            && self.gives_way(catalogs, &resolution).is_none()
        {
            let target = rolling.bundle.clone();
            return Ok(Course { target, catalog: None, forced: false, held: None });
        }
        let answer = self.answer(catalogs, environment, options, &resolution);
        let held = answer.update.filter(|held| held.version.is_some() && self.stays(&resolution));
        if let Some(held) = held {
            let mut exactly = self.request();
            exactly.filter.version.clone_from(&held.version);
            exactly.moves_held = false;
            let released = resolve(&exactly, catalogs, environment, options).result?;
            let package = &self.filter.package_name;
            return Ok(Course {
                target: BundleRecord::selected(&released, package, options.release_support),
                catalog: Some(released.catalog.to_owned()),
                forced: released.warnings.contains(&Warning::ForcedStep),
                held: Some(held),
            });
        }
        let goal = answer.goal?;
        let catalog = resolution.result.as_ref().ok();
        Ok(Course {
            target: goal.target,
            catalog: catalog.map(|selected| selected.catalog.to_owned()),
            forced: goal.forced,
            held: None,
        })
    }

    fn stays(&self, resolution: &Resolution<'_>) -> bool {
        let installed = self.installed.as_ref().map(|installed| &installed.name);
        let selected = resolution.result.as_ref();
        selected.map_or(true, |selected| Some(&selected.bundle.name) == installed)
    }
}
