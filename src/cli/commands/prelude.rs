//! The names that most verbs use.

pub(crate) use crate::bundle_source::load_files;
pub(crate) use crate::cluster::{Cluster, ExtensionSnapshot};
pub(crate) use crate::connection::Global;
pub(crate) use crate::document::{Document as _, Unknown};
pub(crate) use crate::managed::{Managed, failure};
pub(crate) use crate::output::{
    Ended, Failure, Format, Outcome, Table, cell, counted, formats, notice, one_line, usage,
};
pub(crate) use crate::prelude::*;
pub(crate) use crate::settings::SettingsFlags;
pub(crate) use crate::target::{Lookup, Target, chosen, load};
pub(crate) use crate::verb::{Confirm, InNamespace, OnCluster, Wait};
pub(crate) use crate::waiting::Awaited;
pub(crate) use crate::{changes, output, waiting};
