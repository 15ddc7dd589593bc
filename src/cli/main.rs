//! Entry point of `kubectl olm`.

fn main() -> std::process::ExitCode {
    kubectl_olm::main()
}
