//! Tests of `resolve` and `range` with the built program: exit code, stdout, stderr.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use insta::assert_snapshot;

use super::{asked, program, transcript};

/// Runs `resolve` for a package, and prints how it ended.
fn resolve(arguments: &str) -> String {
    transcript(["resolve", "--package"].into_iter().chain(arguments.split(' ')), "")
}

#[test]
fn resolve_prints_a_table_or_what_is_wrong() {
    assert_snapshot!(resolve("kettle --from catalog"), @r##"
    exit 0
    --- stdout
    BUNDLE         VERSION  CATALOG  IMAGE
    kettle.v1.1.0  1.1.0    catalog  registry.test/kettle:1.1.0
    --- stderr
    note: needs olm.gvk.required {"group":"water.test","kind":"Tap","version":"v1"}
    note: needs minKubeVersion "1.25.0"
    "##);
    let answer = resolve("kettle --from catalog --installed kettle.v1.0.0@1.0.0 --version 1.2.0");
    assert_snapshot!(answer, @r##"
    exit 1
    --- stdout
    --- stderr
    error: error upgrading from currently installed version "1.0.0": no bundles found for package "kettle" matching version "1.2.0"
    hint: bundles excluded: 2 VersionOutOfRange, 1 NotSuccessor
    "##);
    assert_snapshot!(resolve("kettle --from nowhere"), @r##"
    exit 1
    --- stdout
    --- stderr
    error: error walking catalogs: error getting package "kettle" from catalog "nowhere": error retrieving cache for catalog "nowhere": nowhere: No such file or directory (os error 2)
    "##);
}

#[test]
fn resolve_prints_json_with_the_request() {
    let answer = resolve(
        "kettle --from red=catalog/kettle/catalog.yaml,priority=-5 --channel stable --installed \
         kettle.v1.0.0@1.0.0 --policy CatalogProvided --version 1.x -o json",
    );
    assert_snapshot!(answer, @r##"
    exit 0
    --- stdout
    {
      "bundle": "kettle.v1.1.0",
      "catalog": "red",
      "catalogs": [
        {
          "dir": "catalog/kettle/catalog.yaml",
          "name": "red",
          "priority": -5
        }
      ],
      "channels": [
        "stable"
      ],
      "constraints": [
        {
          "type": "olm.gvk.required",
          "value": {
            "group": "water.test",
            "kind": "Tap",
            "version": "v1"
          }
        },
        {
          "type": "minKubeVersion",
          "value": "1.25.0"
        }
      ],
      "hasDeprecation": true,
      "image": "registry.test/kettle:1.1.0",
      "installed": {
        "name": "kettle.v1.0.0",
        "version": "1.0.0"
      },
      "package": "kettle",
      "policy": "CatalogProvided",
      "resolvedVersion": "1.1.0",
      "version": "1.x"
    }
    --- stderr
    note: needs olm.gvk.required {"group":"water.test","kind":"Tap","version":"v1"}
    note: needs minKubeVersion "1.25.0"
    "##);
}

/// Unknown members are not echoed, a wrong line does not stop the rest, the order is kept.
#[test]
fn resolve_answers_every_request_on_its_line() {
    let requests = r#"{"catalogs":[{"name":"c","dir":"catalog","color":"red"}],"package":"kettle","comment":"hello","bundle":"x"}
{"catalogs":[{"name":"c","dir":"catalog","priority":3}],"package":"kettle","policy":"SelfCertified","installed":{"name":"kettle.v1.2.0","version":"1.2.0"},"version":"1.0.0"}
{"catalogs":"catalog"}

{"catalogs":[{"name":"c","dir":"catalog"}],"package":"pot","channels":["a","b"]}
"#;
    assert_snapshot!(transcript(["resolve", "--requests", "-"], requests), @r##"
    exit 1
    --- stdout
    {"bundle":"kettle.v1.1.0","catalogs":[{"dir":"catalog","name":"c"}],"constraints":[{"type":"olm.gvk.required","value":{"group":"water.test","kind":"Tap","version":"v1"}},{"type":"minKubeVersion","value":"1.25.0"}],"hasDeprecation":true,"package":"kettle","resolvedVersion":"1.1.0"}
    {"bundle":"kettle.v1.0.0","catalogs":[{"dir":"catalog","name":"c","priority":3}],"hasDeprecation":true,"installed":{"name":"kettle.v1.2.0","version":"1.2.0"},"package":"kettle","policy":"SelfCertified","resolvedVersion":"1.0.0","version":"1.0.0"}
    {"error":"line 3: invalid type: string \"catalog\", expected a sequence","line":3}
    {"catalogs":[{"dir":"catalog","name":"c"}],"channels":["a","b"],"error":"no bundles found for package \"pot\" in channels [a b]","package":"pot"}
    --- stderr
    "##);
    let request = r#"{"catalogs":[],"package":"pot"}"#;
    assert_snapshot!(transcript(["resolve", "--requests", "-"], request), @r##"
    exit 0
    --- stdout
    {"catalogs":[],"error":"no bundles found for package \"pot\"","package":"pot"}
    --- stderr
    "##);
}

/// Serves one response to one request and returns the request.
fn serve_once(body: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/catalogs/red", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = asked(&stream);
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
        asked
    });
    (url, served)
}

#[test]
fn resolve_asks_a_catalog_server() {
    let (url, served) = serve_once(
        r#"{"schema":"olm.bundle","package":"kettle","name":"kettle.v3","image":"i","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"3.0.0"}}]}
"#,
    );
    let answer = resolve(&format!("kettle --from {url}"));
    assert_eq!(served.join().unwrap(), "GET /catalogs/red/api/v1/all HTTP/1.1");
    assert_snapshot!(answer, @r##"
    exit 0
    --- stdout
    BUNDLE     VERSION  CATALOG  IMAGE
    kettle.v3  3.0.0    red      i
    --- stderr
    "##);
}

#[test]
fn range_answers_in_both_languages_or_refuses() {
    assert_snapshot!(transcript(["range", ">=1.0.0 <2.0.0", "1.5.0", "2.0.0-rc.1"], ""), @r##"
    exit 0
    --- stdout
    VERSION     INSIDE
    1.5.0       yes
    2.0.0-rc.1  no
    --- stderr
    "##);
    let arguments =
        ["range", "--grammar", "skip-range", ">=1.0.0 <2.0.0", "2.0.0-rc.1", "-o", "json"];
    assert_snapshot!(transcript(arguments, ""), @r##"
    exit 0
    --- stdout
    [
      {
        "got": true,
        "grammar": "skip-range",
        "range": ">=1.0.0 <2.0.0",
        "version": "2.0.0-rc.1"
      }
    ]
    --- stderr
    "##);
    assert_snapshot!(transcript(["range", "== 1.0.0", "1.0.0"], ""), @r##"
    exit 1
    --- stdout
    --- stderr
    error: improper constraint: "== 1.0.0"
    "##);
}

#[test]
fn range_answers_every_request_on_its_line() {
    let requests = r#"{"grammar":"masterminds","range":"~1.2","version":"1.2.9","gotError":null}
{"grammar":"blang","range":"~1.2.0","version":"1.2.9"}
{"grammar":"go","range":"1","version":"1.0.0"}
{"range":"1","version":"1.0"}
"#;
    assert_snapshot!(transcript(["range", "--requests", "-"], requests), @r##"
    exit 1
    --- stdout
    {"got":true,"grammar":"masterminds","range":"~1.2","version":"1.2.9"}
    {"error":"Could not parse Range \"~1.2.0\": Could not parse comparator \"~\" in \"~1.2.0\"","grammar":"blang","range":"~1.2.0","version":"1.2.9"}
    {"error":"line 3: unknown variant `go`, expected one of `version`, `skip-range`, `masterminds`, `blang`","line":3}
    {"error":"invalid version \"1.0\": No Major.Minor.Patch elements found","range":"1","version":"1.0"}
    --- stderr
    "##);
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [&["resolve"][..], &["range", "1.x"], &["range", "--requests", "-", "1.x"]] {
        assert!(
            transcript(arguments.iter().copied(), "")
                .starts_with("exit 2\n--- stdout\n--- stderr\nerror: ")
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [&["range", "--requests", "-"][..], &["completion", "bash"]] {
        let mut command = program(arguments.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        // The program may have ended before its second input.
        let _ = input.write_all(br#"{"range":"1","version":"1.0.0"}"#);
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
}
