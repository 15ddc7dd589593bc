//! Every format, for catalogs with every feature.

use insta::assert_snapshot;
use rstest::rstest;

use super::*;

#[rstest]
#[case("tree", Format::Tree)]
#[case("mermaid", Format::Mermaid)]
#[case("svg", Format::Svg)]
#[case("html", Format::Html)]
fn everything(#[case] name: &str, #[case] format: Format) {
    assert_snapshot!(format!("{name}_of_everything"), graph(&teapot(), &FROM_1_0_0).draw(format));
}

// resolution.md 6.3, R058
#[test]
fn classic_stays_where_the_documented_example_moves() {
    let question = Question { classic: true, ..FROM_1_0_0 };
    let graph = graph(&documented(), &question);
    assert_snapshot!("documented_tree", graph.draw(Format::Tree));
    assert_snapshot!("documented_mermaid", graph.draw(Format::Mermaid));
    let svg = graph.draw(Format::Svg);
    assert!(svg.contains("class=\"edge taken superseded\""));
    assert!(svg.contains("OLM Classic: stays (ClassicStays)"));
}

// plugin.md U29
#[test]
fn nothing_loads_or_runs_in_a_page() {
    let page = graph(&teapot(), &FROM_1_0_0).draw(Format::Html);
    assert!(page.contains("<summary>As text</summary>"));
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
    assert_eq!(page.matches("://").count(), page.matches(namespace).count());
    for loader in ["<script", "src=", "href=", "url(http", "@import"] {
        assert!(!page.contains(loader), "{loader}");
    }
}
