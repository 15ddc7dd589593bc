//! Catalogs: the documents of `catalog list` and `catalog lint`.

use askama::Template;
use olm_core::catalog::lint::{Finding, Severity};
use serde::Deserialize;

use super::shell::Shell;
use crate::document::Counts;
use crate::offers::Listed;

/// The document of `catalog list`.
#[derive(Template, Deserialize)]
#[template(path = "catalogs.html")]
pub(crate) struct Catalogs {
    #[serde(skip)]
    pub(crate) shell: Shell,
    catalogs: Vec<Listed>,
}

/// The document of `catalog lint`.
#[derive(Template, Deserialize)]
#[template(path = "catalog.html")]
pub(crate) struct Findings {
    #[serde(skip)]
    pub(crate) shell: Shell,
    #[serde(skip)]
    pub(crate) name: String,
    #[serde(rename = "findings")]
    list: Vec<Finding>,
    counts: Counts,
}

/// Findings that are shown of a list.
const MOST: usize = 200;

impl Findings {
    /// Returns the shown errors and warnings, errors first, and the number of further ones.
    fn serious(&self) -> (Vec<&Finding>, Option<usize>) {
        let of = |severity| self.list.iter().filter(move |it| it.severity == severity);
        first(of(Severity::Error).chain(of(Severity::Warning)).collect())
    }

    /// Returns the shown notes, and the number of further ones.
    fn notes(&self) -> (Vec<&Finding>, Option<usize>) {
        first(self.list.iter().filter(|it| it.severity == Severity::Note).collect())
    }
}

fn first(mut list: Vec<&Finding>) -> (Vec<&Finding>, Option<usize>) {
    let more = list.len().saturating_sub(MOST);
    list.truncate(MOST);
    (list, (more > 0).then_some(more))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_come_first_and_notes_are_folded() {
        let finding = |severity: &str, at: usize| {
            json!({"severity": severity, "rule": "entry", "file": "c.yaml", "line": at, "column": 1,
                "schema": "", "package": "", "name": "", "text": format!("{severity} {at}"),
                "hint": null})
        };
        let notes = (0..300).map(|at| finding("note", at));
        let list: Vec<_> = notes.chain([finding("warning", 1), finding("error", 2)]).collect();
        let page: Findings = serde_json::from_value(json!({"findings": list,
            "counts": {"errors": 1, "warnings": 1, "notes": 300, "files": 1}}))
        .unwrap();
        let page = page.render().unwrap();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at(">error 2") < at(">warning 1") && at(">warning 1") < at("<details>"), "{page}");
        assert!(at("<details>") < at(">note 0") && !page.contains(">note 200"), "{page}");
        assert!(page.contains("100 more"), "{page}");
    }
}
