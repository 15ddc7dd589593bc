//! Helpers for fuzz targets: files in one input, and rendering with all features enabled.

use olm_core::bundle::{Bundle, Files};
use olm_core::config::Features;
use olm_core::render::{
    CertificateSource, RenderError, Rendered, RolePlacement, Settings, render_configured,
};
use olm_core::yaml;

/// Starts a line with the path of a file; its content follows, up to the next such line.
const FILE: &[u8] = b"=== ";

/// Splits an input into files: `=== PATH` on a line, then the content. `test/fuzz/seed.sh` writes
/// such inputs.
pub fn files(input: &[u8]) -> Files {
    let mut files = Files::new();
    let mut current: Option<(String, Vec<u8>)> = None;
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        if let Some(path) = line.strip_prefix(FILE) {
            files.extend(current.take());
            let path = String::from_utf8_lossy(path).trim_end().to_owned();
            current = Some((path, Vec::new()));
        } else if let Some((_, content)) = &mut current {
            content.extend_from_slice(line);
        }
    }
    files.extend(current);
    files
}

/// Renders a bundle with a configuration.
pub fn render(bundle: &Bundle, inline: Option<&str>) -> Result<Rendered, RenderError> {
    let inline = inline.and_then(|text| yaml::to_json(text).ok());
    let inline = inline.and_then(|documents| documents.into_iter().next());
    let settings = Settings {
        install_namespace: "inst-ns",
        inline: inline.as_ref(),
        features: Features::default(),
        role_placement: RolePlacement::default(),
        certificates: Some(CertificateSource::CertManager.into()),
    };
    render_configured(bundle, &settings)
}
