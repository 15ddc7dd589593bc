//! Who may read the metrics, and what the health endpoints watch.

use futures::StreamExt as _;
use olm_test::cluster::scraping;
use olm_test::prelude::*;

const SCRAPES: usize = 30;
/// As Prometheus never does, and within the connections from one address.
const AT_ONCE: usize = 16;
const LOGGED: Duration = Duration::from_secs(30);

/// Returns how often the controller asked for each kind of review.
fn reviews(plane: &ControlPlane) -> BTreeMap<String, usize> {
    let asked = audit::of_controller(&plane.addresses.audit_log).into_iter();
    let mut count = BTreeMap::new();
    for request in
        asked.filter(|it| ["tokenreviews", "subjectaccessreviews"].contains(&it.resource.as_str()))
    {
        *count.entry(request.resource).or_default() += 1;
    }
    count
}

/// Of a controller that nobody else scrapes (deploying.md P36).
pub(crate) async fn metrics_are_for_those_who_may_read_them(
    plane: &ControlPlane,
    controller: &Controller,
) {
    let before = reviews(plane);
    let began = Instant::now();
    let stranger = plane.token("default", "default");
    let client = scraping();
    let all = async |token: Option<&str>, code: u16, text: &str| {
        let scrapes = futures::stream::iter(0..SCRAPES).map(|_| controller.scrape(&client, token));
        let answers: Vec<_> = scrapes.buffer_unordered(AT_ONCE).collect().await;
        for answer in answers {
            assert_eq!((answer.0, answer.1.as_str()), (code, text));
        }
    };
    all(None, 401, "Unauthorized").await;
    assert_eq!(reviews(plane), before, "nobody was asked");
    all(Some("rubbish"), 401, "Unauthorized").await;
    let denied = "Authorization denied for user system:serviceaccount:default:default";
    all(Some(&stranger), 403, denied).await;
    let text = controller.metrics().await;
    for (result, count) in [("unauthorized", 2 * SCRAPES), ("denied", SCRAPES), ("ok", 1)] {
        let line = format!("olm_metrics_auth_total{{result=\"{result}\"}} {count}\n");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    for _ in 1..SCRAPES {
        controller.metrics().await;
    }
    // One of the rubbish, and one of each kind for the two others.
    let least = [("tokenreviews", 3), ("subjectaccessreviews", 2)];
    // Each answer is known for half a minute at least, and a busy machine scrapes for longer.
    let times = 1 + usize::try_from(began.elapsed().as_secs() / 30).expect("a test ends");
    let count = |reviews: &BTreeMap<String, usize>, kind| reviews.get(kind).copied().unwrap_or(0);
    let logged = |reviews: &BTreeMap<String, usize>| {
        least.into_iter().all(|(kind, least)| {
            let new = count(reviews, kind) - count(&before, kind);
            (least..=least * times).contains(&new)
        })
    };
    wait::value("the reviews are logged", LOGGED, || reviews(plane), logged).await;
}

// deploying.md P40: tests start it with 1024, as containerd does.
#[tokio::test(flavor = "multi_thread")]
async fn the_soft_limit_of_open_files_is_raised() {
    cluster::with_controller().await;
    let pid = cluster::shared_controller().expect("it runs");
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"));
    let limits = limits.expect("Linux tells the limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let mut numbers = line.unwrap_or_default().split_whitespace().skip(3);
    let mut number = || numbers.next().and_then(|text| text.parse::<u64>().ok());
    let (soft, hard) = (number(), number());
    assert_eq!(soft, Some(hard.map_or(65536, |hard| hard.min(65536))), "{limits}");
    assert!(soft > Some(1024), "there is room: {limits}");
}
