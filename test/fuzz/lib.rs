//! What fuzz targets share: files in one input, and rendering with everything switched on.

use olm_core::bundle::{Bundle, Files};
use olm_core::config::Features;
use olm_core::render::{RenderError, Rendered, RolePlacement, Settings, render_configured};
use olm_core::yaml;

/// Begins a line that names a file; what follows up to the next one is its content.
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
        features: Features {
            single_own_namespace: true,
            webhooks: true,
        },
        role_placement: RolePlacement::default(),
    };
    render_configured(bundle, &settings)
}
