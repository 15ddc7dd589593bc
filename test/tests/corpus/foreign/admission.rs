//! What the API server accepts with our definitions, and what it warns of.

use http::Request;
use http::header::{CONTENT_TYPE, WARNING};
use kube::Client;
use kube::client::Body;
use olm_test::prelude::*;

use super::table::{Table, id, known, rows, text};

/// How long a new policy may take until it is in force.
const IN_FORCE: Duration = Duration::from_secs(30);

// api.md sections 1 to 3
#[tokio::test]
async fn objects_are_admitted_and_refused_as_upstream() {
    let cluster = cluster::own().await;
    let rows = rows("admission.jsonl");
    let mut table = Table::new("admission.jsonl");
    for row in &rows {
        let answer = ask(&cluster.client, row).await;
        table.judge(row, answer.compare(&row["want"]));
    }
    table.conclude(202);

    let policy = paths::repository().join("config/upstream-compatible/service_account_policy.yaml");
    let policy = policy.to_string_lossy();
    cluster.plane.kubectl(&["apply", "-f", &policy]);
    let unwarned = known("admission.jsonl").remove(0).rows;
    let named = rows.iter().filter(|row| unwarned.contains(&id(row)));
    for row in named {
        wait::until(&id(row), IN_FORCE, || async {
            ask(&cluster.client, row).await.compare(&row["want"])
        })
        .await;
    }
}

/// Does what a row does, and returns the last answer of the API server.
async fn ask(client: &Client, row: &Value) -> Answer {
    let object = &row["object"];
    let kinds =
        format!("/apis/{}/{}s", text(object, "apiVersion"), text(object, "kind").to_lowercase());
    if text(row, "op") == "create" {
        return send(client, Method::POST, &format!("{kinds}?dryRun=All"), object).await;
    }
    let made = send(client, Method::POST, &kinds, object).await;
    assert_eq!(made.status, 201, "{}: {}", id(row), made.message);
    let made = made.object;
    let path = format!("{kinds}/{}", text(&made["metadata"], "name"));
    match text(row, "op") {
        "update" => {
            let mut update = row["update"].clone();
            update["metadata"] = made["metadata"].clone();
            send(client, Method::PUT, &path, &update).await
        }
        "updateStatus" => {
            let mut update = made;
            update["status"] = row["status"].clone();
            send(client, Method::PUT, &format!("{path}/status"), &update).await
        }
        other => panic!("unknown operation {other}"),
    }
}

/// Sends a request as it is: the client's own methods do not tell of warnings.
async fn send(client: &Client, method: Method, path: &str, object: &Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(object.to_string().into_bytes()))
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    let status = response.status().as_u16();
    let warnings = response.headers().get_all(WARNING).iter();
    let warnings =
        warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect();
    let body = response.into_body().collect_bytes().await;
    let object: Value =
        serde_json::from_slice(&body.expect("a whole answer")).expect("the answer is JSON");
    let message = object["message"].as_str().unwrap_or("no message");
    Answer { status, warnings, message: message.to_owned(), object }
}

struct Answer {
    status: u16,
    message: String,
    warnings: Vec<String>,
    object: Value,
}

impl Answer {
    fn compare(&self, want: &Value) -> Result<(), String> {
        let Self { status, message, warnings, object: _ } = self;
        let want = want.as_object().expect("expectations");
        let same = want.iter().all(|(key, value)| match key.as_str() {
            "accepted" => *value == (*status < 300),
            // Our policies refuse with the same code, which no row means.
            "invalid" => {
                *value == (*status == 422) && !message.contains("ValidatingAdmissionPolicy")
            }
            "errorContains" => message.contains(value.as_str().expect("text")),
            "warning" => match value.as_str().expect("text") {
                "" => warnings.is_empty(),
                part => warnings.iter().any(|warning| warning.contains(part)),
            },
            "errorContainsAll" => list(value).all(|part| message.contains(part)),
            "errorContainsOneOf" => list(value).any(|part| message.contains(part)),
            other => panic!("unknown expectation {other}"),
        });
        if same { Ok(()) } else { Err(format!("{status} {message}, warnings: {warnings:?}")) }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().into_iter().flatten();
    items.map(|item| item.as_str().expect("a list of texts"))
}
