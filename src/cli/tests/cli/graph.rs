//! Tests of `graph` with the built program: exit code, stdout, stderr.

use insta::assert_snapshot;

use super::{TESTS, transcript};

/// Runs `graph` with these arguments, and prints how it ended.
fn graph(arguments: &str) -> String {
    transcript(["graph"].into_iter().chain(arguments.split(' ')), "")
}

/// Arguments of the picture in the README.
const PICTURE: &str = "teapot --from graph/teapot.yaml --installed teapot.v1.0.1@1.0.1 --classic \
                       --output svg";

#[test]
fn the_picture_of_the_readme_is_what_the_command_draws() {
    let drawn = graph(PICTURE);
    let kept = std::fs::read_to_string(format!("{TESTS}/graph/teapot.svg")).unwrap();
    assert!(
        drawn == format!("exit 0\n--- stdout\n{kept}--- stderr\n"),
        "src/cli/tests/graph/teapot.svg differs: in src/cli/tests, run `kubectl olm graph {PICTURE} \
         > graph/teapot.svg`"
    );
}

#[test]
fn the_terminal_shows_rows() {
    let answer = graph("teapot --from graph/teapot.yaml --installed teapot.v1.0.1/1.0.1 --classic");
    assert_snapshot!(answer, @"
    exit 0
    --- stdout
    teapot
      installed: teapot.v1.0.1
      next: teapot.v1.2.0, then teapot.v1.2.1, teapot.v1.3.0-rc.2

    channel stable
      default channel
      OLM Classic: teapot.v1.1.1 (DifferentTarget)
      ● 1.2.1  head  skips 1.2.0
      │ ● 1.2.0  next, skipped
      │ │   skipRange >=1.0.0 <1.2.0
      ├─╯
      ○ 1.1.1  Classic's next  skips 1.1.0
      │ ○ 1.1.0  skipped
      ├─╯
      ◉ 1.0.1  installed
      ○ 1.0.0  deprecated
      ◌ teapot.v0.9.0  no bundle, not in this channel

    channel candidate
      OLM Classic: stays (ClassicStays)
      ● 1.3.0-rc.2  head  skips 1.3.0-rc.1
      │ ○ 1.3.0-rc.1  skipped
      ├─╯
      ● 1.2.1

    ○ bundle  ◉ installed  ● on the way of automatic updates  ◌ no bundle
    --- stderr
    ");
}

#[test]
fn a_package_of_several_catalogs_is_drawn_from_the_first_in_priority() {
    let answer = graph(
        "teapot --from red=graph/teapot.yaml --from blue=graph/teapot.yaml,priority=1 --channel \
         candidate -o mermaid",
    );
    assert_snapshot!(answer, @r#"
    exit 0
    --- stdout
    graph LR
      subgraph package["teapot<br/>installed#58; nothing<br/>next#58; teapot.v1.3.0-rc.2"]
        subgraph c0["candidate"]
          c0n0["1.2.1"]
          c0n1["1.3.0-rc.1<br/>skipped"]
          c0n2["1.3.0-rc.2<br/>next, head"]:::way
          c0n0 -->|"replaces"| c0n1
          c0n0 -->|"replaces"| c0n2
          c0n1 -->|"skips"| c0n2
        end
      end
      classDef installed stroke:#1a7f37,stroke-width:3px
      classDef way stroke:#0969da,stroke-width:2px
      classDef deprecated color:#9a6700,stroke:#9a6700
      classDef virtual stroke-dasharray:4 3
    --- stderr
    note: drawn from catalog blue; also in red
    "#);
}

#[test]
fn a_package_that_no_catalog_has_fails() {
    assert_snapshot!(graph("kettle --from graph/teapot.yaml"), @r#"
    exit 1
    --- stdout
    --- stderr
    error: no catalog has package "kettle"
    "#);
}

#[test]
fn an_installed_bundle_takes_a_catalog() {
    let answer = graph("teapot --installed teapot.v1.0.1@1.0.1");
    assert!(answer.starts_with("exit 2\n"), "{answer}");
}
