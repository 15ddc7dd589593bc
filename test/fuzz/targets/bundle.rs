//! Files of a bundle image: loading, validation, rendering, phases, rights. Nothing panics, and
//! rendering twice gives the same result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_core::bundle::Bundle;
use olm_core::error::Chain;
use olm_core::revision::{pack, phases};
use olm_fuzz::{files, render};

fuzz_target!(|input: &[u8]| {
    let bundle = match Bundle::from_files(&files(input)) {
        Ok(bundle) => bundle,
        Err(error) => {
            let _ = Chain(&error).to_string();
            return;
        }
    };
    for inline in [None, Some("watchNamespace: other"), Some("watchNamespace: inst-ns")] {
        let rendered = render(&bundle, inline);
        assert_eq!(rendered, render(&bundle, inline));
        match rendered {
            Ok(rendered) => {
                for object in &rendered.objects {
                    let _ = object.identity().text();
                }
                if let Ok(phases) = phases(rendered.objects) {
                    let _ = pack("set-1", &phases);
                }
            }
            Err(error) => {
                let _ = Chain(&error).to_string();
            }
        }
    }
});
