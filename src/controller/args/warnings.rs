//! What the flags of this start do not do.

use olm_core::guard::AccountPolicy;
use olm_core::settings::NamedServiceAccount;

use super::value::{BOXCUTTER_GATE, GATES_WITHOUT_EFFECT};
use super::{Args, ServingCertificates, TlsProfile, in_pod};

impl Args {
    /// Returns a warning for each flag without effect, or with less than it says, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (name, reason) in GATES_WITHOUT_EFFECT {
            if self.gate(name) == Some(true) {
                warnings.push(format!("feature gate {name} is accepted and ignored: {reason}"));
            }
        }
        for gate in self.feature_gates.iter().flatten().filter(|gate| !gate.is_known()) {
            warnings.push(format!("feature gate {} is not known, and ignored", gate.name));
        }
        let note = self.tls().ok().and_then(|offer| offer.note).unwrap_or_default();
        let pprof = self.pprof_bind_address.as_deref();
        let certificate = self.tls_cert.is_some();
        let custom = self.tls_custom_version.is_some()
            || !self.tls_custom_ciphers.is_empty()
            || !self.tls_custom_curves.is_empty();
        let mut warn = |is: bool, text: &str| warnings.extend(is.then(|| text.to_owned()));
        let text = "feature gate BoxcutterRuntime=false is accepted and ignored: there is no Helm \
                    runtime, and releases of Helm are taken over";
        warn(self.gate(BOXCUTTER_GATE) == Some(false), text);
        let text = "the flags of klog, except --v, are accepted and ignored";
        warn(!self.logtostderr.is_empty(), text);
        let text = "--pprof-bind-address is accepted and ignored";
        warn(pprof.is_some_and(|address| !matches!(address, "" | "0")), text);
        let text = "--webhook-server-port is accepted and ignored";
        warn(self.webhook_server_port.is_some(), text);
        let text = "--tls-cert and --tls-key do nothing without --serving-certificates=files";
        warn(certificate && self.serving_certificates() != ServingCertificates::Files, text);
        warn(!note.is_empty(), &note);
        let text = "the --tls-custom flags do nothing without --tls-profile=custom";
        warn(custom && self.tls_profile != TlsProfile::Custom, text);
        let text = "--extension-lease does nothing without --leader-elect";
        warn(self.extension_lease.is_some() && !self.leader_elect, text);
        let text = "--catalog-lease does nothing without --leader-elect";
        warn(self.catalog_lease.is_some() && !self.leader_elect, text);
        let text = "--auth-file does nothing in a pod: use --global-pull-secret";
        warn(self.auth_file.is_some() && in_pod(), text);
        let text = "with --account-policy=off the approvals that --require-approval asks for may be \
                    written by anyone who can edit extensions, unless policy \
                    clusterextension-approve is in force";
        warn(self.require_approval && self.account_policy == AccountPolicy::Off, text);
        warnings
    }

    /// Returns why these flags cannot be obeyed together.
    pub fn contradiction(&self) -> Option<&'static str> {
        let ignores = self.named_service_account == NamedServiceAccount::Ignore;
        (ignores && self.account_policy == AccountPolicy::Require).then_some(
            "--account-policy=require cannot be obeyed with --named-service-account=ignore: who names \
             an account that they may use gets the default one, and no admission policy asks for the \
             right on that",
        )
    }
}
