//! What is told about the files: where they come from, and how to install and check them.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Release;
use super::file::File;

/// Returns the provenance of the files and of the image: an in-toto statement with a predicate of SLSA
/// v1. It has no times: the same commit gives the same statement.
pub(super) fn provenance(release: &Release<'_>, files: &[File]) -> anyhow::Result<File> {
    let mut subjects: Vec<Value> = files
        .iter()
        .map(|file| json!({"name": file.name, "digest": {"sha256": file.sum()}}))
        .collect();
    let (name, digest) = release.image.split_once("@sha256:").context("an image with a digest")?;
    subjects.push(json!({"name": name, "digest": {"sha256": digest}}));
    let Release { source, version, commit, .. } = release;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{source}/blob/{version}/Makefile#release"),
                "externalParameters": {"VERSION": version, "IMAGE": name, "SOURCE": source},
                "resolvedDependencies": [{
                    "uri": format!("git+{source}@refs/tags/{version}"),
                    "digest": {"gitCommit": commit.id},
                }],
            },
            // Whoever signs it vouches for the machine.
            "runDetails": {"builder": {"id": format!("{source}/blob/{version}/hack/xtask/release")}},
        },
    });
    let text = serde_json::to_string_pretty(&statement)? + "\n";
    Ok(File::new("provenance.intoto.json", text))
}

/// Returns the notes of the release: the section of the changelog about the version, or what is not
/// released yet, and how to install and to check. `left_out` are platforms, each with what stopped it.
pub(super) fn notes(
    release: &Release<'_>,
    changelog: &str,
    left_out: &[(String, String)],
) -> anyhow::Result<File> {
    let number = release.number();
    let section = section(changelog, number).or_else(|| section(changelog, "Unreleased"));
    let section = section.with_context(|| format!("CHANGELOG.md has no section {number}"))?;
    // Links of the repository lead nowhere on the page of a release.
    let blob = format!("]({}/blob/{}/docs/", release.source, release.version);
    let section = section.trim().replace("](docs/", &blob);
    let (install, chart) =
        (release.address("install.yaml"), release.address(&format!("olm-controller-{number}.tgz")));
    let (catalogs, image) = (release.address("catalogs.yaml"), release.image);
    let tagged = image.split('@').next().unwrap_or_default();
    let mut text = format!(
        "# {version}\n\n{section}\n\n\
         ## Install\n\n\
         The image is `{image}`. Where it is not in a registry of yours, copy it out of the archive, and \
         name it in the manifests or as value `image` of the chart:\n\n\
         ```sh\n\
         skopeo copy --all --preserve-digests oci-archive:olm-controller-{number}.oci.tar:{number} \
         docker://{tagged}:{version}\n\
         ```\n\n\
         With manifests:\n\n\
         ```sh\n\
         kubectl apply --server-side -f {install}\n\
         kubectl apply --server-side -f {catalogs}\n\
         ```\n\n\
         or with Helm, which adds the same catalog:\n\n\
         ```sh\n\
         helm install olm {chart} --namespace olmv1-system --create-namespace\n\
         ```\n\n\
         The plugin is in `kubectl-olm_OS_ARCH.tar.gz`, with completions; `kubectl krew install \
         --manifest-url {krew}` installs it as well. Schemas for editors are in `*_v1.json`.\n",
        version = release.version,
        krew = release.address("olm.yaml"),
    );
    if !left_out.is_empty() {
        text += "\nNot built, with what stopped it; there, \
                 `cargo build --release --package kubectl-olm` builds it:\n\n";
        for (platform, cause) in left_out {
            let _ = writeln!(text, "- {platform}: {cause}");
        }
    }
    let _ = write!(
        text,
        "\n## Signatures\n\n\
         `SHA256SUMS` names every file, the provenance (`provenance.intoto.json`) and the lists of parts \
         (`*.cdx.json`) included. The release is signed with:\n\n\
         ```sh\n\
         cosign sign-blob --key cosign.key --bundle SHA256SUMS.sigstore.json SHA256SUMS\n\
         cosign sign --key cosign.key --recursive {image}\n\
         ```\n\n\
         and checked with:\n\n\
         ```sh\n\
         cosign verify-blob --key cosign.pub --bundle SHA256SUMS.sigstore.json SHA256SUMS\n\
         sha256sum --check --ignore-missing SHA256SUMS\n\
         cosign verify --key cosign.pub {image}\n\
         ```\n",
    );
    Ok(File::new("RELEASE.md", text))
}

fn section<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("\n## {title}"))?;
    let (_, after) = after.split_once('\n')?;
    Some(after.find("\n## ").map_or(after, |end| &after[..=end]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tests::release;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "# Changelog\n\n## Unreleased\n\nnew\n\n## 0.1.0 (2026)\n\nold\n";
        assert_eq!(section(text, "Unreleased"), Some("\nnew\n\n"));
        assert_eq!(section(text, "0.1.0"), Some("\nold\n"));
        assert_eq!(section(text, "9"), None);
    }

    // deploying.md P61
    #[test]
    fn the_provenance_names_each_file_the_image_and_the_commit() {
        let file = provenance(&release(), &[File::new("LICENSE", "text")]).unwrap();
        let read: Value = serde_json::from_slice(&file.content).unwrap();
        let subjects = json!([
            {"name": "LICENSE", "digest": {"sha256":
                "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"}},
            {"name": "r.example.com/olm", "digest": {"sha256": "12"}},
        ]);
        assert_eq!(read["subject"], subjects);
        let source = &read["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["uri"], "git+https://example.com/olm@refs/tags/v0.1.0");
        assert_eq!(source["digest"]["gitCommit"], "abc");
    }

    #[test]
    fn notes_lead_to_the_files_and_name_what_is_left_out() {
        let changelog = "# Changelog\n\n## 0.1.0\n\nSee [a](docs/a.md).\n";
        let left_out = [("darwin/arm64".to_owned(), "no framework".to_owned())];
        let file = notes(&release(), changelog, &left_out).unwrap();
        let text = String::from_utf8(file.content).unwrap();
        for part in [
            "# v0.1.0\n\nSee [a](https://example.com/olm/blob/v0.1.0/docs/a.md).\n\n## Install",
            "download/v0.1.0/install.yaml\n",
            "oci-archive:olm-controller-0.1.0.oci.tar:0.1.0 docker://r.example.com/olm:v0.1.0\n",
            "- darwin/arm64: no framework\n",
            "cosign verify --key cosign.pub r.example.com/olm@sha256:12\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
