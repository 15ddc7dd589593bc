//! What is told about the files: where they come from, and how to install and check them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Release;
use super::file::File;

/// Returns the provenance of the files and of the image: an in-toto statement with a predicate of SLSA
/// v1. It has no times: the same commit gives the same statement. `tools` are the compilers, each with
/// its version.
pub(super) fn provenance(
    release: &Release<'_>,
    files: &[File],
    tools: &BTreeMap<&str, String>,
) -> anyhow::Result<File> {
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
                "externalParameters": {
                    "VERSION": version, "IMAGE": format!("{name}:{version}"), "SOURCE": source,
                },
                "resolvedDependencies": [{
                    "uri": format!("git+{source}@{}", commit.id),
                    "digest": {"gitCommit": commit.id},
                }],
            },
            // Whoever signs it vouches for the machine.
            "runDetails": {"builder": {
                "id": format!("{source}/blob/{version}/hack/xtask/release"),
                "version": tools,
            }},
        },
    });
    let text = serde_json::to_string_pretty(&statement)? + "\n";
    Ok(File::new("provenance.intoto.json", text))
}

/// Returns the notes of the release: the section of the changelog for the version, or the unreleased
/// one, and how to install and verify it. `left_out` are platforms, each with the error of its build.
pub(super) fn notes(
    release: &Release<'_>,
    changelog: &str,
    left_out: &[(String, String)],
) -> anyhow::Result<File> {
    let number = release.number();
    let section = section(changelog, number).or_else(|| section(changelog, "Unreleased"));
    let section = section.with_context(|| format!("CHANGELOG.md has no section {number}"))?;
    // Links of the repository lead nowhere on the page of a release.
    let blob = format!("]({}", release.document(""));
    let section = section.trim().replace("](docs/", &blob);
    let image = release.image;
    let (name, digest) = image.split_once('@').context("an image with a digest")?;
    let mut text = format!(
        "# {version}\n\n{section}\n\n\
         ## Verify\n\n\
         `SHA256SUMS` names every file, the provenance (`provenance.intoto.json`) and the lists of parts \
         (`*.cdx.json`) included. Check the files before you change any; the first command \
         needs `SHA256SUMS.sigstore.json` among the files, and the last a signed image in a registry that \
         you can reach; both need the key of whoever published them:\n\n\
         ```sh\n\
         cosign verify-blob --key cosign.pub --bundle SHA256SUMS.sigstore.json SHA256SUMS\n\
         sha256sum --check --ignore-missing SHA256SUMS\n\
         cosign verify --key cosign.pub {image}\n\
         ```\n\n\
         ## Install\n\n\
         It needs Kubernetes 1.33 or later. Download the files, and run these commands where they are. \
         The image is `{image}`. If your nodes cannot pull it, copy it out of the archive into a \
         registry of yours, and name that in the manifests:\n\n\
         ```sh\n\
         IMAGE=registry.example.com/olm-controller\n\
         skopeo copy --all --preserve-digests oci-archive:olm-controller-{number}.oci.tar:{number} \
         docker://$IMAGE:{version}\n\
         for file in *.yaml; do sed \"s|{name}@|$IMAGE@|\" $file > $file.new && mv $file.new $file; done\n\
         ```\n\n\
         Install with manifests (on OpenShift `openshift.yaml`; in place of upstream's controllers \
         `upstream-compatible.yaml`):\n\n\
         ```sh\n\
         kubectl apply --server-side -f install.yaml\n\
         kubectl wait --for=condition=Established crd/clustercatalogs.olm.operatorframework.io\n\
         kubectl apply --server-side -f catalogs.yaml\n\
         kubectl rollout status deployment/operator-controller-controller-manager -n olmv1-system\n\
         ```\n\n\
         or with Helm, which adds the same catalog (`--set image=$IMAGE@{digest}` for a copy of the \
         image):\n\n\
         ```sh\n\
         helm install olm olm-controller-{number}.tgz --namespace olmv1-system --create-namespace\n\
         ```\n\n\
         The plugin is in `kubectl-olm_OS_ARCH.tar.gz`, with completions. For Linux on amd64:\n\n\
         ```sh\n\
         mkdir -p ~/.local/bin && tar -xzf kubectl-olm_linux_amd64.tar.gz -C ~/.local/bin kubectl-olm\n\
         kubectl wait --for=condition=Serving --timeout=5m clustercatalog/operatorhubio\n\
         kubectl olm search argocd\n\
         kubectl olm install argocd-operator -n argocd --create-namespace\n\
         ```\n\n\
         `kubectl krew install --manifest-url {krew}` installs it as well. Schemas for editors are in \
         `*_v1.json`.\n",
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
        "\n## Sign\n\n\
         Whoever publishes the release signs it with:\n\n\
         ```sh\n\
         cosign sign-blob --key cosign.key --bundle SHA256SUMS.sigstore.json SHA256SUMS\n\
         cosign sign --key cosign.key --recursive {image}\n\
         ```\n",
    );
    Ok(File::new("RELEASE.md", text))
}

fn section<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let mut sections = text.split("\n## ").skip(1).filter_map(|it| it.split_once('\n'));
    let (_, body) = sections.find(|(heading, _)| heading.split(' ').next() == Some(title))?;
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tests::release;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "# Changelog\n\n## Unreleased\n\nnew\n\n## 0.1.0 (2026)\n\nold\n";
        assert_eq!(section(text, "Unreleased"), Some("\nnew\n"));
        assert_eq!(section(text, "0.1.0"), Some("\nold\n"));
        assert_eq!(section(text, "0.1"), None);
    }

    // deploying.md P61
    #[test]
    fn the_provenance_names_each_file_the_image_and_the_commit() {
        let tools = BTreeMap::from([("rustc", "1.95.0".to_owned())]);
        let file = provenance(&release(), &[File::new("LICENSE", "text")], &tools).unwrap();
        let read: Value = serde_json::from_slice(&file.content).unwrap();
        let subjects = json!([
            {"name": "LICENSE", "digest": {"sha256":
                "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"}},
            {"name": "r.example.com/olm", "digest": {"sha256": "12"}},
        ]);
        assert_eq!(read["subject"], subjects);
        let source = &read["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["uri"], "git+https://example.com/olm@abc");
        assert_eq!(read["predicate"]["runDetails"]["builder"]["version"]["rustc"], "1.95.0");
        assert_eq!(source["digest"]["gitCommit"], "abc");
    }

    #[test]
    fn notes_lead_to_the_files_and_name_what_is_left_out() {
        let changelog = "# Changelog\n\n## 0.1.0\n\nSee [a](docs/a.md).\n";
        let left_out = [("darwin/arm64".to_owned(), "no framework".to_owned())];
        let file = notes(&release(), changelog, &left_out).unwrap();
        let text = String::from_utf8(file.content).unwrap();
        for part in [
            "# v0.1.0\n\nSee [a](https://example.com/olm/blob/v0.1.0/docs/a.md).\n\n## Verify",
            "-f install.yaml\n",
            "oci-archive:olm-controller-0.1.0.oci.tar:0.1.0 docker://$IMAGE:v0.1.0\n",
            "s|r.example.com/olm@|$IMAGE@|",
            "--set image=$IMAGE@sha256:12`",
            "- darwin/arm64: no framework\n",
            "cosign verify --key cosign.pub r.example.com/olm@sha256:12\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
